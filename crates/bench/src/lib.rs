//! The benchmark suite behind `strata bench`: plain file interfaces against layered trees, in 13
//! scenarios of reading, metadata and writing.
//!
//! [`run`] does all of it; [`Options`] says what to run; [`Report`] holds the results and writes
//! them as CSV, Markdown and SVG. `docs/benchmarks/README.md` describes the method.
//!
//! ```no_run
//! let options = stratafs_bench::Options { scale: 0.1, ..Default::default() };
//! let report = stratafs_bench::run(&options, &mut |_| Ok(()))?;
//! println!("{}", report.to_markdown());
//! # std::io::Result::Ok(())
//! ```

mod archives;
mod cipher;
mod contestant;
mod dataset;
mod disk;
mod latency;
mod machine;
mod options;
mod report;
mod runner;
mod scenario;
mod suite;
mod targets;
mod workload;
mod world;

pub use cipher::CipherSpeed;
pub use machine::Heading;
pub use options::{Filter, Options, ThreadList};
pub use report::{Report, Row};
pub use suite::{Event, list, run};
