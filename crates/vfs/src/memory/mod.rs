//! A file system in memory.
//!
//! [`MemoryFs`] keeps the whole contract: hard links, symbolic links, special nodes, extended
//! attributes, owners, nanosecond times, holes, whiteouts. It keeps nothing when its process
//! ends, and a sync has nothing to do.
//!
//! # Shape
//! - A *node* is a file, directory or other thing, in a cell of a slab that never moves and is
//!   never freed, only used again (`slab.rs`, `node.rs`). Its number tells the nodes that had
//!   one cell apart.
//! - A *name* is an entry of one table from (directory, name) to node (`names.rs`). A path is
//!   walked name by name, so renaming a directory touches one entry, whatever lies below.
//! - *Contents* are an immutable value while small, segments when large (`contents.rs`,
//!   `segments.rs`, `block.rs`).
//! - A *handle* holds its node by a count of its own shard of threads (`life.rs`).
//!
//! Opening, reading, metadata and `exists` take no lock that a writer of another file takes and
//! write no memory that another thread reads. So reading does not change `accessed` either: it
//! is the time of creation until it is set.
//!
//! # Locks
//! Taken from the top down; each is optional.
//! ```text
//! Store::moves                  while a node moves from one directory to another
//!   Node::list                  names of a directory; up to three, by ascending number
//!     Node::changes             contents and metadata of one node
//!       Contents::Large         segments of one file
//!         Pool::sizes
//!       Node::attributes
//!     Names::rebuilding         shared by who changes names, alone by who rebuilds the table
//!     Slab::free
//! the list of watches            with none of the above
//! ```
//! No lock is held while a watch's sink or a listing's visitor runs.

mod attributes;
mod block;
mod changes;
mod contents;
mod epochs;
mod file;
mod life;
mod listing;
mod names;
mod node;
mod nodes;
mod quota;
mod rename;
mod segments;
mod seqlock;
mod slab;
mod store;
mod sync;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::sharded::Sharded;
use crate::watch::{WatchGuard, WatchSink};

use store::{Store, Subject, Way, as_directory};

/// Bounds of a [`MemoryFs`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryOptions {
    /// Most bytes of contents and extended attributes; what goes beyond answers
    /// [`NoSpace`](ErrorKind::NoSpace). Counted as storage takes them: files up to 16 KiB in
    /// units of 512 bytes, larger ones in the pages of 4 KiB that are not holes. Memory may be
    /// up to twice that for files that grow, as it is taken in pieces of up to 2 MiB, and each
    /// node and name takes some 300 bytes besides. `None`: no bound.
    ///
    /// With a bound, all writers share one counter.
    pub quota_bytes: Option<u64>,
    /// Most files, directories and other nodes at once, the root not counted; with one more,
    /// [`NoSpace`](ErrorKind::NoSpace). `None`: no bound.
    pub quota_files: Option<u64>,
    /// Most bytes of memory of removed contents to keep for new ones, as memory that is new from
    /// the system is several times slower to fill. 128 MiB by default.
    pub recycled_bytes: u64,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryOptions {
    /// No bounds.
    pub const fn new() -> Self {
        MemoryOptions { quota_bytes: None, quota_files: None, recycled_bytes: 128 << 20 }
    }

    /// Bounds the bytes.
    #[must_use]
    pub const fn quota_bytes(mut self, bytes: u64) -> Self {
        self.quota_bytes = Some(bytes);
        self
    }

    /// Bounds the number of nodes.
    #[must_use]
    pub const fn quota_files(mut self, files: u64) -> Self {
        self.quota_files = Some(files);
        self
    }

    /// Bounds the memory kept for new contents.
    #[must_use]
    pub const fn recycled_bytes(mut self, bytes: u64) -> Self {
        self.recycled_bytes = bytes;
        self
    }
}

/// A file system in memory, with the whole contract and nothing durable.
///
/// Reading does not change `accessed`. Writes to one file come one after another; a reader of
/// a file of more than 16 KiB waits for the write at hand, and no reader ever waits for writes
/// to other files. A change of many megabytes in one call is one such write. A watch reports
/// a change made by a handle under one of the file's names at that time.
///
/// ```
/// use stratafs::{MemoryFs, Vfs};
/// let vfs = Vfs::with_root(MemoryFs::new());
/// vfs.write("greeting", "hello")?;
/// assert_eq!(vfs.read_to_string("greeting")?, "hello");
/// # Ok::<(), stratafs::Error>(())
/// ```
pub struct MemoryFs {
    store: Sharded<Store>,
}

impl Default for MemoryFs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryFs {
    /// An empty file system without bounds.
    pub fn new() -> Self {
        Self::with_options(MemoryOptions::new())
    }

    /// An empty file system with bounds.
    pub fn with_options(options: MemoryOptions) -> Self {
        MemoryFs { store: Sharded::new(Store::new(&options)) }
    }
}

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryFs")
    }
}

impl FileSystem for MemoryFs {
    fn capabilities(&self) -> Capabilities {
        use Capabilities as C;
        C::WRITE
            | C::HARD_LINKS
            | C::SYMLINKS
            | C::SPECIAL_NODES
            | C::XATTRS
            | C::MODES
            | C::OWNERS
            | C::WHITEOUTS
            | C::SPARSE
            | C::EXCHANGE
            | C::TEMPORARY
            | C::WATCH
            | C::PROMPT
    }

    #[inline]
    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        file::open(&self.store, path, options)
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.store.with_node(Subject::Path(path), |id, node| node.metadata(id))
    }

    #[inline]
    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.store.find(path) {
            Ok(found) => Ok(found.is_some()),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let found = self.store.existing(path)?;
        let directory = as_directory(found).map_err(|_| ErrorKind::NotADirectory)?;
        self.store.read_dir(directory, detail, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.store.read_link(Subject::Path(path))
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        Ok(self.store.create(Way::Path(path), node, false)?.metadata)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        self.store.link(from, to)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
        Ok(self.store.rename(Way::Path(from), Way::Path(to), mode)?.metadata)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.store.remove_file(Way::Path(path)).map(drop)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.store.remove_dir(Way::Path(path)).map(drop)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
        self.store.set_metadata(Subject::Path(path), change)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.store.xattr(Subject::Path(path), name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.store.xattrs(Subject::Path(path))
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.store.set_xattr(Subject::Path(path), name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.store.remove_xattr(Subject::Path(path), name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        Ok(self.store.statfs())
    }

    /// Nothing to do: there is no medium.
    fn sync(&self) -> BackendResult<()> {
        Ok(())
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.store.existing(path)?;
        Ok(self.store.watches.add(path, sink))
    }

    fn nodes(&self) -> Option<&dyn NodeSystem> {
        Some(self)
    }
}

/// A panic of somebody else under a lock has not left what it guards half-changed: nothing
/// that can panic is called there between two stores that belong together.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
