//! The bytes of a large file.
//!
//! A file is cut into segments: 16 KiB, then doubling up to 2 MiB, then 2 MiB each, so that
//! growing never copies and little is wasted on files of medium size. A segment is a hole, or a
//! block of contiguous memory, or, where data lies scattered, single pages.
//!
//! Data and holes are told apart by pages of 4 KiB, and pages are what is charged. Memory
//! may exceed that by the unused rest of blocks: a block is made only where a file grows from
//! the block's beginning, and becomes pages when most of it is given back.
//!
//! On a page that is present, bytes behind the end of the file are zeros.

use std::collections::BTreeMap;
use std::ops::Range;

use super::block::{Block, LARGEST, PAGE, Pool, SMALLEST, page_part, pages_touched, pages_within};
use crate::options::Seek;

const FIRST: u64 = SMALLEST as u64;

/// How many segments are smaller than the largest.
const GROWING: u64 = (LARGEST as u64 / FIRST).ilog2() as u64 + 1;

/// Segments below this index lie in an array (a file of 64 GiB), those behind in a map.
const NEAR: u64 = 1 << 15;

type Page = Box<[u8; PAGE]>;

enum Segment {
    Hole,
    Block(Box<Block>),
    Pages(Box<Pages>),
}

struct Pages {
    pages: Vec<Option<Page>>,
    count: usize,
}

/// See the [module documentation](self).
pub(crate) struct Segments {
    len: u64,
    /// How many pages are present.
    pages: u64,
    near: Vec<Segment>,
    far: BTreeMap<u64, Segment>,
}

/// Index, first byte and size of the segment that holds `offset`.
#[inline]
fn place(offset: u64) -> (u64, u64, usize) {
    if offset < FIRST {
        (0, 0, FIRST as usize)
    } else if offset < LARGEST as u64 {
        let doublings = (offset / FIRST).ilog2();
        let start = FIRST << doublings;
        (u64::from(doublings) + 1, start, start as usize)
    } else {
        let index = offset / LARGEST as u64;
        (GROWING + index - 1, index * LARGEST as u64, LARGEST)
    }
}

/// First byte and size of a segment.
fn extent(index: u64) -> (u64, usize) {
    match index {
        0 => (0, FIRST as usize),
        _ if index < GROWING => (FIRST << (index - 1), (FIRST << (index - 1)) as usize),
        _ => ((index - GROWING + 1) * LARGEST as u64, LARGEST),
    }
}

/// A part of a range, within one segment.
struct Piece {
    index: u64,
    /// Which bytes of the segment.
    within: Range<usize>,
    size: usize,
}

/// The pieces of a range.
#[inline]
fn pieces(range: Range<u64>) -> impl Iterator<Item = Piece> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let (index, start, size) = place(at);
        let end = range.end.min(start.saturating_add(size as u64));
        let within = (at - start) as usize..(end - start) as usize;
        at = end;
        Some(Piece { index, within, size })
    })
}

impl Segments {
    pub(crate) fn new() -> Segments {
        Segments { len: 0, pages: 0, near: Vec::new(), far: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the pages that are present.
    pub(crate) fn allocated(&self) -> u64 {
        self.pages * PAGE as u64
    }

    /// Bytes of the pages that writing the range would add.
    pub(crate) fn missing(&self, range: Range<u64>) -> u64 {
        let first = range.start / PAGE as u64;
        let last = range.end.div_ceil(PAGE as u64);
        let mut missing = last - first;
        self.each_present(range, |segment, within| {
            missing -= segment.count_in(pages_touched(within)) as u64;
        });
        missing * PAGE as u64
    }

    /// Copies what there is at `offset`, up to the end of the file.
    #[inline]
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let count = self.len.saturating_sub(offset).min(buf.len() as u64);
        let mut done = 0;
        for piece in pieces(offset..offset + count) {
            let buf = &mut buf[done..done + piece.within.len()];
            done += piece.within.len();
            self.segment(piece.index).read(piece.within.start, buf);
        }
        done
    }

    /// Writes where that changes nothing but bytes: within the file, in one block, on pages that
    /// are present. Answers whether it could.
    #[inline]
    pub(crate) fn overwrite(&self, buf: &[u8], offset: u64) -> bool {
        let Some(end) = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.len) else {
            return false;
        };
        let mut pieces = pieces(offset..end);
        match (pieces.next(), pieces.next()) {
            (Some(piece), None) => match self.segment(piece.index) {
                Segment::Block(block) => block.overwrite(piece.within.start, buf),
                _ => false,
            },
            _ => false,
        }
    }

    /// Writes; the file grows where the range ends behind it.
    pub(crate) fn write(&mut self, buf: &[u8], offset: u64, pool: &Pool) {
        let range = offset..offset + buf.len() as u64;
        let mut done = 0;
        for piece in pieces(range.clone()) {
            let buf = &buf[done..done + piece.within.len()];
            done += piece.within.len();
            let is_new = matches!(self.segment(piece.index), Segment::Hole);
            let added = if is_new && buf.len() == piece.size {
                *self.slot(piece.index) = Segment::Block(Box::new(Block::filled(buf, pool)));
                piece.size / PAGE
            } else {
                self.make(&piece, pool).write(piece.within.start, buf)
            };
            self.pages += added as u64;
        }
        self.len = self.len.max(range.end);
    }

    /// Makes all pages of the range present.
    pub(crate) fn reserve(&mut self, range: Range<u64>, pool: &Pool) {
        for piece in pieces(range) {
            let added = self.make(&piece, pool).reserve(pages_touched(piece.within));
            self.pages += added as u64;
        }
    }

    /// Makes the range read as zeros; whole pages of it become holes.
    pub(crate) fn clear(&mut self, range: Range<u64>, pool: &Pool) {
        let (first, ..) = place(range.start);
        let (last, ..) = place(range.end.max(1) - 1);
        let near = first..(last + 1).min(self.near.len() as u64);
        for index in near {
            let within = part_of(index, &range);
            self.pages -= self.near[index as usize].clear(within, pool) as u64;
        }
        let mut emptied = Vec::new();
        for (&index, segment) in self.far.range_mut(first..=last.max(first)) {
            self.pages -= segment.clear(part_of(index, &range), pool) as u64;
            if matches!(segment, Segment::Hole) {
                emptied.push(index);
            }
        }
        for index in emptied {
            self.far.remove(&index);
        }
    }

    /// Cuts, or lengthens by a hole.
    pub(crate) fn set_len(&mut self, len: u64, pool: &Pool) {
        if len < self.len {
            self.clear(len..u64::MAX, pool);
            let (index, start, _) = place(len);
            let keep = if len == start { index } else { index + 1 };
            self.near.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        }
        self.len = len;
    }

    /// The first offset at or after the given one that is data, or in a hole; `None` when there
    /// is none up to the end.
    pub(crate) fn seek(&self, offset: u64, what: Seek) -> Option<u64> {
        if offset >= self.len {
            return None;
        }
        let mut at = offset;
        while at < self.len {
            let (index, start, size) = place(at);
            let segment = self.segment(index);
            let first = (at - start) as usize / PAGE;
            let wanted = what == Seek::Data;
            if let Some(page) = (first..size / PAGE).find(|&page| segment.has(page) == wanted) {
                at = at.max(start + (page * PAGE) as u64);
                break;
            }
            at = match what {
                Seek::Data => self.next_present(index + 1).map_or(u64::MAX, |next| extent(next).0),
                Seek::Hole => start.saturating_add(size as u64),
            };
        }
        match what {
            Seek::Hole => Some(at.min(self.len)),
            Seek::Data => (at < self.len).then_some(at),
        }
    }

    /// Gives all memory to the pool.
    pub(crate) fn recycle(mut self, pool: &Pool) {
        self.set_len(0, pool);
    }

    #[inline]
    fn segment(&self, index: u64) -> &Segment {
        let segment =
            if index < NEAR { self.near.get(index as usize) } else { self.far.get(&index) };
        segment.unwrap_or(&Segment::Hole)
    }

    /// The first segment at or after this index that is not a hole.
    fn next_present(&self, index: u64) -> Option<u64> {
        let near = (index..self.near.len() as u64)
            .find(|&index| !matches!(self.near[index as usize], Segment::Hole));
        near.or_else(|| self.far.range(index..).next().map(|(&index, _)| index))
    }

    /// Calls with each segment of the range that is not a hole, and the part that is in it.
    fn each_present(&self, range: Range<u64>, mut call: impl FnMut(&Segment, Range<usize>)) {
        if range.is_empty() {
            return;
        }
        let last = place(range.end - 1).0;
        let mut index = place(range.start).0;
        while let Some(next) = self.next_present(index).filter(|&next| next <= last) {
            call(self.segment(next), part_of(next, &range));
            index = next + 1;
        }
    }

    /// The segment, to change.
    #[inline]
    fn slot(&mut self, index: u64) -> &mut Segment {
        if index >= NEAR {
            return self.far.entry(index).or_insert(Segment::Hole);
        }
        let index = index as usize;
        if self.near.len() <= index {
            self.near.resize_with(index + 1, || Segment::Hole);
        }
        &mut self.near[index]
    }

    /// The segment of a piece, no longer a hole: a block where the file grows from the
    /// segment's beginning, else pages.
    #[inline]
    fn make(&mut self, piece: &Piece, pool: &Pool) -> &mut Segment {
        let is_hole = matches!(self.segment(piece.index), Segment::Hole);
        let grows = is_hole
            && piece.within.start == 0
            && (piece.index == 0 || {
                let before = piece.index - 1;
                self.segment(before).has(extent(before).1 / PAGE - 1)
                    || piece.within.len() * 2 >= piece.size
            });
        let segment = self.slot(piece.index);
        if grows {
            *segment = Segment::Block(Box::new(Block::new(piece.size, pool)));
        } else if is_hole {
            *segment = Segment::Pages(Box::new(Pages::new(piece.size)));
        }
        segment
    }
}

/// The bytes of a segment that lie in the range.
fn part_of(index: u64, range: &Range<u64>) -> Range<usize> {
    let (start, size) = extent(index);
    let from = range.start.max(start) - start;
    let to = range.end.min(start.saturating_add(size as u64)) - start;
    from as usize..to as usize
}

impl Segment {
    fn has(&self, page: usize) -> bool {
        match self {
            Segment::Hole => false,
            Segment::Block(block) => block.has(page),
            Segment::Pages(pages) => pages.pages[page].is_some(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Segment::Hole => 0,
            Segment::Block(block) => block.count(),
            Segment::Pages(pages) => pages.count,
        }
    }

    fn count_in(&self, pages: Range<usize>) -> usize {
        match self {
            Segment::Block(block) => block.count_in(pages),
            _ => pages.filter(|&page| self.has(page)).count(),
        }
    }

    #[inline]
    fn read(&self, at: usize, buf: &mut [u8]) {
        match self {
            Segment::Hole => buf.fill(0),
            Segment::Block(block) => block.read(at, buf),
            Segment::Pages(pages) => pages.read(at, buf),
        }
    }

    /// Writes, and answers how many pages that added.
    #[inline]
    fn write(&mut self, at: usize, buf: &[u8]) -> usize {
        let before = self.count();
        match self {
            Segment::Hole => {}
            Segment::Block(block) => block.write(at, buf),
            Segment::Pages(pages) => pages.write(at, buf),
        }
        self.count() - before
    }

    /// Makes pages present, and answers how many that added.
    fn reserve(&mut self, pages: Range<usize>) -> usize {
        let before = self.count();
        match self {
            Segment::Hole => {}
            Segment::Block(block) => block.reserve(pages),
            Segment::Pages(all) => pages.for_each(|page| {
                all.page(page);
            }),
        }
        self.count() - before
    }

    /// Clears, and answers how many pages that took away.
    fn clear(&mut self, range: Range<usize>, pool: &Pool) -> usize {
        let before = self.count();
        match self {
            Segment::Hole => {}
            Segment::Block(block) => block.clear(range),
            Segment::Pages(pages) => pages.clear(range),
        }
        let after = self.count();
        if after == before {
            return 0;
        }
        match std::mem::replace(self, Segment::Hole) {
            Segment::Block(block) if after == 0 => block.recycle(pool),
            // Small blocks are not worth it.
            Segment::Block(mut block) if after * 8 < block.size() / PAGE => {
                *self = Segment::Pages(Box::new(Pages::from_block(&mut block)));
                block.recycle(pool);
            }
            Segment::Pages(_) if after == 0 => {}
            kept => *self = kept,
        }
        before - after
    }
}

impl Pages {
    fn new(size: usize) -> Pages {
        Pages { pages: vec![None; size / PAGE], count: 0 }
    }

    fn from_block(block: &mut Block) -> Pages {
        let pages = (0..block.size() / PAGE).map(|page| {
            block.has(page).then(|| {
                let mut copy: Page = Box::new([0; PAGE]);
                copy.copy_from_slice(block.page(page));
                copy
            })
        });
        Pages { pages: pages.collect(), count: block.count() }
    }

    fn page(&mut self, page: usize) -> &mut [u8; PAGE] {
        if self.pages[page].is_none() {
            self.count += 1;
        }
        self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]))
    }

    fn read(&self, at: usize, buf: &mut [u8]) {
        for page in pages_touched(at..at + buf.len()) {
            let (within, part) = page_part(page, at, buf.len());
            match &self.pages[page] {
                Some(bytes) => buf[part].copy_from_slice(&bytes[on_page(within)]),
                None => buf[part].fill(0),
            }
        }
    }

    fn write(&mut self, at: usize, buf: &[u8]) {
        for page in pages_touched(at..at + buf.len()) {
            let (within, part) = page_part(page, at, buf.len());
            self.page(page)[on_page(within)].copy_from_slice(&buf[part]);
        }
    }

    fn clear(&mut self, range: Range<usize>) {
        let whole = pages_within(range.clone());
        for page in pages_touched(range.clone()) {
            if whole.contains(&page) {
                self.count -= usize::from(self.pages[page].take().is_some());
            } else if let Some(bytes) = &mut self.pages[page] {
                let (within, _) = page_part(page, range.start, range.len());
                bytes[on_page(within)].fill(0);
            }
        }
    }
}

/// A range within a segment that lies on one page, as a range within that page.
fn on_page(within: Range<usize>) -> Range<usize> {
    let page = within.start / PAGE * PAGE;
    within.start - page..within.end - page
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: u64 = LARGEST as u64;

    fn all(file: &Segments) -> Vec<u8> {
        let mut all = vec![1; file.len() as usize];
        assert_eq!(file.read(&mut all, 0), all.len());
        all
    }

    #[test]
    fn segments_tile_the_file() {
        let mut at = 0;
        for index in 0..40 {
            let (found, start, size) = place(at);
            assert_eq!((found, start), (index, at));
            assert_eq!(extent(index), (start, size));
            assert_eq!(place(at + size as u64 - 1).0, index);
            at += size as u64;
        }
    }

    /// Random operations against a plain vector.
    #[test]
    fn it_is_an_array_of_bytes() {
        let pool = Pool::new(4 * BIG);
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut overwritten = 0;
        for round in 0..20 {
            let (mut file, mut model) = (Segments::new(), Vec::new());
            for step in 0..60 {
                let top = [30_000, 300_000, 5_000_000][round % 3];
                let start = random(top);
                let part = [1, 10, 100][random(3) as usize];
                let end = start + random(top / part);
                let byte = step as u8 + 1;
                match random(5) {
                    0 | 1 if start < end => {
                        let missing = file.missing(start..end);
                        let before = file.allocated();
                        let bytes = vec![byte; (end - start) as usize];
                        if file.overwrite(&bytes, start) {
                            overwritten += 1;
                        } else {
                            file.write(&bytes, start, &pool);
                        }
                        assert_eq!(file.allocated() - before, missing);
                        model.resize(model.len().max(end as usize), 0);
                        model[start as usize..end as usize].fill(byte);
                    }
                    2 => {
                        file.clear(start..end, &pool);
                        let len = model.len();
                        model[len.min(start as usize)..len.min(end as usize)].fill(0);
                    }
                    3 => {
                        file.set_len(start, &pool);
                        model.resize(start as usize, 0);
                    }
                    _ => {
                        let missing = file.missing(start..end);
                        let before = file.allocated();
                        file.reserve(start..end, &pool);
                        assert_eq!(file.allocated() - before, missing);
                    }
                }
                assert_eq!(all(&file), model);
                // Outside of data there are only zeros, and data and holes take turns.
                let mut at = 0;
                while let Some(hole) = file.seek(at, Seek::Hole) {
                    let data = file.seek(hole, Seek::Data).unwrap_or(file.len());
                    assert!(model[hole as usize..data as usize].iter().all(|&byte| byte == 0));
                    assert!(data > at || at == 0 && data == 0 && hole > 0 || hole == file.len());
                    if hole == file.len() {
                        break;
                    }
                    at = data;
                }
            }
            file.recycle(&pool);
        }
        assert!(overwritten > 20, "{overwritten} writes changed nothing but bytes");
    }

    #[test]
    fn holes_are_found_by_pages_wherever_they_are() {
        let pool = Pool::new(0);
        let mut file = Segments::new();
        for start in [3 * PAGE as u64, 5 * BIG, 1 << 45, i64::MAX as u64 - 1] {
            file.write(b"x", start, &pool);
            assert_eq!(file.len(), start + 1);
            assert_eq!(file.allocated(), PAGE as u64);
            let page = start / PAGE as u64 * PAGE as u64;
            assert_eq!(file.seek(0, Seek::Hole), Some(0));
            assert_eq!(file.seek(0, Seek::Data), Some(page));
            assert_eq!(file.seek(start, Seek::Data), Some(start));
            assert_eq!(file.seek(start, Seek::Hole), Some(start + 1));
            assert_eq!(file.seek(start + 1, Seek::Hole), None);
            file.clear(page..page + PAGE as u64, &pool);
            assert_eq!(file.seek(0, Seek::Data), None);
            assert_eq!(file.allocated(), 0);
            assert!(file.far.is_empty());
        }
        assert_eq!(file.missing(0..1 << 62), 1 << 62);
    }

    #[test]
    fn a_block_with_little_left_becomes_pages() {
        let pool = Pool::new(0);
        let mut file = Segments::new();
        file.write(&vec![7; 2 * LARGEST], 0, &pool);
        assert!(matches!(file.segment(place(BIG).0), Segment::Block(_)));
        file.clear(BIG + 10 * PAGE as u64..2 * BIG, &pool);
        assert!(matches!(file.segment(place(BIG).0), Segment::Pages(_)));
        assert!(all(&file)[..LARGEST + 10 * PAGE].iter().all(|&byte| byte == 7));
        assert_eq!(file.allocated(), BIG + 10 * PAGE as u64);
    }
}
