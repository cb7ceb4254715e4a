//! `strata cat`.

use std::ffi::OsString;
use std::path::PathBuf;

use stratafs::Vfs;

use crate::archives::{OpenArgs, inner_path};
use crate::exit::{Context, Outcome, Status};
use crate::output::Output;

/// Write the contents of a file in an archive to standard output.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The archive, or the zip file that it is in.
    archive: PathBuf,
    /// The file in it.
    path: OsString,
    #[command(flatten)]
    open: OpenArgs,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let tree = Vfs::with_root(args.open.open(&args.archive)?);
    let file = tree.open(&*inner_path(&args.path)?).context(|| args.archive.display())?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset).context(|| args.archive.display())? {
            0 => return Ok(Status::Done),
            n => {
                output.bytes(&buffer[..n])?;
                offset += n as u64;
            }
        }
    }
}
