//! Arrays that grow without moving, and numbers for their cells.
//!
//! Memory once used for a cell stays a cell of that type until the file system is dropped, so
//! a reader may look at a cell that was freed and used again meanwhile; versions and
//! generations tell it so.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use crossbeam_utils::CachePadded;

use super::locked;
use crate::error::{BackendResult, ErrorKind};
use crate::sharded::{MAX_SHARDS, shard_index};

const FIRST_BITS: u32 = 8;
const CHUNKS: usize = 23;

/// One more than the largest index: the sum of all chunks.
const END: u32 = (1 << (FIRST_BITS + CHUNKS as u32)) - (1 << FIRST_BITS);

/// How many fresh numbers a thread's shard takes at once.
const BATCH: u32 = 32;

/// An array in chunks of doubling size; chunks are made when first asked for.
pub(crate) struct Chunked<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
    make: fn() -> T,
}

impl<T> Chunked<T> {
    pub(crate) fn new(make: fn() -> T) -> Self {
        Chunked { chunks: [const { OnceLock::new() }; CHUNKS], make }
    }

    #[inline]
    fn place(index: u32) -> (usize, usize) {
        let shifted = index + (1 << FIRST_BITS);
        let bits = shifted.ilog2();
        ((bits - FIRST_BITS) as usize, (shifted - (1 << bits)) as usize)
    }

    /// The cell, or `None` where its chunk was never made.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = Self::place(index);
        Some(&self.chunks[chunk].get()?[offset])
    }

    /// The cell; its chunk is made when it is missing.
    #[inline]
    pub(crate) fn get_or_make(&self, index: u32) -> &T {
        let (chunk, offset) = Self::place(index);
        let cells = match self.chunks[chunk].get() {
            Some(cells) => cells,
            None => self.make_chunk(chunk),
        };
        &cells[offset]
    }

    #[cold]
    fn make_chunk(&self, chunk: usize) -> &[T] {
        self.chunks[chunk].get_or_init(|| {
            (0..1_usize << (FIRST_BITS as usize + chunk)).map(|_| (self.make)()).collect()
        })
    }
}

/// A [`Chunked`] array whose cells are handed out and taken back. Index 0 is never handed out.
pub(crate) struct Slab<T> {
    cells: Chunked<T>,
    next: AtomicU32,
    free: [CachePadded<Mutex<Vec<u32>>>; MAX_SHARDS],
}

impl<T> Slab<T> {
    pub(crate) fn new(make: fn() -> T) -> Self {
        Slab {
            cells: Chunked::new(make),
            next: AtomicU32::new(1),
            free: std::array::from_fn(|_| CachePadded::new(Mutex::new(Vec::new()))),
        }
    }

    /// A cell that was handed out at some time.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        // Making it, where it is missing, is only a way not to panic.
        self.cells.get_or_make(index)
    }

    /// One more than the largest index handed out so far.
    pub(crate) fn end(&self) -> u32 {
        self.next.load(Ordering::Acquire).min(END)
    }

    /// Hands a cell out, as its last user left it.
    ///
    /// # Errors
    /// `NoSpace` when there is no number left.
    pub(crate) fn allocate(&self) -> BackendResult<u32> {
        let own = shard_index();
        if let Some(index) = locked(&self.free[own]).pop() {
            return Ok(index);
        }
        // Cells that other threads gave back, before new memory.
        for shard in (1..MAX_SHARDS).map(|step| (own + step) % MAX_SHARDS) {
            if let Ok(mut free) = self.free[shard].try_lock()
                && free.len() > BATCH as usize
            {
                let at = free.len() / 2;
                let taken = free.split_off(at);
                drop(free);
                let mut own = locked(&self.free[own]);
                own.extend(taken);
                if let Some(index) = own.pop() {
                    return Ok(index);
                }
            }
        }
        self.fresh(own)
    }

    #[cold]
    fn fresh(&self, own: usize) -> BackendResult<u32> {
        let first = self
            .next
            .try_update(Ordering::AcqRel, Ordering::Acquire, |next| {
                next.checked_add(BATCH).filter(|&end| end <= END)
            })
            .map_err(|_| ErrorKind::NoSpace)?;
        let mut free = locked(&self.free[own]);
        free.extend((first + 1..first + BATCH).rev());
        Ok(first)
    }

    /// Takes a cell back.
    pub(crate) fn release(&self, index: u32) {
        locked(&self.free[shard_index()]).push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_distinct_and_reused() {
        let slab: Slab<u32> = Slab::new(|| 0);
        let mut indexes: Vec<u32> = (0..10_000).map(|_| slab.allocate().unwrap()).collect();
        let last = indexes.pop().unwrap();
        slab.release(last);
        assert_eq!(slab.allocate().unwrap(), last);
        indexes.sort_unstable();
        indexes.dedup();
        assert_eq!(indexes.len(), 9_999);
        assert!(!indexes.contains(&0));
    }

    #[test]
    fn cells_do_not_share_a_place() {
        let chunked: Chunked<AtomicU32> = Chunked::new(|| AtomicU32::new(0));
        for index in 0..5_000 {
            chunked.get_or_make(index).store(index, Ordering::Relaxed);
        }
        for index in 0..5_000 {
            assert_eq!(chunked.get(index).unwrap().load(Ordering::Relaxed), index);
        }
        assert!(chunked.get(1 << 20).is_none());
        let (chunk, offset) = Chunked::<u32>::place(END - 1);
        assert_eq!((chunk, offset), (CHUNKS - 1, (1 << 30) - 1));
    }

    #[test]
    fn other_threads_cells_are_found_before_new_memory() {
        let slab: Slab<u32> = Slab::new(|| 0);
        let made: Vec<u32> = (0..1000).map(|_| slab.allocate().unwrap()).collect();
        let end = slab.end();
        std::thread::scope(|scope| {
            scope.spawn(|| made.iter().for_each(|&index| slab.release(index)));
        });
        for _ in 0..500 {
            slab.allocate().unwrap();
        }
        assert_eq!(slab.end(), end);
    }
}
