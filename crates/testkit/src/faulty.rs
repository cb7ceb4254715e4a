//! A layer that fails where it is told to.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use stratafs::{
    Allocation, BackendResult, Capabilities, DirEntry, ErrorKind, File, FileSystem, Metadata,
    MetadataChange, NewNode, OpenOptions, RenameMode, Seek, Statfs, SyncScope, VfsPath, WatchGuard,
    WatchSink, XattrMode,
};

/// What is counted, and fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// `File::write_at`.
    Write,
    /// `File::read_at` and `bytes_at`.
    Read,
    /// `FileSystem::open` that could make or change a file.
    OpenToWrite,
    /// Every call that could change something, writes and opens to write included.
    Change,
}

/// How the chosen call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It answers this kind and does nothing.
    Fail(ErrorKind),
    /// A write takes half of its bytes and answers so, and the next counted call answers this
    /// kind; any other call fails at once.
    Tear(ErrorKind),
}

/// Forwards everything; the calls of one operation fail from the Nth on.
///
/// The count starts at 0 and goes on over the layer's life; [`disarm`](Self::disarm) lets
/// everything through again.
pub struct FaultyFs {
    inner: Arc<dyn FileSystem>,
    plan: Arc<Plan>,
}

struct Plan {
    operation: Operation,
    fault: Fault,
    first: AtomicU64,
    seen: AtomicU64,
}

impl Plan {
    /// What the call that is being made is to do.
    fn meet(&self, operations: &[Operation]) -> Result<Verdict, stratafs::BackendError> {
        if !operations.contains(&self.operation) {
            return Ok(Verdict::Pass);
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst);
        let first = self.first.load(Ordering::SeqCst);
        match self.fault {
            _ if number < first => Ok(Verdict::Pass),
            Fault::Tear(_) if number == first && operations[0] == Operation::Write => {
                Ok(Verdict::Tear)
            }
            Fault::Fail(kind) | Fault::Tear(kind) => Err(kind.into()),
        }
    }

    fn change(&self) -> BackendResult<()> {
        self.meet(&[Operation::Change]).map(drop)
    }
}

enum Verdict {
    Pass,
    Tear,
}

impl FaultyFs {
    /// Calls of `operation` fail from number `first` on, counted from 0.
    pub fn new(inner: Arc<dyn FileSystem>, operation: Operation, first: u64, fault: Fault) -> Self {
        let (first, seen) = (AtomicU64::new(first), AtomicU64::new(0));
        FaultyFs { inner, plan: Arc::new(Plan { operation, fault, first, seen }) }
    }

    /// How many calls of the operation were made.
    pub fn seen(&self) -> u64 {
        self.plan.seen.load(Ordering::SeqCst)
    }

    /// Fails from this call on, counted from now.
    pub fn arm(&self, first: u64) {
        self.plan.seen.store(0, Ordering::SeqCst);
        self.plan.first.store(first, Ordering::SeqCst);
    }

    /// Fails no more.
    pub fn disarm(&self) {
        self.plan.first.store(u64::MAX, Ordering::SeqCst);
    }
}

impl fmt::Debug for FaultyFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultyFs").field(&self.inner).finish()
    }
}

impl FileSystem for FaultyFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        if options.needs_writable() {
            self.plan.meet(&[Operation::OpenToWrite, Operation::Change])?;
        }
        let inner = self.inner.open(path, options)?;
        Ok(Box::new(FaultyFile { inner, plan: Arc::clone(&self.plan) }))
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
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.inner.read_dir(path, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.inner.read_link(path)
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.plan.change()?;
        self.inner.create(path, node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.link(from, to)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.rename(from, to, mode)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.remove_dir(path)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.set_metadata(path, change)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.xattr(path, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.xattrs(path)
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.set_xattr(path, name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.remove_xattr(path, name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        self.inner.statfs()
    }

    fn sync(&self) -> BackendResult<()> {
        self.inner.sync()
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.inner.watch(path, sink)
    }
}

struct FaultyFile {
    inner: Box<dyn File>,
    plan: Arc<Plan>,
}

impl fmt::Debug for FaultyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultyFile").field(&self.inner).finish()
    }
}

impl File for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.plan.meet(&[Operation::Read])?;
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        match self.plan.meet(&[Operation::Write, Operation::Change])? {
            // A write of one byte cannot be torn: 0 would mean that there was none to write.
            Verdict::Tear if buf.len() > 1 => self.inner.write_at(&buf[..buf.len() / 2], offset),
            Verdict::Pass | Verdict::Tear => self.inner.write_at(buf, offset),
        }
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.plan.meet(&[Operation::Read])?;
        self.inner.bytes_at(range)
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.set_len(len)
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.inner.metadata()
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.set_metadata(change)
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        self.inner.sync(scope)
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.allocate(what, range)
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.inner.seek(offset, what)
    }

    fn link_to(&self, path: &VfsPath) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.link_to(path)
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        // Whoever has the descriptor goes around the faults.
        None
    }
}
