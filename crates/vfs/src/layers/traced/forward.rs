//! Every call, counted and forwarded.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::{Operation, TracedFs};
use crate::backend::{Capabilities, DirEntry, File, FileSystem, Opened};
use crate::backing::Backing;
use crate::error::{BackendResult, ErrorKind};
use crate::kit::Tally;
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::nodes::{Created, Entry, NodeId, NodeSystem, Renamed, Stale};
use crate::options::{
    Advice, Allocation, Detail, NewNode, OpenOptions, RenameMode, Seek, SyncScope, XattrMode,
};
use crate::path::VfsPath;
use crate::sharded::Shared;
use crate::storage::{Step, Storage};
use crate::watch::{WatchEvent, WatchGuard, WatchSink};

/// Methods that are timed and forwarded to what `self.time` calls with.
macro_rules! timed {
    ($($operation:ident: fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            fn $name(&self, $($argument: $type),*) -> BackendResult<$answer> {
                self.time(Operation::$operation, |inner| inner.$name($($argument),*))
            }
        )*
    };
}

#[deny(clippy::missing_trait_methods)]
impl FileSystem for TracedFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities() - Capabilities::GROUPS
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        let opened = self.time(Operation::Open, |fs| fs.open(path, options))?;
        Ok(self.traced(opened))
    }

    timed! {
        Metadata: fn metadata(path: &VfsPath) -> Metadata;
        Exists: fn exists(path: &VfsPath) -> bool;
        ReadDir: fn read_dir(
            path: &VfsPath,
            detail: Detail,
            visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>
        ) -> ();
        ReadLink: fn read_link(path: &VfsPath) -> Vec<u8>;
        Create: fn create(path: &VfsPath, node: &NewNode<'_>) -> Metadata;
        Link: fn link(from: &VfsPath, to: &VfsPath) -> Metadata;
        Rename: fn rename(from: &VfsPath, to: &VfsPath, mode: RenameMode) -> Metadata;
        RemoveFile: fn remove_file(path: &VfsPath) -> ();
        RemoveDir: fn remove_dir(path: &VfsPath) -> ();
        SetMetadata: fn set_metadata(path: &VfsPath, change: &MetadataChange) -> Metadata;
        Xattr: fn xattr(path: &VfsPath, name: &[u8]) -> Vec<u8>;
        Xattrs: fn xattrs(path: &VfsPath) -> Vec<Vec<u8>>;
        SetXattr: fn set_xattr(
            path: &VfsPath,
            name: &[u8],
            value: &[u8],
            mode: XattrMode
        ) -> ();
        RemoveXattr: fn remove_xattr(path: &VfsPath, name: &[u8]) -> ();
        Statfs: fn statfs() -> Statfs;
        Sync: fn sync() -> ();
        Watch: fn watch(path: &VfsPath, sink: Arc<dyn WatchSink>) -> WatchGuard;
        SyncDir: fn sync_dir(path: &VfsPath) -> ();
    }

    /// Not through this layer: its handles are not those of the backend below.
    fn commit(&self, _: &[Step<'_>]) -> BackendResult<()> {
        self.time(Operation::Commit, |_| Err(ErrorKind::Unsupported.into()))
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    fn nodes(&self) -> Option<&dyn NodeSystem> {
        let nodes = self.inner.nodes().map(|_| Numbered::of(self));
        nodes.map(|nodes| nodes as &dyn NodeSystem)
    }
}

/// The same layer where the backend knows its files by number.
#[derive(ref_cast::RefCast)]
#[repr(transparent)]
struct Numbered(TracedFs);

impl Numbered {
    fn of(traced: &TracedFs) -> &Numbered {
        ref_cast::RefCast::ref_cast(traced)
    }

    #[inline]
    fn time<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&dyn NodeSystem) -> BackendResult<T>,
    ) -> BackendResult<T> {
        self.0.time(operation, |fs| match fs.nodes() {
            Some(nodes) => call(nodes),
            None => Err(ErrorKind::Unsupported.into()),
        })
    }

    fn traced(&self, mut created: Created) -> Created {
        let tally = self.0.tally.share();
        created.file = Box::new(TracedFile { inner: created.file, tally });
        created
    }
}

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[deny(clippy::missing_trait_methods)]
impl NodeSystem for Numbered {
    timed! {
        NodeLookup: fn lookup(parent: NodeId, name: &[u8]) -> Entry;
        NodeMetadata: fn metadata(node: NodeId) -> Metadata;
        NodeSetMetadata: fn set_metadata(node: NodeId, change: &MetadataChange) -> Metadata;
        NodeReadLink: fn read_link(node: NodeId) -> Vec<u8>;
        NodeCreate: fn create(parent: NodeId, name: &[u8], node: &NewNode<'_>) -> Entry;
        NodeLink: fn link(node: NodeId, parent: NodeId, name: &[u8]) -> Entry;
        NodeRename: fn rename(
            from: (NodeId, &[u8]),
            to: (NodeId, &[u8]),
            mode: RenameMode
        ) -> Renamed;
        NodeRemoveFile: fn remove_file(parent: NodeId, name: &[u8]) -> Option<Metadata>;
        NodeRemoveDir: fn remove_dir(parent: NodeId, name: &[u8]) -> Option<Metadata>;
        NodeReadDir: fn read_dir(
            node: NodeId,
            detail: Detail,
            visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>
        ) -> ();
        NodeXattr: fn xattr(node: NodeId, name: &[u8]) -> Vec<u8>;
        NodeXattrs: fn xattrs(node: NodeId) -> Vec<Vec<u8>>;
        NodeSetXattr: fn set_xattr(
            node: NodeId,
            name: &[u8],
            value: &[u8],
            mode: XattrMode
        ) -> ();
        NodeRemoveXattr: fn remove_xattr(node: NodeId, name: &[u8]) -> ();
        NodeSyncDir: fn sync_dir(node: NodeId) -> ();
    }

    fn open(&self, node: NodeId, options: &OpenOptions) -> BackendResult<Opened> {
        let opened = self.time(Operation::NodeOpen, |nodes| nodes.open(node, options))?;
        Ok(self.0.traced(opened))
    }

    fn create_file(
        &self,
        parent: NodeId,
        name: &[u8],
        options: &OpenOptions,
    ) -> BackendResult<Created> {
        let created =
            self.time(Operation::NodeCreateFile, |nodes| nodes.create_file(parent, name, options))?;
        Ok(self.traced(created))
    }

    fn temporary(&self, parent: NodeId, options: &OpenOptions) -> BackendResult<Created> {
        let created =
            self.time(Operation::NodeTemporary, |nodes| nodes.temporary(parent, options))?;
        Ok(self.traced(created))
    }

    fn forget(&self, node: NodeId, count: u64) {
        if let Some(nodes) = self.0.inner.nodes() {
            nodes.forget(node, count);
        }
    }

    fn parent(&self, directory: NodeId) -> NodeId {
        self.0.inner.nodes().map_or(NodeId::ROOT, |nodes| nodes.parent(directory))
    }

    fn known(&self, path: &VfsPath) -> Option<NodeId> {
        self.0.inner.nodes()?.known(path)
    }

    fn count(
        &self,
        parent: NodeId,
        name: &[u8],
        listed: &Metadata,
    ) -> BackendResult<Option<Entry>> {
        match self.0.inner.nodes() {
            Some(nodes) => nodes.count(parent, name, listed),
            None => Ok(None),
        }
    }

    fn stale(&self, event: &WatchEvent) -> Vec<Stale> {
        self.0.inner.nodes().map_or_else(Vec::new, |nodes| nodes.stale(event))
    }

    fn stale_below(&self, path: &VfsPath, stale: &mut Vec<Stale>) {
        if let Some(nodes) = self.0.inner.nodes() {
            nodes.stale_below(path, stale);
        }
    }
}

pub(super) struct TracedFile {
    pub(super) inner: Box<dyn File>,
    pub(super) tally: Shared<Tally>,
}

impl TracedFile {
    #[inline]
    fn time<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&dyn File) -> BackendResult<T>,
    ) -> BackendResult<T> {
        self.tally.time(operation as usize, || call(&*self.inner))
    }
}

impl fmt::Debug for TracedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TracedFile").field(&self.inner).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl File for TracedFile {
    timed! {
        ReadAt: fn read_at(buf: &mut [u8], offset: u64) -> usize;
        WriteAt: fn write_at(buf: &[u8], offset: u64) -> usize;
        BytesAt: fn bytes_at(range: Range<u64>) -> Option<Bytes>;
        SetLen: fn set_len(len: u64) -> ();
        FileMetadata: fn metadata() -> Metadata;
        FileSetMetadata: fn set_metadata(change: &MetadataChange) -> Metadata;
        FileSync: fn sync(scope: SyncScope) -> ();
        Allocate: fn allocate(what: Allocation, range: Range<u64>) -> ();
        Seek: fn seek(offset: u64, what: Seek) -> u64;
        LinkTo: fn link_to(path: &VfsPath) -> ();
        FileXattr: fn xattr(name: &[u8]) -> Vec<u8>;
        FileXattrs: fn xattrs() -> Vec<Vec<u8>>;
        FileSetXattr: fn set_xattr(name: &[u8], value: &[u8], mode: XattrMode) -> ();
        FileRemoveXattr: fn remove_xattr(name: &[u8]) -> ();
        Close: fn close() -> ();
        Seal: fn seal() -> ();
    }

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        let opened = self.time(Operation::Reopen, |file| file.reopen(options))?;
        let tally = self.tally.clone();
        Ok(opened.map(|inner| Box::new(TracedFile { inner, tally })))
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.inner.advise(advice, range);
    }

    /// None: what a kernel reads and writes by itself would not be counted.
    fn backing(&self) -> Option<Backing> {
        None
    }
}
