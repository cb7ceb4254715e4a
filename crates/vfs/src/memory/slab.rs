//! An array that grows without moving, read without locks.

use std::sync::OnceLock;

/// The first chunk holds this many; each further one doubles what is there.
const FIRST: usize = 64;
/// Enough chunks for every `u32`.
const CHUNKS: usize = 27;

/// Elements by index; a chunk of them is made when one of its indexes is first asked for.
pub(super) struct Slab<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T: Default> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &T {
        let (chunk, offset, len) = place(index);
        &self.chunks[chunk].get_or_init(|| std::iter::repeat_with(T::default).take(len).collect())
            [offset]
    }

    /// As [`get`](Self::get), but makes nothing: `None` where no chunk is.
    #[inline]
    pub(super) fn peek(&self, index: u32) -> Option<&T> {
        let (chunk, offset, _) = place(index);
        self.chunks[chunk].get().map(|chunk| &chunk[offset])
    }
}

/// Chunk, offset in it, length of it. Chunk 0 holds `0..FIRST`, chunk n `FIRST << (n-1)` more.
#[inline]
fn place(index: u32) -> (usize, usize, usize) {
    let index = index as usize;
    let chunk = (usize::BITS - (index / FIRST).leading_zeros()) as usize;
    match chunk {
        0 => (0, index, FIRST),
        _ => {
            let start = FIRST << (chunk - 1);
            (chunk, index - start, start)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_own_place() {
        let mut expected = (0, 0);
        for index in 0..5000 {
            let (chunk, offset, len) = place(index);
            assert!(offset < len);
            if chunk != expected.0 {
                expected = (chunk, 0);
            }
            assert_eq!((chunk, offset), expected);
            expected.1 += 1;
        }
        assert!(place(u32::MAX).0 < CHUNKS);
    }
}
