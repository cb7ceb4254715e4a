//! A file system in memory.
//!
//! [`MemoryFs`] keeps the whole contract: hard links, symbolic links, special nodes, extended
//! attributes, owners, nanosecond times, holes, whiteouts. It keeps nothing when its process
//! ends. Reading does not change a file's `accessed` time: that would be a write on the read
//! path.
//!
//! # Shape
//! Nodes live in a slab that never moves; a name is an entry of one lock-free map from
//! (directory, name) to node, so a lookup takes no lock and renaming a directory touches one
//! entry. Metadata is read through a sequence lock of atomics; see `node.rs`. Contents are
//! immutable values when small, segments when large; see `contents.rs`.
//!
//! # Open files
//! A handle keeps its node by a count in an array of its own thread group, so that opening a
//! file on two threads writes two cache lines. Whoever takes the last name away sets the links
//! to 0 and then adds the counts up; whoever opens counts first and then looks at the links;
//! all four steps are sequentially consistent, so at least one of the two sees the other, and
//! the node is freed under its guard exactly once.
//!
//! # Locks
//! In this order, each optional:
//! 1. `trees`: held by whoever locks more than one directory (rename, removal of directories).
//! 2. directories' states, in the order of their node ids when two.
//! 3. a node's `guard`: contents and metadata of one node.
//! 4. `free`, `watches`, a node's `xattrs`; contents of large files.
//!
//! Reports of changes are made when none is held.

mod contents;
mod dir;
mod handle;
mod names;
mod node;
mod slab;
mod store;
mod watches;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{Capabilities, DirEntry, File, FileSystem};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange, Statfs};
use crate::options::{NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::sharded::Sharded;
use crate::watch::{WatchGuard, WatchSink};

use store::Store;

/// Bounds of a [`MemoryFs`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryOptions {
    /// Bytes of contents, as storage takes them (small files their length, larger ones whole
    /// segments of 16 KiB to 2 MiB); beyond it writes answer `NoSpace`. `None`: no bound.
    pub quota_bytes: Option<u64>,
    /// How many files, directories and other nodes there may be at once. `None`: no bound.
    pub quota_files: Option<u64>,
}

impl MemoryOptions {
    /// No bounds.
    pub const fn new() -> Self {
        MemoryOptions { quota_bytes: None, quota_files: None }
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
}

/// A file system in memory; see the module documentation.
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
        MemoryFs { store: Sharded::new(Store::new(options)) }
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
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        if !options.is_valid() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        handle::open(&self.store, path, options)
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.store.with_node(path, |id, node| node.metadata(id))
    }

    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.store.find(path) {
            Ok(entry) => Ok(entry.is_some()),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.store.read_dir(path, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.store.with_node(path, |id, node| {
            let body = node.body.load();
            let target = match &**body {
                contents::Body::Link(target) => Ok(target.to_vec()),
                _ => Err(ErrorKind::InvalidArgument.into()),
            };
            (node.generation() == id.generation).then_some(target)
        })?
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.store.create(path, node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        self.store.link(from, to)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<()> {
        self.store.rename(from, to, mode)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.store.remove_file(path)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.store.remove_dir(path)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<()> {
        self.store.set_metadata(path, change)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.store.xattr(path, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.store.xattrs(path)
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.store.set_xattr(path, name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.store.remove_xattr(path, name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        Ok(self.store.statfs())
    }

    /// Nothing to do: there is no medium.
    fn sync(&self) -> BackendResult<()> {
        Ok(())
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.store.metadata_of(path)?;
        Ok(self.store.watches.add(path, sink))
    }
}

/// For a door that shows types only.
fn kind_of(node: &NewNode<'_>) -> FileType {
    use crate::options::NodeKind;
    match node.kind {
        NodeKind::Directory => FileType::Directory,
        NodeKind::Symlink(_) => FileType::Symlink,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
        NodeKind::CharDevice(_) => FileType::CharDevice,
        NodeKind::BlockDevice(_) => FileType::BlockDevice,
        NodeKind::Whiteout => FileType::Whiteout,
    }
}
