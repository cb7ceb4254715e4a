//! What the host's file system can prove.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FsWord, Statx, StatxFlags};
use rustix::process::{Resource, getrlimit};

/// File systems whose changes all pass through this kernel, so that its watches see them all.
/// Not among them: network and FUSE file systems.
const LOCAL: [FsWord; 14] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // Bcachefs
    0x794c_7630, // overlayfs
    0x7371_7368, // SquashFS
    0xe0f5_e1e2, // EROFS
    // From here on a name may have several spellings.
    0x2fc1_2fc1, // ZFS
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x9660,      // ISO 9660
];

/// How many of [`LOCAL`] keep names byte for byte, apart from directories marked otherwise.
const EXACT: usize = 10;

const MAX_DIRECTORIES: usize = 256;

#[derive(Debug)]
pub(super) struct Host {
    pub(super) mount: Mount,
    /// Watches report every directory that moves.
    pub(super) reports_moves: bool,
    /// Watches report every name that appears, in its only spelling.
    pub(super) reports_names: bool,
}

impl Host {
    pub(super) fn of(root: BorrowedFd<'_>) -> std::io::Result<Self> {
        let kind = rustix::fs::fstatfs(root)?.f_type;
        let stat = rustix::fs::statx(root, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        Ok(Host {
            mount: Mount::of(&stat),
            reports_moves: is_local(kind),
            reports_names: LOCAL[..EXACT].contains(&kind),
        })
    }
}

/// Whether every change on this kind of file system is reported to its watches.
pub(in super::super) fn is_local(kind: FsWord) -> bool {
    LOCAL.contains(&kind)
}

/// The mount that a directory is on. One below the root is another file system, of which
/// nothing is known, and a descriptor kept there would keep it from being unmounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mount {
    Id(u64),
    /// On kernels that do not tell the mount.
    Device(u32, u32),
}

impl Mount {
    pub(super) fn of(stat: &Statx) -> Self {
        match stat.stx_mask & StatxFlags::MNT_ID.bits() {
            0 => Mount::Device(stat.stx_dev_major, stat.stx_dev_minor),
            _ => Mount::Id(stat.stx_mnt_id),
        }
    }
}

/// Leaves most of the process's descriptors to the process.
pub(super) fn default_limit() -> usize {
    let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 8;
    usize::try_from(open_files).unwrap_or(usize::MAX).min(MAX_DIRECTORIES)
}
