//! What the kernel asks, answered from a tree whose files have numbers: the file system's own
//! ([`FileSystem::nodes`]), or those that an adapter gives ([`PathNodes`]). No protocol here:
//! `transport/` translates.
//!
//! # Locks
//! None is held while a backend works. The tables of what is open and of what is known of nodes are
//! sharded, and locked for the time of a look.

mod attributes;
mod data;
mod known;
mod listing;
mod names;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use stratafs::{
    BackendResult, Capabilities, Entry, FileSystem, NodeId, NodeSystem, PathNodes, Stale,
    WatchEvent, WatchGuard, WatchSink,
};

use crate::directory::OpenDir;
use crate::errno::{Answer, of};
use crate::handles::{OpenFile, Slots};
use crate::ids::{DirHandle, FileHandle};

pub(crate) use attributes::{AttributeChange, Fallocate};
pub(crate) use data::Opening;
use known::Known;

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

/// The answering side of one mount.
#[derive(Debug)]
pub(crate) struct Door {
    fs: Arc<dyn FileSystem>,
    /// For a file system that knows no numbers.
    adapter: Option<PathNodes>,
    capabilities: Capabilities,
    exclusive: bool,
    known: Known,
    files: Slots<FileHandle, OpenFile>,
    dirs: Slots<DirHandle, OpenDir>,
    /// Set by every request, cleared by whoever watches for idleness.
    active: AtomicBool,
    stopped: AtomicBool,
    /// Requests that are being answered.
    answering: AtomicUsize,
}

/// A request that is being answered.
pub(crate) struct Answering<'d>(&'d Door);

impl Door {
    /// With `exclusive`, nobody else changes the tree.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, exclusive: bool) -> BackendResult<Self> {
        let capabilities = fs.capabilities();
        let exclusive = exclusive || capabilities.contains(Capabilities::IMMUTABLE);
        let adapter = match fs.nodes() {
            Some(_) => None,
            None => Some(PathNodes::new(Arc::clone(&fs))?),
        };
        Ok(Door {
            capabilities,
            exclusive,
            // An adapter cannot say what a directory holds by the bytes of names alone.
            known: Known::new(exclusive && adapter.is_none()),
            adapter,
            fs,
            files: Slots::new(),
            dirs: Slots::new(),
            active: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
        })
    }

    fn nodes(&self) -> &dyn NodeSystem {
        match &self.adapter {
            Some(adapter) => adapter,
            None => self.fs.nodes().expect("whether a tree has numbers never changes"),
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether nobody else changes the tree.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Begins to answer a request; `None` once the door is stopped.
    pub(crate) fn begin(&self) -> Option<Answering<'_>> {
        // Written only when it changes something.
        if !self.active.load(Ordering::Relaxed) {
            self.active.store(true, Ordering::Relaxed);
        }
        self.answering.fetch_add(1, Ordering::SeqCst);
        let answering = Answering(self);
        (!self.stopped.load(Ordering::SeqCst)).then_some(answering)
    }

    /// From now on every request is refused. When this returns none is being answered.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        while self.answering.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether there was no request since the last call, and nothing is open.
    pub(crate) fn was_idle(&self) -> bool {
        let active = self.active.swap(false, Ordering::Relaxed);
        !active && self.files.is_empty() && self.dirs.is_empty()
    }

    pub(crate) fn lookup(&self, parent: NodeId, name: &[u8]) -> Answer<Entry> {
        if self.known.lacks(parent, name) {
            return Err(rustix::io::Errno::NOENT);
        }
        self.nodes().lookup(parent, name).map_err(of)
    }

    pub(crate) fn forget(&self, node: NodeId, count: u64) {
        self.known.forget(node);
        self.nodes().forget(node, count);
    }

    /// Reports every change of the tree, whoever makes it.
    pub(crate) fn watch(&self, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.fs.watch(stratafs::VfsPath::root(), sink)
    }

    /// What a report makes untrue of what the kernel was told.
    pub(crate) fn stale(&self, report: &WatchEvent) -> Vec<Stale> {
        self.nodes().stale(report)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::SeqCst);
    }
}
