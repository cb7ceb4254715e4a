//! One tree of layers: directories, memory and archives, stacked at mount points.

#![deny(unsafe_code)]

mod api;
#[cfg(feature = "archive")]
pub mod archive;
mod backend;
mod error;
mod handle;
mod layers;
#[cfg(feature = "archive")]
mod mapping;
mod memory;
mod metadata;
mod mount;
mod native;
mod options;
mod overlay;
pub mod path;
mod sharded;
mod watch;

#[cfg(feature = "glob")]
pub use api::Glob;
pub use api::{DirList, FileStream, VfsFile, Walk, WalkEntry};
#[cfg(feature = "archive")]
pub use archive::ArchiveFs;
pub use backend::{Capabilities, DirEntry, File, FileSystem};
pub use error::{BackendError, BackendResult, Error, ErrorKind, Result};
pub use layers::{ReadOnlyFs, SubdirFs};
pub use memory::{MemoryFs, MemoryOptions};
pub use metadata::{
    Device, FileId, FileType, Metadata, MetadataChange, Owner, Statfs, TimeChange, Timestamp,
};
pub use mount::{MountId, MountOptions, Vfs};
#[cfg(target_os = "linux")]
pub use native::{NativeFs, NativeOptions};
pub use options::{
    Allocation, NewNode, NodeKind, OpenOptions, RenameMode, Seek, SyncScope, XattrMode,
};
pub use overlay::{Change, ChangeKind, OverlayBuilder, OverlayFs};
pub use path::{AsPath, VfsPath, VfsPathBuf};
pub use watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};

/// The pages whose examples are run with the tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/semantics.md")]
    mod semantics {}
}
