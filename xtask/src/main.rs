//! The project's own commands, run as `cargo xtask NAME`.
//!
//! Only the standard library is used, so that the command builds in a moment on a machine that
//! has nothing but a Rust toolchain.

mod check;
mod fuzz;
mod setup;
mod step;

use std::process::ExitCode;

use step::Outcome;

const USAGE: &str = "\
usage: cargo xtask NAME

  test    everything: formatting, lints, documentation, features, all tests (the tests mount
          real file systems and install what they need)
  check   formatting, lints, documentation, features
  fuzz    TARGET [-- ARGUMENT...]: fuzzes a decoder until it fails or is interrupted; the
          arguments are libFuzzer's, as in `-- -max_total_time=600`
  setup   what the tests need: system packages and test programs
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match (&name[..], &rest[..]) {
        ("test", []) => setup::setup().and_then(|()| check::check()).and_then(|()| check::tests()),
        ("check", []) => check::check(),
        ("fuzz", [target]) => fuzz::fuzz(target, &[]),
        ("fuzz", [target, dashes, arguments @ ..]) if dashes == "--" => {
            fuzz::fuzz(target, arguments)
        }
        ("setup", []) => setup::setup(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    report(outcome)
}

fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}
