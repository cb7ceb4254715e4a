//! Which names a directory may hold: a set that can say "no" for certain.
//!
//! A blocked Bloom filter. Names are only ever added, so a removed name answers "maybe" and
//! costs a question to the disk. A reader loads one cache line and writes nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use xxhash_rust::xxh3::xxh3_64;

const BLOCK_BITS: usize = 512;

/// With four bits set per name about three in a thousand absent names answer "maybe".
const BITS_PER_NAME: usize = 16;
const BITS_SET: u32 = 4;

/// Room that even an empty directory's filter has.
const MIN_BLOCKS: usize = 4;

#[derive(Debug)]
#[repr(align(64))]
struct Block([AtomicU64; BLOCK_BITS / 64]);

#[derive(Debug)]
pub(super) struct Filter {
    blocks: Box<[Block]>,
    /// How many more names it takes before "maybe" becomes too frequent.
    room: AtomicUsize,
}

impl Filter {
    /// Says "maybe" rarely enough for this many names (and for a few in any case).
    pub(super) fn with_capacity(names: usize) -> Self {
        let blocks = (names * BITS_PER_NAME).div_ceil(BLOCK_BITS).max(MIN_BLOCKS);
        Filter {
            blocks: (0..blocks).map(|_| Block(Default::default())).collect(),
            room: AtomicUsize::new(blocks * BLOCK_BITS / BITS_PER_NAME),
        }
    }

    /// How many names it was made for.
    pub(super) fn capacity(&self) -> usize {
        self.blocks.len() * (BLOCK_BITS / BITS_PER_NAME)
    }

    /// Adds a name; `false` when there is no room for it and the filter is to be made anew (the
    /// name is in it nevertheless).
    pub(super) fn insert(&self, name: &[u8]) -> bool {
        self.insert_hash(Self::hash(name))
    }

    /// As [`insert`](Self::insert), of a name's hash.
    pub(super) fn insert_hash(&self, hash: u64) -> bool {
        let (block, bits) = self.place(hash);
        let mut is_new = false;
        for (word, mask) in bits {
            is_new |= block.0[word].fetch_or(mask, Ordering::Release) & mask == 0;
        }
        let takes_one = |room: usize| room.checked_sub(1);
        !is_new || self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, takes_one).is_ok()
    }

    /// `false` only for a name that was never added.
    #[inline]
    pub(super) fn may_contain(&self, name: &[u8]) -> bool {
        let (block, mut bits) = self.place(Self::hash(name));
        bits.all(|(word, mask)| block.0[word].load(Ordering::Acquire) & mask != 0)
    }

    #[inline]
    pub(super) fn hash(name: &[u8]) -> u64 {
        xxh3_64(name)
    }

    /// The block of a hash, and its bits there as word and mask.
    #[inline]
    fn place(&self, hash: u64) -> (&Block, impl Iterator<Item = (usize, u64)> + use<>) {
        // The high half of the product spreads the hash over the blocks without a division.
        let index = (u128::from(hash) * self.blocks.len() as u128) >> 64;
        let block = &self.blocks[index as usize];
        let bits = (0..BITS_SET).map(move |i| {
            let bit = (hash >> (i * 9)) as usize % BLOCK_BITS;
            (bit / 64, 1 << (bit % 64))
        });
        (block, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_is_certain_and_mostly_said() {
        let filter = Filter::with_capacity(1000);
        let name = |i: u32| format!("name-{i}");
        for i in 0..1000 {
            assert!(filter.insert(name(i).as_bytes()));
        }
        assert!((0..1000).all(|i| filter.may_contain(name(i).as_bytes())));
        let wrong = (1000..11_000).filter(|&i| filter.may_contain(name(i).as_bytes())).count();
        assert!(wrong < 200, "{wrong} of 10000");
    }

    #[test]
    fn it_says_when_it_is_full_but_not_for_names_it_has() {
        let filter = Filter::with_capacity(0);
        let full = (0..).find(|i: &u32| !filter.insert(&i.to_le_bytes())).unwrap();
        assert!((64..1000).contains(&full), "{full}");
        assert!(filter.may_contain(&full.to_le_bytes()));
        assert!(filter.insert(&full.to_le_bytes()));
    }
}
