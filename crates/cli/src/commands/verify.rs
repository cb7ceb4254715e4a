//! `strata verify`.

use std::path::PathBuf;

use serde::Serialize;

use crate::archives::OpenArgs;
use crate::exit::{Outcome, Status};
use crate::output::Output;
use crate::progress::Meter;

/// Check every checksum and hash of an archive.
///
/// Exit code 1 and one line for each problem when it is damaged. Without its key, the contents
/// of an encrypted archive are checked by checksum only.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The archive, or the zip file that it is in.
    archive: PathBuf,
    /// Threads; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Serialize)]
struct ProblemRecord<'a> {
    entry: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Record {
    good: bool,
    entries: u64,
    blocks: u64,
    bytes: u64,
    locked: u64,
    problems: usize,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let archive = args.open.open(&args.archive)?;
    let meter = Meter::new("verifying", archive.info().content_len);
    let report = archive.verify(args.jobs, Some(&|bytes| meter.advance(bytes)));
    drop(meter);
    for problem in &report.problems {
        let (entry, reason) = (&*problem.entry, &*problem.reason);
        let text = format!("{}: {reason}", entry.escape_debug());
        output.record(text, &ProblemRecord { entry, reason })?;
    }
    let record = Record {
        good: report.is_good(),
        entries: report.entries,
        blocks: report.blocks,
        bytes: report.bytes,
        locked: report.locked,
        problems: report.problems.len(),
    };
    let file = args.archive.display();
    let mut text = match report.is_good() {
        true => format!("{file}: good: {} entries, {} bytes", report.entries, report.bytes),
        false => format!("{file}: damaged: {} problems", report.problems.len()),
    };
    if report.locked > 0 {
        text.push_str(&format!("; {} encrypted files not decrypted: no key", report.locked));
    }
    output.record(text, &record)?;
    Ok(if report.is_good() { Status::Done } else { Status::No })
}
