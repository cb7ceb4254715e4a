//! A virtual file system of layers: directories, memory and archives stacked into one tree.
//!
//! ```
//! use std::sync::Arc;
//! use stratafs::{MemoryFs, MountOptions, Vfs};
//!
//! let vfs = Vfs::new();
//! vfs.mount("saves", Arc::new(MemoryFs::new()), MountOptions::new())?;
//! vfs.write("saves/slot-1", "level 3")?;
//! assert_eq!(vfs.read_to_string("saves/slot-1")?, "level 3");
//! # Ok::<(), stratafs::Error>(())
//! ```
//!
//! [`Vfs`] is the tree, with the calls of `std::fs` on it; [`VfsFile`] an open file.
//! [`NativeFs`], [`MemoryFs`], [`archive::ArchiveFs`] and `zip::ZipFs` are backends, things to mount;
//! [`OverlayFs`], [`ReadOnlyFs`], [`SubdirFs`] and others are layers over them. Who writes a
//! backend of their own implements [`FileSystem`] and [`File`]; the rules stand there.
//!
//! # Rules
//! - Paths are bytes, relative to the root of the tree; see [`path`].
//! - All calls block, all take `&self`, and all may be made from many threads at once. Looking
//!   up and reading take no lock.
//! - Errors name operation, path and kind, and convert into [`std::io::Error`].
//! - The features `archive`, `zip`, `watch` and `glob` are on by default; `zstd` brings a C
//!   library and is not.

#![deny(unsafe_code)]

mod api;
#[cfg(feature = "archive")]
pub mod archive;
mod backend;
mod backing;
mod clock;
mod errno;
mod error;
pub mod kit;
mod layers;
#[cfg(any(feature = "archive", feature = "zip"))]
mod mapping;
mod memory;
mod metadata;
mod mount;
mod native;
mod nodes;
mod options;
mod overlay;
pub mod path;
mod sharded;
#[cfg(any(feature = "archive", feature = "zip"))]
mod source;
mod storage;
mod watch;
#[cfg(feature = "zip")]
pub mod zip;

#[cfg(feature = "zip")]
pub use self::zip::ZipFs;
#[cfg(feature = "glob")]
pub use api::Glob;
pub use api::{DirList, FileStream, VfsFile, Walk, WalkEntry};
#[cfg(feature = "archive")]
pub use archive::ArchiveFs;
pub use backend::{Capabilities, DirEntry, File, FileSystem, Opened};
pub use backing::Backing;
pub use clock::Clock;
pub use error::{BackendError, BackendResult, Error, ErrorKind, Result};
pub use kit::{Trace, TraceRow};
pub use layers::{CaseFoldFs, ReadOnlyFs, SubdirFs, TracedFs};
pub use memory::{MemoryFs, MemoryOptions};
pub use metadata::{
    Device, FileId, FileType, Metadata, MetadataChange, Owner, Statfs, TimeChange, Timestamp,
};
pub use mount::{MountId, MountOptions, Vfs};
#[cfg(target_os = "linux")]
pub use native::{NativeFs, NativeOptions};
pub use nodes::{Created, Entry, NodeId, NodeSystem, PathNodes, Renamed, Stale};
pub use options::{
    Advice, Allocation, Detail, NewNode, NodeKind, OpenOptions, RenameMode, Seek, SyncScope,
    XattrMode,
};
pub use overlay::{
    Change, ChangeKind, Conflict, ConflictKind, Conflicts, OverlayBuilder, OverlayFs,
};
pub use path::{AsPath, VfsPath, VfsPathBuf};
pub use storage::{Step, Storage};
pub use watch::{WatchEvent, WatchGuard, WatchKind, WatchSink, Watches};

/// The pages whose examples are run with the tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/semantics.md")]
    mod semantics {}
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}
