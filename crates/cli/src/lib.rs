//! The `strata` program.
//!
//! # Conventions of every command
//! - One file per command in `commands/`: a struct of arguments whose doc comment is the help,
//!   and one function that carries it out.
//! - Standard output is data, standard error is for people. A closed pipe ends the program
//!   quietly.
//! - With `--json`, data is one JSON object per line; see [`output`] for names that are not
//!   UTF-8.
//! - Exit codes are those of [`exit`]: 0 done, 1 "the answer is no", 2 wrong usage or failed.

pub mod archives;
pub mod commands;
pub mod exit;
pub mod limits;
pub mod output;
pub mod progress;
pub mod run;
pub mod stack;

use std::process::ExitCode;

use clap::Parser;

use commands::Command;
use output::Output;

/// One tree of layers: directories, memory and archives, stacked, mounted, packed and run in.
#[derive(Parser, Debug)]
#[command(name = "strata", version, max_term_width = 100, arg_required_else_help = true)]
struct Program {
    /// Print data as JSON, one object per line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// Reads the process's arguments, carries the command out and says how it ended.
pub fn main() -> ExitCode {
    let program = Program::parse();
    let mut output = Output::new(program.json);
    let outcome = program.command.execute(&mut output);
    exit::finish(output.flush().and(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_argument_definitions_are_consistent() {
        Program::command().debug_assert();
    }
}
