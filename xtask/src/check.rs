//! What must be clean, and what must pass.

use crate::setup::{Tool, tools_path};
use crate::step::{Outcome, cargo, run};
use crate::{budget, deny, features, oldest, wasm};

type Gate = (&'static str, fn() -> Outcome);

/// The gates of a change, by the name that runs one alone; those that answer at once come first.
const QUICK: &[Gate] = &[
    ("oldest-rust", oldest::check),
    ("format", format),
    ("budget", budget::check),
    ("deny", deny::check),
    ("lints", lints),
    ("docs", documentation),
    ("features", features::check),
];

/// Gates that need more than a Rust toolchain, or minutes.
const SLOW: &[Gate] = &[("wasm", wasm::check)];

/// The quick gates.
pub fn check() -> Outcome {
    QUICK.iter().try_for_each(|(_, gate)| gate())
}

/// Every gate.
pub fn check_all() -> Outcome {
    check()?;
    SLOW.iter().try_for_each(|(_, gate)| gate())
}

/// One gate, of either kind.
pub fn check_one(name: &str) -> Outcome {
    let gates = || QUICK.iter().chain(SLOW);
    match gates().find(|(known, _)| *known == name) {
        Some((_, gate)) => gate(),
        None => {
            let names: Vec<&str> = gates().map(|(name, _)| *name).collect();
            Err(format!("no gate {name}; there are {}", names.join(", ")))
        }
    }
}

fn format() -> Outcome {
    run("format", cargo().args(["fmt", "--all", "--check"]))?;
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    run("format of the fuzz targets", cargo().args(fuzz))
}

fn lints() -> Outcome {
    run(
        "lints",
        cargo().args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
    )
}

fn documentation() -> Outcome {
    run(
        "documentation",
        cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"),
    )
}

/// All tests of all crates, documentation examples included.
pub fn tests() -> Outcome {
    let path = tools_path(Tool::TESTS)?;
    run("tests", cargo().args(["test", "--workspace"]).env("PATH", path))?;
    // The benchmark's peers are built by nobody else.
    run(
        "the benchmark with its peers",
        cargo().args(["test", "--package", "stratafs-bench", "--features", "peers,physfs"]),
    )
}
