//! Who wants to hear of changes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::locked;
use crate::path::{VfsPath, VfsPathBuf};
use crate::watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};

/// The sinks, each with the path it watches. Without any, a change costs one load.
#[derive(Default)]
pub(crate) struct Watches {
    list: Arc<List>,
}

#[derive(Default)]
struct List {
    any: AtomicBool,
    next: AtomicU64,
    sinks: Mutex<Vec<Watch>>,
}

struct Watch {
    number: u64,
    base: VfsPathBuf,
    sink: Arc<dyn WatchSink>,
}

impl Watches {
    pub(crate) fn add(&self, base: &VfsPath, sink: Arc<dyn WatchSink>) -> WatchGuard {
        let number = self.list.next.fetch_add(1, Ordering::Relaxed);
        let mut sinks = locked(&self.list.sinks);
        sinks.push(Watch { number, base: base.to_owned(), sink });
        self.list.any.store(true, Ordering::Release);
        drop(sinks);
        WatchGuard::new(Remove { list: Arc::clone(&self.list), number })
    }

    /// Whether anybody listens: the path of a report need not be made otherwise.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.list.any.load(Ordering::Acquire)
    }

    /// Reports a change. The caller holds no lock.
    #[inline]
    pub(crate) fn report(&self, kind: WatchKind, path: &VfsPath) {
        if self.any() {
            self.report_to_all(kind, path);
        }
    }

    #[cold]
    fn report_to_all(&self, kind: WatchKind, path: &VfsPath) {
        for sink in self.sinks_of(path) {
            sink.event(WatchEvent { kind, path: path.to_owned() });
        }
    }

    /// Reports to everybody that changes went unreported. The caller holds no lock.
    pub(crate) fn report_overflow(&self) {
        let all: Vec<_> = locked(&self.list.sinks)
            .iter()
            .map(|watch| (Arc::clone(&watch.sink), watch.base.clone()))
            .collect();
        for (sink, path) in all {
            sink.event(WatchEvent { kind: WatchKind::Overflow, path });
        }
    }

    /// Copied, so that a sink may end watches, and no lock is held while it runs.
    fn sinks_of(&self, path: &VfsPath) -> Vec<Arc<dyn WatchSink>> {
        locked(&self.list.sinks)
            .iter()
            .filter(|watch| path.starts_with(&watch.base))
            .map(|watch| Arc::clone(&watch.sink))
            .collect()
    }
}

struct Remove {
    list: Arc<List>,
    number: u64,
}

impl Drop for Remove {
    fn drop(&mut self) {
        let mut sinks = locked(&self.list.sinks);
        let at = sinks.iter().position(|watch| watch.number == self.number);
        let removed = at.map(|at| sinks.swap_remove(at));
        self.list.any.store(!sinks.is_empty(), Ordering::Release);
        drop(sinks);
        // The sink's own destructor may do anything: not under the lock.
        drop(removed);
    }
}
