//! What is mounted, as one file system.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::storage::{Step, Storage};
use crate::watch::{WatchGuard, WatchSink, Watches};

use super::current::{Current, Snapshot};
use super::handle::{MountedFile, Naming};
use super::table::{Lead, Point, Table};

/// The file system of a [`Vfs`](super::Vfs).
pub(crate) struct Tree {
    pub(super) table: Current,
    pub(super) watches: Watches,
    capabilities: Capabilities,
}

/// Of a tree whose mounts come and go: each call is answered by the mount it reaches.
const LIVE: Capabilities = Capabilities::WRITE
    .union(Capabilities::HARD_LINKS)
    .union(Capabilities::SYMLINKS)
    .union(Capabilities::SPECIAL_NODES)
    .union(Capabilities::XATTRS)
    .union(Capabilities::MODES)
    .union(Capabilities::OWNERS)
    .union(Capabilities::WHITEOUTS)
    .union(Capabilities::SPARSE)
    .union(Capabilities::EXCHANGE)
    .union(Capabilities::TEMPORARY)
    .union(Capabilities::WATCH)
    .union(Capabilities::LATE_ERRORS);

impl Tree {
    pub(super) fn live(table: Table) -> Self {
        Tree { table: Current::new(table), watches: Watches::default(), capabilities: LIVE }
    }

    /// A tree of the same mounts, which stay.
    pub(super) fn frozen(&self) -> Self {
        let table = self.table.load();
        let mut all = table.points().map(|point| point.fs.capabilities());
        let first = all.next().unwrap_or(Capabilities::IMMUTABLE);
        // What every mount must hold, beside what any of them can.
        let promises = Capabilities::IMMUTABLE
            | Capabilities::STABLE_IDS
            | Capabilities::DURABLE
            | Capabilities::PROMPT;
        let union = |sum, one| ((sum | one) - promises) | (sum & one & promises);
        let capabilities = all.fold(first, union) - Capabilities::GROUPS;
        let table = Current::new(Table::new(table.points().cloned().collect()));
        Tree { table, watches: Watches::default(), capabilities }
    }

    /// Calls the file system that serves `path` with the rest of the path.
    #[inline]
    fn at<T>(
        &self,
        path: &VfsPath,
        operation: impl FnOnce(&Point, &VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        match self.table.load().find(path) {
            Some((point, rest)) => operation(point, rest),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// For calls that make a name: directories that exist only because a mount needs them are
    /// made real in the backend beneath first.
    fn making<T>(
        &self,
        path: &VfsPath,
        operation: impl Fn(&Point, &VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        let table = self.table.load();
        let Some((point, rest)) = table.find(path) else {
            return Err(match leads(&table, path.parent().unwrap_or(path)) {
                true => ErrorKind::ReadOnly.into(),
                false => ErrorKind::NotFound.into(),
            });
        };
        if !rest.is_root() && table.is_pinned(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match operation(point, rest) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let Some(parent) = path.parent() else { return Err(error) };
                if table.lead(parent).is_none() || rest.is_root() {
                    return Err(error);
                }
                let below = rest.parent().unwrap_or(VfsPath::root());
                for directory in below.ancestors().skip(1).chain([below]) {
                    match point.fs.create(directory, &NewNode::directory()) {
                        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
                operation(point, rest)
            }
            answer => answer,
        }
    }

    fn within_one_mount<T>(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        operation: impl Fn(&Point, &VfsPath, &VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        let table = self.table.load();
        let (Some((source, from_rest)), Some((target, _))) = (table.find(from), table.find(to))
        else {
            return Err(ErrorKind::NotFound.into());
        };
        if source.path != target.path {
            // A missing source is the more useful answer.
            source.fs.metadata(from_rest)?;
            return Err(ErrorKind::CrossesMounts.into());
        }
        self.making(to, |point, to| operation(point, from_rest, to))
    }

    fn not_pinned(&self, path: &VfsPath) -> BackendResult<()> {
        if self.table.load().is_pinned(path) { Err(ErrorKind::Busy.into()) } else { Ok(()) }
    }

    pub(super) fn table(&self) -> Snapshot {
        self.table.load()
    }
}

/// What a directory that exists only because a mount needs it shows of itself.
fn synthetic_directory(lead: Option<&Lead>) -> Metadata {
    let links = 2 + lead.map_or(0, |lead| lead.names.len() as u32);
    Metadata { links, ..Metadata::new(FileType::Directory, 0o755) }
}

/// Adds to a directory's links the mounts in it that are no directories of its own.
fn count_mounts(metadata: &mut Metadata, point: &Point, rest: &VfsPath, lead: &Lead) {
    if metadata.links < 2 {
        return; // its backend does not count
    }
    for name in &lead.names {
        let beneath = point.fs.metadata(&rest.join(VfsPath::from_normal(name)));
        if !beneath.is_ok_and(|beneath| beneath.is_dir()) {
            metadata.links += 1;
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl FileSystem for Tree {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        self.open_with_point(path, options, |point, rest| {
            let mut opened = point.fs.open(rest, options)?;
            if let Some(metadata) = &mut opened.metadata {
                metadata.id = point.id(metadata.id);
            }
            let naming = options.temporary.then(|| Naming::new(&self.table.load(), point));
            Ok(match (point.salt, &naming) {
                (0, None) => opened,
                (salt, _) => opened.map(|file| Box::new(MountedFile { file, salt, naming })),
            })
        })
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        let table = self.table.load();
        if let Some((point, rest)) = table.find(path) {
            match point.fs.metadata(rest) {
                Ok(mut metadata) => {
                    metadata.id = point.id(metadata.id);
                    if metadata.is_dir()
                        && let Some(lead) = table.lead(path)
                    {
                        count_mounts(&mut metadata, point, rest, lead);
                    }
                    return Ok(metadata);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        match leads(&table, path) {
            true => Ok(synthetic_directory(table.lead(path))),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    #[inline]
    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        let table = self.table.load();
        match table.find(path) {
            Some((point, rest)) if point.fs.exists(rest)? => Ok(true),
            _ => Ok(leads(&table, path)),
        }
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let table = self.table.load();
        let lead = table.lead(path);
        let names: &[Box<[u8]>] = lead.map_or(&[], |lead| &lead.names);
        let mut go_on = true;
        if let Some((point, rest)) = table.find(path) {
            let answer = point.fs.read_dir(rest, detail, &mut |entry| {
                if names.iter().any(|name| **name == *entry.name) {
                    return ControlFlow::Continue(()); // the mount shows instead
                }
                let id = point.id(entry.id);
                let salted = entry.metadata.map(|known| Metadata { id, ..*known });
                let flow = visit(DirEntry { id, metadata: salted.as_ref(), ..entry });
                go_on = flow.is_continue();
                flow
            });
            match answer {
                Err(error) if error.kind() == ErrorKind::NotFound && leads(&table, path) => {}
                answer => answer?,
            }
        } else if !leads(&table, path) {
            return Err(ErrorKind::NotFound.into());
        }
        for name in names {
            if !go_on {
                break;
            }
            let child = path.join(VfsPath::from_normal(name));
            let known = self.metadata(&child)?;
            let metadata = (detail == Detail::Metadata).then_some(&known);
            let entry = DirEntry { name, file_type: known.file_type, id: known.id, metadata };
            go_on = visit(entry).is_continue();
        }
        Ok(())
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.at(path, |point, rest| point.fs.read_link(rest))
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.making(path, |point, rest| point.salted(point.fs.create(rest, node)))
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        let linked = self
            .within_one_mount(from, to, |point, from, to| point.salted(point.fs.link(from, to)));
        match linked {
            // What is wrong with the source comes first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match self.metadata(from)?.is_dir() {
                    true => Err(ErrorKind::OperationNotPermitted.into()),
                    false => Err(error),
                }
            }
            answer => answer,
        }
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
        self.not_pinned(from)?;
        self.not_pinned(to)?;
        self.within_one_mount(from, to, |point, from, to| {
            point.salted(point.fs.rename(from, to, mode))
        })
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        if self.table.load().is_pinned(path) {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.at(path, |point, rest| point.fs.remove_file(rest))
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.not_pinned(path)?;
        self.at(path, |point, rest| point.fs.remove_dir(rest))
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
        let table = self.table.load();
        let (point, rest) = table.find(path).ok_or(ErrorKind::NotFound)?;
        let mut metadata = point.salted(point.fs.set_metadata(rest, change))?;
        if metadata.is_dir()
            && let Some(lead) = table.lead(path)
        {
            count_mounts(&mut metadata, point, rest, lead);
        }
        Ok(metadata)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        let table = self.table.load();
        match table.find(path).map(|(point, rest)| point.fs.xattr(rest, name)) {
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
            Some(Ok(value)) => Ok(value),
            _ if leads(&table, path) => Err(ErrorKind::NoAttribute.into()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        let table = self.table.load();
        match table.find(path).map(|(point, rest)| point.fs.xattrs(rest)) {
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
            Some(Ok(names)) => Ok(names),
            _ if leads(&table, path) => Ok(Vec::new()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.at(path, |point, rest| point.fs.set_xattr(rest, name, value, mode))
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.at(path, |point, rest| point.fs.remove_xattr(rest, name))
    }

    /// The room of the mount at the root, or of the first mounted where the root has none.
    fn statfs(&self) -> BackendResult<Statfs> {
        match self.table.load().points().next() {
            Some(point) => point.fs.statfs(),
            None => Ok(Statfs { block_size: 4096, ..Statfs::default() }),
        }
    }

    /// Syncs every mount, and answers the first error after trying all.
    fn sync(&self) -> BackendResult<()> {
        let table = self.table.load();
        table.points().map(|point| point.fs.sync()).fold(Ok(()), BackendResult::and)
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        super::watch::watch(self, path, sink)
    }

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        match self.at(path, |point, rest| point.fs.sync_dir(rest)) {
            Err(error)
                if error.kind() == ErrorKind::NotFound && leads(&self.table.load(), path) =>
            {
                Ok(()) // it is in no backend
            }
            answer => answer,
        }
    }

    /// Not through a tree: its mounts are several backends.
    fn commit(&self, _: &[Step<'_>]) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// What holds of every mount, as they are now.
    fn storage(&self) -> Storage {
        let table = self.table.load();
        let all = table.points().map(|point| point.fs.storage());
        all.reduce(Storage::meet).unwrap_or(Storage::UNKNOWN)
    }

    /// None: mounts come and go by path.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}

fn leads(table: &Table, path: &VfsPath) -> bool {
    path.is_root() || table.lead(path).is_some()
}

impl Tree {
    /// The part of opening that is the same whether the handle is wrapped or not.
    #[inline]
    fn open_with_point<T>(
        &self,
        path: &VfsPath,
        options: &OpenOptions,
        open: impl Fn(&Point, &VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        if options.create || options.create_new {
            return match self.making(path, &open) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !options.create_new => {
                    Err(ErrorKind::IsADirectory.into())
                }
                answer => answer,
            };
        }
        match self.at(path, open) {
            Err(error)
                if error.kind() == ErrorKind::NotFound && leads(&self.table.load(), path) =>
            {
                Err(ErrorKind::IsADirectory.into())
            }
            answer => answer,
        }
    }

    /// Opens without wrapping the handle, which would cost a second allocation: leaves the salt
    /// of its ids beside it. A temporary file's is wrapped: it may be given a path of the tree.
    #[inline]
    pub(crate) fn open_bare(
        &self,
        path: &VfsPath,
        options: &OpenOptions,
        salt: &Cell<u64>,
    ) -> BackendResult<Opened> {
        if options.temporary {
            return self.open(path, options);
        }
        self.open_with_point(path, options, |point, rest| {
            salt.set(point.salt);
            point.fs.open(rest, options)
        })
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table.load().points()).finish()
    }
}
