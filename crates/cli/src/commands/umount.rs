//! `strata umount`.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::exit::{Failure, Outcome, Status};
use crate::output::Output;

/// Unmount what `strata mount` mounted.
///
/// The serving process ends by itself once its mount is gone.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// Detach it now, even when files on it are open; it goes when the last one is closed.
    #[arg(long)]
    lazy: bool,
}

pub(crate) fn execute(args: Args, _: &mut Output) -> Outcome {
    let mountpoint = args.mountpoint.display();
    match stratafs_fuse::unmount(&args.mountpoint, args.lazy) {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::new(match error.kind() {
            ErrorKind::ResourceBusy => format!(
                "{mountpoint}: in use: a file on it is open, or it is somebody's working \
                 directory (--lazy detaches it all the same)"
            ),
            ErrorKind::InvalidInput => format!("{mountpoint}: nothing is mounted here"),
            _ => format!("{mountpoint}: {error}"),
        })),
    }
}
