//! The pointer to the current table, read without a locked instruction.
//!
//! A lookup in a memory or archive layer takes some tens of nanoseconds, and one locked
//! instruction about ten of them on the machines this was measured on; a swapped shared
//! pointer needs two (24 ns a load), a reader lock two (26 ns). So each thread keeps its own
//! pointer to the table it used last, and a call only compares version numbers (2 ns).
//!
//! The price: a thread that makes no further call keeps the tables it used last, and with them
//! the backends mounted then, until it ends. [`Vfs::unmount`](super::Vfs::unmount) says so.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::table::Table;

/// How many trees a thread can use in turn without falling back to the lock.
const SLOTS: usize = 4;

/// Versions of all tables of all trees: no two tables ever share one.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static SEEN: RefCell<[Option<Seen>; SLOTS]> = const { RefCell::new([const { None }; SLOTS]) };
}

struct Seen {
    version: u64,
    table: Snapshot,
}

/// A table for the time of one call. Counted without locked instructions, as it stays on its
/// thread; it outlives a change of the current table, also one made from inside the call.
// The outer count is the thread's own and cheap, the inner one is shared and not.
#[expect(clippy::redundant_allocation)]
#[derive(Clone)]
pub(super) struct Snapshot(Rc<Arc<Table>>);

impl Deref for Snapshot {
    type Target = Table;
    #[inline]
    fn deref(&self) -> &Table {
        &self.0
    }
}

/// Where the current table of one tree is.
pub(super) struct Current {
    version: AtomicU64,
    slot: usize,
    table: Mutex<Arc<Table>>,
}

impl Current {
    pub(super) fn new(table: Table) -> Self {
        let version = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
        let slot = version as usize % SLOTS;
        Current { version: version.into(), slot, table: Mutex::new(Arc::new(table)) }
    }

    /// The current table. A change made before, on any thread, is seen: its maker published
    /// the version (release) before it returned.
    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        let version = self.version.load(Ordering::Acquire);
        SEEN.try_with(|seen| match &seen.borrow()[self.slot] {
            Some(seen) if seen.version == version => Some(seen.table.clone()),
            _ => None,
        })
        .ok()
        .flatten()
        .unwrap_or_else(|| self.load_and_keep())
    }

    #[cold]
    fn load_and_keep(&self) -> Snapshot {
        let current = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that it is this table's version.
        let version = self.version.load(Ordering::Relaxed);
        let table = Snapshot(Rc::new(Arc::clone(&current)));
        drop(current);
        self.keep(Some(Seen { version, table: table.clone() }));
        table
    }

    /// Puts it into this thread's slot. What was there is dropped outside the borrow: it may
    /// be the last pointer to a backend, whose drop may use a tree itself. On a thread that is
    /// ending, nothing is kept.
    fn keep(&self, new: Option<Seen>) {
        let old = SEEN.try_with(|seen| std::mem::replace(&mut seen.borrow_mut()[self.slot], new));
        drop(old);
    }

    /// Replaces the table; callers are ordered by the mutex of the mounts.
    pub(super) fn store(&self, table: Table) {
        let new = Arc::new(table);
        let mut current = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, new);
        let version = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
        self.version.store(version, Ordering::Release);
        drop(current);
        drop(old);
        // This thread, at least, keeps nothing alive.
        self.keep(None);
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.keep(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_every_thread_and_frees_the_old_table() {
        let current = Current::new(Table::default());
        let before = current.load();
        assert_eq!(before.points().count(), 0);
        let weak = Arc::downgrade(&before.0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(current.load().points().count(), 0);
                current.store(Table::new(Vec::new()));
                let _ = current.load();
            });
        });
        assert!(!Rc::ptr_eq(&before.0, &current.load().0));
        assert!(weak.upgrade().is_some());
        drop(before);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn trees_that_share_a_slot_do_not_mix() {
        let trees: Vec<Current> = (0..3 * SLOTS).map(|_| Current::new(Table::default())).collect();
        let tables: Vec<Snapshot> = trees.iter().map(Current::load).collect();
        for (tree, table) in trees.iter().zip(&tables) {
            assert!(Arc::ptr_eq(&tree.load().0, &table.0));
        }
    }
}
