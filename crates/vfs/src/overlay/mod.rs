//! A stack of layers as one file system: whiteouts, copy-up, renames.
//!
//! An [`OverlayFs`] shows an upper layer, which takes all changes, over lower layers, which it
//! never changes; or, without an upper, a read-only union of its layers.
//!
//! # What it promises
//! - The first layer from the top that has a name decides what the name is. Directories of
//!   several layers merge; anything else hides what lies beneath it.
//! - A removed lower name is hidden by a *whiteout*, a node of its own type in the upper (see
//!   [`FileType::Whiteout`](crate::FileType::Whiteout)): no file name is reserved. No whiteout is made where no lower name
//!   would show.
//! - A directory made where a lower one was removed is *opaque*: nothing lower shows in it, at
//!   any depth. A renamed lower directory is *redirected*: only the directory itself moves to
//!   the upper. Both are marked by attributes named `user.overlay.*` on the upper's
//!   directories. Through the overlay no attribute of such a name can be seen or set
//!   (`OperationNotPermitted`). Character device 0:0, which is a whiteout on a disk, can be made
//!   only where the upper layer tells the two apart.
//! - *Copy-up*: a lower file moves to the upper at its first real change: the first write, cut,
//!   allocation or change of metadata, or a rename or hard link. Opening it for writing copies
//!   nothing, truncating it copies no bytes. The copy has its mode, owner, times, attributes
//!   and holes, and appears in one step. Missing parents are made with their lower metadata.
//! - A handle follows its file: one opened for reading before a copy-up sees what is written
//!   after it, also when the name has moved or gone.
//! - File ids do not change at copy-up. They hold for the life of the overlay.
//! - Hard links: within the upper they are real. A lower file with several names is broken up
//!   by a copy-up: the changed name gets its own copy, as in the kernel's overlayfs.
//! - A failed operation leaves the tree as it was, but for copied-up parents, which look the
//!   same.
//!
//! # Layers that change underneath
//! Lower layers may be changed by others; what they show then shows here. Changing the upper
//! other than through its overlay is undefined as to what shows, but harmless.
//!
//! # Locks
//! In this order: `trees` (read by changes of one name, written by renames and removals of
//! directories); one of `names`, by hash of the path; `copied`; then whatever the layers lock.
//! These are held across calls into the layers, which the rest of the library does not do: a
//! copy-up is several calls that must not meet another change of the same name, and a layer
//! never calls back into the overlay. Lookups, reads and listings take none.

mod apply;
mod changes;
mod copy_up;
mod fs;
mod handle;
mod ids;
mod lookup;
mod remaps;
mod rename;
mod upper;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;

use crate::backend::{Capabilities, File, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::FileId;
use crate::path::VfsPath;
use crate::sharded::{MAX_SHARDS, Sharded};

pub use changes::{Change, ChangeKind};
use remaps::Remaps;

/// A stack of layers as one file system; see the module documentation.
///
/// ```
/// use std::sync::Arc;
/// use stratafs::{MemoryFs, OverlayFs, Vfs};
/// let base = Arc::new(MemoryFs::new());
/// let overlay = OverlayFs::builder().upper(Arc::new(MemoryFs::new())).lower(base).build()?;
/// let vfs = Vfs::with_root(overlay);
/// vfs.write("new", "only in the upper layer")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OverlayFs {
    inner: Sharded<Overlay>,
}

/// What handles keep alive.
struct Overlay {
    /// From the top; index 0 is the upper if there is one.
    layers: Vec<Layer>,
    writable: bool,
    ids: ids::Origins,
    trees: RwLock<()>,
    names: [Mutex<()>; 64],
    copied: Copied,
}

struct Layer {
    fs: Arc<dyn FileSystem>,
    remaps: ArcSwap<Remaps>,
    /// Whether `remaps` has ever had an entry: what a lookup asks first.
    any_remaps: AtomicBool,
    has_whiteouts: bool,
}

impl Layer {
    /// Where the layers below have what this layer has at a path; `None`: they are hidden.
    #[inline]
    fn below<'p>(&self, path: Cow<'p, VfsPath>) -> Option<Cow<'p, VfsPath>> {
        if !self.any_remaps.load(Ordering::Acquire) {
            return Some(path);
        }
        self.remaps.load().translate(path)
    }
}

/// Files that were copied up while a handle on the lower file was open.
struct Copied {
    /// Moves at each such copy-up; a handle looks further only when it has.
    generation: AtomicU64,
    handles: Mutex<HashMap<FileId, Arc<dyn File>>>,
    /// Open handles on lower files by hash of the file's id, one array for each thread group.
    live: [CachePadded<handle::Live>; MAX_SHARDS],
}

/// Collects the layers of an [`OverlayFs`].
#[derive(Default)]
pub struct OverlayBuilder {
    upper: Option<Arc<dyn FileSystem>>,
    lowers: Vec<Arc<dyn FileSystem>>,
}

impl OverlayBuilder {
    /// The layer that takes all changes. It must be writable and keep whiteouts and extended
    /// attributes.
    #[must_use]
    pub fn upper(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.upper = Some(fs);
        self
    }

    /// One more lower layer, beneath those already given.
    #[must_use]
    pub fn lower(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.lowers.push(fs);
        self
    }

    /// Makes the overlay. Marks of opaque and renamed directories are read from each layer that
    /// has any.
    ///
    /// # Errors
    /// `InvalidArgument` without any layer; `Unsupported` when the upper lacks a capability,
    /// which the cause names; what the layers meet.
    pub fn build(self) -> BackendResult<OverlayFs> {
        let writable = self.upper.is_some();
        if let Some(upper) = &self.upper {
            let needed = Capabilities::WRITE | Capabilities::WHITEOUTS | Capabilities::XATTRS;
            let missing = needed - upper.capabilities();
            if !missing.is_empty() {
                let names: Vec<_> = missing.iter_names().map(|(name, _)| name).collect();
                let reason = format!("the upper layer lacks {}", names.join(" and "));
                return Err(BackendError::new(ErrorKind::Unsupported, reason));
            }
        }
        let layers = self
            .upper
            .into_iter()
            .chain(self.lowers)
            .map(|fs| {
                let remaps = Remaps::load(&*fs)?;
                let any_remaps = AtomicBool::new(!remaps.is_empty());
                let remaps = ArcSwap::from_pointee(remaps);
                let has_whiteouts = fs.capabilities().contains(Capabilities::WHITEOUTS);
                Ok(Layer { fs, remaps, any_remaps, has_whiteouts })
            })
            .collect::<BackendResult<Vec<_>>>()?;
        if layers.is_empty() {
            return Err(BackendError::new(ErrorKind::InvalidArgument, "an overlay of no layers"));
        }
        let copied = Copied {
            generation: AtomicU64::new(0),
            handles: Mutex::default(),
            live: std::array::from_fn(|_| CachePadded::default()),
        };
        let overlay = Overlay {
            layers,
            writable,
            ids: ids::Origins::default(),
            trees: RwLock::default(),
            names: std::array::from_fn(|_| Mutex::default()),
            copied,
        };
        Ok(OverlayFs { inner: Sharded::new(overlay) })
    }
}

impl OverlayFs {
    /// Starts with no layers.
    pub fn builder() -> OverlayBuilder {
        OverlayBuilder::default()
    }
}

impl Overlay {
    fn is_writable(&self) -> bool {
        self.writable
    }

    /// The upper layer.
    fn upper(&self) -> BackendResult<&Layer> {
        if self.writable { Ok(&self.layers[0]) } else { Err(ErrorKind::ReadOnly.into()) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for OverlayFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<_> = self.inner.layers.iter().map(|layer| &layer.fs).collect();
        f.debug_struct("OverlayFs")
            .field("writable", &self.inner.writable)
            .field("layers", &layers)
            .finish()
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overlay")
    }
}
