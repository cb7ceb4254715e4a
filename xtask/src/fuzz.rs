//! Coverage-guided fuzzing on the stable toolchain: the compiler's own coverage pass, asked for
//! by flags, and libFuzzer.

use crate::step::{Outcome, cargo, has_program, output, root, run, rustc};

/// What libFuzzer needs of a program. It holds for the programs alone: a target is named to
/// cargo, so that build scripts and macros are built without.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Builds a target, writes its seeds, and fuzzes. What is found is kept below `target/fuzz`.
pub fn fuzz(target: &str, arguments: &[String]) -> Outcome {
    if !has_program("c++") && !has_program("g++") && !has_program("clang++") {
        return Err("libFuzzer is written in C++: install `g++` or `clang`".into());
    }
    let place = root().join("target").join("fuzz");
    let (corpus, findings) = (place.join("corpus").join(target), place.join("findings"));
    std::fs::create_dir_all(&findings).map_err(|e| format!("{}: {e}", findings.display()))?;
    run(
        "seeds",
        cargo()
            .args(["run", "--quiet", "--package", "stratafs-fuzz", "--example", "seeds", target])
            .arg(&corpus),
    )?;
    let mut artifacts = std::ffi::OsString::from("-artifact_prefix=");
    artifacts.push(findings.join(format!("{target}-")));
    run(
        "fuzzing",
        cargo()
            .args(["run", "--release", "--manifest-path", "fuzz/Cargo.toml", "--bin", target])
            .args(["--target", &host()?, "--target-dir"])
            .arg(&place)
            .env("RUSTFLAGS", FLAGS.join(" "))
            .arg("--")
            .arg(&corpus)
            .arg(artifacts)
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .args(arguments),
    )
}

/// The triple of this machine, as the compiler calls it.
fn host() -> Result<String, String> {
    let text = output(rustc().arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its host".into())
}
