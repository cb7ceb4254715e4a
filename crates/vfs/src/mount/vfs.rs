//! Mounting and unmounting.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::layers::{CaseFoldFs, ReadOnlyFs};
use crate::overlay::OverlayFs;
use crate::path::{AsPath, VfsPath, VfsPathBuf, normalize};

use super::options::{MountId, MountOptions};
use super::table::{Point, Table};
use super::tree::Tree;

/// Several backends as one tree; see the module documentation for the rules, and the methods
/// for what can be done with the tree. Share it by reference or in an `Arc`.
pub struct Vfs {
    pub(crate) tree: Arc<Tree>,
    mounts: Mutex<Mounts>,
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
        Vfs { tree: Arc::new(Tree::live(Table::default())), mounts: Mutex::default() }
    }

    /// A tree with one backend at its root.
    pub fn with_root(backend: impl FileSystem) -> Self {
        let at = VfsPathBuf::new();
        let backend: Arc<dyn FileSystem> = Arc::new(backend);
        let point = Point { path: at.clone(), fs: Arc::clone(&backend), hidden: false, salt: 0 };
        let mount = Mount { id: MountId(0), at, backend, options: MountOptions::new() };
        Vfs {
            tree: Arc::new(Tree::live(Table::new(vec![point]))),
            mounts: Mutex::new(Mounts { next: 1, all: vec![mount] }),
        }
    }

    /// The tree as a file system, for a door or a layer, which goes on showing what is mounted
    /// later. As nobody knows what that will be, it [can](crate::Capabilities) whatever a mount may be
    /// able to (a mount that is not answers `Unsupported`) and promises nothing that every mount
    /// would have to hold; [`freeze`](Self::freeze) knows better.
    pub fn tree(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.tree) as Arc<dyn FileSystem>
    }

    /// The tree as a file system in which nothing is mounted or unmounted any more: it can and
    /// promises what its mounts do.
    pub fn freeze(self) -> Arc<dyn FileSystem> {
        Arc::new(self.tree.frozen())
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
        self.tree.watches.report_overflow();
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
        self.tree.watches.report_overflow();
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
        let old = self.tree.table.load();
        let mut points: Vec<Point> =
            old.points().filter(|point| *point.path != *changed).cloned().collect();
        let here: Vec<&Mount> = all.iter().filter(|mount| *mount.at == *changed).collect();
        if !here.is_empty() {
            points.push(compose(changed, here)?);
        }
        self.tree.table.store(Table::new(points));
        Ok(())
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

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}
