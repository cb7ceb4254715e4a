//! `strata man`.

use clap::CommandFactory;

use crate::Program;
use crate::exit::{Failure, Outcome, Status};
use crate::output::Output;

/// Print the manual page of the program, or of one of its commands.
///
/// Read it with `strata man run | man -l -`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The command; the program itself when not given.
    command: Option<String>,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let mut program = Program::command();
    program.build();
    let page = match &args.command {
        None => program,
        Some(name) => program
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::new(format_args!("there is no command `{name}`")))?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    output.bytes(&text)?;
    Ok(Status::Done)
}
