//! One tree of layers: directories, memory and archives, stacked at mount points.

#![deny(unsafe_code)]

mod backend;
mod error;
mod metadata;
mod options;
pub mod path;
#[allow(dead_code)] // removed with its first user
mod sharded;
mod watch;

pub use backend::{Capabilities, DirEntry, File, FileSystem};
pub use error::{BackendError, BackendResult, Error, ErrorKind, Result};
pub use metadata::{
    Device, FileId, FileType, Metadata, MetadataChange, Owner, Statfs, TimeChange, Timestamp,
};
pub use options::{
    Allocation, NewNode, NodeKind, OpenOptions, RenameMode, Seek, SyncScope, XattrMode,
};
pub use path::{AsPath, VfsPath, VfsPathBuf};
pub use watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};
