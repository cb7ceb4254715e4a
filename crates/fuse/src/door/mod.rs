//! What the kernel asks, answered from a [`FileSystem`]. No protocol here: `transport/`
//! translates.
//!
//! # Locks
//! In this order: `names`, then `inodes`. `names` is held for reading during every call of the
//! backend that takes a path, and for writing during a rename, so that no path goes out of
//! date between its making and its use. `inodes` guards only the table and is never held
//! across a call. Reading and writing open files takes neither.

mod attributes;
mod data;
mod listing;
mod names;
mod stale;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;
use stratafs::{BackendResult, Capabilities, ErrorKind, FileSystem, Metadata, VfsPath, VfsPathBuf};

use crate::directory::OpenDir;
use crate::errno::{Answer, errno, of};
use crate::handles::{OpenFile, Slots};
use crate::inodes::{Inodes, child};

pub(crate) use attributes::{AttributeChange, Fallocate};
pub(crate) use data::Opening;
pub(crate) use stale::Stale;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Caller {
    /// Whether set-user-id bits survive what this caller does to a file (`CAP_FSETID`; the
    /// protocol tells only the user).
    fn keeps_privilege_bits(self) -> bool {
        self.user == 0
    }
}

/// A node as the kernel is told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) node: u64,
    pub(crate) generation: u64,
    pub(crate) metadata: Metadata,
}

/// The answering side of one mount.
#[derive(Debug)]
pub(crate) struct Door {
    fs: Arc<dyn FileSystem>,
    capabilities: Capabilities,
    names: RwLock<()>,
    inodes: Mutex<Inodes>,
    files: Slots<OpenFile>,
    dirs: Slots<OpenDir>,
    /// Set by every request, cleared by whoever watches for idleness.
    active: AtomicBool,
    stopped: AtomicBool,
}

impl Door {
    pub(crate) fn new(fs: Arc<dyn FileSystem>) -> BackendResult<Self> {
        let root = fs.metadata(VfsPath::root())?;
        Ok(Door {
            capabilities: fs.capabilities(),
            fs,
            names: RwLock::new(()),
            inodes: Mutex::new(Inodes::new(root)),
            files: Slots::new(),
            dirs: Slots::new(),
            active: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Notes a request, for the idle timeout. Written only when it changes something: the flag
    /// is shared by all threads.
    pub(crate) fn touch(&self) {
        if !self.active.load(Ordering::Relaxed) {
            self.active.store(true, Ordering::Relaxed);
        }
    }

    /// From now on every request is refused. When this returns no name is being changed.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(self.names.write().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Whether there was no request since the last call, and nothing is open.
    pub(crate) fn was_idle(&self) -> bool {
        let active = self.active.swap(false, Ordering::Relaxed);
        !active && self.files.is_empty() && self.dirs.is_empty()
    }

    fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold_names(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the backend with the node's path.
    ///
    /// # Errors
    /// `ESTALE` when the node has lost its name, before or meanwhile, or when its name is gone
    /// underneath: the kernel then looks the name up again and asks anew, so that a file which
    /// is being replaced by a rename is always found.
    fn at<T>(&self, node: u64, call: impl FnOnce(&VfsPath) -> BackendResult<T>) -> Answer<T> {
        let _names = self.hold_names();
        let located = self.inodes().locate(node)?;
        let answer = call(&located.path);
        if !self.inodes().stands(node, &located) {
            return Err(Errno::STALE);
        }
        answer.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Errno::STALE,
            kind => errno(kind),
        })
    }

    /// Calls the backend with the path of a name in a directory.
    fn at_name<T>(
        &self,
        parent: u64,
        name: &[u8],
        call: impl FnOnce(&VfsPath) -> Answer<T>,
    ) -> Answer<T> {
        let _names = self.hold_names();
        let path = self.name_path(parent, name)?;
        call(&path)
    }

    /// The path of a name; the caller holds `names`.
    fn name_path(&self, parent: u64, name: &[u8]) -> Answer<VfsPathBuf> {
        // A removed directory has no entries: nothing can be found or made in it.
        let located = self.inodes().locate(parent).map_err(|_| Errno::NOENT)?;
        child(&located.path, name)
    }

    /// Counts a lookup of a name and gives what the kernel is told.
    fn enter(&self, parent: u64, name: &[u8], metadata: Metadata) -> Found {
        let (node, generation) = self.inodes().enter(parent, name, &metadata);
        Found { node, generation, metadata }
    }

    pub(crate) fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Found> {
        self.at_name(parent, name, |path| {
            let metadata = self.fs.metadata(path).map_err(of)?;
            Ok(self.enter(parent, name, metadata))
        })
    }

    pub(crate) fn forget(&self, node: u64, count: u64) {
        let kept = self.inodes().forget(node, count);
        drop(kept); // the lock is free by now
    }
}
