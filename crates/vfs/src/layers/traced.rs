//! How often each operation is called, and how long it takes.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_utils::CachePadded;

use crate::backend::{Capabilities, DirEntry, File, FileSystem};
use crate::error::BackendResult;
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::options::{Allocation, NewNode, OpenOptions, RenameMode, Seek, SyncScope, XattrMode};
use crate::path::VfsPath;
use crate::sharded::{MAX_SHARDS, Sharded, Shared, shard_index};
use crate::watch::{WatchGuard, WatchSink};

/// Buckets of a histogram: bucket `i` counts calls of less than 2^i nanoseconds, the last one
/// (over a minute) all longer ones too.
const BUCKETS: usize = 37;

macro_rules! operations {
    ($($operation:ident => $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy)]
        enum Operation {
            $($operation),+
        }

        const NAMES: &[&str] = &[$($name),+];
    };
}

operations! {
    Open => "open",
    Metadata => "metadata",
    Exists => "exists",
    ReadDir => "read_dir",
    ReadLink => "read_link",
    Create => "create",
    Link => "link",
    Rename => "rename",
    RemoveFile => "remove_file",
    RemoveDir => "remove_dir",
    SetMetadata => "set_metadata",
    Xattr => "xattr",
    Xattrs => "xattrs",
    SetXattr => "set_xattr",
    RemoveXattr => "remove_xattr",
    Statfs => "statfs",
    Sync => "sync",
    Watch => "watch",
    ReadAt => "file.read_at",
    WriteAt => "file.write_at",
    BytesAt => "file.bytes_at",
    SetLen => "file.set_len",
    FileMetadata => "file.metadata",
    FileSetMetadata => "file.set_metadata",
    FileSync => "file.sync",
    Allocate => "file.allocate",
    Seek => "file.seek",
    LinkTo => "file.link_to",
}

/// Counts every call to a backend and how long it took, and forwards it.
///
/// Counters are kept per group of threads, so that tracing adds no word that all threads write.
/// A traced call costs two looks at the clock more.
pub struct TracedFs {
    inner: Arc<dyn FileSystem>,
    counters: Sharded<Counters>,
}

struct Counters {
    shards: [CachePadded<Box<[Counter]>>; MAX_SHARDS],
}

struct Counter {
    errors: AtomicU64,
    nanoseconds: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Counters {
    fn new() -> Self {
        let counter = || Counter {
            errors: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Counters {
            shards: std::array::from_fn(|_| {
                CachePadded::new(NAMES.iter().map(|_| counter()).collect())
            }),
        }
    }

    #[inline]
    fn time<T>(
        &self,
        operation: Operation,
        call: impl FnOnce() -> BackendResult<T>,
    ) -> BackendResult<T> {
        let start = Instant::now();
        let answer = call();
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let counter = &self.shards[shard_index()][operation as usize];
        // Relaxed: these are numbers to be looked at, nothing is ordered by them.
        let bucket = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        counter.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        counter.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if answer.is_err() {
            counter.errors.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

/// What a [`TracedFs`] has counted so far. Shown, it is a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// One row for each operation that was called.
    pub rows: Vec<TraceRow>,
}

/// The calls of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRow {
    /// Its name: a method of [`FileSystem`], or `file.` and a method of [`File`].
    pub operation: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// How often it answered an error.
    pub errors: u64,
    /// Time spent in it, all threads together.
    pub total: Duration,
    /// Half of the calls took less than this power of two of nanoseconds.
    pub p50: Duration,
    /// 99 of 100 calls took less than this power of two of nanoseconds.
    pub p99: Duration,
}

impl TracedFs {
    /// Puts the layer over a backend.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        TracedFs { inner, counters: Sharded::new(Counters::new()) }
    }

    /// What was counted so far. Calls under way may or may not be in it.
    pub fn snapshot(&self) -> Trace {
        let rows = NAMES.iter().enumerate().map(|(i, &operation)| {
            let counters = self.counters.shards.iter().map(|shard| &shard[i]);
            let mut buckets = [0; BUCKETS];
            let (mut errors, mut nanoseconds) = (0, 0);
            for counter in counters {
                errors += counter.errors.load(Ordering::Relaxed);
                nanoseconds += counter.nanoseconds.load(Ordering::Relaxed);
                for (sum, bucket) in buckets.iter_mut().zip(&counter.buckets) {
                    *sum += bucket.load(Ordering::Relaxed);
                }
            }
            TraceRow {
                operation,
                calls: buckets.iter().sum(),
                errors,
                total: Duration::from_nanos(nanoseconds),
                p50: percentile(&buckets, 50),
                p99: percentile(&buckets, 99),
            }
        });
        Trace { rows: rows.filter(|row| row.calls > 0).collect() }
    }

    #[inline]
    fn time<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&dyn FileSystem) -> BackendResult<T>,
    ) -> BackendResult<T> {
        self.counters.time(operation, || call(&*self.inner))
    }
}

/// The upper end of the bucket in which this part of all calls is reached.
fn percentile(buckets: &[u64; BUCKETS], percent: u64) -> Duration {
    let calls: u64 = buckets.iter().sum();
    let wanted = (calls * percent).div_ceil(100);
    let mut seen = 0;
    for (i, count) in buckets.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return Duration::from_nanos(1 << i);
        }
    }
    Duration::from_nanos(1 << (BUCKETS - 1))
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:>10} {:>8} {:>12} {:>10} {:>10}",
            "operation", "calls", "errors", "total", "p50 <", "p99 <"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<18} {:>10} {:>8} {:>12} {:>10} {:>10}",
                row.operation,
                row.calls,
                row.errors,
                format!("{:.1?}", row.total),
                format!("{:.1?}", row.p50),
                format!("{:.1?}", row.p99),
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for TracedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TracedFs").field(&self.inner).finish()
    }
}

impl FileSystem for TracedFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        let inner = self.time(Operation::Open, |fs| fs.open(path, options))?;
        Ok(Box::new(TracedFile { inner, counters: self.counters.share() }))
    }

    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.time(Operation::Metadata, |fs| fs.metadata(path))
    }

    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        self.time(Operation::Exists, |fs| fs.exists(path))
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.time(Operation::ReadDir, |fs| fs.read_dir(path, visit))
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.time(Operation::ReadLink, |fs| fs.read_link(path))
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.time(Operation::Create, |fs| fs.create(path, node))
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        self.time(Operation::Link, |fs| fs.link(from, to))
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<()> {
        self.time(Operation::Rename, |fs| fs.rename(from, to, mode))
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.time(Operation::RemoveFile, |fs| fs.remove_file(path))
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.time(Operation::RemoveDir, |fs| fs.remove_dir(path))
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<()> {
        self.time(Operation::SetMetadata, |fs| fs.set_metadata(path, change))
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.time(Operation::Xattr, |fs| fs.xattr(path, name))
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.time(Operation::Xattrs, |fs| fs.xattrs(path))
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.time(Operation::SetXattr, |fs| fs.set_xattr(path, name, value, mode))
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.time(Operation::RemoveXattr, |fs| fs.remove_xattr(path, name))
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        self.time(Operation::Statfs, |fs| fs.statfs())
    }

    fn sync(&self) -> BackendResult<()> {
        self.time(Operation::Sync, |fs| fs.sync())
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.time(Operation::Watch, |fs| fs.watch(path, sink))
    }
}

struct TracedFile {
    inner: Box<dyn File>,
    counters: Shared<Counters>,
}

impl fmt::Debug for TracedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TracedFile").field(&self.inner).finish()
    }
}

impl File for TracedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.counters.time(Operation::ReadAt, || self.inner.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        self.counters.time(Operation::WriteAt, || self.inner.write_at(buf, offset))
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.counters.time(Operation::BytesAt, || self.inner.bytes_at(range))
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.counters.time(Operation::SetLen, || self.inner.set_len(len))
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.counters.time(Operation::FileMetadata, || self.inner.metadata())
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        self.counters.time(Operation::FileSetMetadata, || self.inner.set_metadata(change))
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        self.counters.time(Operation::FileSync, || self.inner.sync(scope))
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.counters.time(Operation::Allocate, || self.inner.allocate(what, range))
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.counters.time(Operation::Seek, || self.inner.seek(offset, what))
    }

    fn link_to(&self, path: &VfsPath) -> BackendResult<()> {
        self.counters.time(Operation::LinkTo, || self.inner.link_to(path))
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.inner.as_fd()
    }
}
