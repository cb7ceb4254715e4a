//! Who may change the tree, and how lookups notice that it changed under them.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use xxhash_rust::xxh3::xxh3_64;

use crate::path::VfsPath;

/// Orders the changes of the tree. A change that the upper layer makes in one step takes the
/// lock shared; one of several steps (a directory and its remap) takes it alone and makes the
/// sequence number odd, by which lookups, which take no lock, see that they must look again.
#[derive(Debug, Default)]
pub(super) struct Tree {
    lock: ShardedLock<()>,
    sequence: CachePadded<AtomicU64>,
}

/// Held for a change of several steps.
#[derive(Debug)]
pub(super) struct Exclusive<'a> {
    sequence: &'a AtomicU64,
    _lock: ShardedLockWriteGuard<'a, ()>,
}

impl Tree {
    pub(super) fn shared(&self) -> ShardedLockReadGuard<'_, ()> {
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn exclusive(&self) -> Exclusive<'_> {
        let lock = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        self.sequence.fetch_add(1, Ordering::SeqCst);
        Exclusive { sequence: &self.sequence, _lock: lock }
    }

    /// Where the changes stand; for [`stands`](Self::stands).
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Whether no change of several steps was under way since `begin` answered this.
    #[inline]
    pub(super) fn stands(&self, begun: u64) -> bool {
        fence(Ordering::Acquire);
        begun & 1 == 0 && self.sequence.load(Ordering::Relaxed) == begun
    }

    /// Looks without a lock; once more, and with it, when a change of several steps came in
    /// between. An answer that is `sure` needs no second look: it came from the upper layer
    /// alone, which changes in single steps.
    #[inline]
    pub(super) fn look<T>(&self, look: impl Fn() -> T, sure: impl Fn(&T) -> bool) -> T {
        let begun = self.begin();
        let answer = look();
        if sure(&answer) || self.stands(begun) {
            return answer;
        }
        drop(answer);
        let _shared = self.shared();
        look()
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.sequence.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many locks the names share.
const NAME_LOCKS: usize = 64;

/// One lock for each name, as far as names with different hashes go.
#[derive(Debug)]
pub(super) struct NameLocks([CachePadded<Mutex<()>>; NAME_LOCKS]);

impl Default for NameLocks {
    fn default() -> Self {
        NameLocks(std::array::from_fn(|_| CachePadded::default()))
    }
}

impl NameLocks {
    pub(super) fn lock(&self, path: &VfsPath) -> MutexGuard<'_, ()> {
        self.at(index(path))
    }

    /// Two names, in the order of their locks.
    pub(super) fn lock_both(
        &self,
        one: &VfsPath,
        other: &VfsPath,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (one, other) = (index(one), index(other));
        let first = self.at(one.min(other));
        (first, (one != other).then(|| self.at(one.max(other))))
    }

    fn at(&self, index: usize) -> MutexGuard<'_, ()> {
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn index(path: &VfsPath) -> usize {
    xxh3_64(path.as_bytes()) as usize % NAME_LOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_during_a_change_is_repeated() {
        let tree = Tree::default();
        let begun = tree.begin();
        assert!(tree.stands(begun));
        let change = tree.exclusive();
        assert!(!tree.stands(begun));
        assert!(!tree.stands(tree.begin()));
        drop(change);
        assert!(!tree.stands(begun));
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() == 1 {
                drop(tree.exclusive());
            }
            looks.get()
        };
        assert_eq!(tree.look(look, |_| false), 2);
        assert_eq!(tree.look(look, |_| false), 3);
    }
}
