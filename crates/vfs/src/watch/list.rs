//! Who wants to hear of changes: what a backend or layer with `WATCH` keeps.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{WatchEvent, WatchGuard, WatchKind, WatchSink};
use crate::path::{VfsPath, VfsPathBuf};

/// The sinks, each with the path it watches. Without any, a change costs one load.
#[derive(Default)]
pub struct Watches {
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
    /// Reports to `sink` what happens at and below `base`, until the guard is dropped.
    pub fn add(&self, base: &VfsPath, sink: Arc<dyn WatchSink>) -> WatchGuard {
        let number = self.list.next.fetch_add(1, Ordering::Relaxed);
        let mut sinks = locked(&self.list.sinks);
        sinks.push(Watch { number, base: base.to_owned(), sink });
        self.list.any.store(true, Ordering::Release);
        drop(sinks);
        WatchGuard::new(Remove { list: Arc::clone(&self.list), number })
    }

    /// Whether anybody listens: the path of a report need not be made otherwise.
    #[inline]
    pub fn any(&self) -> bool {
        self.list.any.load(Ordering::Acquire)
    }

    /// Reports a change. The caller holds no lock.
    #[inline]
    pub fn report(&self, kind: WatchKind, path: &VfsPath) {
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
    pub fn report_overflow(&self) {
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

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").field("any", &self.any()).finish_non_exhaustive()
    }
}

/// A sink that panicked has left the list whole: it is called without the lock.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
