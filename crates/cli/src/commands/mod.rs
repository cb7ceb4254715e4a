//! The commands, one file each.

use clap::Subcommand;

use crate::exit::Outcome;
use crate::output::Output;

pub mod bench;
pub mod cat;
pub mod completions;
pub mod diff;
pub mod extract;
pub mod list;
pub mod man;
pub mod mount;
pub mod pack;
pub mod run;
pub mod umount;
pub mod verify;

/// What to do. A variant's help is the doc comment of its arguments, which one here would
/// replace.
#[allow(missing_docs)]
#[derive(Subcommand, Debug)]
pub enum Command {
    Run(run::Args),
    Mount(mount::Args),
    Umount(umount::Args),
    Pack(pack::Args),
    List(list::Args),
    Extract(extract::Args),
    Verify(verify::Args),
    Diff(diff::Args),
    Cat(cat::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Carries the command out.
    ///
    /// # Errors
    /// Whatever the command meets, in a sentence for people.
    pub fn execute(self, output: &mut Output) -> Outcome {
        match self {
            Command::Run(args) => run::execute(args, output),
            Command::Mount(args) => mount::execute(args, output),
            Command::Umount(args) => umount::execute(args, output),
            Command::Pack(args) => pack::execute(args, output),
            Command::List(args) => list::execute(args, output),
            Command::Extract(args) => extract::execute(args, output),
            Command::Verify(args) => verify::execute(args, output),
            Command::Diff(args) => diff::execute(args, output),
            Command::Cat(args) => cat::execute(args, output),
            Command::Bench(args) => bench::execute(args, output),
            Command::Completions(args) => completions::execute(args, output),
            Command::Man(args) => man::execute(args, output),
        }
    }
}
