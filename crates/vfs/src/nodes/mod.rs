//! Trees that know their files by number.
//!
//! [`NodeSystem`] is the optional sibling of [`FileSystem`](crate::FileSystem), reached by
//! [`FileSystem::nodes`](crate::FileSystem::nodes). A door whose caller names files by number (a
//! kernel) needs no path then: nothing is walked from the root, nothing goes out of date when a
//! directory above is renamed, trees may be deeper than any path is long, and a file whose name is
//! gone is asked as any other. [`PathNodes`] makes one of every other file system.

mod path;
mod table;

use std::fmt::Debug;
use std::ops::ControlFlow;

use crate::backend::{DirEntry, File, Opened};
use crate::error::BackendResult;
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::watch::{WatchEvent, WatchKind};

pub use path::PathNodes;

/// The number of a file, while somebody counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root of every tree.
    pub const ROOT: NodeId = NodeId(1);
}

/// What a name in a directory leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The number of the file.
    pub node: NodeId,
    /// What is known of it, of a symbolic link itself.
    pub metadata: Metadata,
    /// Of a call that made the name: what is known of the directory then, where it was at hand.
    pub parent: Option<Metadata>,
}

/// What a rename answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renamed {
    /// What is known of what has the new name.
    pub metadata: Metadata,
    /// What has moved: what has the new name now, and in exchange mode what has the old one; as
    /// far as the numbers are known.
    pub moved: [Option<NodeId>; 2],
    /// What is known of the directories of the old and the new name then, where it was at hand.
    pub parents: [Option<Metadata>; 2],
}

/// What making or opening a file by name answers.
#[derive(Debug)]
pub struct Created {
    /// The file.
    pub entry: Entry,
    /// A handle on it.
    pub file: Box<dyn File>,
    /// Whether this call made it.
    pub made: bool,
}

/// Something that is true no longer of what somebody learnt by number.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stale {
    /// What a name in a directory leads to.
    Entry(NodeId, Vec<u8>),
    /// The metadata of a node.
    Metadata(NodeId),
    /// The metadata and contents of a node; of a directory its listing.
    Contents(NodeId),
}

/// A tree by numbers.
///
/// # Numbers
/// [`lookup`](Self::lookup), [`create_file`](Self::create_file), [`create`](Self::create),
/// [`temporary`](Self::temporary) and [`link`](Self::link) answer a number and *count* it once for
/// the caller, who may use it until it has given as many counts back by
/// [`forget`](Self::forget). Till then the number means the same file, whatever becomes of its
/// names: it is kept, as by an open handle. The root needs no count.
///
/// # Rules
/// Those of [`FileSystem`](crate::FileSystem), with numbers in place of paths: no broken way comes
/// before an error, since there is no way. A name has no slash, is not empty, `.` or `..`, and has
/// up to 255 bytes (`NameTooLong`). A number that is no directory, where one is needed, is
/// `NotADirectory`; a directory that was removed has no names and gets none (`NotFound`). A number
/// that is not known is `Stale`. Handles and metadata are those of the file system.
///
/// A name leads to a file only by exactly its bytes, and what is made has no extended attributes:
/// who makes a directory knows what it holds.
pub trait NodeSystem: Debug + Send + Sync {
    /// What a name in a directory leads to. Counts it.
    ///
    /// # Errors
    /// `NotFound`. A miss allocates nothing.
    fn lookup(&self, parent: NodeId, name: &[u8]) -> BackendResult<Entry>;

    /// Gives `count` counts back.
    fn forget(&self, node: NodeId, count: u64);

    /// The directory that holds a directory, the root for the root and for one that was removed.
    fn parent(&self, directory: NodeId) -> NodeId;

    /// The number of what a path names, if it is known by a number, not counted.
    fn known(&self, path: &VfsPath) -> Option<NodeId>;

    /// As [`FileSystem::metadata`](crate::FileSystem::metadata).
    ///
    /// # Errors
    /// None of its own.
    fn metadata(&self, node: NodeId) -> BackendResult<Metadata>;

    /// As [`FileSystem::set_metadata`](crate::FileSystem::set_metadata).
    ///
    /// # Errors
    /// As there.
    fn set_metadata(&self, node: NodeId, change: &MetadataChange) -> BackendResult<Metadata>;

    /// As [`FileSystem::read_link`](crate::FileSystem::read_link).
    ///
    /// # Errors
    /// `InvalidArgument` when it is no symbolic link.
    fn read_link(&self, node: NodeId) -> BackendResult<Vec<u8>>;

    /// Opens a file; the options make none. As [`FileSystem::open`](crate::FileSystem::open) of
    /// one that exists.
    ///
    /// # Errors
    /// As there.
    fn open(&self, node: NodeId, options: &OpenOptions) -> BackendResult<Opened>;

    /// Opens a file by name, and makes it where there is none; the options say `create` or
    /// `create_new`. As [`FileSystem::open`](crate::FileSystem::open). Counts it.
    ///
    /// # Errors
    /// As there.
    fn create_file(
        &self,
        parent: NodeId,
        name: &[u8],
        options: &OpenOptions,
    ) -> BackendResult<Created>;

    /// Makes a file without a name, for the directory; [`link`](Self::link) may name it. Counts
    /// it.
    ///
    /// # Errors
    /// `Unsupported` without [`TEMPORARY`](crate::Capabilities::TEMPORARY).
    fn temporary(&self, parent: NodeId, options: &OpenOptions) -> BackendResult<Created>;

    /// Makes a node that is not a regular file. As [`FileSystem::create`](crate::FileSystem::create).
    /// Counts it.
    ///
    /// # Errors
    /// As there.
    fn create(&self, parent: NodeId, name: &[u8], node: &NewNode<'_>) -> BackendResult<Entry>;

    /// Gives a file a name, a further one, or the first of a temporary file; one that has lost
    /// its last name may be refused (`NotFound`). As [`FileSystem::link`](crate::FileSystem::link). Answers
    /// and counts what has the name then, which a backend that breaks links up may have given
    /// another number.
    ///
    /// # Errors
    /// As there.
    fn link(&self, node: NodeId, parent: NodeId, name: &[u8]) -> BackendResult<Entry>;

    /// As [`FileSystem::rename`](crate::FileSystem::rename).
    ///
    /// # Errors
    /// As there.
    fn rename(
        &self,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        mode: RenameMode,
    ) -> BackendResult<Renamed>;

    /// As [`FileSystem::remove_file`](crate::FileSystem::remove_file). Answers what is known of
    /// the directory then, where it is at hand.
    ///
    /// # Errors
    /// As there.
    fn remove_file(&self, parent: NodeId, name: &[u8]) -> BackendResult<Option<Metadata>>;

    /// As [`FileSystem::remove_dir`](crate::FileSystem::remove_dir). Answers as
    /// [`remove_file`](Self::remove_file).
    ///
    /// # Errors
    /// As there.
    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> BackendResult<Option<Metadata>>;

    /// As [`FileSystem::read_dir`](crate::FileSystem::read_dir); of a directory that was removed,
    /// nothing. Counts nothing.
    ///
    /// # Errors
    /// `NotADirectory`.
    fn read_dir(
        &self,
        node: NodeId,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()>;

    /// Counts an entry that a listing brought with metadata, as a lookup of its name would; the
    /// entry as it is now, or `None` where the name leads elsewhere or nowhere by now. For who
    /// hands a listing on with numbers.
    ///
    /// # Errors
    /// What the backend meets.
    fn count(&self, parent: NodeId, name: &[u8], listed: &Metadata)
    -> BackendResult<Option<Entry>>;

    /// As [`FileSystem::xattr`](crate::FileSystem::xattr).
    ///
    /// # Errors
    /// As there.
    fn xattr(&self, node: NodeId, name: &[u8]) -> BackendResult<Vec<u8>>;

    /// As [`FileSystem::xattrs`](crate::FileSystem::xattrs).
    ///
    /// # Errors
    /// None of its own.
    fn xattrs(&self, node: NodeId) -> BackendResult<Vec<Vec<u8>>>;

    /// As [`FileSystem::set_xattr`](crate::FileSystem::set_xattr).
    ///
    /// # Errors
    /// As there.
    fn set_xattr(
        &self,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()>;

    /// As [`FileSystem::remove_xattr`](crate::FileSystem::remove_xattr).
    ///
    /// # Errors
    /// As there.
    fn remove_xattr(&self, node: NodeId, name: &[u8]) -> BackendResult<()>;

    /// As [`FileSystem::sync_dir`](crate::FileSystem::sync_dir).
    ///
    /// # Errors
    /// `NotADirectory`.
    fn sync_dir(&self, node: NodeId) -> BackendResult<()>;

    /// What a report of the file system makes untrue of what was learnt by number. What nobody
    /// knows by number may be named as well; a change that who learnt made itself need not.
    fn stale(&self, event: &WatchEvent) -> Vec<Stale> {
        let mut stale = Vec::new();
        match event.kind {
            WatchKind::Created | WatchKind::Removed => {
                if let Some((directory, name)) = event.path.split_last()
                    && let Some(directory) = self.known(directory)
                {
                    stale.push(Stale::Metadata(directory));
                    stale.push(Stale::Entry(directory, name.to_vec()));
                }
                stale.extend(self.known(&event.path).map(Stale::Metadata));
            }
            WatchKind::Modified => stale.extend(self.known(&event.path).map(Stale::Contents)),
            WatchKind::Metadata => stale.extend(self.known(&event.path).map(Stale::Metadata)),
            WatchKind::Overflow => self.stale_below(&event.path, &mut stale),
        }
        stale
    }

    /// Everything known at and below a path, where reports of it were lost.
    fn stale_below(&self, path: &VfsPath, stale: &mut Vec<Stale>);
}
