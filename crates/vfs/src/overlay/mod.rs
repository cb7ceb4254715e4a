//! Several layers as one tree: the upper one takes all changes, the lower ones none.
//!
//! [`OverlayFs`] shows the union of its layers. Without an upper layer it is a read-only union.
//!
//! # What a path shows
//! - The topmost layer that has the name decides. A whiteout, and anything that is no
//!   directory, hides the name and all below it in the layers beneath.
//! - Directories of the same name merge, down to the first layer that has something else there
//!   or whose directory is opaque. Owner, mode, times and attributes are the topmost one's. A
//!   directory that merges answers one link (nobody has counted), any other the true number.
//! - A directory made where one was removed is opaque: nothing of the old one comes back. What
//!   is below an opaque directory is hidden at any depth.
//! - File ids of different layers do not meet (but for a 64-bit accident), and copying a file
//!   up does not change the id that it shows, for the life of the overlay.
//!
//! # What a change does
//! - The first real change of a lower file copies it up: contents with their holes, mode,
//!   owner, times and extended attributes, below directories that are copied likewise. Real
//!   changes are a write, a new length, reserved storage, and a change of metadata; opening for
//!   writing is none. Opening with `truncate` is one, but copies no contents.
//! - A copy-up is atomic: the name shows the lower file or the whole copy. Directories that
//!   receive a copy keep their times. An owner that the process may not give is left out.
//! - Every handle follows its file: one opened before the copy-up reads what is written after
//!   it (in the kernel's own overlay it does not), also when the name has moved or is gone by
//!   then. A write through a handle whose lower file has lost its name goes to a copy without
//!   one.
//! - Of a lower file with several names, a copy-up breaks off the one that was used, under a
//!   new id; the other names keep the old contents. [`FileSystem::link`] copies up first, so
//!   links made through the overlay are real.
//! - Removing or renaming leaves a whiteout in the upper layer where a lower layer has the
//!   name, in the same step, and nowhere else. A directory is empty when it looks empty.
//! - Renaming a lower directory copies the directory alone and notes where its contents are (a
//!   redirect), whatever its size.
//! - Changing a lower layer by other ways while the overlay stands on it is allowed for new
//!   names and for contents; names removed or renamed there may leave stale redirects and
//!   whiteouts. The upper layer must not be changed by other ways.
//!
//! # How it is kept
//! Whiteouts are [`NodeKind::Whiteout`](crate::NodeKind::Whiteout) in the upper layer: not a
//! file of any name. Opaque and redirected directories carry `user.overlay.opaque` or
//! `user.overlay.redirect`, and the upper layer's root `user.overlay.remaps` as soon as there
//! is one, or `user.overlay.changed` once its own metadata was changed. That namespace does not
//! show, and setting a name in it is `OperationNotPermitted`.
//! Where the upper layer cannot tell character device 0:0 from a whiteout (a native one), making
//! that device, or copying one up, is `OperationNotPermitted`. A lower layer may be the upper layer
//! of another overlay: what it hides and redirects holds for the layers beneath it.
//! For a moment a copy may stand in its directory as `.stratafs-` and a random number, which no
//! listing shows; it stays behind if the process dies just then.
//!
//! # Watching
//! A watch reports what is done through the overlay, in the thread that does it and before the
//! call returns, and what the lower layers report, by the name it shows as, if nothing hides it.
//! An overlay with a lower layer that may change and does not report cannot be watched: silence
//! would be taken for "nothing changed".
//!
//! # Cost
//! A lookup asks the layers in turn until one answers, by the whole path: a hit costs what its
//! layer costs and one miss for each layer above, a miss one probe for each layer; metadata of
//! a directory one probe for each layer beneath, to know whether it merges. None of these
//! allocates, takes a lock or writes memory that other threads read. Errors cost a walk along
//! the path where something other than a directory stands in it.
//!
//! # Locks
//! In this order, each optional:
//! 1. `copying`: one file's copy-up, while its contents are copied.
//! 2. `tree`: shared by whoever changes the upper layer in one step, held alone by who needs
//!    several (directories that move or go, and their remaps).
//! 3. `names`: the names that a call changes, in the order of their locks.
//! 4. a handle's own `switching` lock comes before all of these; the records of copy-ups, the
//!    edits of a remap table and the lists of watches after all.
//!
//! Locks are held across calls into the layers, against the general rule, because a change is
//! decided by what several layers answer and must be made before the answers change. It cannot
//! deadlock: a layer never calls back into what stands on it, and reports are made when no
//! lock is held.

mod apply;
mod attributes;
mod changes;
mod conflicts;
mod copies;
mod copy_up;
mod create;
mod handle;
mod ids;
mod keep;
mod lookup;
mod lower_handle;
mod merge;
mod open;
mod remaps;
mod remove;
mod rename;
mod rename_dir;
mod tree;
mod watch;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::sharded::Sharded;
use crate::storage::{Step, Storage};
use crate::watch::{WatchGuard, WatchSink, Watches};

pub use changes::{Change, ChangeKind};
use conflicts::Baseline;
pub use conflicts::{Conflict, ConflictKind, Conflicts};
use copies::Copies;
use ids::Ids;
use remaps::Remaps;
use tree::{NameLocks, Tree};

/// Several layers as one tree; see the module documentation for what it promises.
///
/// ```
/// use std::sync::Arc;
/// use stratafs::{FileSystem, MemoryFs, OverlayFs, Vfs, VfsPath};
/// let base = Arc::new(MemoryFs::new());
/// Vfs::with_root(OverlayFs::builder().upper(base.clone()).build()?).write("a", "shipped")?;
///
/// let overlay = OverlayFs::builder().upper(Arc::new(MemoryFs::new())).lower(base.clone()).build()?;
/// let vfs = Vfs::with_root(overlay);
/// vfs.write("a", "mine")?;
/// assert_eq!(vfs.read_to_string("a")?, "mine");
/// assert_eq!(base.metadata(VfsPath::new(b"a")?)?.len, 7); // untouched
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OverlayFs {
    state: Sharded<State>,
}

/// The layers of an [`OverlayFs`] to be.
#[derive(Debug, Default)]
#[must_use]
pub struct OverlayBuilder {
    upper: Option<Arc<dyn FileSystem>>,
    lowers: Vec<Arc<dyn FileSystem>>,
}

struct Layer {
    fs: Arc<dyn FileSystem>,
    remaps: Remaps,
}

struct State {
    /// Top-down.
    layers: Vec<Layer>,
    /// Whether the first layer takes changes.
    writable: bool,
    capabilities: Capabilities,
    tree: Tree,
    names: NameLocks,
    copying: NameLocks,
    ids: Ids,
    copies: Copies,
    baseline: Baseline,
    watches: Arc<Watches>,
    /// Tells this overlay's temporary names from all others.
    token: u64,
    next_spare: AtomicU64,
}

impl OverlayBuilder {
    /// The layer that takes all changes. Without one the overlay is read-only.
    pub fn upper(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.upper = Some(fs);
        self
    }

    /// One more layer, beneath those given before.
    pub fn lower(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.lowers.push(fs);
        self
    }

    /// Puts the layers together. Costs one look at each layer's root, and a walk over the
    /// directories of a layer that has been an upper one and holds opaque or renamed ones.
    ///
    /// # Errors
    /// - `InvalidArgument` without any layer.
    /// - `Unsupported` when the upper layer cannot be written or lacks whiteouts or extended
    ///   attributes; the cause names what is missing.
    /// - `Corrupt` when a layer's redirects are damaged.
    pub fn build(self) -> BackendResult<OverlayFs> {
        if let Some(upper) = &self.upper {
            check_upper(upper.capabilities())?;
        }
        let writable = self.upper.is_some();
        let mut layers = Vec::with_capacity(self.lowers.len() + 1);
        for fs in self.upper.into_iter().chain(self.lowers) {
            let remaps = Remaps::load(&*fs)?;
            layers.push(Layer { fs, remaps });
        }
        if layers.is_empty() {
            return Err(BackendError::new(ErrorKind::InvalidArgument, "an overlay of no layers"));
        }
        let capabilities = capabilities(&layers, writable);
        let token = RandomState::new().hash_one(layers.len());
        let state = State {
            layers,
            writable,
            capabilities,
            tree: Tree::default(),
            names: NameLocks::default(),
            copying: NameLocks::default(),
            ids: Ids::default(),
            copies: Copies::default(),
            baseline: Baseline::default(),
            watches: Arc::default(),
            token,
            next_spare: AtomicU64::new(0),
        };
        state.begin_baseline()?;
        Ok(OverlayFs { state: Sharded::new(state) })
    }
}

fn check_upper(has: Capabilities) -> BackendResult<()> {
    use Capabilities as C;
    let missing = (C::WRITE | C::WHITEOUTS | C::XATTRS) - has;
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter_names().map(|(name, _)| name).collect();
    let text = format!("the upper layer lacks {}", names.join(" and "));
    Err(BackendError::new(ErrorKind::Unsupported, text))
}

fn capabilities(layers: &[Layer], writable: bool) -> Capabilities {
    use Capabilities as C;
    let all = layers.iter().map(|layer| layer.fs.capabilities());
    let any = all.clone().fold(C::empty(), C::union);
    let every = all.fold(C::all(), C::intersection);
    let lowers = &layers[usize::from(writable)..];
    let reports = |layer: &Layer| layer.fs.capabilities().intersects(C::WATCH | C::IMMUTABLE);
    let watch = if lowers.iter().all(reports) { C::WATCH } else { C::empty() };
    if !writable {
        return (any & (C::MODES | C::OWNERS | C::SPARSE))
            | (every & (C::STABLE_IDS | C::IMMUTABLE | C::DURABLE | C::PROMPT))
            | (any & watch);
    }
    let upper = layers[0].fs.capabilities();
    let lent = C::WRITE
        | C::HARD_LINKS
        | C::SYMLINKS
        | C::SPECIAL_NODES
        | C::XATTRS
        | C::MODES
        | C::OWNERS
        | C::SPARSE
        | C::EXCHANGE
        | C::TEMPORARY
        | C::DURABLE
        | C::LATE_ERRORS;
    (upper & lent) | (every & C::PROMPT) | watch
}

impl OverlayFs {
    /// A builder without layers.
    pub fn builder() -> OverlayBuilder {
        OverlayBuilder::default()
    }
}

impl State {
    fn top(&self) -> &dyn FileSystem {
        &*self.layers[0].fs
    }
}

impl fmt::Debug for OverlayFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<_> = self.layers.iter().map(|layer| &layer.fs).collect();
        f.debug_struct("OverlayFs")
            .field("layers", &layers)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl FileSystem for OverlayFs {
    fn capabilities(&self) -> Capabilities {
        self.state.capabilities
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        open::open(&self.state, path, options)
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.state.metadata(path)
    }

    #[inline]
    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        self.state.exists(path)
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.state.read_dir(path, detail, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.state.reading(path, |fs, path| fs.read_link(path))
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.state.create(path, node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        self.state.link(from, to)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
        self.state.rename(from, to, mode)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.state.remove_file(path)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.state.remove_dir(path)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
        self.state.set_metadata(path, change)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.state.xattr(path, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.state.xattrs(path)
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.state.set_xattr(path, name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.state.remove_xattr(path, name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        let room = self.state.top().statfs()?;
        match self.state.writable {
            true => Ok(room),
            false => Ok(Statfs { free: 0, available: 0, files_free: 0, ..room }),
        }
    }

    fn sync(&self) -> BackendResult<()> {
        match self.state.writable {
            true => self.state.top().sync(),
            false => Ok(()),
        }
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        watch::watch(&self.state, path, sink)
    }

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.state.metadata(path)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        match self.state.writable.then(|| self.state.top().sync_dir(path)) {
            // What is beneath alone was not changed.
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
            Some(answer) => answer,
            None => Ok(()),
        }
    }

    /// Not through an overlay: its handles are not those of the upper layer.
    fn commit(&self, _: &[Step<'_>]) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn storage(&self) -> Storage {
        self.state.top().storage()
    }

    /// None: layers are joined by path.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}
