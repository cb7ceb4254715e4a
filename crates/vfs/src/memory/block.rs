//! Storage for one stretch of a file, page by page present or not.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use crossbeam_utils::CachePadded;

use super::locked;

/// What is present or a hole, charged and given back as one: 4 KiB.
pub(crate) const PAGE: usize = 4096;

/// The largest block, and the size of a huge page on most machines.
pub(crate) const LARGEST: usize = 2 << 20;

const WORDS: usize = LARGEST / PAGE / 64;

/// Contiguous memory with a map of which pages of it are present. What is not present reads
/// as zeros, whatever the memory holds.
///
/// Bytes of pages that are present can be overwritten through a shared reference: the lock of
/// the memory is then what keeps readers of this block away, and the file's own lock, which
/// costs a writer one lock for each group of threads, need only be taken for reading.
pub(crate) struct Block {
    memory: RwLock<Memory>,
    size: usize,
    present: [u64; WORDS],
    count: usize,
    /// Pages that are not present hold zeros, so that adding them need not clear them.
    is_clean: bool,
}

impl Block {
    /// A block of which no page is present.
    pub(crate) fn new(size: usize, pool: &Pool) -> Block {
        match pool.take(size) {
            Some(used) => Block::empty(used, false),
            None => Block::empty(Memory::new(size), true),
        }
    }

    fn empty(memory: Memory, is_clean: bool) -> Block {
        let size = memory.bytes().len();
        Block { memory: RwLock::new(memory), size, present: [0; WORDS], count: 0, is_clean }
    }

    /// A block of these bytes, all present.
    pub(crate) fn filled(bytes: &[u8], pool: &Pool) -> Block {
        let mut block = match pool.take(bytes.len()) {
            Some(used) => Block::empty(used, false),
            // Made from the bytes at once: making zeros first would take as long again.
            None if bytes.len() < LARGEST => {
                let mut block = Block::empty(Memory::Heap(bytes.into()), true);
                block.reserve(0..bytes.len() / PAGE);
                return block;
            }
            None => Block::new(bytes.len(), pool),
        };
        block.write(0, bytes);
        block
    }

    pub(crate) fn recycle(self, pool: &Pool) {
        pool.put(self.memory.into_inner().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut().unwrap_or_else(PoisonError::into_inner).bytes_mut()
    }

    /// How many pages are present.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn has(&self, page: usize) -> bool {
        self.present[page / 64] >> (page % 64) & 1 == 1
    }

    /// How many of these pages are present.
    #[inline]
    pub(crate) fn count_in(&self, pages: Range<usize>) -> usize {
        if self.count == self.size / PAGE {
            return pages.len();
        }
        pages.filter(|&page| self.has(page)).count()
    }

    /// Fills `buf` from `at`.
    #[inline]
    pub(crate) fn read(&self, at: usize, buf: &mut [u8]) {
        let pages = pages_touched(at..at + buf.len());
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let bytes = memory.bytes();
        if self.count_in(pages.clone()) == pages.len() {
            buf.copy_from_slice(&bytes[at..at + buf.len()]);
            return;
        }
        for page in pages {
            let (within, part) = page_part(page, at, buf.len());
            match self.has(page) {
                true => buf[part].copy_from_slice(&bytes[within]),
                false => buf[part].fill(0),
            }
        }
    }

    /// Writes `buf` at `at`, if all pages of that are present.
    #[inline]
    pub(crate) fn overwrite(&self, at: usize, buf: &[u8]) -> bool {
        let range = at..at + buf.len();
        let pages = pages_touched(range.clone());
        let present = self.count_in(pages.clone()) == pages.len();
        if present {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            memory.bytes_mut()[range].copy_from_slice(buf);
        }
        present
    }

    /// Writes `buf` at `at`.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, buf: &[u8]) {
        let range = at..at + buf.len();
        let whole = pages_within(range.clone());
        for page in pages_touched(range.clone()) {
            self.add(page, !whole.contains(&page));
        }
        self.bytes_mut()[range].copy_from_slice(buf);
    }

    /// Makes the pages present; those that were not read as zeros.
    pub(crate) fn reserve(&mut self, pages: Range<usize>) {
        pages.for_each(|page| self.add(page, true));
    }

    #[inline]
    fn add(&mut self, page: usize, cleared: bool) {
        if self.has(page) {
            return;
        }
        if cleared && !self.is_clean {
            self.bytes_mut()[page * PAGE..(page + 1) * PAGE].fill(0);
        }
        self.present[page / 64] |= 1 << (page % 64);
        self.count += 1;
    }

    /// Makes the range read as zeros; whole pages of it are not present any more.
    pub(crate) fn clear(&mut self, range: Range<usize>) {
        let whole = pages_within(range.clone());
        for page in pages_touched(range.clone()) {
            if !self.has(page) {
                continue;
            }
            if whole.contains(&page) {
                self.present[page / 64] &= !(1 << (page % 64));
                self.count -= 1;
                self.is_clean = false;
            } else {
                let (within, _) = page_part(page, range.start, range.len());
                self.bytes_mut()[within].fill(0);
            }
        }
    }

    /// A page that is present.
    pub(crate) fn page(&mut self, page: usize) -> &[u8] {
        &self.bytes_mut()[page * PAGE..(page + 1) * PAGE]
    }
}

/// The pages that have a byte in the range.
#[inline]
pub(crate) fn pages_touched(range: Range<usize>) -> Range<usize> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// The pages that lie wholly in the range.
#[inline]
pub(crate) fn pages_within(range: Range<usize>) -> Range<usize> {
    let start = range.start.div_ceil(PAGE);
    start..(range.end / PAGE).max(start)
}

/// Of `len` bytes at `at`, those on this page: where they are in the block, and which they are.
#[inline]
pub(crate) fn page_part(page: usize, at: usize, len: usize) -> (Range<usize>, Range<usize>) {
    let start = at.max(page * PAGE);
    let end = (at + len).min((page + 1) * PAGE);
    (start..end, start - at..end - at)
}

/// The smallest block.
pub(crate) const SMALLEST: usize = 16 << 10;

/// Blocks have the sizes from [`SMALLEST`] to [`LARGEST`], each twice the one before.
const SIZES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;

/// Memory of blocks that are not in use, kept for the next: filling memory that the system has
/// yet to give takes several times as long. Holds a bounded number of bytes.
pub(crate) struct Pool {
    sizes: [CachePadded<Mutex<Vec<Memory>>>; SIZES],
    held: CachePadded<AtomicU64>,
    most: u64,
}

impl Pool {
    /// A pool of at most this many bytes.
    pub(crate) fn new(bytes: u64) -> Pool {
        Pool {
            sizes: std::array::from_fn(|_| CachePadded::default()),
            held: CachePadded::default(),
            most: bytes,
        }
    }

    fn of_size(&self, size: usize) -> &Mutex<Vec<Memory>> {
        &self.sizes[(size / SMALLEST).ilog2() as usize]
    }

    fn take(&self, size: usize) -> Option<Memory> {
        let memory = locked(self.of_size(size)).pop()?;
        self.held.fetch_sub(size as u64, Ordering::Relaxed);
        Some(memory)
    }

    fn put(&self, memory: Memory) {
        let size = memory.bytes().len() as u64;
        if self.held.fetch_add(size, Ordering::Relaxed) + size <= self.most {
            locked(self.of_size(size as usize)).push(memory);
        } else {
            self.held.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

enum Memory {
    Heap(Box<[u8]>),
    #[cfg(target_os = "linux")]
    Mapped(mapped::Mapped),
}

impl Memory {
    /// Zeros.
    fn new(size: usize) -> Memory {
        #[cfg(target_os = "linux")]
        if size == LARGEST
            && let Some(mapped) = mapped::Mapped::new()
        {
            return Memory::Mapped(mapped);
        }
        Memory::Heap(vec![0; size].into_boxed_slice())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Memory::Mapped(mapped) => mapped.bytes(),
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Memory::Mapped(mapped) => mapped.bytes_mut(),
        }
    }
}

#[cfg(target_os = "linux")]
mod mapped {
    use memmap2::{Advice, MmapMut};

    use super::LARGEST;

    /// Memory straight from the kernel, with the wish for a huge page: filling it then takes
    /// one page fault instead of 512.
    pub(super) struct Mapped {
        map: MmapMut,
        start: usize,
    }

    impl Mapped {
        pub(super) fn new() -> Option<Mapped> {
            let mut map = MmapMut::map_anon(LARGEST).ok()?;
            let mut start = misalignment(&map);
            if start != 0 {
                // Kernels before 6.7 do not align such a mapping themselves. What is mapped too
                // much is never touched and takes no memory.
                map = MmapMut::map_anon(2 * LARGEST).ok()?;
                start = (LARGEST - misalignment(&map)) % LARGEST;
            }
            // Only a wish: refused, the pages are small.
            let _ = map.advise_range(Advice::HugePage, start, LARGEST);
            Some(Mapped { map, start })
        }

        #[inline]
        pub(super) fn bytes(&self) -> &[u8] {
            &self.map[self.start..self.start + LARGEST]
        }

        #[inline]
        pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.map[self.start..self.start + LARGEST]
        }
    }

    fn misalignment(map: &MmapMut) -> usize {
        map.as_ptr().addr() % LARGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_memory_reads_as_zeros_again() {
        let pool = Pool::new(LARGEST as u64);
        let mut block = Block::new(LARGEST, &pool);
        block.write(0, &vec![7; LARGEST]);
        assert_eq!(block.count(), LARGEST / PAGE);
        block.recycle(&pool);
        let mut block = Block::new(LARGEST, &pool);
        assert!(!block.is_clean);
        block.write(PAGE + 10, b"x");
        let mut all = vec![1; LARGEST];
        block.read(0, &mut all);
        assert!(
            all.iter()
                .enumerate()
                .all(|(at, &byte)| byte == if at == PAGE + 10 { b'x' } else { 0 })
        );
        assert_eq!(block.count(), 1);
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = Pool::new(3 * LARGEST as u64);
        let blocks: Vec<Block> = (0..5).map(|_| Block::new(LARGEST, &pool)).collect();
        blocks.into_iter().for_each(|block| block.recycle(&pool));
        assert_eq!(locked(pool.of_size(LARGEST)).len(), 3);
        assert_eq!(pool.held.load(Ordering::Relaxed), 3 * LARGEST as u64);
    }

    #[test]
    fn a_cleared_page_is_gone_and_a_part_of_one_is_zeroed() {
        let pool = Pool::new(0);
        let mut block = Block::new(4 * PAGE, &pool);
        block.write(0, &[7; 4 * PAGE]);
        block.clear(10..2 * PAGE + 10);
        assert_eq!((block.has(0), block.has(1), block.has(2)), (true, false, true));
        let mut all = [1; 4 * PAGE];
        block.read(0, &mut all);
        assert!(all[..10].iter().chain(&all[2 * PAGE + 10..]).all(|&byte| byte == 7));
        assert!(all[10..2 * PAGE + 10].iter().all(|&byte| byte == 0));
        block.reserve(0..4);
        block.read(PAGE, &mut all[..PAGE]);
        assert!(all[..PAGE].iter().all(|&byte| byte == 0));
    }
}
