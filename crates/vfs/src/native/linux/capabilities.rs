//! What the host's file system below a root can do.

use std::os::fd::BorrowedFd;

use rustix::fs::{FsWord, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;

use super::attributes::proc_path;
use super::{cache, watch};
use crate::backend::Capabilities;

/// The kernel's own overlay: it refuses to hold a whiteout that it has not made itself.
const OVERLAYFS: FsWord = 0x794c_7630;

/// Of the FAT family and other file systems that keep names, contents and times alone.
const PLAIN: [FsWord; 4] = [0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e];

/// Asks the file system where asking leaves no trace, and goes by its kind elsewhere.
pub(super) fn probe(root: BorrowedFd<'_>) -> Capabilities {
    let kind = rustix::fs::fstatfs(root).map_or(0, |stat| stat.f_type);
    let mut capabilities = Capabilities::STABLE_IDS | Capabilities::DURABLE;
    if watch::SUPPORTED && cache::is_local(kind) {
        capabilities |= Capabilities::WATCH;
    }
    let keeps_all = !PLAIN.contains(&kind);
    if keeps_all {
        capabilities |= Capabilities::MODES | Capabilities::OWNERS | Capabilities::SPARSE;
    }
    let read_only = rustix::fs::fstatvfs(root)
        .is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
    if read_only {
        return capabilities;
    }
    capabilities |= Capabilities::WRITE | Capabilities::EXCHANGE;
    if !keeps_all {
        return capabilities;
    }
    capabilities |= Capabilities::HARD_LINKS | Capabilities::SYMLINKS | Capabilities::SPECIAL_NODES;
    if kind != OVERLAYFS {
        capabilities |= Capabilities::WHITEOUTS;
    }
    // Without /proc there is no way to an attribute that follows no link.
    if rustix::fs::listxattr(format!("{}/.", proc_path(root)), &mut [0; 0][..]).is_ok() {
        capabilities |= Capabilities::XATTRS;
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(root, c".", flags, Mode::empty()) {
        // A directory that may not be written says nothing of those below it.
        Ok(_) | Err(Errno::ACCESS) => capabilities |= Capabilities::TEMPORARY,
        Err(_) => {}
    }
    capabilities
}
