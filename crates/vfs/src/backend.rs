//! The contract between backends and everything that stands on them.
//!
//! [`FileSystem`] and [`File`] are for implementers: few methods, no conveniences, `&self`
//! throughout, blocking. Callers use [`Vfs`](crate::Vfs), which any backend becomes by
//! mounting it.
//!
//! # Rules that hold for every method
//! - Paths are normal (see [`VfsPath`]); the empty path is the backend's root, a directory
//!   that always exists.
//! - A backend never follows a symbolic link. One at the end of a path is the subject itself;
//!   one before the end is answered by [`SymlinkInPath`](crate::ErrorKind::SymlinkInPath), and whoever resolves
//!   paths reads the link and asks again.
//! - Errors are listed in order of precedence. Three come before all others and are not
//!   repeated: `SymlinkInPath`, then `NotADirectory` when a component before the last is
//!   neither a directory nor a symbolic link, then `NotFound` when one before the last is
//!   missing. `ReadOnly` comes next, before any other, for every method that changes something
//!   on a backend without [`Capabilities::WRITE`]; `Unsupported` next where the capability
//!   named is missing. A backend without `WRITE` need not look at a second path. `Io`, `NoSpace`, `Corrupt` and the like may come from any method.
//! - A failed call changed nothing, unless its documentation says otherwise.
//! - Permission bits are stored, not enforced: the host enforces them for the native backend,
//!   the kernel for a mount.
//! - What one call has changed, every later call of any thread sees.
//!
//! # Answers
//! A call answers what its backend learnt while it worked, so that nobody has to ask again:
//! opening says whether it made the file, linking, renaming and changing metadata answer the
//! metadata that is true afterwards. What costs a backend something extra is answered when it is
//! asked for ([`OpenOptions::metadata`], [`Detail::Metadata`]), and then always.
//!
//! # How the traits grow
//! A method without a body is part of what makes a backend; there will be no new ones. A method
//! with a body is an ability that a backend may have: the body is right for every backend that
//! has not heard of it, if slower or refusing. So a backend of somebody else compiles with every
//! later version. A *layer* must forward all of them, or it silently hides what lies beneath:
//! deny `clippy::missing_trait_methods` on its `impl`, as the layers of this crate do.

use std::any::Any;
use std::fmt::Debug;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::backing::Backing;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileId, FileType, Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{
    Advice, Allocation, Detail, NewNode, OpenOptions, RenameMode, Seek, SyncScope, XattrMode,
};
use crate::path::VfsPath;
use crate::storage::{Step, Storage};
use crate::watch::{WatchGuard, WatchSink};

bitflags::bitflags! {
    /// What a backend can do. A layer states its own, from those of what it stands on.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Capabilities: u32 {
        /// Something can be changed.
        const WRITE = 1 << 0;
        /// Hard links ([`FileSystem::link`]).
        const HARD_LINKS = 1 << 1;
        /// Symbolic links can be made.
        const SYMLINKS = 1 << 2;
        /// FIFOs, sockets and device nodes can be made.
        const SPECIAL_NODES = 1 << 3;
        /// Extended attributes can be set.
        const XATTRS = 1 << 4;
        /// Permission bits are kept.
        const MODES = 1 << 5;
        /// Owners are kept.
        const OWNERS = 1 << 6;
        /// Whiteouts can be made and are shown as [`FileType::Whiteout`].
        const WHITEOUTS = 1 << 7;
        /// Holes take no storage, and [`File::seek`] finds them.
        const SPARSE = 1 << 8;
        /// [`RenameMode::Exchange`] works.
        const EXCHANGE = 1 << 9;
        /// [`OpenOptions::temporary`] and [`File::link_to`] work.
        const TEMPORARY = 1 << 10;
        /// [`FileId`]s are the same after the backend is opened again.
        const STABLE_IDS = 1 << 11;
        /// Nothing here ever changes: answers may be kept for ever.
        const IMMUTABLE = 1 << 12;
        /// Changes are reported ([`FileSystem::watch`]).
        const WATCH = 1 << 13;
        /// A sync that returned survives the loss of power.
        const DURABLE = 1 << 14;
        /// [`FileSystem::commit`] works.
        const GROUPS = 1 << 15;
        /// What is wrong with a write may be told as late as by [`File::close`]: who wants to
        /// know calls it.
        const LATE_ERRORS = 1 << 16;
        /// No call waits for a disk, a network or another process.
        const PROMPT = 1 << 17;
    }
}

/// One entry of a directory, lent for the time of a visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub file_type: FileType,
    /// Which file it is.
    pub id: FileId,
    /// What is known of it, of a symbolic link itself; there when it was asked for
    /// ([`Detail::Metadata`]).
    pub metadata: Option<&'a Metadata>,
}

/// What opening a file answers.
#[derive(Debug)]
pub struct Opened {
    /// The handle.
    pub file: Box<dyn File>,
    /// Whether this call made the file.
    pub made: bool,
    /// What is known of the file; there when it was asked for ([`OpenOptions::metadata`]).
    pub metadata: Option<Box<Metadata>>,
}

impl Opened {
    /// The answer for a handle, with metadata if the options ask for it.
    ///
    /// # Errors
    /// As [`File::metadata`].
    #[inline]
    pub fn new(file: Box<dyn File>, made: bool, options: &OpenOptions) -> BackendResult<Self> {
        let metadata = if options.metadata { Some(Box::new(file.metadata()?)) } else { None };
        Ok(Opened { file, made, metadata })
    }

    /// The same with another handle in place of this one, for layers that wrap.
    #[inline]
    #[must_use]
    pub fn map(mut self, wrap: impl FnOnce(Box<dyn File>) -> Box<dyn File>) -> Self {
        self.file = wrap(self.file);
        self
    }
}

/// A file system: one of the places that hold files, or a layer over others.
pub trait FileSystem: Debug + Send + Sync + 'static {
    /// What it can do. The same for its whole life: doors and layers keep the answer.
    fn capabilities(&self) -> Capabilities;

    /// Opens a regular file; with [`OpenOptions::reference`] whatever has the name.
    ///
    /// # Errors
    /// - `InvalidArgument` when the options contradict themselves
    ///   ([`OpenOptions::is_valid`]), or the file is a FIFO, socket or device (not for a
    ///   reference).
    /// - `ReadOnly` when the options need a writable backend.
    /// - `NotFound` when there is no such file and it is not to be made.
    /// - `AlreadyExists` when it is to be made new and the name is taken, by whatever.
    /// - `IsADirectory` for a directory (not for a reference); with `temporary`, `NotADirectory`
    ///   for any other file.
    /// - `SymlinkInPath` for a symbolic link (not for a reference).
    /// - `Unsupported` for a reference, by a backend that has none.
    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened>;

    /// What is known of the file, of a symbolic link itself.
    ///
    /// # Errors
    /// `NotFound`. A miss allocates nothing.
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata>;

    /// Whether something has this name (a whiteout is something). Where any component is
    /// missing or not a directory the answer is `false`, not an error, so that a backend with
    /// an index answers a miss by one probe.
    ///
    /// # Errors
    /// `SymlinkInPath`.
    fn exists(&self, path: &VfsPath) -> BackendResult<bool>;

    /// Calls `visit` for each entry, without `.` and `..`, in any order, until it breaks.
    /// Entries that are neither made nor removed meanwhile are visited exactly once. `visit`
    /// must not call back into the backend. With [`Detail::Metadata`] every entry brings its
    /// metadata; one that goes meanwhile is left out.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` when it is no symbolic link.
    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>>;

    /// Makes a node that is not a regular file ([`open`](Self::open) makes those).
    ///
    /// # Errors
    /// - `Unsupported` without the capability for this kind of node.
    /// - `AlreadyExists` when the name is taken (the root is always taken).
    /// - For a whiteout only: `DirectoryNotEmpty` when a directory with entries has the name.
    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata>;

    /// Gives the file at `from` a second name `to`; answers what is known of the file then.
    ///
    /// # Errors
    /// - `Unsupported` without [`Capabilities::HARD_LINKS`].
    /// - `NotFound` when `from` is missing; `OperationNotPermitted` when it is a directory.
    /// - `AlreadyExists` when `to` is taken.
    /// - `TooManyLinks`.
    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata>;

    /// Renames, atomically: at every moment the destination names the old or the new file.
    /// Renaming a file onto another name of itself does nothing. Answers what is known of what
    /// `to` names then.
    ///
    /// # Errors
    /// - `Busy` when either is the root.
    /// - `Unsupported` for a mode whose capability is missing.
    /// - `NotFound` when `from` is missing, or in exchange mode `to`.
    /// - `InvalidArgument` when `to` lies below `from` (in exchange mode also the other way).
    /// - `AlreadyExists` in no-replace mode when `to` is taken.
    /// - When replacing: `IsADirectory` for a non-directory onto a directory, `NotADirectory`
    ///   the other way, `DirectoryNotEmpty` for a directory onto one with entries.
    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata>;

    /// Removes a name that is not a directory. Open handles keep the file.
    ///
    /// # Errors
    /// `NotFound`; `IsADirectory`.
    fn remove_file(&self, path: &VfsPath) -> BackendResult<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `Busy` for the root; `NotFound`; `NotADirectory`; `DirectoryNotEmpty`.
    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()>;

    /// Changes metadata, of a symbolic link itself, and answers what is known then. What the
    /// backend does not keep (see [`Capabilities::MODES`], [`Capabilities::OWNERS`]) is silently
    /// left.
    ///
    /// # Errors
    /// `NotFound`; for a new length `IsADirectory`, `InvalidArgument` when it is no regular file,
    /// and as [`File::set_len`]; `OperationNotPermitted` where the host refuses.
    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata>;

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NotFound`; `NoAttribute`, also on a backend without [`Capabilities::XATTRS`].
    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>>;

    /// The names of all extended attributes, in any order.
    ///
    /// # Errors
    /// `NotFound`.
    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>>;

    /// Sets an extended attribute. Names have up to 255 bytes, values up to 65,536.
    ///
    /// # Errors
    /// `Unsupported` without [`Capabilities::XATTRS`]; `NotFound`; `TooLarge`;
    /// `AlreadyExists` or `NoAttribute` as the mode says.
    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `Unsupported` without [`Capabilities::XATTRS`]; `NotFound`; `NoAttribute`.
    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()>;

    /// Room of the whole backend.
    fn statfs(&self) -> BackendResult<Statfs>;

    /// When it returns, everything that calls before it changed is on the medium, as far as
    /// [`Capabilities::DURABLE`] says.
    fn sync(&self) -> BackendResult<()>;

    /// Reports changes at and below `path` to `sink` until the guard is dropped.
    ///
    /// # Errors
    /// `Unsupported` without [`Capabilities::WATCH`], whatever the path; `NotFound`.
    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard>;

    /// When it returns, the names that calls before it made or took away in the directory are on
    /// the medium, as far as [`Capabilities::DURABLE`] says; contents and metadata of the files
    /// need not be.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`.
    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.metadata(path)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        self.sync()
    }

    /// Makes several changes, in their order, that the loss of power leaves all or none of. Other
    /// callers may see them one after another. It waits for the medium like a sync.
    ///
    /// # Errors
    /// `Unsupported` without [`Capabilities::GROUPS`]; `InvalidArgument` for a handle of another
    /// backend; as the steps. None was made then.
    fn commit(&self, steps: &[Step<'_>]) -> BackendResult<()> {
        let _ = steps;
        Err(ErrorKind::Unsupported.into())
    }

    /// What a writer may rely on when the power goes in the middle of a write. The same for the
    /// backend's whole life.
    fn storage(&self) -> Storage {
        Storage::UNKNOWN
    }

    /// The same tree with its files named by number, where it knows them so.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}

/// An open file. Many threads may use one handle at once; offsets are always given.
///
/// Using a handle for what it was not opened for is `BadHandle`. Short reads and writes are
/// legal, except that a read answers 0 only at the end (or for an empty buffer) and a write
/// answers 0 only for an empty buffer.
///
/// A handle ends when it is dropped, which cannot fail. Who wants to know whether all went well
/// calls [`close`](Self::close) before.
pub trait File: Any + Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 at or after the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize>;

    /// Writes up to `buf.len()` bytes at `offset`; a gap behind the old end reads as zeros. On
    /// a handle opened to append, the offset is ignored: all of `buf` goes to the end in one
    /// step, or none.
    ///
    /// # Errors
    /// `NoSpace`; `FileTooLarge`.
    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize>;

    /// The bytes of the range (cut at the end of the file) as a shared slice that stays as it
    /// is, where that costs no copy; else `None`, and the caller reads.
    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>>;

    /// Cuts, or lengthens by a hole.
    ///
    /// # Errors
    /// `FileTooLarge`; `NoSpace`.
    fn set_len(&self, len: u64) -> BackendResult<()>;

    /// What is known of the file, also when its last name is gone.
    fn metadata(&self) -> BackendResult<Metadata>;

    /// Changes metadata and answers what is known then; see [`FileSystem::set_metadata`]. A new
    /// length needs a handle that may write, anything else none.
    ///
    /// # Errors
    /// `BadHandle`; else as there.
    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<Metadata>;

    /// When it returns, what the scope names is on the medium, as far as
    /// [`Capabilities::DURABLE`] says.
    fn sync(&self, scope: SyncScope) -> BackendResult<()>;

    /// Reserves or gives back storage.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty range; `Unsupported`; `NoSpace`; `FileTooLarge`.
    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()>;

    /// Finds data or a hole. A backend that keeps no holes has data up to the end.
    ///
    /// # Errors
    /// `NoSuchOffset` when `offset` is at or behind the end, or there is no data after it.
    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64>;

    /// Gives a temporary file its first name, durable as any other from then on.
    ///
    /// # Errors
    /// `Unsupported` without [`Capabilities::TEMPORARY`], or for a handle that was not opened
    /// as temporary; `NotFound`, `NotADirectory` for the parent; `AlreadyExists`.
    fn link_to(&self, path: &VfsPath) -> BackendResult<()>;

    /// Another handle on the same file, whatever name it has, or none; of a temporary file one
    /// that may name it as well. The options neither make nor cut anything.
    ///
    /// # Errors
    /// As [`FileSystem::open`] of a file that exists; `InvalidArgument` for other options;
    /// `Unsupported` where the backend cannot.
    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        let _ = options;
        Err(ErrorKind::Unsupported.into())
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// As [`FileSystem::xattr`]; `Unsupported` where the backend cannot do this by a handle.
    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        let _ = name;
        Err(ErrorKind::Unsupported.into())
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// As [`xattr`](Self::xattr), without `NoAttribute`.
    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As [`FileSystem::set_xattr`]; `Unsupported` where the backend cannot do this by a handle.
    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
        let _ = (name, value, mode);
        Err(ErrorKind::Unsupported.into())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`FileSystem::remove_xattr`]; `Unsupported` where the backend cannot do this by a
    /// handle.
    fn remove_xattr(&self, name: &[u8]) -> BackendResult<()> {
        let _ = name;
        Err(ErrorKind::Unsupported.into())
    }

    /// What will be read, or will not be for a while: a hint, which changes no answer.
    fn advise(&self, advice: Advice, range: Range<u64>) {
        let _ = (advice, range);
    }

    /// The caller has done with this handle: answers what is wrong with writes that were answered
    /// as good. What is written need not be durable. The handle can be used and closed again.
    ///
    /// # Errors
    /// `Io`, `NoSpace` and the like, of a backend with [`Capabilities::LATE_ERRORS`].
    fn close(&self) -> BackendResult<()> {
        Ok(())
    }

    /// The file is finished: the caller knows of no further change. A backend may then do what
    /// costs too much while a file grows (hash, compress, pack). It promises nothing, and a
    /// later write is as legal as ever.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    fn seal(&self) -> BackendResult<()> {
        Ok(())
    }

    /// Where a kernel may read and write the file by itself; see [`Backing`] for what that binds
    /// both sides to. `None`: all bytes go through this handle.
    fn backing(&self) -> Option<Backing> {
        None
    }
}
