//! The project's own commands, run as `cargo xtask NAME`.
//!
//! Only the standard library is used, so that the command builds in a moment on a machine that
//! has nothing but a Rust toolchain.

mod budget;
mod check;
mod deny;
mod features;
mod fuzz;
mod manifest;
mod oldest;
mod setup;
mod step;
mod wasm;

use std::process::ExitCode;

use step::Outcome;

const USAGE: &str = "\
usage: cargo xtask NAME

  test    everything: all gates and all tests (the tests mount real file systems and install
          what they need)
  check   the quick gates: formatting, lints, documentation, features, dependencies
  check   GATE: one gate alone, as in `check wasm`
  fuzz    TARGET [-- ARGUMENT...]: fuzzes a decoder until it fails or is interrupted; the
          arguments are libFuzzer's, as in `-- -max_total_time=600`
  setup   what the tests and gates need: system packages, programs, a library for the browser
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match (&name[..], &rest[..]) {
        ("test", []) => {
            setup::setup().and_then(|()| check::check_all()).and_then(|()| check::tests())
        }
        ("check", []) => check::check(),
        ("check", [gate]) => check::check_one(gate),
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
