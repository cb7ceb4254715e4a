//! One directory of a backend as a backend of its own.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};
use crate::storage::{Step, Storage};
use crate::watch::{WatchEvent, WatchGuard, WatchSink};

/// Shows the directory `base` of a backend as its root. Nothing above it can be named. The
/// directory is found by its path at each call: when it is renamed away, calls answer
/// `NotFound`.
#[derive(Debug, Clone)]
pub struct SubdirFs {
    inner: Arc<dyn FileSystem>,
    base: VfsPathBuf,
}

impl SubdirFs {
    /// Shows `base` of `inner`.
    ///
    /// # Errors
    /// Those of [`FileSystem::metadata`], and `NotADirectory`.
    pub fn new(inner: Arc<dyn FileSystem>, base: VfsPathBuf) -> BackendResult<Self> {
        if !inner.metadata(&base)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(SubdirFs { inner, base })
    }

    fn full(&self, path: &VfsPath) -> VfsPathBuf {
        self.base.join(path)
    }

    /// The backend below would let its own root alone but not this layer's.
    fn not_root(&self, path: &VfsPath, kind: ErrorKind) -> BackendResult<()> {
        if path.is_root() { Err(BackendError::from(kind)) } else { Ok(()) }
    }
}

#[deny(clippy::missing_trait_methods)]
impl FileSystem for SubdirFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities() - Capabilities::GROUPS
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        let opened = self.inner.open(&self.full(path), options)?;
        if options.temporary {
            let base = self.base.clone();
            return Ok(opened.map(|file| Box::new(SubdirTemporary { file, base })));
        }
        Ok(opened)
    }

    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.inner.metadata(&self.full(path))
    }

    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        self.inner.exists(&self.full(path))
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.inner.read_dir(&self.full(path), detail, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.inner.read_link(&self.full(path))
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        // A whiteout may replace an empty directory, but not this layer's root.
        self.not_root(path, ErrorKind::AlreadyExists)?;
        self.inner.create(&self.full(path), node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        self.inner.link(&self.full(from), &self.full(to))
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
        self.not_root(from, ErrorKind::Busy)?;
        self.not_root(to, ErrorKind::Busy)?;
        self.inner.rename(&self.full(from), &self.full(to), mode)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.remove_file(&self.full(path))
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.not_root(path, ErrorKind::Busy)?;
        self.inner.remove_dir(&self.full(path))
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
        self.inner.set_metadata(&self.full(path), change)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.xattr(&self.full(path), name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.xattrs(&self.full(path))
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.inner.set_xattr(&self.full(path), name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.inner.remove_xattr(&self.full(path), name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        self.inner.statfs()
    }

    fn sync(&self) -> BackendResult<()> {
        self.inner.sync()
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        let base = self.base.clone();
        let below = move |event: WatchEvent| {
            // A report about something above the base (an overflow) concerns all of it.
            let path = event.path.strip_prefix(&base).unwrap_or(VfsPath::root()).to_owned();
            sink.event(WatchEvent { path, ..event });
        };
        self.inner.watch(&self.full(path), Arc::new(below))
    }

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.sync_dir(&self.full(path))
    }

    /// Not through this layer: its handles are not those of the backend below.
    fn commit(&self, _: &[Step<'_>]) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    /// None yet: the numbers below begin at another root.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}

crate::kit::wrap_file! {
    /// A temporary file, whose name will be given relative to the layer's root.
    struct SubdirTemporary { base: VfsPathBuf }
    fn shown(self, metadata) { metadata }
    fn reopened(self, opened) { opened }
    fn link_to(self, path) { self.file.link_to(&self.base.join(path)) }
}
