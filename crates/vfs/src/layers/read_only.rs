//! A backend that cannot be changed through this layer.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::{Capabilities, DirEntry, File, FileSystem, Opened};
use crate::backing::Backing;
use crate::error::{BackendResult, ErrorKind};
use crate::kit::{refuse, refuse_changes};
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{Advice, Allocation, Detail, OpenOptions, Seek, SyncScope, XattrMode};
use crate::path::VfsPath;
use crate::storage::Storage;
use crate::watch::{WatchGuard, WatchSink};

/// Forwards what reads and answers [`ErrorKind::ReadOnly`] to what changes. The backend below
/// may still change by other ways, and its changes show.
#[derive(Debug, Clone)]
pub struct ReadOnlyFs {
    inner: Arc<dyn FileSystem>,
}

impl ReadOnlyFs {
    /// Puts the layer over a backend.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        ReadOnlyFs { inner }
    }

    /// Keeps a handle that was opened to read from changing metadata.
    pub(crate) fn guard(file: Box<dyn File>) -> Box<dyn File> {
        Box::new(ReadOnlyFile(file))
    }
}

#[deny(clippy::missing_trait_methods)]
impl FileSystem for ReadOnlyFs {
    fn capabilities(&self) -> Capabilities {
        // What was kept stays readable (modes, owners, holes); what makes or changes goes.
        self.inner.capabilities()
            & !(Capabilities::WRITE
                | Capabilities::HARD_LINKS
                | Capabilities::SYMLINKS
                | Capabilities::SPECIAL_NODES
                | Capabilities::XATTRS
                | Capabilities::EXCHANGE
                | Capabilities::TEMPORARY
                | Capabilities::GROUPS)
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        if options.needs_writable() && options.is_valid() {
            return refuse(&*self.inner, path);
        }
        Ok(self.inner.open(path, options)?.map(Self::guard))
    }

    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.inner.metadata(path)
    }

    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        self.inner.exists(path)
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.inner.read_dir(path, detail, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.inner.read_link(path)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.xattr(path, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.xattrs(path)
    }

    // Callers tell a missing directory from a read-only one by the error.
    refuse_changes!(|self, path| refuse(&*self.inner, path));

    fn statfs(&self) -> BackendResult<Statfs> {
        let below = self.inner.statfs()?;
        Ok(Statfs { free: 0, available: 0, files_free: 0, ..below })
    }

    fn sync(&self) -> BackendResult<()> {
        self.inner.sync()
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.inner.watch(path, sink)
    }

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.sync_dir(path)
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    /// None: the numbers of the backend below would let changes through.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}

/// A handle opened for reading through which metadata cannot be changed either.
struct ReadOnlyFile(Box<dyn File>);

impl fmt::Debug for ReadOnlyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadOnlyFile").field(&self.0).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl File for ReadOnlyFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> BackendResult<usize> {
        Err(ErrorKind::BadHandle.into())
    }

    #[inline]
    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.0.bytes_at(range)
    }

    fn set_len(&self, _: u64) -> BackendResult<()> {
        Err(ErrorKind::BadHandle.into())
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.0.metadata()
    }

    fn set_metadata(&self, _: &MetadataChange) -> BackendResult<Metadata> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        self.0.sync(scope)
    }

    fn allocate(&self, _: Allocation, _: Range<u64>) -> BackendResult<()> {
        Err(ErrorKind::BadHandle.into())
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.0.seek(offset, what)
    }

    fn link_to(&self, _: &VfsPath) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        match options.needs_writable() {
            true => Err(ErrorKind::ReadOnly.into()),
            false => Ok(self.0.reopen(options)?.map(ReadOnlyFs::guard)),
        }
    }

    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.0.xattr(name)
    }

    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        self.0.xattrs()
    }

    fn set_xattr(&self, _: &[u8], _: &[u8], _: XattrMode) -> BackendResult<()> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn remove_xattr(&self, _: &[u8]) -> BackendResult<()> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.0.advise(advice, range);
    }

    fn close(&self) -> BackendResult<()> {
        self.0.close()
    }

    /// Nothing to do: nothing was changed through this handle.
    fn seal(&self) -> BackendResult<()> {
        Ok(())
    }

    /// None: a kernel that has it may write.
    fn backing(&self) -> Option<Backing> {
        None
    }
}
