//! The oldest Rust that the workspace states must be true, where that can be found out.

use std::process::Command;

use crate::manifest;
use crate::step::{Outcome, has_program, output, root, run, rustc};

/// The toolchain that runs is the stated one, or the stated one checks the workspace as well,
/// or it is said that it was not there: nothing is downloaded for it.
pub fn check() -> Outcome {
    let stated = manifest::rust_version(&root())?;
    let running = output(rustc().arg("-V"))?;
    let has = release_of(&running);
    let wants = release(&stated);
    if wants == (0, 0) || has < wants {
        return Err(format!("Rust {stated} or later is needed, and this is {}", running.trim()));
    }
    if has == wants {
        eprintln!("\n== oldest Rust: the toolchain that runs is {stated}");
        return Ok(());
    }
    match installed(wants) {
        Some(toolchain) => run(
            &format!("oldest Rust: {toolchain}"),
            Command::new("rustup")
                .current_dir(root())
                .env_remove("RUSTC")
                .args(["run", &toolchain, "cargo", "check", "--workspace", "--all-targets"])
                .arg("--target-dir")
                .arg(root().join("target").join("oldest")),
        ),
        None => {
            eprintln!(
                "\n== oldest Rust: {stated} is not installed, so only that it is not newer than \
                 this toolchain was checked; `rustup toolchain install {stated}` brings it"
            );
            Ok(())
        }
    }
}

/// A toolchain of rustup's with just that release.
fn installed(wanted: (u32, u32)) -> Option<String> {
    if !has_program("rustup") {
        return None;
    }
    let list = output(Command::new("rustup").args(["toolchain", "list"])).ok()?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).find(|name| release(name) == wanted)
}

/// What a compiler that prints this as its version is.
pub fn release_of(printed: &str) -> (u32, u32) {
    release(printed.split_whitespace().nth(1).unwrap_or_default())
}

/// The first two numbers of `1.95.0` or `1.95-x86_64-…`; zeros for anything else.
pub fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[test]
fn releases_compare_by_number() {
    assert_eq!(release("1.95.0-x86_64-unknown-linux-gnu"), (1, 95));
    assert_eq!(release("1.100"), (1, 100));
    assert_eq!(release("stable-x86_64-unknown-linux-gnu"), (0, 0));
    assert_eq!(release_of("rustc 1.96.0 (ac68faa20 2026-05-25)\n"), (1, 96));
    assert!(release("1.100.1") > release("1.95"));
}
