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

use std::fmt::Debug;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::BackendResult;
use crate::metadata::{FileId, FileType, Metadata, MetadataChange, Statfs};
use crate::options::{Allocation, NewNode, OpenOptions, RenameMode, Seek, SyncScope, XattrMode};
use crate::path::VfsPath;
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
}

/// A file system: one of the places that hold files, or a layer over others.
pub trait FileSystem: Debug + Send + Sync + 'static {
    /// What it can do. The same for its whole life.
    fn capabilities(&self) -> Capabilities;

    /// Opens a regular file, or any file but a directory or symbolic link that the backend can
    /// open.
    ///
    /// # Errors
    /// - `InvalidArgument` when the options contradict themselves
    ///   ([`OpenOptions::is_valid`]), or the file is a FIFO, socket or device.
    /// - `ReadOnly` when the options need a writable backend.
    /// - `NotFound` when there is no such file and it is not to be made.
    /// - `AlreadyExists` when it is to be made new and the name is taken, by whatever.
    /// - `IsADirectory` for a directory; with `temporary`, `NotADirectory` for any other file.
    /// - `SymlinkInPath` for a symbolic link.
    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>>;

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
    /// must not call back into the backend.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    fn read_dir(
        &self,
        path: &VfsPath,
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

    /// Gives the file at `from` a second name `to`.
    ///
    /// # Errors
    /// - `Unsupported` without [`Capabilities::HARD_LINKS`].
    /// - `NotFound` when `from` is missing; `OperationNotPermitted` when it is a directory.
    /// - `AlreadyExists` when `to` is taken.
    /// - `TooManyLinks`.
    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()>;

    /// Renames, atomically: at every moment the destination names the old or the new file.
    /// Renaming a file onto another name of itself does nothing.
    ///
    /// # Errors
    /// - `Busy` when either is the root.
    /// - `Unsupported` for a mode whose capability is missing.
    /// - `NotFound` when `from` is missing, or in exchange mode `to`.
    /// - `InvalidArgument` when `to` lies below `from` (in exchange mode also the other way).
    /// - `AlreadyExists` in no-replace mode when `to` is taken.
    /// - When replacing: `IsADirectory` for a non-directory onto a directory, `NotADirectory`
    ///   the other way, `DirectoryNotEmpty` for a directory onto one with entries.
    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<()>;

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

    /// Changes metadata, of a symbolic link itself. What the backend does not keep (see
    /// [`Capabilities::MODES`], [`Capabilities::OWNERS`]) is silently left.
    ///
    /// # Errors
    /// `NotFound`; `OperationNotPermitted` where the host refuses.
    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<()>;

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
}

/// An open file. Many threads may use one handle at once; offsets are always given.
///
/// Using a handle for what it was not opened for is `BadHandle`. Short reads and writes are
/// legal, except that a read answers 0 only at the end (or for an empty buffer) and a write
/// answers 0 only for an empty buffer.
pub trait File: Debug + Send + Sync + 'static {
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

    /// Changes metadata; see [`FileSystem::set_metadata`].
    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()>;

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

    /// The host's descriptor behind this handle, for a kernel that can use it directly.
    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>>;
}
