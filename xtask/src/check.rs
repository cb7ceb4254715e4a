//! What must be clean, and what must pass.

use crate::setup::{Tool, tools_path};
use crate::step::{Outcome, cargo, run};

/// Each feature of the library on its own, and none.
const FEATURE_SETS: &[&str] = &["", "glob", "archive", "zip", "watch", "zstd"];

/// Formatting, lints, documentation, and that each feature builds alone.
pub fn check() -> Outcome {
    run("format", cargo().args(["fmt", "--all", "--check"]))?;
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    run("format of the fuzz targets", cargo().args(fuzz))?;
    run(
        "lints",
        cargo().args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
    )?;
    run(
        "documentation",
        cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"),
    )?;
    for features in FEATURE_SETS {
        let title = if features.is_empty() { "no features" } else { features };
        run(
            &format!("library alone: {title}"),
            cargo()
                .args(["clippy", "--package", "stratafs", "--no-default-features", "--features"])
                .args([features, "--", "--deny", "warnings"]),
        )?;
    }
    Ok(())
}

/// All tests of all crates, documentation examples included.
pub fn tests() -> Outcome {
    let path = tools_path(Tool::ALL)?;
    run("tests", cargo().args(["test", "--workspace"]).env("PATH", path))?;
    // The benchmark's peers are built by nobody else.
    run(
        "the benchmark with its peers",
        cargo().args(["test", "--package", "stratafs-bench", "--features", "peers,physfs"]),
    )
}
