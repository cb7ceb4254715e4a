//! Which directories are asked for often enough to be worth a descriptor and a watch.

use std::sync::atomic::{AtomicU8, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::path::VfsPath;

const SLOTS: usize = 512;

/// How often a directory is asked for before it is kept: once is often the only time.
const WORTH_IT: u8 = 2;

/// The same while there is no room: keeping it costs another its place.
const WORTH_A_PLACE: u8 = 16;

/// Counts by hash; directories that share a slot are only kept a little early.
pub(super) struct Misses([AtomicU8; SLOTS]);

impl Misses {
    pub(super) fn new() -> Self {
        Misses([const { AtomicU8::new(0) }; SLOTS])
    }

    /// Counts, and says whether to try keeping it now. After a try that failed the next one
    /// comes when the count has gone round.
    pub(super) fn is_due(&self, dir: &VfsPath, is_full: bool) -> bool {
        let slot = self.slot(dir);
        // A count lost between two threads does not matter.
        let count = slot.load(Ordering::Relaxed).wrapping_add(1);
        slot.store(count, Ordering::Relaxed);
        count == if is_full { WORTH_A_PLACE } else { WORTH_IT }
    }

    /// Counts from the start: it is kept now.
    pub(super) fn forget(&self, dir: &VfsPath) {
        self.slot(dir).store(0, Ordering::Relaxed);
    }

    /// Takes a count back: the try that was due could not be made.
    pub(super) fn put_off(&self, dir: &VfsPath) {
        let slot = self.slot(dir);
        slot.store(slot.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    fn slot(&self, dir: &VfsPath) -> &AtomicU8 {
        &self.0[xxh3_64(dir.as_bytes()) as usize % SLOTS]
    }
}

impl std::fmt::Debug for Misses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Misses")
    }
}
