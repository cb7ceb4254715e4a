//! `strata bench`.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use stratafs_bench::{Event, Filter, Options, Row, ThreadList};

use crate::exit::{Failure, Outcome, Status};
use crate::output::Output;

/// Measure layered trees against plain files: reading, metadata, writing.
///
/// Prints a line for each scenario, target and number of threads: throughput, latency, and the
/// throughput relative to C streams.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Multiplier for the amounts of data and work: 1 is 10,000 files of 4 KiB, 200 of 256 KiB
    /// and one of 64 MiB.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Numbers of threads, such as 1,2,N, where N is the number of hardware threads [default:
    /// 1,2,4,8,N].
    #[arg(long, value_name = "LIST")]
    threads: Option<ThreadList>,
    /// Repetitions of each combination; the one with the median time is kept.
    #[arg(long, value_name = "N", default_value_t = 3)]
    iterations: usize,
    /// Run only combinations whose scenario/target contains one of these substrings.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    filter: Filter,
    /// Also write the results as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write the results as Markdown.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Also draw the results.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Work in this directory (about 0.7 GB at scale 1) [default: the system's directory for
    /// temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the data when finished.
    #[arg(long)]
    keep: bool,
    /// Drop the data from the page cache before each iteration.
    #[arg(long)]
    cold: bool,
    /// List scenarios and targets, and run nothing.
    #[arg(long)]
    list: bool,
}

/// A scenario or a target, and what it is.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
}

/// The columns of the CSV.
#[derive(Serialize)]
struct Record {
    scenario: &'static str,
    target: &'static str,
    threads: usize,
    ops_per_s: f64,
    mib_per_s: Option<f64>,
    p50_us: f64,
    p99_us: f64,
    vs_stdio: Option<f64>,
}

impl From<&Row> for Record {
    fn from(row: &Row) -> Self {
        Record {
            scenario: row.scenario,
            target: row.target,
            threads: row.threads,
            ops_per_s: row.ops_per_s,
            mib_per_s: row.mib_per_s,
            p50_us: row.p50_us,
            p99_us: row.p99_us,
            vs_stdio: row.vs_stdio,
        }
    }
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    if args.list {
        for (name, about) in stratafs_bench::list() {
            output.record(format_args!("{name:<26} {about}"), &Listed { name, about })?;
        }
        return Ok(Status::Done);
    }
    let options = Options {
        scale: args.scale,
        threads: args.threads.unwrap_or_default(),
        iterations: args.iterations,
        filter: args.filter,
        csv: args.csv,
        markdown: args.md,
        svg: args.svg,
        dir: args.dir,
        keep: args.keep,
        cold: args.cold,
        command: command_line(),
    };
    // A failure of standard output passes through the suite, which knows only I/O errors.
    let mut closed = None;
    let outcome = stratafs_bench::run(&options, &mut |event| {
        show(event, output).map_err(|failure| {
            closed = Some(failure);
            io::Error::other("standard output")
        })
    });
    match (closed, outcome) {
        (Some(failure), _) => Err(failure),
        (None, outcome) => outcome.map(|_| Status::Done).map_err(Failure::from),
    }
}

fn show(event: Event<'_>, output: &mut Output) -> Result<(), Failure> {
    match event {
        Event::Start(heading) => {
            for (name, value) in heading.lines() {
                eprintln!("{:<10} {value}", format!("{name}:"));
            }
            eprintln!("{}", Row::CONSOLE_HEADING);
        }
        Event::Row(row) => {
            output.record(row, &Record::from(row))?;
            // A row may take a minute; nobody should wait for the buffer to fill.
            output.flush()?;
        }
        Event::Note(text) => eprintln!("{text}"),
    }
    Ok(())
}

/// As it was typed, but for the directory of the program.
fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}
