//! The root directory, and how a path is opened beneath it.
//!
//! The kernel resolves a whole path in one call that follows no symbolic link and cannot leave
//! the root (`openat2`). Where a kernel or a sandbox has no such call the path is walked: each
//! step opens one name in the directory before it and refuses a symbolic link, so a directory
//! that somebody swaps for a link meanwhile is refused too.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

use crate::path::VfsPath;

/// For a directory that is only a place to start from.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// For any node, a symbolic link itself.
pub(super) const NODE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
    /// Whether paths must be walked. Set once `openat2` has been refused.
    walks: AtomicBool,
}

impl Root {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Root { fd, walks: AtomicBool::new(false) }
    }

    /// Opens `path`; a symbolic link anywhere in it is `ELOOP`, except that one at its end is
    /// opened itself with [`NODE`].
    pub(super) fn open(&self, path: &VfsPath, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        if path.is_root() {
            return rustix::fs::openat(&self.fd, c".", flags, mode);
        }
        if !self.walks.load(Ordering::Relaxed) {
            match rustix::fs::openat2(&self.fd, path.as_bytes(), flags, mode, BENEATH) {
                Err(Errno::NOSYS) => self.walks.store(true, Ordering::Relaxed),
                // A sandbox may answer EPERM for calls it does not know; so may a file.
                Err(Errno::PERM) if self.is_refused() => self.walks.store(true, Ordering::Relaxed),
                answer => return answer,
            }
        }
        self.walk(path, flags, mode)
    }

    fn is_refused(&self) -> bool {
        let probe = rustix::fs::openat2(&self.fd, c".", PLACE, Mode::empty(), BENEATH);
        probe.is_err_and(|errno| errno == Errno::PERM)
    }

    fn walk(&self, path: &VfsPath, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let Some((parent, name)) = path.split_last() else {
            return rustix::fs::openat(&self.fd, c".", flags, mode);
        };
        let mut at: Option<OwnedFd> = None;
        for step in parent.components() {
            let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            at = Some(open_step(from, step, PLACE, Mode::empty())?);
        }
        open_step(at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd), name, flags, mode)
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens one name in a directory, never what a symbolic link points at.
pub(super) fn open_step(
    at: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    match rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW, mode) {
        // Asked for a directory, the kernel does not say that it met a link.
        Err(Errno::NOTDIR) if flags.contains(OFlags::DIRECTORY) && is_symlink(at, name) => {
            Err(Errno::LOOP)
        }
        answer => answer,
    }
}

fn is_symlink(at: BorrowedFd<'_>, name: &[u8]) -> bool {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_answers_as_the_kernel_does() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/file"), b"x").unwrap();
        std::os::unix::fs::symlink("b", dir.path().join("a/link")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        let open = || rustix::fs::open(dir.path(), PLACE, Mode::empty()).unwrap();
        let (asks, walks) = (Root::new(open()), Root::new(open()));
        walks.walks.store(true, Ordering::Relaxed);
        let read = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for path in [
            "",
            "a",
            "a/b",
            "a/b/file",
            "a/link",
            "a/link/file",
            "out",
            "out/passwd",
            "none",
            "none/x",
            "a/b/file/x",
        ] {
            for flags in [PLACE, NODE, read] {
                let path = VfsPath::new(path.as_bytes()).unwrap();
                let asked = asks.open(path, flags, Mode::empty()).map(drop);
                let walked = walks.open(path, flags, Mode::empty()).map(drop);
                assert_eq!(asked, walked, "{path:?} {flags:?}");
            }
        }
        assert!(!asks.walks.load(Ordering::Relaxed));
    }
}
