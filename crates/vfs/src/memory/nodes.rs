//! The tree by numbers: a node's number is the file's.

use std::ops::ControlFlow;

use super::MemoryFs;
use super::changes::Made;
use super::file::{MemoryFile, open_or_make, reopen};
use super::store::{Hold, Subject, Way};
use super::sync::Ordering;
use crate::backend::{DirEntry, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange};
use crate::nodes::{Created, Entry, NodeId, NodeSystem, Renamed, Stale};
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;

impl MemoryFs {
    /// A handle and the number of its node, counted.
    fn created(
        &self,
        parent: NodeId,
        hold: Hold,
        made: bool,
        options: &OpenOptions,
    ) -> BackendResult<Created> {
        let file = MemoryFile::boxed(self.store.share(), hold, options);
        let metadata = file.metadata()?;
        // The handle keeps it meanwhile.
        self.store.hold_number_too(hold);
        let parent = made.then(|| self.store.directory(parent)).flatten();
        Ok(Created { entry: Entry { node: hold.node, metadata, parent }, file, made })
    }
}

impl NodeSystem for MemoryFs {
    fn lookup(&self, parent: NodeId, name: &[u8]) -> BackendResult<Entry> {
        let place = self.store.place(Way::Name(parent, name))?;
        loop {
            let found = self.store.names.find(place.directory, &place.name);
            let node = found.ok_or(ErrorKind::NotFound)?.node;
            if self.store.hold_number(node) {
                return Ok(Entry { node, metadata: self.metadata(node)?, parent: None });
            }
        }
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.store.forget_number(node, count);
    }

    fn parent(&self, directory: NodeId) -> NodeId {
        let parent = self.store.known(directory).map(|node| node.parent.load(Ordering::Relaxed));
        match parent.map(NodeId) {
            Ok(NodeId::NONE) | Err(_) => NodeId::ROOT,
            Ok(parent) => parent,
        }
    }

    fn known(&self, path: &VfsPath) -> Option<NodeId> {
        self.store.find(path).ok().flatten().map(|found| found.node)
    }

    fn metadata(&self, node: NodeId) -> BackendResult<Metadata> {
        self.store.with_node(Subject::Node(node), |id, node| node.metadata(id))
    }

    fn set_metadata(&self, node: NodeId, change: &MetadataChange) -> BackendResult<Metadata> {
        self.store.set_metadata(Subject::Node(node), change)
    }

    fn read_link(&self, node: NodeId) -> BackendResult<Vec<u8>> {
        self.store.read_link(Subject::Node(node))
    }

    fn open(&self, node: NodeId, options: &OpenOptions) -> BackendResult<Opened> {
        let existing = options.existing();
        if options.truncate && options.is_valid() {
            let opened = self.open(node, &existing)?;
            opened.file.set_len(0)?;
            return Opened::new(opened.file, false, options);
        }
        let hold = reopen(&self.store, node, &existing)?;
        Opened::new(MemoryFile::boxed(self.store.share(), hold, options), false, options)
    }

    fn create_file(
        &self,
        parent: NodeId,
        name: &[u8],
        options: &OpenOptions,
    ) -> BackendResult<Created> {
        if !options.is_valid() || options.temporary {
            return Err(ErrorKind::InvalidArgument.into());
        }
        let (hold, made) = open_or_make(&self.store, Way::Name(parent, name), options)?;
        self.created(parent, hold, made, options)
    }

    fn temporary(&self, parent: NodeId, options: &OpenOptions) -> BackendResult<Created> {
        let options = options.temporary(true);
        if !options.is_valid() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if !self.store.known(parent)?.file_type().is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let hold = self.store.create_temporary(parent, &options)?;
        self.created(parent, hold, true, &options)
    }

    fn create(&self, parent: NodeId, name: &[u8], node: &NewNode<'_>) -> BackendResult<Entry> {
        let Made { metadata, parent } = self.store.create(Way::Name(parent, name), node, true)?;
        Ok(Entry { node: NodeId(metadata.id.0), metadata, parent })
    }

    fn link(&self, node: NodeId, parent: NodeId, name: &[u8]) -> BackendResult<Entry> {
        let metadata = self.store.link_held(node, Way::Name(parent, name), true)?;
        match self.store.hold_number(node) {
            true => Ok(Entry { node, metadata, parent: self.store.directory(parent) }),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    fn rename(
        &self,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        mode: RenameMode,
    ) -> BackendResult<Renamed> {
        let (from_way, to_way) = (Way::Name(from.0, from.1), Way::Name(to.0, to.1));
        let moved = self.store.rename(from_way, to_way, mode)?;
        let parents = [from.0, to.0].map(|directory| self.store.directory(directory));
        let node = NodeId(moved.metadata.id.0);
        Ok(Renamed { metadata: moved.metadata, moved: [Some(node), moved.exchanged], parents })
    }

    fn remove_file(&self, parent: NodeId, name: &[u8]) -> BackendResult<Option<Metadata>> {
        let directory = self.store.remove_file(Way::Name(parent, name))?;
        Ok(self.store.directory(directory))
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> BackendResult<Option<Metadata>> {
        let directory = self.store.remove_dir(Way::Name(parent, name))?;
        Ok(self.store.directory(directory))
    }

    fn read_dir(
        &self,
        node: NodeId,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let directory = self.store.known(node)?;
        if directory.file_type() != FileType::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        match self.store.read_dir(node, detail, visit) {
            // Removed: it lists nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }

    fn count(&self, _: NodeId, _: &[u8], listed: &Metadata) -> BackendResult<Option<Entry>> {
        let node = NodeId(listed.id.0);
        Ok(self.store.hold_number(node).then_some(Entry { node, metadata: *listed, parent: None }))
    }

    fn xattr(&self, node: NodeId, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.store.xattr(Subject::Node(node), name)
    }

    fn xattrs(&self, node: NodeId) -> BackendResult<Vec<Vec<u8>>> {
        self.store.xattrs(Subject::Node(node))
    }

    fn set_xattr(
        &self,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.store.set_xattr(Subject::Node(node), name, value, mode)
    }

    fn remove_xattr(&self, node: NodeId, name: &[u8]) -> BackendResult<()> {
        self.store.remove_xattr(Subject::Node(node), name)
    }

    /// Nothing to do: there is no medium.
    fn sync_dir(&self, _: NodeId) -> BackendResult<()> {
        Ok(())
    }

    /// Memory loses no reports.
    fn stale_below(&self, _: &VfsPath, _: &mut Vec<Stale>) {}
}
