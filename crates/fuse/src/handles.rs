//! What is open: files and directory listings, by the number the kernel got for them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;
use stratafs::{File, NodeId};

use crate::ids::{DirHandle, FileHandle};

const SHARDS: usize = 16;

/// A number of one kind of open thing.
pub(crate) trait Handle: Copy {
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Handle for FileHandle {
    fn of(number: u64) -> Self {
        FileHandle(number)
    }
    fn number(self) -> u64 {
        self.0
    }
}

impl Handle for DirHandle {
    fn of(number: u64) -> Self {
        DirHandle(number)
    }
    fn number(self) -> u64 {
        self.0
    }
}

/// Things by number. Sharded, so that threads which serve different files do not share a lock.
#[derive(Debug)]
pub(crate) struct Slots<H, T> {
    shards: [Mutex<Slab<Arc<T>>>; SHARDS],
    _handle: PhantomData<H>,
}

impl<H: Handle, T> Slots<H, T> {
    pub(crate) fn new() -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Slab::new()));
        Slots { shards, _handle: PhantomData }
    }

    /// Keeps `value`; the node picks the shard.
    pub(crate) fn insert(&self, node: NodeId, value: Arc<T>) -> H {
        let shard = (node.0 % SHARDS as u64) as usize;
        let key = self.shard(shard).insert(value);
        H::of((key * SHARDS + shard) as u64)
    }

    pub(crate) fn get(&self, handle: H) -> Option<Arc<T>> {
        let (shard, key) = Self::split(handle);
        self.shard(shard).get(key).cloned()
    }

    pub(crate) fn remove(&self, handle: H) -> Option<Arc<T>> {
        let (shard, key) = Self::split(handle);
        self.shard(shard).try_remove(key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        (0..SHARDS).all(|shard| self.shard(shard).is_empty())
    }

    fn split(handle: H) -> (usize, usize) {
        let handle = handle.number() as usize;
        (handle % SHARDS, handle / SHARDS)
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Slab<Arc<T>>> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: NodeId,
    pub(crate) file: Box<dyn File>,
    pub(crate) write: bool,
    /// Whether it may lend its bytes: one that did not is not asked again.
    lends: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(node: NodeId, file: Box<dyn File>, write: bool) -> Self {
        OpenFile { node, file, write, lends: AtomicBool::new(true) }
    }

    /// The bytes of a range, where the backend lends them.
    pub(crate) fn lent(
        &self,
        range: std::ops::Range<u64>,
    ) -> stratafs::BackendResult<Option<stratafs::kit::Bytes>> {
        if !self.lends.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let lent = self.file.bytes_at(range)?;
        if lent.is_none() {
            self.lends.store(false, Ordering::Relaxed);
        }
        Ok(lent)
    }
}
