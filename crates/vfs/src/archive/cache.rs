//! Decoded blocks, kept so that small reads do not decode a block each.
//!
//! Blocks are spread over shards by number, so the blocks of one file spread evenly and a file
//! of exactly the cache's size fits it. Each shard is a clock: a block that was used since the
//! hand last passed stays another round. Only reads of a part of a block come here; a read of
//! whole blocks decodes into the caller's buffer and leaves the cache to those who need it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::CachePadded;

const SHARDS: u32 = 16;

/// A bounded set of decoded blocks by number.
pub(crate) struct BlockCache {
    shards: [CachePadded<Mutex<Shard>>; SHARDS as usize],
    shard_capacity: usize,
}

#[derive(Default)]
struct Shard {
    places: HashMap<u32, usize, BuildHasherDefault<Spread>>,
    slots: Vec<Slot>,
    hand: usize,
    bytes: usize,
}

struct Slot {
    number: u32,
    used: bool,
    block: Arc<Vec<u8>>,
}

/// Block numbers are small and dense: a multiplication spreads them.
#[derive(Default)]
struct Spread(u64);

impl std::hash::Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl BlockCache {
    /// Holds up to `capacity` bytes of decoded blocks; `None` for 0.
    pub(crate) fn new(capacity: u64) -> Option<BlockCache> {
        let shard_capacity = usize::try_from(capacity / u64::from(SHARDS)).unwrap_or(usize::MAX);
        (capacity > 0).then(|| BlockCache { shards: Default::default(), shard_capacity })
    }

    fn shard(&self, number: u32) -> std::sync::MutexGuard<'_, Shard> {
        // A shard is whole between any two of its statements; a panic elsewhere is no reason
        // not to use it.
        self.shards[(number % SHARDS) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Vec<u8>>> {
        let mut shard = self.shard(number);
        let place = *shard.places.get(&number)?;
        let slot = &mut shard.slots[place];
        slot.used = true;
        Some(Arc::clone(&slot.block))
    }

    /// Keeps a block, unless it is larger than a shard.
    pub(crate) fn insert(&self, number: u32, block: Arc<Vec<u8>>) {
        let len = block.len();
        if len > self.shard_capacity {
            return;
        }
        let mut shard = self.shard(number);
        if shard.places.contains_key(&number) {
            return; // another thread decoded it meanwhile
        }
        while shard.bytes + len > self.shard_capacity {
            shard.evict_one();
        }
        let place = shard.slots.len();
        shard.places.insert(number, place);
        shard.slots.push(Slot { number, used: false, block });
        shard.bytes += len;
    }
}

impl Shard {
    /// Drops the first block under the hand that was not used since it last passed.
    fn evict_one(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if std::mem::take(&mut slot.used) {
                self.hand += 1;
                continue;
            }
            let gone = self.slots.swap_remove(self.hand);
            self.places.remove(&gone.number);
            self.bytes -= gone.block.len();
            if let Some(moved) = self.slots.get(self.hand) {
                self.places.insert(moved.number, self.hand);
            }
            // The moved block waits until the hand comes round again.
            self.hand += 1;
            return;
        }
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache").field("shard_capacity", &self.shard_capacity).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Arc<Vec<u8>> {
        Arc::new(vec![0; len])
    }

    fn bytes(cache: &BlockCache) -> usize {
        (0..SHARDS).map(|shard| cache.shard(shard).bytes).sum()
    }

    #[test]
    fn a_file_of_exactly_the_capacity_fits() {
        let cache = BlockCache::new(64 << 20).unwrap();
        for number in 100..1124 {
            cache.insert(number, block(64 << 10));
        }
        assert!((100..1124).all(|number| cache.get(number).is_some()));
    }

    #[test]
    fn never_holds_more_than_its_capacity_and_keeps_what_is_used() {
        let cache = BlockCache::new(1 << 20).unwrap();
        cache.insert(0, block(4096));
        for number in 1..10_000 {
            assert!(cache.get(0).is_some(), "lost at {number}");
            cache.insert(number, block(1 + (number as usize * 977) % 4_000));
            assert!(bytes(&cache) <= 1 << 20);
        }
        let held: usize = (0..SHARDS)
            .map(|shard| {
                let shard = cache.shard(shard);
                assert_eq!(shard.places.len(), shard.slots.len());
                assert!(shard.places.iter().all(|(n, &place)| shard.slots[place].number == *n));
                shard.slots.iter().map(|slot| slot.block.len()).sum::<usize>()
            })
            .sum();
        assert_eq!(held, bytes(&cache));
    }

    #[test]
    fn a_block_larger_than_a_shard_is_not_kept() {
        let cache = BlockCache::new(16 * 1000).unwrap();
        cache.insert(3, block(1001));
        assert!(cache.get(3).is_none());
        assert!(BlockCache::new(0).is_none());
    }
}
