//! A layer that fails where it is told to.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use stratafs::{
    Advice, Allocation, BackendResult, Backing, Capabilities, Detail, DirEntry, ErrorKind, File,
    FileSystem, Metadata, MetadataChange, NewNode, NodeSystem, OpenOptions, Opened, RenameMode,
    Seek, Statfs, Step, Storage, SyncScope, VfsPath, WatchGuard, WatchSink, XattrMode,
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

#[deny(clippy::missing_trait_methods)]
impl FileSystem for FaultyFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities() - Capabilities::GROUPS
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        if options.needs_writable() {
            self.plan.meet(&[Operation::OpenToWrite, Operation::Change])?;
        }
        let opened = self.inner.open(path, options)?;
        Ok(faulty(opened, &self.plan))
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

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.plan.change()?;
        self.inner.create(path, node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        self.plan.change()?;
        self.inner.link(from, to)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
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

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
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

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.sync_dir(path)
    }

    /// None: its handles are not those of the backend below.
    fn commit(&self, _: &[Step<'_>]) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    /// None: calls by number would go around the faults.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}

fn faulty(opened: Opened, plan: &Arc<Plan>) -> Opened {
    let plan = Arc::clone(plan);
    opened.map(|inner| Box::new(FaultyFile { inner, plan }))
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

#[deny(clippy::missing_trait_methods)]
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

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<Metadata> {
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

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        Ok(faulty(self.inner.reopen(options)?, &self.plan))
    }

    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.xattr(name)
    }

    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.xattrs()
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.set_xattr(name, value, mode)
    }

    fn remove_xattr(&self, name: &[u8]) -> BackendResult<()> {
        self.plan.change()?;
        self.inner.remove_xattr(name)
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.inner.advise(advice, range);
    }

    fn close(&self) -> BackendResult<()> {
        self.inner.close()
    }

    fn seal(&self) -> BackendResult<()> {
        self.inner.seal()
    }

    /// None: whoever has the descriptor goes around the faults.
    fn backing(&self) -> Option<Backing> {
        None
    }
}
