//! A shared pointer whose count is not shared.
//!
//! A handle must keep its backend alive. If every open cloned one `Arc`, every thread would
//! write the same counter: a lock in disguise (an open took 73 ns at one thread and 300 ns at
//! two). A [`Sharded`] holds several counted pointers to one value and hands each thread its
//! own, so opens on different threads write different cache lines.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

/// How many counters there are at most, and how many ids [`shard_index`] tells apart. Threads
/// beyond it share.
pub(crate) const MAX_SHARDS: usize = 16;

/// A small number for the calling thread, spread evenly over `0..MAX_SHARDS`.
#[inline]
pub(crate) fn shard_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // A thread that is being torn down has no thread-local left; any shard will do for it.
    INDEX
        .try_with(|index| match index.get() {
            usize::MAX => {
                let new = NEXT.fetch_add(1, Ordering::Relaxed) % MAX_SHARDS;
                index.set(new);
                new
            }
            known => known,
        })
        .unwrap_or(0)
}

/// Owns a value and lends counted pointers to it, one counter per shard of threads.
pub struct Sharded<T> {
    shards: [Shared<T>; MAX_SHARDS],
}

/// A counted pointer from a [`Sharded`]: keeps the value alive.
pub struct Shared<T>(Arc<CachePadded<Arc<T>>>);

impl<T> Sharded<T> {
    /// Of this value.
    pub fn new(value: T) -> Self {
        Self::from_arc(Arc::new(value))
    }

    /// Of the value that this points to.
    pub fn from_arc(value: Arc<T>) -> Self {
        Sharded {
            shards: std::array::from_fn(|_| Shared(Arc::new(CachePadded::new(Arc::clone(&value))))),
        }
    }

    /// A pointer for a handle to keep: writes only this thread's counter.
    #[inline]
    pub fn share(&self) -> Shared<T> {
        self.shards[shard_index()].clone()
    }
}

impl<T> Deref for Sharded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.shards[0]
    }
}

impl<T: fmt::Debug> fmt::Debug for Sharded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_outlives_its_owner_and_frees_at_last() {
        let value = Arc::new(7);
        let sharded = Sharded::from_arc(Arc::clone(&value));
        let kept = std::thread::scope(|scope| scope.spawn(|| sharded.share()).join().unwrap());
        drop(sharded);
        assert_eq!(*kept, 7);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(kept);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
