//! The tree: mounting, and the tree as a file system of its own.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::{Capabilities, DirEntry, File, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::layers::{CaseFoldFs, ReadOnlyFs};
use crate::memory::watches::Watches;
use crate::metadata::{FileType, Metadata, MetadataChange, Statfs};
use crate::options::{NewNode, OpenOptions, RenameMode, XattrMode};
use crate::overlay::OverlayFs;
use crate::path::{AsPath, VfsPath, VfsPathBuf, normalize};
use crate::watch::{WatchGuard, WatchSink};

use super::current::{Current, Snapshot};
use super::handle::{MountedFile, Naming};
use super::options::{MountId, MountOptions};
use super::table::{Lead, Point, Table};

/// Several backends as one tree; see the module documentation for the rules, and the methods
/// for what can be done with the tree. Share it by reference or in an `Arc`.
pub struct Vfs {
    table: Current,
    mounts: Mutex<Mounts>,
    pub(super) watches: Watches,
}

#[derive(Default)]
struct Mounts {
    next: u64,
    all: Vec<Mount>,
}

#[derive(Clone)]
struct Mount {
    id: MountId,
    at: VfsPathBuf,
    backend: Arc<dyn FileSystem>,
    options: MountOptions,
}

impl Default for Vfs {
    fn default() -> Self {
        Self::new()
    }
}

impl Vfs {
    /// A tree with nothing mounted: an empty root that cannot be written.
    pub fn new() -> Self {
        Vfs {
            table: Current::new(Table::default()),
            mounts: Mutex::default(),
            watches: Watches::default(),
        }
    }

    /// A tree with one backend at its root.
    pub fn with_root(backend: impl FileSystem) -> Self {
        let at = VfsPathBuf::new();
        let backend: Arc<dyn FileSystem> = Arc::new(backend);
        let point = Point { path: at.clone(), fs: Arc::clone(&backend), hidden: false, salt: 0 };
        let mount = Mount { id: MountId(0), at, backend, options: MountOptions::new() };
        Vfs {
            table: Current::new(Table::new(vec![point])),
            mounts: Mutex::new(Mounts { next: 1, all: vec![mount] }),
            watches: Watches::default(),
        }
    }

    /// Mounts a backend at a path, which need not exist in what is mounted there already.
    ///
    /// # Errors
    /// - As [`normalize`](crate::path::normalize) for the path.
    /// - `InvalidArgument` when the point would have two write targets, or one that is not on
    ///   top of its stack or is itself read-only; the cause names which.
    /// - `Unsupported` when the write target lacks a capability that an overlay needs of its
    ///   upper layer.
    pub fn mount(
        &self,
        at: impl AsPath,
        backend: Arc<dyn FileSystem>,
        options: MountOptions,
    ) -> Result<MountId> {
        let bytes = at.path_bytes();
        let at = normalize(&bytes)
            .map_err(|error| error.at("mount", VfsPath::unchecked(&bytes)))?
            .into_owned();
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let id = MountId(mounts.next);
        let mut all = mounts.all.clone();
        all.push(Mount { id, at: at.clone(), backend, options });
        self.rebuild(&all, &at).map_err(|error| error.at("mount", &at))?;
        mounts.next += 1;
        mounts.all = all;
        drop(mounts);
        self.watches.report_overflow();
        Ok(id)
    }

    /// Takes a mount away. Handles opened through it stay usable.
    ///
    /// The backend is dropped when its last handle and the last call in it are gone, and each
    /// other thread that used this tree has either made a further call or ended: a thread
    /// keeps the table it used last, which is what makes a lookup cheap.
    ///
    /// # Errors
    /// - `NotFound` when it is not mounted (any more).
    /// - `InvalidArgument` when the rest of its stack would break the rules of
    ///   [`mount`](Self::mount).
    pub fn unmount(&self, id: MountId) -> Result<()> {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = mounts.all.clone();
        let Some(index) = all.iter().position(|mount| mount.id == id) else {
            return Err(BackendError::from(ErrorKind::NotFound).at("unmount", VfsPath::root()));
        };
        let gone = all.remove(index);
        self.rebuild(&all, &gone.at).map_err(|error| error.at("unmount", &gone.at))?;
        mounts.all = all;
        drop(mounts);
        self.watches.report_overflow();
        Ok(())
    }

    /// Every mount: its id, its path, its options; in the order of mounting.
    pub fn mounts(&self) -> Vec<(MountId, VfsPathBuf, MountOptions)> {
        let mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.all.iter().map(|mount| (mount.id, mount.at.clone(), mount.options)).collect()
    }

    /// Makes a new table in which only the point `changed` differs: the stacks of the others
    /// keep their state.
    fn rebuild(&self, all: &[Mount], changed: &VfsPath) -> BackendResult<()> {
        let old = self.table.load();
        let mut points: Vec<Point> =
            old.points().filter(|point| *point.path != *changed).cloned().collect();
        let here: Vec<&Mount> = all.iter().filter(|mount| *mount.at == *changed).collect();
        if !here.is_empty() {
            points.push(compose(changed, here)?);
        }
        self.table.store(Table::new(points));
        Ok(())
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
        operation: impl Fn(&dyn FileSystem, &VfsPath, &VfsPath) -> BackendResult<T>,
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
        self.making(to, |point, to| operation(&*point.fs, from_rest, to))
    }

    fn not_pinned(&self, path: &VfsPath) -> BackendResult<()> {
        if self.table.load().is_pinned(path) { Err(ErrorKind::Busy.into()) } else { Ok(()) }
    }

    pub(super) fn table(&self) -> Snapshot {
        self.table.load()
    }
}

/// Makes one file system of the backends at one point.
fn compose(at: &VfsPath, mut here: Vec<&Mount>) -> BackendResult<Point> {
    // Highest priority first; of equals the later mounted.
    here.sort_by_key(|mount| std::cmp::Reverse((mount.options.priority, mount.id)));
    let invalid = |reason| Err(BackendError::new(ErrorKind::InvalidArgument, reason));
    let mut targets = here.iter().filter(|mount| mount.options.write_target);
    let target = targets.next();
    if targets.next().is_some() {
        return invalid("a mount point can have one write target only");
    }
    if target.is_some_and(|target| target.options.read_only) {
        return invalid("the write target is mounted read-only");
    }
    if target.is_some_and(|target| target.id != here[0].id) {
        return invalid("the write target must have the highest priority at its mount point");
    }
    let layer = |mount: &Mount| -> Arc<dyn FileSystem> {
        let mut fs = Arc::clone(&mount.backend);
        if mount.options.case_insensitive {
            fs = Arc::new(CaseFoldFs::new(fs));
        }
        if mount.options.read_only {
            fs = Arc::new(ReadOnlyFs::new(fs));
        }
        fs
    };
    let fs = match here[..] {
        [alone] => layer(alone),
        _ => {
            let mut builder = OverlayFs::builder();
            for (index, mount) in here.iter().enumerate() {
                builder = match target {
                    Some(_) if index == 0 => builder.upper(layer(mount)),
                    _ => builder.lower(layer(mount)),
                };
            }
            Arc::new(builder.build()?)
        }
    };
    // The oldest mount of the point: stays the same while the point lives. A point at the root
    // keeps its backend's ids.
    let oldest = here.iter().map(|mount| mount.id.0).min().unwrap_or(0);
    Ok(Point {
        path: at.to_owned(),
        fs,
        hidden: here.iter().all(|mount| mount.options.hidden),
        salt: if at.is_root() { 0 } else { oldest + 1 },
    })
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

impl FileSystem for Vfs {
    fn capabilities(&self) -> Capabilities {
        // What any mount can do: each call is answered by the mount it reaches.
        let table = self.table.load();
        let mut all = table.points().map(|point| point.fs.capabilities());
        let first = all.next().unwrap_or(Capabilities::IMMUTABLE);
        let rule = Capabilities::IMMUTABLE | Capabilities::STABLE_IDS | Capabilities::DURABLE;
        all.fold(first, |sum, one| ((sum | one) & !rule) | (sum & one & rule))
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        self.open_with_point(path, options, |point, rest| {
            let file = point.fs.open(rest, options)?;
            let naming = options.temporary.then(|| Naming::new(&self.table.load(), point));
            Ok(match (point.salt, &naming) {
                (0, None) => file,
                (salt, _) => Box::new(MountedFile { file, salt, naming }),
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
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let table = self.table.load();
        let lead = table.lead(path);
        let names: &[Box<[u8]>] = lead.map_or(&[], |lead| &lead.names);
        let mut go_on = true;
        if let Some((point, rest)) = table.find(path) {
            let answer = point.fs.read_dir(rest, &mut |mut entry| {
                if names.iter().any(|name| **name == *entry.name) {
                    return ControlFlow::Continue(()); // the mount shows instead
                }
                entry.id = point.id(entry.id);
                let flow = visit(entry);
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
            let metadata = FileSystem::metadata(self, &child)?;
            let (file_type, id) = (metadata.file_type, metadata.id);
            go_on = visit(DirEntry { name, file_type, id }).is_continue();
        }
        Ok(())
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.at(path, |point, rest| point.fs.read_link(rest))
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.making(path, |point, rest| {
            let mut metadata = point.fs.create(rest, node)?;
            metadata.id = point.id(metadata.id);
            Ok(metadata)
        })
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        match self.within_one_mount(from, to, |fs, from, to| fs.link(from, to)) {
            // What is wrong with the source comes first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match FileSystem::metadata(self, from)?.is_dir() {
                    true => Err(ErrorKind::OperationNotPermitted.into()),
                    false => Err(error),
                }
            }
            answer => answer,
        }
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<()> {
        self.not_pinned(from)?;
        self.not_pinned(to)?;
        self.within_one_mount(from, to, |fs, from, to| fs.rename(from, to, mode))
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

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<()> {
        self.at(path, |point, rest| point.fs.set_metadata(rest, change))
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
}

fn leads(table: &Table, path: &VfsPath) -> bool {
    path.is_root() || table.lead(path).is_some()
}

impl Vfs {
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
    ) -> BackendResult<Box<dyn File>> {
        if options.temporary {
            return FileSystem::open(self, path, options);
        }
        self.open_with_point(path, options, |point, rest| {
            salt.set(point.salt);
            point.fs.open(rest, options)
        })
    }
}

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table.load().points()).finish()
    }
}
