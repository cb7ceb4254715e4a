//! All names of all directories: one table from (directory, name) to node.
//!
//! An [`Entry`] is one name, in a cache line of its own, and is the truth; the table is an
//! index of entries by hash. Lookups take no lock and write nothing. They need no protection
//! against memory being freed either: entries and tables are never freed before the file
//! system is, only used again, and an entry's version tells a reader that it has changed
//! under its hands.
//!
//! Why a reader misses no name that is there: an entry never moves within a table, a removed
//! one leaves a tombstone, and when the table is rebuilt into another, a reader that has found
//! nothing sees that it searched an old table and searches again.
//!
//! Changes to one directory's names are made under that directory's lock, so two threads never
//! change the same name at once; different names compete for slots by compare-and-swap. Only
//! rebuilding excludes all other changes.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::ShardedLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::node::{NodeId, type_code, type_of_code};
use super::seqlock::Version;
use super::slab::Slab;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use crate::error::BackendResult;
use crate::metadata::FileType;
use crate::path::MAX_NAME_LEN;

/// Names up to here lie in the entry itself.
const INLINE: usize = 24;

/// A slot that was never used since its table was built: ends a search.
const EMPTY: u64 = 0;
/// A slot whose entry was removed: a search goes on behind it.
const TOMBSTONE: u64 = u32::MAX as u64;

/// The smallest table has `1 << SMALLEST` slots.
const SMALLEST: u32 = 10;
const SIZES: usize = 22;

/// A name as lookups compare it: three words, and all bytes only where they are more.
pub(crate) struct Name<'a> {
    bytes: &'a [u8],
    words: [u64; 3],
}

impl<'a> Name<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let len = bytes.len();
        let word = |at: usize| match bytes[at..].first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => 0,
        };
        // The last word overlaps the one before it, so every word is one load.
        let words = match len {
            0..8 => {
                let mut short = 0;
                for &byte in bytes.iter().rev() {
                    short = short << 8 | u64::from(byte);
                }
                [short, 0, 0]
            }
            8..=16 => [word(0), word(len - 8), 0],
            _ => [word(0), word(8), word(len - 8)],
        };
        Name { bytes, words }
    }
}

/// What a name was found to stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Number of the entry; 0 for the root, which has none.
    pub(crate) entry: u32,
    pub(crate) node: NodeId,
    pub(crate) file_type: FileType,
}

/// One name of one directory. Fields but `next` and `previous` are guarded by `version`.
#[repr(align(64))]
struct Entry {
    version: Version,
    /// Length of the name, and type of the node in the second byte.
    shape: AtomicU32,
    /// The directory; 0 while the entry is free.
    parent: AtomicU64,
    node: AtomicU64,
    /// Neighbours in the directory's list, guarded by the directory's lock.
    next: AtomicU32,
    previous: AtomicU32,
    words: [AtomicU64; 3],
    long: ArcSwapOption<Box<[u8]>>,
}

/// Ends of a directory's list of entries; part of the state under the directory's lock.
#[derive(Default)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == 0
    }
}

/// What was read of an entry.
pub(crate) struct Whole {
    pub(crate) parent: NodeId,
    pub(crate) node: NodeId,
    pub(crate) name: Vec<u8>,
}

/// See the [module documentation](self).
pub(crate) struct Names {
    entries: Slab<Entry>,
    /// Two tables of each size, to rebuild from one into the other.
    tables: [[OnceLock<Box<[AtomicU64]>>; 2]; SIZES],
    /// Which table is in use: a count of rebuilds, the size's index, the side.
    current: CachePadded<AtomicU64>,
    /// Slots of it that are not `EMPTY`.
    filled: CachePadded<AtomicUsize>,
    /// Read by those who put or remove entries, written by who rebuilds.
    rebuilding: ShardedLock<()>,
    keys: [u64; 3],
}

impl Names {
    pub(crate) fn new() -> Self {
        // Keyed, so that nobody can choose names that fall into one slot.
        let random = RandomState::new();
        Names {
            entries: Slab::new(|| Entry {
                version: Version::new(),
                shape: AtomicU32::new(0),
                parent: AtomicU64::new(0),
                node: AtomicU64::new(0),
                next: AtomicU32::new(0),
                previous: AtomicU32::new(0),
                words: std::array::from_fn(|_| AtomicU64::new(0)),
                long: ArcSwapOption::empty(),
            }),
            tables: std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new())),
            current: CachePadded::new(AtomicU64::new(0)),
            filled: CachePadded::default(),
            rebuilding: ShardedLock::new(()),
            keys: std::array::from_fn(|at| random.hash_one(at)),
        }
    }

    /// What `name` stands for in the directory.
    #[inline]
    pub(crate) fn find(&self, parent: NodeId, name: &Name<'_>) -> Option<Found> {
        let tag = self.tag(parent, name);
        loop {
            let current = self.current.load(Ordering::Acquire);
            let slots = self.slots(current);
            let mask = slots.len() - 1;
            let mut at = tag as usize & mask;
            loop {
                let slot = slots[at].load(Ordering::Acquire);
                if slot == EMPTY {
                    break;
                }
                if (slot >> 32) as u32 == tag && slot != TOMBSTONE {
                    let number = slot as u32;
                    if let Some(found) = self.entries.get(number).stands_for(number, parent, name) {
                        return Some(found);
                    }
                }
                at = (at + 1) & mask;
            }
            // The slots were loaded with Acquire, so this load is not done before them.
            if self.current.load(Ordering::Acquire) == current {
                return None;
            }
        }
    }

    /// Adds a name that is not there, at the end of the directory's list. The caller holds the
    /// directory's lock.
    ///
    /// # Errors
    /// `NoSpace` when there is no number left.
    pub(crate) fn insert(
        &self,
        list: &mut List,
        parent: NodeId,
        name: &Name<'_>,
        node: NodeId,
        file_type: FileType,
    ) -> BackendResult<u32> {
        let number = self.entries.allocate()?;
        let entry = self.entries.get(number);
        if name.bytes.len() > INLINE {
            entry.long.store(Some(Arc::new(name.bytes.into())));
        }
        entry.version.write(|| {
            entry.shape.store(shape(name.bytes.len(), file_type), Ordering::Relaxed);
            entry.parent.store(parent.0, Ordering::Relaxed);
            entry.node.store(node.0, Ordering::Relaxed);
            for (word, &new) in entry.words.iter().zip(&name.words) {
                word.store(new, Ordering::Relaxed);
            }
        });
        entry.next.store(0, Ordering::Relaxed);
        entry.previous.store(list.last, Ordering::Relaxed);
        match list.last {
            0 => list.first = number,
            last => self.entries.get(last).next.store(number, Ordering::Relaxed),
        }
        list.last = number;
        self.publish(self.tag(parent, name), number);
        Ok(number)
    }

    /// Lets the name stand for another node, in one step. The caller holds the directory's lock.
    pub(crate) fn replace(&self, number: u32, node: NodeId, file_type: FileType) {
        let entry = self.entries.get(number);
        let len = entry.shape.load(Ordering::Relaxed) as u8;
        entry.version.write(|| {
            entry.shape.store(shape(len.into(), file_type), Ordering::Relaxed);
            entry.node.store(node.0, Ordering::Relaxed);
        });
    }

    /// Removes a name. The caller holds the directory's lock.
    pub(crate) fn remove(&self, list: &mut List, number: u32) {
        let entry = self.entries.get(number);
        let previous = entry.previous.load(Ordering::Relaxed);
        let next = entry.next.load(Ordering::Relaxed);
        match previous {
            0 => list.first = next,
            previous => self.entries.get(previous).next.store(next, Ordering::Relaxed),
        }
        match next {
            0 => list.last = previous,
            next => self.entries.get(next).previous.store(previous, Ordering::Relaxed),
        }
        let parent = NodeId(entry.parent.load(Ordering::Relaxed));
        let mut buffer = [0; MAX_NAME_LEN];
        let tag = self.tag(parent, &Name::new(entry.name(&mut buffer)));
        self.withdraw(tag, number);
        let is_long = entry.len() > INLINE;
        entry.version.write(|| entry.parent.store(0, Ordering::Relaxed));
        if is_long {
            entry.long.store(None);
        }
        self.entries.release(number);
    }

    /// Calls with each entry of a directory, in the order they were made. The caller holds the
    /// directory's lock.
    pub(crate) fn each(&self, list: &List, mut call: impl FnMut(&[u8], FileType, NodeId)) {
        let mut buffer = [0; MAX_NAME_LEN];
        let mut number = list.first;
        while number != 0 {
            let entry = self.entries.get(number);
            let file_type = type_of_code(entry.shape.load(Ordering::Relaxed) >> 8);
            let node = NodeId(entry.node.load(Ordering::Relaxed));
            call(entry.name(&mut buffer), file_type, node);
            number = entry.next.load(Ordering::Relaxed);
        }
    }

    /// A consistent copy of an entry that may change meanwhile; `None` if it is free.
    pub(crate) fn whole(&self, number: u32) -> Option<Whole> {
        let entry = self.entries.get(number);
        let whole = entry.version.read(|| {
            let mut buffer = [0; MAX_NAME_LEN];
            Whole {
                parent: NodeId(entry.parent.load(Ordering::Relaxed)),
                node: NodeId(entry.node.load(Ordering::Relaxed)),
                name: entry.name(&mut buffer).to_vec(),
            }
        });
        (whole.parent != NodeId::NONE).then_some(whole)
    }

    /// Some name of this node, found by looking at all there are: for the rare case that the
    /// one it was last known by is gone.
    pub(crate) fn search(&self, node: NodeId) -> Option<u32> {
        (1..self.entries.end()).find(|&number| {
            self.entries.get(number).node.load(Ordering::Relaxed) == node.0
                && self.whole(number).is_some_and(|whole| whole.node == node)
        })
    }

    #[inline]
    fn tag(&self, parent: NodeId, name: &Name<'_>) -> u32 {
        let [a, b, c] = self.keys;
        let hash = if name.bytes.len() > INLINE {
            xxh3_64_with_seed(name.bytes, parent.0 ^ a)
        } else {
            let first = fold(parent.0 ^ a, name.words[0] ^ b);
            fold(first ^ name.words[1], name.words[2] ^ c ^ name.bytes.len() as u64)
        };
        (hash >> 32) as u32
    }

    #[inline]
    fn slots(&self, current: u64) -> &[AtomicU64] {
        let (size, side) = (current as u8 >> 1, current as u8 & 1);
        self.tables[size as usize][side as usize].get_or_init(|| {
            let len = 1 << (SMALLEST + u32::from(size));
            (0..len).map(|_| AtomicU64::new(EMPTY)).collect()
        })
    }

    fn publish(&self, tag: u32, number: u32) {
        let value = u64::from(tag) << 32 | u64::from(number);
        let mut full = false;
        {
            let _others_too = self.rebuilding.read().unwrap_or_else(PoisonError::into_inner);
            let slots = self.slots(self.current.load(Ordering::Acquire));
            let mask = slots.len() - 1;
            let mut at = tag as usize & mask;
            loop {
                let slot = slots[at].load(Ordering::Relaxed);
                if matches!(slot, EMPTY | TOMBSTONE)
                    && slots[at]
                        .compare_exchange(slot, value, Ordering::Release, Ordering::Relaxed)
                        .is_ok()
                {
                    if slot == EMPTY {
                        let filled = self.filled.fetch_add(1, Ordering::Relaxed) + 1;
                        full = filled > slots.len() / 2;
                    }
                    break;
                }
                at = (at + 1) & mask;
            }
        }
        if full {
            self.rebuild();
        }
    }

    fn withdraw(&self, tag: u32, number: u32) {
        let value = u64::from(tag) << 32 | u64::from(number);
        let _others_too = self.rebuilding.read().unwrap_or_else(PoisonError::into_inner);
        let slots = self.slots(self.current.load(Ordering::Acquire));
        let mask = slots.len() - 1;
        let mut at = tag as usize & mask;
        while slots[at].load(Ordering::Relaxed) != value {
            at = (at + 1) & mask;
        }
        slots[at].store(TOMBSTONE, Ordering::Release);
    }

    /// Moves all entries to a table that is at most a quarter full: a larger one, or, where
    /// most of this one was tombstones, the other one of this size.
    #[cold]
    fn rebuild(&self) {
        let _alone = self.rebuilding.write().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load(Ordering::Acquire);
        let old = self.slots(current);
        if self.filled.load(Ordering::Relaxed) <= old.len() / 2 {
            return; // another thread was first
        }
        let in_use = |slot: &u64| !matches!(*slot, EMPTY | TOMBSTONE);
        let slots = || old.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(in_use);
        let count = slots().count();
        let size = (current as u8 >> 1) as usize;
        let wanted = (count * 4).next_power_of_two().ilog2().saturating_sub(SMALLEST) as usize;
        // The largest table fills up further; a file system has no more names than it has slots.
        let new_size = wanted.clamp(size, SIZES - 1);
        let side = if new_size == size { (current & 1) ^ 1 } else { 0 };
        let next = ((current >> 8) + 1) << 8 | (new_size as u64) << 1 | side;
        let new = self.slots(next);
        let mask = new.len() - 1;
        new.iter().for_each(|slot| slot.store(EMPTY, Ordering::Relaxed));
        for slot in slots() {
            let mut at = (slot >> 32) as usize & mask;
            while new[at].load(Ordering::Relaxed) != EMPTY {
                at = (at + 1) & mask;
            }
            new[at].store(slot, Ordering::Relaxed);
        }
        self.filled.store(count, Ordering::Relaxed);
        self.current.store(next, Ordering::Release);
    }
}

impl Entry {
    #[inline]
    fn len(&self) -> usize {
        (self.shape.load(Ordering::Relaxed) as u8).into()
    }

    /// Whether this is that name, and of what.
    #[inline]
    fn stands_for(&self, number: u32, parent: NodeId, name: &Name<'_>) -> Option<Found> {
        self.version.read(|| {
            let shape = self.shape.load(Ordering::Relaxed);
            let is_it = self.parent.load(Ordering::Relaxed) == parent.0
                && usize::from(shape as u8) == name.bytes.len()
                && self.words[0].load(Ordering::Relaxed) == name.words[0]
                && self.words[1].load(Ordering::Relaxed) == name.words[1]
                && self.words[2].load(Ordering::Relaxed) == name.words[2]
                && (name.bytes.len() <= INLINE || self.is_long(name.bytes));
            is_it.then(|| Found {
                entry: number,
                node: NodeId(self.node.load(Ordering::Relaxed)),
                file_type: type_of_code(shape >> 8),
            })
        })
    }

    #[cold]
    fn is_long(&self, name: &[u8]) -> bool {
        self.long.load().as_ref().is_some_and(|long| ***long == *name)
    }

    /// The name's bytes; complete only while nobody changes the entry.
    fn name<'b>(&self, buffer: &'b mut [u8; MAX_NAME_LEN]) -> &'b [u8] {
        let len = self.len();
        let word = |at: usize| self.words[at].load(Ordering::Relaxed).to_le_bytes();
        match len {
            0..8 => buffer[..8].copy_from_slice(&word(0)),
            8..=16 => {
                buffer[..8].copy_from_slice(&word(0));
                buffer[len - 8..len].copy_from_slice(&word(1));
            }
            17..=INLINE => {
                buffer[..8].copy_from_slice(&word(0));
                buffer[8..16].copy_from_slice(&word(1));
                buffer[len - 8..len].copy_from_slice(&word(2));
            }
            _ => {
                if let Some(long) = &*self.long.load()
                    && long.len() == len
                {
                    buffer[..len].copy_from_slice(long);
                }
            }
        }
        &buffer[..len]
    }
}

#[inline]
fn shape(len: usize, file_type: FileType) -> u32 {
    len as u32 | type_code(file_type) << 8
}

/// Both halves of the product, folded into one word.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> NodeId {
        NodeId(number)
    }

    #[test]
    fn names_of_every_length_come_back() {
        let names = Names::new();
        let mut list = List::default();
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 1..=255 {
            let name = Name::new(&bytes[..len]);
            names.insert(&mut list, id(1), &name, id(len as u64), FileType::Fifo).unwrap();
        }
        for len in 1..=255 {
            let found = names.find(id(1), &Name::new(&bytes[..len])).unwrap();
            assert_eq!((found.node, found.file_type), (id(len as u64), FileType::Fifo));
            assert!(names.find(id(2), &Name::new(&bytes[..len])).is_none());
        }
        let mut len = 0;
        names.each(&list, |name, _, node| {
            len += 1;
            assert_eq!((name, node), (&bytes[..len], id(len as u64)));
        });
        assert_eq!(len, 255);
    }

    #[test]
    fn names_that_differ_in_one_byte_differ() {
        let names = Names::new();
        let mut list = List::default();
        for len in [1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 255] {
            let mut bytes = vec![b'x'; len];
            for at in 0..len {
                bytes[at] = b'y';
                assert!(names.find(id(1), &Name::new(&bytes)).is_none());
                let name = Name::new(&bytes);
                names.insert(&mut list, id(1), &name, id(at as u64), FileType::File).unwrap();
                assert_eq!(names.find(id(1), &name).unwrap().node, id(at as u64));
                bytes[at] = b'x';
            }
        }
    }

    #[test]
    fn the_table_grows_and_gets_rid_of_tombstones() {
        let names = Names::new();
        let mut list = List::default();
        for number in 0..5_000_u64 {
            let name = number.to_string();
            names
                .insert(&mut list, id(1), &Name::new(name.as_bytes()), id(number), FileType::File)
                .unwrap();
        }
        for number in 0..100_000_u64 {
            let name = format!("churn{number}");
            let name = Name::new(name.as_bytes());
            let entry = names.insert(&mut list, id(1), &name, id(7), FileType::File).unwrap();
            names.remove(&mut list, entry);
            assert!(names.find(id(1), &name).is_none());
        }
        assert!(names.slots(names.current.load(Ordering::Relaxed)).len() <= 32_768);
        for number in 0..5_000_u64 {
            let name = number.to_string();
            assert_eq!(names.find(id(1), &Name::new(name.as_bytes())).unwrap().node, id(number));
        }
    }

    #[test]
    fn a_removed_entry_leaves_its_neighbours_linked() {
        let names = Names::new();
        let mut list = List::default();
        let numbers: Vec<u32> = [b"a", b"b", b"c", b"d"]
            .iter()
            .map(|name| {
                names.insert(&mut list, id(1), &Name::new(*name), id(5), FileType::File).unwrap()
            })
            .collect();
        let seen = |list: &List| {
            let mut seen = Vec::new();
            names.each(list, |name, _, _| seen.extend_from_slice(name));
            seen
        };
        names.remove(&mut list, numbers[1]);
        assert_eq!(seen(&list), b"acd");
        names.remove(&mut list, numbers[3]);
        assert_eq!(seen(&list), b"ac");
        names.remove(&mut list, numbers[0]);
        names.remove(&mut list, numbers[2]);
        assert!(list.is_empty());
        assert_eq!(seen(&list), b"");
    }
}
