//! `strata completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Program;
use crate::exit::{Outcome, Status};
use crate::output::Output;

/// Print the completions of a shell.
///
///   bash: strata completions bash > ~/.local/share/bash-completion/completions/strata
///   zsh:  strata completions zsh > DIR/_strata, with DIR in $fpath
///   fish: strata completions fish > ~/.config/fish/completions/strata.fish
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Program::command(), "strata", &mut script);
    output.bytes(&script)?;
    Ok(Status::Done)
}
