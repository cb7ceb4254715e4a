//! What is open: files and directory listings, by the number the kernel got for them.

use std::sync::{Arc, Mutex, PoisonError};

use slab::Slab;
use stratafs::File;

const SHARDS: usize = 16;

/// Things by number. Sharded, so that threads which serve different files do not share a lock.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    shards: [Mutex<Slab<Arc<T>>>; SHARDS],
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots { shards: std::array::from_fn(|_| Mutex::new(Slab::new())) }
    }

    /// Keeps `value`; `hint` (any number) picks the shard.
    pub(crate) fn insert(&self, hint: u64, value: Arc<T>) -> u64 {
        let shard = (hint % SHARDS as u64) as usize;
        let key = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner).insert(value);
        (key * SHARDS + shard) as u64
    }

    pub(crate) fn get(&self, handle: u64) -> Option<Arc<T>> {
        let (shard, key) = Self::split(handle);
        shard_of(&self.shards, shard).get(key).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let (shard, key) = Self::split(handle);
        shard_of(&self.shards, shard).try_remove(key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        (0..SHARDS).all(|shard| shard_of(&self.shards, shard).is_empty())
    }

    fn split(handle: u64) -> (usize, usize) {
        let handle = handle as usize;
        (handle % SHARDS, handle / SHARDS)
    }
}

fn shard_of<T>(
    shards: &[Mutex<Slab<Arc<T>>>; SHARDS],
    shard: usize,
) -> std::sync::MutexGuard<'_, Slab<Arc<T>>> {
    shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: u64,
    pub(crate) file: Box<dyn File>,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl OpenFile {
    /// Whether this handle allows what another open of its file asks for.
    pub(crate) fn covers(&self, read: bool, write: bool) -> bool {
        (self.read || !read) && (self.write || !write)
    }
}
