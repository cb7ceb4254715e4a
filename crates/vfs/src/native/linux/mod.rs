//! The native backend on Linux.

mod attributes;
mod cache;
mod capabilities;
mod errno;
mod file;
mod list;
mod names;
mod nodes;
mod open;
mod root;
mod stat;
#[cfg_attr(not(feature = "watch"), path = "no_watch.rs")]
mod watch;
mod xattr;

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Statx, StatxFlags};
use rustix::io::{Errno, Result, retry_on_intr};

use self::cache::{Cache, Place};
use self::root::{NODE, PLACE, Root, open_step};
use self::stat::DeviceId;
use super::NativeOptions;
use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::watch::{WatchGuard, WatchSink};

/// A directory of the host as a backend.
///
/// Everything happens beneath the directory, which is opened once: no symbolic link, `..` or
/// directory swapped meanwhile leads out of it, and a mount made over its path later does not
/// matter. Permissions are the host's: calls are made with the rights of the process.
///
/// With the feature `watch` changes are reported on local file systems, those of a directory
/// that appears from a moment after it did: an [`Overflow`](crate::WatchKind::Overflow) with its
/// path says to look into it.
///
/// Character device 0:0 is a whiteout, as it is to the kernel's own overlay, whoever made it and
/// by whatever name of the two. Only an overlay gives it a meaning; elsewhere it is a node like
/// any other.
///
/// ```
/// use stratafs::{NativeFs, Vfs};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let tree = Vfs::with_root(NativeFs::new(dir.path())?);
/// tree.write("notes.txt", "kept on disk")?;
/// assert_eq!(std::fs::read(dir.path().join("notes.txt"))?, b"kept on disk");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NativeFs {
    inner: Arc<Inner>,
}

impl NativeFs {
    /// The directory at `root`, with the default options.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, or why the host does not open it. The path itself may lead
    /// through symbolic links.
    pub fn new(root: impl AsRef<Path>) -> BackendResult<Self> {
        Self::with_options(root, NativeOptions::default())
    }

    /// The directory at `root`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options(root: impl AsRef<Path>, options: NativeOptions) -> BackendResult<Self> {
        let fd = rustix::fs::open(root.as_ref(), PLACE, Mode::empty())?;
        Self::from_fd_with_options(fd, options)
    }

    /// The directory that `fd` holds, with the default options.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub fn from_fd(fd: OwnedFd) -> BackendResult<Self> {
        Self::from_fd_with_options(fd, NativeOptions::default())
    }

    /// The directory that `fd` holds.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub fn from_fd_with_options(fd: OwnedFd, options: NativeOptions) -> BackendResult<Self> {
        let inner = Inner::new(fd, options)?;
        Ok(NativeFs { inner: Arc::new(inner) })
    }
}

impl FileSystem for NativeFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        let (mut file, made) = self.inner.open_file(path, options)?;
        if options.temporary {
            file.temporary_in = Some(Arc::clone(&self.inner));
        }
        Opened::new(Box::new(file), made, options)
    }

    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        Ok(stat::metadata(&self.inner.stat(path)?, self.inner.device))
    }

    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.inner.stat_for(path, StatxFlags::TYPE) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let fd = self.inner.open_dir(path).map_err(|errno| self.inner.dir_error(path, errno))?;
        Ok(list::visit(&fd, self.inner.device, detail, visit)?)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        let target: Result<_> =
            self.inner.in_parent(path, |dir, name| rustix::fs::readlinkat(dir, name, Vec::new()));
        Ok(target?.into_bytes())
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.inner.create_node(path, node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        self.inner.link_node(from, to)?;
        self.metadata(to)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
        self.inner.rename_node(from, to, mode)?;
        self.metadata(to)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.remove_file_node(path)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.remove_dir_node(path)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
        let fd = self.inner.open_node(path, NODE, Mode::empty())?;
        let changed = attributes::change(fd.as_fd(), change)?;
        if change.mode.or(change.user).or(change.group).is_some() {
            // It may have been a directory that lets nobody through now.
            self.inner.moved(path);
        }
        Ok(stat::metadata(&changed, self.inner.device))
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.get_xattr(path, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.list_xattrs(path)
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.inner.put_xattr(path, name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.inner.delete_xattr(path, name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        let room = rustix::fs::fstatvfs(&self.inner.root)?;
        Ok(Statfs {
            total: room.f_blocks.saturating_mul(room.f_frsize),
            free: room.f_bfree.saturating_mul(room.f_frsize),
            available: room.f_bavail.saturating_mul(room.f_frsize),
            files: room.f_files,
            files_free: room.f_ffree,
            block_size: u32::try_from(room.f_frsize).unwrap_or(u32::MAX),
        })
    }

    fn sync(&self) -> BackendResult<()> {
        let fd = self.inner.open_dir(VfsPath::root())?;
        Ok(rustix::fs::syncfs(fd)?)
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        if !self.inner.capabilities.contains(Capabilities::WATCH) {
            return Err(ErrorKind::Unsupported.into());
        }
        watch::start(&self.inner, path, sink)
    }

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        let fd = self.inner.open_dir(path).map_err(|errno| self.inner.dir_error(path, errno))?;
        Ok(retry_on_intr(|| rustix::fs::fsync(&fd))?)
    }
}

/// What the backend is, apart from being one.
#[derive(Debug)]
struct Inner {
    root: Root,
    device: DeviceId,
    capabilities: Capabilities,
    cache: Option<Cache>,
}

impl Inner {
    fn new(fd: OwnedFd, options: NativeOptions) -> BackendResult<Self> {
        let stat = stat::of(fd.as_fd(), stat::WANTED)?;
        if !stat::file_type(&stat).is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let capabilities = capabilities::probe(fd.as_fd());
        // Without a cache everything works, at the cost of a call per directory.
        let cache = Cache::new(fd.as_fd(), options).unwrap_or(None);
        Ok(Inner { root: Root::new(fd), device: DeviceId::of(&stat), capabilities, cache })
    }

    /// Calls with the directory that holds `path` and the last name; with the root and `.` for
    /// the root.
    #[inline]
    fn in_parent<T, E: From<Errno>>(
        &self,
        path: &VfsPath,
        call: impl FnOnce(BorrowedFd<'_>, &[u8]) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let Some((parent, name)) = path.split_last() else {
            return call(self.root.as_fd(), b".");
        };
        if parent.is_root() {
            return call(self.root.as_fd(), name);
        }
        let in_place = |place: Place<'_>| match place {
            Place::In(dir) => call(dir, name),
            Place::Unknown | Place::Missing => {
                call(self.root.open(parent, PLACE, Mode::empty())?.as_fd(), name)
            }
        };
        match &self.cache {
            Some(cache) => cache.look_for_dir(parent, in_place),
            None => in_place(Place::Unknown),
        }
    }

    /// Calls with where to look for what `path` names, if that is known: the directory that
    /// holds it and the last name. `ENOENT` where the name is known to be missing.
    #[inline]
    fn look<T>(
        &self,
        path: &VfsPath,
        known: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<T>,
        unknown: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some((parent, name)) = path.split_last() else {
            return known(self.root.as_fd(), b".");
        };
        match &self.cache {
            Some(cache) => cache.look(self.root.as_fd(), parent, name, |place| match place {
                Place::Missing => Err(Errno::NOENT),
                Place::In(dir) => known(dir, name),
                Place::Unknown => unknown(),
            }),
            None if parent.is_root() => known(self.root.as_fd(), name),
            None => unknown(),
        }
    }

    /// As [`in_parent`](Self::in_parent), for two paths.
    fn in_parents<T>(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        call: impl FnOnce((BorrowedFd<'_>, &[u8]), (BorrowedFd<'_>, &[u8])) -> Result<T>,
    ) -> Result<T> {
        self.in_parent(from, |from_dir, from| {
            self.in_parent(to, |to_dir, to| call((from_dir, from), (to_dir, to)))
        })
    }

    fn stat(&self, path: &VfsPath) -> Result<Statx> {
        self.stat_for(path, stat::WANTED)
    }

    #[inline]
    fn stat_for(&self, path: &VfsPath, wanted: StatxFlags) -> Result<Statx> {
        self.look(
            path,
            |dir, name| stat::at(dir, name, wanted),
            || stat::of(self.root.open(path, NODE, Mode::empty())?.as_fd(), wanted),
        )
    }

    /// Opens whatever has the name, as the flags say.
    #[inline]
    fn open_node(&self, path: &VfsPath, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        self.look(
            path,
            |dir, name| open_step(dir, name, flags, mode),
            || self.root.open(path, flags, mode),
        )
    }

    /// Makes and opens a file, with flags that say so.
    fn open_new(&self, path: &VfsPath, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        self.in_parent(path, |dir, name| open_step(dir, name, flags, mode))
    }

    /// Opens a directory to list it.
    fn open_dir(&self, path: &VfsPath) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.open_node(path, flags, Mode::empty())
    }

    /// A symbolic link at the end of a path is no directory; only one inside it is in the way.
    fn dir_error(&self, path: &VfsPath, errno: Errno) -> BackendError {
        match errno {
            Errno::LOOP if self.stat(path).is_ok() => ErrorKind::NotADirectory.into(),
            errno => errno.into(),
        }
    }

    /// A name was made through this backend.
    fn made(&self, path: &VfsPath) {
        if let Some(cache) = &self.cache {
            cache.made(path);
        }
    }

    /// What a path names was renamed, replaced, removed or closed to somebody through this
    /// backend.
    fn moved(&self, path: &VfsPath) {
        if let Some(cache) = &self.cache {
            cache.moved(path);
        }
    }

    #[cold]
    fn give_descriptors_back(&self) {
        if let Some(cache) = &self.cache {
            cache.clear();
        }
    }
}
