//! Symbolic links: loops, mount crossings and escapes are decided here and nowhere else.
//!
//! A path is tried as it stands. Only when a backend answers that a symbolic link is in the
//! way is the path walked, name by name from the root of the tree, each link replaced by its
//! target. An absolute target starts at the root of the tree, not of the host or of the
//! backend; a relative one at the directory that holds the link; both may lead into another
//! mount. A target that climbs above the root is [`ErrorKind::Escapes`].

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::path::{MAX_PATH_LEN, VfsPath, VfsPathBuf};

use super::vfs::Vfs;

/// How many links one path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// Whether a link at the end of the path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

impl Vfs {
    /// Calls `operation` with the path, and again with its resolved form if a link is in the
    /// way.
    #[inline]
    pub(crate) fn resolving<T>(
        &self,
        path: &VfsPath,
        last: Last,
        operation: impl Fn(&VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        match operation(path) {
            Err(error) if error.kind() == ErrorKind::SymlinkInPath => {
                self.resolve_and_call(path, last, operation)
            }
            answer => answer,
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve_and_call<T>(
        &self,
        path: &VfsPath,
        last: Last,
        operation: impl Fn(&VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        operation(&self.resolve(path, last)?)
    }

    /// The path with every link in it replaced. What is missing stays as it is: the operation
    /// that follows names the error, or makes the file.
    #[cold]
    pub(crate) fn resolve(&self, path: &VfsPath, last: Last) -> BackendResult<VfsPathBuf> {
        // Names still to walk, the next one at the end.
        let mut pending: Vec<Vec<u8>> = path.components().rev().map(<[u8]>::to_vec).collect();
        let mut done = VfsPathBuf::new();
        let mut links = 0;
        while let Some(name) = pending.pop() {
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    if !done.pop() {
                        return Err(ErrorKind::Escapes.into());
                    }
                    continue;
                }
                name => done.push(name)?,
            }
            if pending.is_empty() && last == Last::Keep {
                break;
            }
            let Some(target) = self.link_target(&done)? else { continue };
            links += 1;
            if links > MAX_LINKS {
                return Err(ErrorKind::SymlinkLoop.into());
            }
            if target.is_empty() {
                return Err(ErrorKind::NotFound.into());
            }
            if target.len() > MAX_PATH_LEN {
                return Err(ErrorKind::NameTooLong.into());
            }
            done.pop();
            if target.starts_with(b"/") {
                done = VfsPathBuf::new();
            }
            pending.extend(target.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec));
        }
        Ok(done)
    }

    fn link_target(&self, path: &VfsPath) -> BackendResult<Option<Vec<u8>>> {
        let missing = |error: &BackendError| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        };
        match self.tree.metadata(path) {
            Ok(metadata) if metadata.is_symlink() => self.tree.read_link(path).map(Some),
            Ok(_) => Ok(None),
            Err(error) if missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
