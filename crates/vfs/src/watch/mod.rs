//! Reports of changes.

mod list;

use std::any::Any;
use std::fmt;

use crate::path::VfsPathBuf;

pub use list::Watches;

/// What happened to a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WatchKind {
    /// A name appeared: made, linked, or renamed to it.
    Created,
    /// Contents changed.
    Modified,
    /// Metadata changed.
    Metadata,
    /// A name went: removed, or renamed away.
    Removed,
    /// Reports were lost (too many at once): whatever was learnt of the tree below the path
    /// must be learnt again.
    Overflow,
}

/// One report. Several changes in a row to one name may come as one report.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WatchEvent {
    /// What happened.
    pub kind: WatchKind,
    /// To which name.
    pub path: VfsPathBuf,
}

/// Where reports go. Called from a thread of the backend, or from the thread that makes the
/// change, while no lock of the backend is held; it must not block.
pub trait WatchSink: Send + Sync {
    /// Takes one report.
    fn event(&self, event: WatchEvent);
}

impl<F: Fn(WatchEvent) + Send + Sync> WatchSink for F {
    fn event(&self, event: WatchEvent) {
        self(event);
    }
}

/// Keeps a watch going; dropping it ends the reports.
pub struct WatchGuard {
    _keeps_alive: Box<dyn Any + Send + Sync>,
}

impl WatchGuard {
    /// A guard that owns whatever must live as long as the watch does.
    pub fn new(keeps_alive: impl Any + Send + Sync) -> Self {
        WatchGuard { _keeps_alive: Box::new(keeps_alive) }
    }
}

impl fmt::Debug for WatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchGuard")
    }
}
