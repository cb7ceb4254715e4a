//! The host's metadata as ours.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RawMode, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Result;

use crate::metadata::{Device, FileId, FileType, Metadata, Owner, Timestamp};

/// Everything of [`Metadata`].
pub(super) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Of a name in a directory, a symbolic link itself.
#[inline]
pub(super) fn at(dir: BorrowedFd<'_>, name: &[u8], wanted: StatxFlags) -> Result<Statx> {
    rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted)
}

/// Of an open file or node.
#[inline]
pub(super) fn of(fd: BorrowedFd<'_>, wanted: StatxFlags) -> Result<Statx> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, wanted)
}

/// Tells the file systems below one root apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeviceId {
    major: u32,
    minor: u32,
}

impl DeviceId {
    pub(super) fn of(stat: &Statx) -> Self {
        DeviceId { major: stat.stx_dev_major, minor: stat.stx_dev_minor }
    }

    /// The id of a file on this device: its inode number, mixed with the device where that is
    /// not the root's, since other file systems mounted below use the same numbers.
    #[inline]
    pub(super) fn file_id(self, root: DeviceId, inode: u64) -> FileId {
        if self == root {
            return FileId(inode);
        }
        let device = (u64::from(self.major) << 32) | u64::from(self.minor);
        FileId(inode ^ xxhash_rust::xxh3::xxh3_64(&device.to_le_bytes()))
    }
}

#[inline]
pub(super) fn metadata(stat: &Statx, root: DeviceId) -> Metadata {
    let created = (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(&stat.stx_btime));
    Metadata {
        id: DeviceId::of(stat).file_id(root, stat.stx_ino),
        file_type: file_type(stat),
        mode: u32::from(stat.stx_mode) & 0o7777,
        links: stat.stx_nlink,
        owner: Owner { user: stat.stx_uid, group: stat.stx_gid },
        len: stat.stx_size,
        allocated: stat.stx_blocks.saturating_mul(512),
        accessed: time(&stat.stx_atime),
        modified: time(&stat.stx_mtime),
        changed: time(&stat.stx_ctime),
        created,
        device: Device { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor },
    }
}

/// The type, with character device 0:0 read as a whiteout, as the kernel's own overlay does.
#[inline]
pub(super) fn file_type(stat: &Statx) -> FileType {
    use rustix::fs::FileType as Host;
    match Host::from_raw_mode(RawMode::from(stat.stx_mode)) {
        Host::CharacterDevice if stat.stx_rdev_major == 0 && stat.stx_rdev_minor == 0 => {
            FileType::Whiteout
        }
        Host::Directory => FileType::Directory,
        Host::Symlink => FileType::Symlink,
        Host::Fifo => FileType::Fifo,
        Host::Socket => FileType::Socket,
        Host::CharacterDevice => FileType::CharDevice,
        Host::BlockDevice => FileType::BlockDevice,
        Host::RegularFile | Host::Unknown => FileType::File,
    }
}

fn time(time: &StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}
