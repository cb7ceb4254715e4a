//! Licences and origins of all crates we build on, by `cargo-deny` and `deny.toml`.

use std::process::Command;

use crate::setup::Tool;
use crate::step::{Outcome, has_program, root, run};

/// What needs nothing from the network but the crates themselves. Advisories are not among it:
/// their database is fetched from elsewhere.
const CHECKS: &[&str] = &["bans", "licenses", "sources"];

/// Asks the tool of `cargo xtask setup`, or one that is installed. Says so where neither is: the
/// quick gates are for machines without it too.
pub fn check() -> Outcome {
    let program = Tool::DENY.program()?;
    if !program.is_file() && !has_program("cargo-deny") {
        eprintln!(
            "\n== licences and origins: left out, as cargo-deny is not installed; \
             `cargo xtask setup` brings it"
        );
        return Ok(());
    }
    let name = if program.is_file() { program } else { "cargo-deny".into() };
    run(
        "licences and origins",
        Command::new(name)
            .current_dir(root())
            .args(["check", "--hide-inclusion-graph"])
            .args(CHECKS),
    )
}
