//! `strata umount`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::mount::UnmountFlags;

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
    let flags = if args.lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    let Err(direct) = rustix::mount::unmount(&args.mountpoint, flags | UnmountFlags::NOFOLLOW)
    else {
        return Ok(Status::Done);
    };
    if direct != rustix::io::Errno::PERM {
        return Err(Failure::new(format_args!("{}: {direct}", args.mountpoint.display())));
    }
    // Without the privilege to unmount, the setuid helper does it for the user who mounted.
    let mut helper = Command::new("fusermount3");
    helper.arg("-u").arg("-q").stdin(Stdio::null());
    if args.lazy {
        helper.arg("-z");
    }
    match helper.arg("--").arg(&args.mountpoint).status() {
        Ok(status) if status.success() => Ok(Status::Done),
        Ok(_) => Err(Failure::new(format_args!(
            "{}: not a mount of yours, or in use (see --lazy)",
            args.mountpoint.display()
        ))),
        Err(error) => Err(Failure::new(format_args!(
            "{}: {direct}, and fusermount3 cannot be run: {error}",
            args.mountpoint.display()
        ))),
    }
}
