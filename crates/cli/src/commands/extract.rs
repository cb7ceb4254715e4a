//! `strata extract`.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;
use stratafs::NativeFs;
use stratafs::archive::{ExtractOptions, extract};

use crate::archives::{OpenArgs, inner_path, shown};
use crate::exit::{Context, Outcome, Status, tell};
use crate::output::Output;
use crate::progress::Meter;

/// Extract an archive into a directory.
///
/// Nothing is written outside of the directory, whatever the archive says, and nothing through a
/// symbolic link.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The archive, or the zip file that it is in.
    archive: PathBuf,
    /// Where to; made when it is missing.
    directory: PathBuf,
    /// What to extract, each with everything below it; all by default.
    paths: Vec<OsString>,
    /// Replace files that exist, and modes and times of directories that do.
    #[arg(long)]
    overwrite: bool,
    /// Restore owners, and what gives rights: set-user-id bits, file capabilities and other
    /// attributes outside of `user.` (needs privileges).
    #[arg(long)]
    owners: bool,
    /// Make FIFOs, sockets, devices and whiteouts, too.
    #[arg(long)]
    special: bool,
    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Serialize)]
struct Record {
    files: u64,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    warnings: usize,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let archive = args.open.open(&args.archive)?;
    let new_root = !args.directory.exists();
    let paths = args.paths.iter().map(|path| inner_path(path)).collect::<Result<_, _>>()?;
    std::fs::create_dir_all(&args.directory).context(|| args.directory.display())?;
    let target = NativeFs::new(&args.directory).context(|| args.directory.display())?;
    // How much a part of the archive is, nobody knows before.
    let total = if args.paths.is_empty() { archive.info().content_len } else { 0 };
    let meter = Meter::new("extracting", total);
    let options = ExtractOptions {
        paths,
        overwrite: args.overwrite,
        new_root,
        owners: args.owners,
        special: args.special,
        progress: Some(&|bytes| meter.advance(bytes)),
    };
    let report = extract(&archive, &target, &options).context(|| args.archive.display())?;
    drop(options);
    drop(meter);
    for warning in &report.warnings {
        tell!("{}: {}", shown(&warning.path), warning.reason);
    }
    let record = Record {
        files: report.files,
        directories: report.directories,
        symlinks: report.symlinks,
        bytes: report.bytes,
        warnings: report.warnings.len(),
    };
    let text = format!("{} files, {} bytes", report.files, report.bytes);
    output.record(text, &record)?;
    Ok(Status::Done)
}
