//! The `strata` program; everything is in the library of this package, so that its parts can
//! be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    stratafs_cli::main()
}
