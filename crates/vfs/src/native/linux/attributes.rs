//! Changing metadata: of an open file, or of a node held by a descriptor that opens nothing.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Gid, Mode, Statx, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::{Errno, Result};

use super::stat;
use crate::metadata::{FileType, MetadataChange, TimeChange};

/// The name under which this process finds what `fd` stands for, without following it further.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Makes the whole change, or puts back what it has changed before the host refused.
pub(super) fn change(fd: BorrowedFd<'_>, change: &MetadataChange) -> Result<()> {
    if change.is_empty() {
        return Ok(());
    }
    let before = stat::of(fd, stat::WANTED)?;
    let done = apply(fd, change, &before);
    if done.is_err() {
        let restore = MetadataChange {
            mode: change.mode.or(change.user).or(change.group).map(|_| u32::from(before.stx_mode)),
            user: change.user.map(|_| before.stx_uid),
            group: change.group.map(|_| before.stx_gid),
            ..MetadataChange::new()
        };
        // Best effort: what could be changed a moment ago can be changed back.
        let _ = apply(fd, &restore, &before);
    }
    done
}

/// The owner first: changing it clears the set-id bits that the mode may ask for.
fn apply(fd: BorrowedFd<'_>, change: &MetadataChange, before: &Statx) -> Result<()> {
    if change.user.is_some() || change.group.is_some() {
        set_owner(fd, change.user, change.group)?;
    }
    if let Some(mode) = change.mode
        // The host keeps no mode of a symbolic link.
        && stat::file_type(before) != FileType::Symlink
    {
        set_mode(fd, mode)?;
    }
    if change.accessed.is_some() || change.modified.is_some() {
        let times = Timestamps {
            last_access: timespec(change.accessed),
            last_modification: timespec(change.modified),
        };
        rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// Sets user and group; what is `None` stays.
pub(super) fn set_owner(fd: BorrowedFd<'_>, user: Option<u32>, group: Option<u32>) -> Result<()> {
    let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
    rustix::fs::chownat(fd, c"", user, group, AtFlags::EMPTY_PATH)
}

/// Sets the permission bits, whatever kind of descriptor it is.
pub(super) fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match rustix::fs::fchmod(fd, mode) {
        // A descriptor that opens nothing: by its name in this process.
        Err(Errno::BADF) => rustix::fs::chmod(proc_path(fd), mode),
        answer => answer,
    }
}

fn timespec(change: Option<TimeChange>) -> Timespec {
    match change {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeChange::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeChange::At(time)) => {
            Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() }
        }
    }
}
