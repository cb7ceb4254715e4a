//! Coverage-guided fuzzing on the stable toolchain.

use crate::step::{Outcome, cargo, root, run};

/// The instrumentation that libFuzzer reads, asked of the stable compiler directly.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 --cfg fuzzing";

/// Builds the fuzz crate and runs one target for so many seconds; its corpus stays in
/// `fuzz/corpus`.
pub fn fuzz(target: &str, seconds: &str) -> Outcome {
    let fuzz = root().join("fuzz");
    let corpus = fuzz.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    run(
        &format!("fuzzing {target} for {seconds} s"),
        cargo()
            .current_dir(&fuzz)
            .env("RUSTFLAGS", COVERAGE)
            .args(["run", "--release", "--target", "x86_64-unknown-linux-gnu", "--bin", target])
            .arg("--")
            .arg(&corpus)
            .args([format!("-max_total_time={seconds}"), "-rss_limit_mb=1024".into()]),
    )
}
