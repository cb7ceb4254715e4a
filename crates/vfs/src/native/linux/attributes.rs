//! Changing metadata: of an open file, or of a node held by a descriptor that opens nothing.

use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Statx, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::{Errno, Result, retry_on_intr};

use super::stat;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, MetadataChange, TimeChange};

/// The name under which this process finds what `fd` stands for, without following it further.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Makes the whole change, or puts back what it has changed before the host refused; answers what
/// is true then. What was cut cannot be put back: of what comes after it, nothing is refused to
/// who could change the length.
pub(super) fn change(fd: BorrowedFd<'_>, change: &MetadataChange) -> BackendResult<Statx> {
    let before = stat::of(fd, stat::WANTED)?;
    if change.is_empty() {
        return Ok(before);
    }
    let file_type = stat::file_type(&before);
    match (change.len, file_type) {
        (None, _) | (_, FileType::File) => {}
        (_, FileType::Directory) => return Err(ErrorKind::IsADirectory.into()),
        _ => return Err(ErrorKind::InvalidArgument.into()),
    }
    let mode = u32::from(before.stx_mode) & 0o7777;
    let after = change.mode_after(file_type, mode);
    let change =
        MetadataChange { mode: change.mode.or((after != mode).then_some(after)), ..*change };
    if let Err(errno) = apply(fd, &change, &before) {
        let restore = MetadataChange {
            mode: change.mode.or(change.user).or(change.group).map(|_| u32::from(before.stx_mode)),
            user: change.user.map(|_| before.stx_uid),
            group: change.group.map(|_| before.stx_gid),
            ..MetadataChange::new()
        };
        // Best effort: what could be changed a moment ago can be changed back.
        let _ = apply(fd, &restore, &before);
        return Err(errno.into());
    }
    Ok(stat::of(fd, stat::WANTED)?)
}

/// The owner first: changing it clears the set-id bits that the mode may ask for.
fn apply(fd: BorrowedFd<'_>, change: &MetadataChange, before: &Statx) -> Result<()> {
    if change.user.is_some() || change.group.is_some() {
        set_owner(fd, change.user, change.group)?;
    }
    if let Some(len) = change.len {
        set_len(fd, len)?;
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

/// Cuts or lengthens, whatever kind of descriptor it is.
fn set_len(fd: BorrowedFd<'_>, len: u64) -> Result<()> {
    if len > i64::MAX as u64 {
        return Err(Errno::FBIG);
    }
    match retry_on_intr(|| rustix::fs::ftruncate(fd, len)) {
        // One that opens nothing, or only to read: by its name in this process.
        Err(Errno::BADF | Errno::INVAL) => {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let opened = retry_on_intr(|| rustix::fs::open(proc_path(fd), flags, Mode::empty()))?;
            retry_on_intr(|| rustix::fs::ftruncate(&opened, len))
        }
        answer => answer,
    }
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
