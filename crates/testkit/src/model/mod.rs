//! A naive file system, written to be obviously right, and random operations to compare others
//! with it, step by step.
//!
//! A test is a few lines: [`run`] makes sequences of [`Operation`]s, a [`Driver`] carries each
//! out on a file system and on its [`Model`], and says where they differ. `proptest` then
//! shrinks the sequence. Sequences are the same in every run; `STRATA_MODEL_CASES` sets how
//! many there are.

mod driver;
mod look;
mod operation;
mod state;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

pub use driver::Driver;
pub use look::{Look, Tree, difference, look};
pub use operation::{Kind, Operation, operations};
pub use state::{Answer, Model, Rules};

/// Calls `test` with sequences that `strategy` makes, and panics with the shortest that it can
/// find for which `test` answers an error.
///
/// # Panics
/// When `test` answers an error or panics.
pub fn run<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> Result<(), String>) {
    let more = std::env::var("STRATA_MODEL_CASES").ok();
    let cases = more.map_or(cases, |text| text.parse().expect("STRATA_MODEL_CASES is a number"));
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 4096, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(&strategy, |value| test(value).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{reason}\nafter {value:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}
