//! Numbers for a file system that knows paths.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::table::{Route, Table};
use super::{Created, Entry, NodeId, NodeSystem, Renamed, Stale};
use crate::backend::{DirEntry, File, FileSystem, Opened};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};
use crate::watch::{WatchEvent, WatchKind};

/// Any file system by numbers: a table of the names by which files were found gives the path back
/// that a number stands for. A file whose last name is taken away through this adapter is held by
/// a [reference](OpenOptions::reference) (where the file system has none, by an open handle) and
/// served by that as long as it is counted.
///
/// One that loses its name by other ways is `Stale`, which makes a kernel look the name up again.
///
/// # Cost
/// Each call builds a path, one name for each directory on the way. Removing a file, or replacing
/// one by a rename, opens it first.
#[derive(Debug)]
pub struct PathNodes {
    fs: Arc<dyn FileSystem>,
    table: Table,
}

impl PathNodes {
    /// Numbers for this file system.
    ///
    /// # Errors
    /// What asking for the root's metadata meets.
    pub fn new(fs: Arc<dyn FileSystem>) -> BackendResult<Self> {
        let table = Table::new(&fs.metadata(VfsPath::root())?);
        Ok(PathNodes { fs, table })
    }

    /// Calls the file system with the node's path, or what is held of it once it has no name.
    fn on<T>(
        &self,
        node: NodeId,
        by_path: impl FnOnce(&dyn FileSystem, &VfsPath) -> BackendResult<T>,
        by_handle: impl FnOnce(&dyn File) -> BackendResult<T>,
    ) -> BackendResult<T> {
        match self.table.route(node)? {
            Route::Path(pinned) => by_path(&*self.fs, &pinned.path).map_err(gone_underneath),
            Route::Held(file) => by_handle(&*file),
        }
    }

    /// Calls the file system with the path of a name in a directory, which stays that path.
    fn at<T>(
        &self,
        parent: NodeId,
        name: &[u8],
        call: impl FnOnce(&VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        let directory = self.table.directory(parent)?;
        call(&directory.path.join_name(name)?)
    }

    fn enter(&self, parent: NodeId, name: &[u8], metadata: Metadata) -> Entry {
        let node = self.table.lock().enter(parent, name, &metadata);
        Entry { node, metadata, parent: None }
    }

    /// A handle on what has a name that is about to go, if it is known and that is its last name.
    fn hold(&self, name: (NodeId, &[u8]), path: &VfsPath) -> Option<(NodeId, Arc<dyn File>)> {
        let node = {
            let nodes = self.table.lock();
            nodes.child(name).filter(|node| nodes.needs_holding(*node))?
        };
        let held = match self.fs.open(path, &OpenOptions::referring()) {
            // For reading alone where it is being executed.
            Err(error) if error.kind() == ErrorKind::Unsupported => [true, false]
                .into_iter()
                .find_map(|write| self.fs.open(path, &OpenOptions::reading().write(write)).ok())?,
            answer => answer.ok()?,
        };
        Some((node, Arc::from(held.file)))
    }

    fn remove(
        &self,
        parent: NodeId,
        name: &[u8],
        remove: impl FnOnce(&VfsPath) -> BackendResult<()>,
    ) -> BackendResult<Option<Metadata>> {
        let ([directory], _moving) = self.table.moving([(parent, name)])?;
        let path = directory.path.join_name(name)?;
        let held = self.hold((parent, name), &path);
        remove(&path)?;
        let mut nodes = self.table.lock();
        if let Some((node, file)) = held {
            nodes.hold(node, file);
        }
        nodes.take_name(parent, name);
        Ok(None)
    }
}

/// A name that is missing where the table has one went underneath.
fn gone_underneath(error: BackendError) -> BackendError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::SymlinkInPath => {
            ErrorKind::Stale.into()
        }
        _ => error,
    }
}

impl NodeSystem for PathNodes {
    fn lookup(&self, parent: NodeId, name: &[u8]) -> BackendResult<Entry> {
        self.at(parent, name, |path| {
            let metadata = self.fs.metadata(path)?;
            Ok(self.enter(parent, name, metadata))
        })
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.table.forget(node, count);
    }

    fn parent(&self, directory: NodeId) -> NodeId {
        self.table.lock().parent(directory)
    }

    fn known(&self, path: &VfsPath) -> Option<NodeId> {
        let known = self.table.lock().at_path(path);
        known.or_else(|| {
            let id = self.fs.metadata(path).ok()?.id;
            self.table.lock().of_file(id)
        })
    }

    fn metadata(&self, node: NodeId) -> BackendResult<Metadata> {
        self.on(node, |fs, path| fs.metadata(path), |file| file.metadata())
    }

    fn set_metadata(&self, node: NodeId, change: &MetadataChange) -> BackendResult<Metadata> {
        self.on(
            node,
            |fs, path| fs.set_metadata(path, change),
            |file| match change.len {
                None => file.set_metadata(change),
                // What is held may not write.
                Some(_) => {
                    let writing = file.reopen(&OpenOptions::new().write(true))?;
                    writing.file.set_metadata(change)
                }
            },
        )
    }

    fn read_link(&self, node: NodeId) -> BackendResult<Vec<u8>> {
        self.on(node, |fs, path| fs.read_link(path), |_| Err(ErrorKind::Stale.into()))
    }

    fn open(&self, node: NodeId, options: &OpenOptions) -> BackendResult<Opened> {
        let mut existing = options.existing();
        self.on(
            node,
            |fs, path| {
                existing.truncate = options.truncate;
                fs.open(path, &existing)
            },
            |file| {
                let opened = file.reopen(&options.existing())?;
                if options.truncate {
                    opened.file.set_len(0)?;
                    return Opened::new(opened.file, false, options);
                }
                Ok(opened)
            },
        )
    }

    fn create_file(
        &self,
        parent: NodeId,
        name: &[u8],
        options: &OpenOptions,
    ) -> BackendResult<Created> {
        let options = options.metadata(true);
        self.at(parent, name, |path| {
            let opened = self.fs.open(path, &options)?;
            let metadata = match opened.metadata {
                Some(metadata) => *metadata,
                None => opened.file.metadata()?,
            };
            let entry = self.enter(parent, name, metadata);
            Ok(Created { entry, file: opened.file, made: opened.made })
        })
    }

    fn temporary(&self, parent: NodeId, options: &OpenOptions) -> BackendResult<Created> {
        let options = options.temporary(true).metadata(true);
        let directory = self.table.directory(parent)?;
        let opened = self.fs.open(&directory.path, &options)?;
        let metadata = match opened.metadata {
            Some(metadata) => *metadata,
            None => opened.file.metadata()?,
        };
        let held = Arc::from(opened.file.reopen(&OpenOptions::referring())?.file);
        let node = self.table.lock().enter_nameless(&metadata, held);
        Ok(Created { entry: Entry { node, metadata, parent: None }, file: opened.file, made: true })
    }

    fn create(&self, parent: NodeId, name: &[u8], node: &NewNode<'_>) -> BackendResult<Entry> {
        self.at(parent, name, |path| {
            let metadata = self.fs.create(path, node)?;
            Ok(self.enter(parent, name, metadata))
        })
    }

    fn link(&self, node: NodeId, parent: NodeId, name: &[u8]) -> BackendResult<Entry> {
        let directory = self.table.directory(parent)?;
        let to = directory.path.join_name(name)?;
        let metadata = match self.table.route(node)? {
            Route::Path(pinned) => self.fs.link(&pinned.path, &to)?,
            Route::Held(file) => {
                match file.link_to(&to) {
                    // It is no temporary file.
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        return Err(ErrorKind::NotFound.into());
                    }
                    answer => answer?,
                }
                file.metadata()?
            }
        };
        let mut nodes = self.table.lock();
        if nodes.is(node, &metadata) {
            nodes.link(node, parent, name);
            return Ok(Entry { node, metadata, parent: None });
        }
        drop(nodes);
        // The backend made a second file of it: the truth must be told.
        Ok(self.enter(parent, name, metadata))
    }

    fn rename(
        &self,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        mode: RenameMode,
    ) -> BackendResult<Renamed> {
        let ([from_dir, to_dir], _moving) = self.table.moving([from, to])?;
        let from_path: VfsPathBuf = from_dir.path.join_name(from.1)?;
        let to_path = to_dir.path.join_name(to.1)?;
        let replaces = matches!(mode, RenameMode::Replace | RenameMode::Whiteout);
        // Somebody may have looked it up and not opened it yet; a kernel looks up a name that it
        // lost in between once more, but not a third time.
        let held = match replaces && from_path != to_path {
            true => self.hold(to, &to_path),
            false => None,
        };
        let metadata = self.fs.rename(&from_path, &to_path, mode)?;
        let mut nodes = self.table.lock();
        if nodes.child(from).is_some() && nodes.child(from) == nodes.child(to) {
            // Two names of one file: nothing was done.
            return Ok(Renamed { metadata, moved: [None; 2], parents: [None; 2] });
        }
        if let Some((node, file)) = held {
            nodes.hold(node, file);
        }
        match mode {
            RenameMode::Exchange => nodes.exchange(from, to),
            RenameMode::Replace | RenameMode::NoReplace | RenameMode::Whiteout => {
                nodes.rename(from, to);
            }
        }
        let moved = match mode {
            RenameMode::Exchange => [nodes.child(to), nodes.child(from)],
            _ => [nodes.child(to), None],
        };
        Ok(Renamed { metadata, moved, parents: [None; 2] })
    }

    fn remove_file(&self, parent: NodeId, name: &[u8]) -> BackendResult<Option<Metadata>> {
        self.remove(parent, name, |path| self.fs.remove_file(path))
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> BackendResult<Option<Metadata>> {
        self.remove(parent, name, |path| self.fs.remove_dir(path))
    }

    fn read_dir(
        &self,
        node: NodeId,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.on(
            node,
            |fs, path| fs.read_dir(path, detail, visit),
            // A removed directory lists nothing.
            |file| match file.metadata()?.is_dir() {
                true => Ok(()),
                false => Err(ErrorKind::NotADirectory.into()),
            },
        )
    }

    fn count(
        &self,
        parent: NodeId,
        name: &[u8],
        listed: &Metadata,
    ) -> BackendResult<Option<Entry>> {
        Ok(Some(self.enter(parent, name, *listed)))
    }

    fn xattr(&self, node: NodeId, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.on(node, |fs, path| fs.xattr(path, name), |file| file.xattr(name))
    }

    fn xattrs(&self, node: NodeId) -> BackendResult<Vec<Vec<u8>>> {
        self.on(node, |fs, path| fs.xattrs(path), |file| file.xattrs())
    }

    fn set_xattr(
        &self,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.on(
            node,
            |fs, path| fs.set_xattr(path, name, value, mode),
            |file| file.set_xattr(name, value, mode),
        )
    }

    fn remove_xattr(&self, node: NodeId, name: &[u8]) -> BackendResult<()> {
        self.on(node, |fs, path| fs.remove_xattr(path, name), |file| file.remove_xattr(name))
    }

    fn sync_dir(&self, node: NodeId) -> BackendResult<()> {
        self.on(node, |fs, path| fs.sync_dir(path), |_| Ok(()))
    }

    /// What the table says of a name already is not said again: most reports of a host are of
    /// changes that came through this adapter.
    fn stale(&self, event: &WatchEvent) -> Vec<Stale> {
        let mut stale = Vec::new();
        match event.kind {
            WatchKind::Modified => stale.extend(self.known(&event.path).map(Stale::Contents)),
            WatchKind::Metadata => stale.extend(self.known(&event.path).map(Stale::Metadata)),
            WatchKind::Overflow => self.stale_below(&event.path, &mut stale),
            WatchKind::Created | WatchKind::Removed => {
                let Some((directory, name)) = event.path.split_last() else { return stale };
                let now = self.fs.metadata(&event.path).ok();
                let nodes = self.table.lock();
                if let Some(directory) = nodes.at_path(directory) {
                    stale.push(Stale::Metadata(directory));
                    let known = nodes.child((directory, name));
                    let is_known = |now: &Metadata| known.is_some_and(|node| nodes.is(node, now));
                    if now.map_or(known.is_some(), |now| !is_known(&now)) {
                        stale.push(Stale::Entry(directory, name.to_vec()));
                    }
                    // It has lost or won a name.
                    stale.extend(known.map(Stale::Metadata));
                }
                let by_other_name = now.and_then(|now| nodes.of_file(now.id));
                stale.extend(by_other_name.map(Stale::Metadata));
            }
        }
        stale
    }

    fn stale_below(&self, path: &VfsPath, stale: &mut Vec<Stale>) {
        self.table.lock().all_below(path, stale);
    }
}
