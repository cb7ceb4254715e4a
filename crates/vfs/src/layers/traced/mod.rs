//! How often each operation is called, and how long it takes.

mod forward;

use std::fmt;
use std::sync::Arc;

use crate::backend::{FileSystem, Opened};
use crate::error::BackendResult;
use crate::kit::{Tally, Trace};
use crate::sharded::Sharded;

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
    SyncDir => "sync_dir",
    Commit => "commit",
    NodeLookup => "node.lookup",
    NodeMetadata => "node.metadata",
    NodeSetMetadata => "node.set_metadata",
    NodeReadLink => "node.read_link",
    NodeOpen => "node.open",
    NodeCreateFile => "node.create_file",
    NodeTemporary => "node.temporary",
    NodeCreate => "node.create",
    NodeLink => "node.link",
    NodeRename => "node.rename",
    NodeRemoveFile => "node.remove_file",
    NodeRemoveDir => "node.remove_dir",
    NodeReadDir => "node.read_dir",
    NodeXattr => "node.xattr",
    NodeXattrs => "node.xattrs",
    NodeSetXattr => "node.set_xattr",
    NodeRemoveXattr => "node.remove_xattr",
    NodeSyncDir => "node.sync_dir",
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
    Reopen => "file.reopen",
    FileXattr => "file.xattr",
    FileXattrs => "file.xattrs",
    FileSetXattr => "file.set_xattr",
    FileRemoveXattr => "file.remove_xattr",
    Close => "file.close",
    Seal => "file.seal",
}

/// Counts every call to a backend and how long it took, and forwards it.
///
/// Counters are kept per group of threads, so that tracing adds no word that all threads write.
/// A traced call costs two looks at the clock more. What only keeps the account of numbers
/// (`forget`, `count` and the like), a hint and a question that every layer answers for itself
/// (capabilities) are forwarded without being counted.
pub struct TracedFs {
    inner: Arc<dyn FileSystem>,
    tally: Sharded<Tally>,
}

impl TracedFs {
    /// Puts the layer over a backend.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        TracedFs { inner, tally: Sharded::new(Tally::new(NAMES)) }
    }

    /// What was counted so far. Calls under way may or may not be in it.
    pub fn snapshot(&self) -> Trace {
        self.tally.snapshot()
    }

    /// Wraps what an open answered.
    fn traced(&self, opened: Opened) -> Opened {
        let tally = self.tally.share();
        opened.map(|inner| Box::new(forward::TracedFile { inner, tally }))
    }

    #[inline]
    fn time<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&dyn FileSystem) -> BackendResult<T>,
    ) -> BackendResult<T> {
        self.tally.time(operation as usize, || call(&*self.inner))
    }
}

impl fmt::Debug for TracedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TracedFs").field(&self.inner).finish()
    }
}
