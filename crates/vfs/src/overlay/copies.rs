//! What handles on lower files must know of copy-ups.
//!
//! A handle on a lower file counts itself (in an array of its own thread group, so that opening
//! writes no shared cache line) and remembers how many copy-ups had started. Reading costs it
//! one load: while no more have started, the lower file is the file. When more have, it looks
//! whether its own file was among them; such a copy-up left a record with a handle on the copy,
//! which follows the copy whatever becomes of its name.
//!
//! A copy-up puts the record down, counts itself started, gives the copy its name, counts
//! itself finished, and takes the record away if nobody has the lower file open. Whoever opens
//! it counts the handle first and then looks whether a copy-up has started since before the
//! lookup. All of these are sequentially consistent, so that one of the two sees the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::File;
use crate::metadata::FileId;
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::MAX_SHARDS;

/// Lower files are counted by the hash of their path; those that share a counter only keep
/// each other's records longer.
const BUCKETS: usize = 256;

/// A handle's answer to "which copy-ups do you know of" before it knows of any.
pub(super) const UNSETTLED: u64 = u64::MAX;

/// The copy of a lower file that somebody may still have open.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Reads and writes the copy.
    pub(super) file: Arc<dyn File>,
    /// Its id in the upper layer.
    pub(super) id: FileId,
    /// Orders appends through `file`, which knows nothing of appending.
    pub(super) appends: Arc<Mutex<()>>,
}

#[derive(Debug)]
pub(super) struct Copies {
    steps: CachePadded<Steps>,
    open: Vec<CachePadded<[AtomicU32; BUCKETS]>>,
    records: Mutex<HashMap<VfsPathBuf, Record>>,
}

#[derive(Debug, Default)]
struct Steps {
    started: AtomicU64,
    finished: AtomicU64,
    removals: AtomicU64,
    any_records: AtomicBool,
}

impl Default for Copies {
    fn default() -> Self {
        let counters = || CachePadded::new(std::array::from_fn(|_| AtomicU32::new(0)));
        Copies {
            steps: CachePadded::default(),
            open: (0..MAX_SHARDS).map(|_| counters()).collect(),
            records: Mutex::default(),
        }
    }
}

pub(super) fn bucket(path: &VfsPath) -> usize {
    xxh3_64(path.as_bytes()) as usize % BUCKETS
}

impl Copies {
    /// How many copy-ups have started.
    #[inline]
    pub(super) fn started(&self) -> u64 {
        self.steps.started.load(Ordering::SeqCst)
    }

    /// As [`started`](Self::started), if all of them have finished, else [`UNSETTLED`].
    #[inline]
    pub(super) fn settled(&self) -> u64 {
        // In this order: equal means that none was under way at the second load.
        let finished = self.steps.finished.load(Ordering::SeqCst);
        let started = self.steps.started.load(Ordering::SeqCst);
        if finished == started { started } else { UNSETTLED }
    }

    /// How many lower names were hidden.
    #[inline]
    pub(super) fn removals(&self) -> u64 {
        self.steps.removals.load(Ordering::Acquire)
    }

    pub(super) fn count_removal(&self) {
        self.steps.removals.fetch_add(1, Ordering::AcqRel);
    }

    #[inline]
    pub(super) fn count_open(&self, shard: usize, bucket: usize) {
        self.open[shard][bucket].fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn count_close(&self, shard: usize, bucket: usize) {
        self.open[shard][bucket].fetch_sub(1, Ordering::SeqCst);
        if self.steps.any_records.load(Ordering::SeqCst) {
            self.sweep(bucket);
        }
    }

    fn is_open(&self, bucket: usize) -> bool {
        self.open.iter().any(|counters| counters[bucket].load(Ordering::SeqCst) > 0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<VfsPathBuf, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, beneath: &VfsPath) -> Option<Record> {
        self.lock().get(beneath).cloned()
    }

    /// Puts a record down for the file that the layers beneath have at `beneath`, without a
    /// name appearing or changing.
    pub(super) fn put(&self, beneath: &VfsPath, file: &Arc<dyn File>, id: FileId) -> Record {
        let record = Record { file: Arc::clone(file), id, appends: Arc::default() };
        let mut records = self.lock();
        records.insert(beneath.to_owned(), record.clone());
        self.steps.any_records.store(true, Ordering::SeqCst);
        record
    }

    /// A copy-up gives the copy its name in `place`.
    pub(super) fn publish<T>(
        &self,
        beneath: &VfsPath,
        file: &Arc<dyn File>,
        id: FileId,
        place: impl FnOnce() -> T,
    ) -> T {
        self.put(beneath, file, id);
        self.announce(place, bucket(beneath))
    }

    /// Makes every handle look for records again. For copies that stay without a name.
    pub(super) fn announce<T>(&self, place: impl FnOnce() -> T, bucket: usize) -> T {
        self.steps.started.fetch_add(1, Ordering::SeqCst);
        let placed = place();
        self.steps.finished.fetch_add(1, Ordering::SeqCst);
        self.sweep(bucket);
        placed
    }

    /// Takes away the records of files that nobody has open.
    #[cold]
    fn sweep(&self, of: usize) {
        let mut records = self.lock();
        if self.is_open(of) {
            return;
        }
        let mut dropped = Vec::new();
        records.retain(|path, record| {
            let keep = bucket(path) != of;
            if !keep {
                dropped.push(record.clone());
            }
            keep
        });
        self.steps.any_records.store(!records.is_empty(), Ordering::SeqCst);
        // Closing a file may call into a backend: not under the lock.
        drop(records);
        drop(dropped);
    }
}
