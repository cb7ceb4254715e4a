//! Which names a directory holds, as far as that is known.
//!
//! A reader needs no lock and no counter: filters are never freed or emptied while their
//! directory is kept. One that is full is followed by one twice as large, so all of them
//! together take at most twice the room of the last; when the last is full too, nothing is
//! claimed any more.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Result;

use super::filter::Filter;

/// A directory with more names is asked each time: listing it takes longer than it saves.
const MAX_NAMES: usize = 1 << 17;

/// From the smallest filter's 128 names to twice [`MAX_NAMES`].
const GENERATIONS: usize = 12;

/// Nothing is known (any more), but could be learnt.
const UNKNOWN: u8 = u8::MAX;
/// Nothing is known, and never will be.
const UNPROVABLE: u8 = u8::MAX - 1;

/// The attribute of a directory in which the case of names does not matter
/// (`FS_CASEFOLD_FL`).
const CASEFOLD: u32 = 0x4000_0000;

/// The names of one directory. Changed under the keeper's lock only.
#[derive(Debug)]
pub(super) struct Names {
    /// The filter that holds all names now, or one of the two constants.
    current: AtomicU8,
    filters: [OnceLock<Filter>; GENERATIONS],
}

impl Names {
    /// Where names are not kept, nothing will ever be known.
    pub(super) fn new(keeps_names: bool) -> Self {
        let current = AtomicU8::new(if keeps_names { UNKNOWN } else { UNPROVABLE });
        Names { current, filters: [const { OnceLock::new() }; GENERATIONS] }
    }

    /// Whether the directory certainly has no such name.
    #[inline]
    pub(super) fn exclude(&self, name: &[u8]) -> bool {
        self.filter().is_some_and(|filter| !filter.may_contain(name))
    }

    #[inline]
    pub(super) fn is_unknown(&self) -> bool {
        self.current.load(Ordering::Acquire) == UNKNOWN
    }

    /// A name appeared.
    pub(super) fn add(&self, name: &[u8]) {
        if self.filter().is_some_and(|filter| !filter.insert(name)) {
            self.forget();
        }
    }

    /// What was known may not be so any more.
    pub(super) fn forget(&self) {
        if self.filter().is_some() {
            self.current.store(UNKNOWN, Ordering::Release);
        }
    }

    /// Nothing will be known.
    pub(super) fn give_up(&self) {
        self.current.store(UNPROVABLE, Ordering::Release);
    }

    /// Lists the directory. Names that appear meanwhile must be added afterwards, so a watch
    /// has to be there already.
    pub(super) fn learn(&self, dir: BorrowedFd<'_>) {
        let index = match list(dir) {
            Ok(Some(hashes)) => self.fill(&hashes),
            Ok(None) | Err(_) => None,
        };
        self.current.store(index.unwrap_or(UNPROVABLE), Ordering::Release);
    }

    #[inline]
    fn filter(&self) -> Option<&Filter> {
        self.filters.get(usize::from(self.current.load(Ordering::Acquire)))?.get()
    }

    /// Puts all names into the last filter, or into a new one if that is too full, and says
    /// which.
    fn fill(&self, hashes: &[u64]) -> Option<u8> {
        let mut capacity = hashes.len() * 2;
        for (index, slot) in (0..).zip(&self.filters) {
            if let Some(next) = self.filters.get(usize::from(index) + 1)
                && next.get().is_some()
            {
                continue;
            }
            let filter = slot.get_or_init(|| Filter::with_capacity(capacity));
            // All go in, whether there is room or not: that never makes a wrong answer.
            let rejected = hashes.iter().filter(|hash| !filter.insert_hash(**hash)).count();
            if rejected == 0 {
                return Some(index);
            }
            capacity = capacity.max(filter.capacity() * 2);
        }
        None
    }
}

/// The hashes of all names, unless there are too many or they have several spellings.
fn list(dir: BorrowedFd<'_>) -> Result<Option<Vec<u64>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, c".", flags, Mode::empty())?;
    // A file system that knows no attributes knows no such directories either.
    if rustix::fs::ioctl_getflags(&fd).is_ok_and(|flags| flags.bits() & CASEFOLD != 0) {
        return Ok(None);
    }
    let mut hashes = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
    let mut entries = RawDir::new(&fd, &mut buffer);
    while let Some(entry) = entries.next() {
        if hashes.len() == MAX_NAMES {
            return Ok(None);
        }
        hashes.push(Filter::hash(entry?.file_name().to_bytes()));
    }
    Ok(Some(hashes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_follow_each_other_until_there_are_too_many_names() {
        let names = Names::new(true);
        let mut seen = Vec::new();
        let hash = |i: usize| Filter::hash(&i.to_le_bytes());
        for count in [0, 100, 1000, 1100, 50_000, 200_000, 400_000] {
            let hashes: Vec<u64> = (0..count).map(hash).collect();
            let index = names.fill(&hashes);
            seen.push(index);
            names.current.store(index.unwrap_or(UNPROVABLE), Ordering::Release);
            assert!((0..count).all(|i| !names.exclude(&i.to_le_bytes())));
        }
        assert!(seen[..6].iter().all(Option::is_some) && seen.is_sorted(), "{seen:?}");
        assert!(seen[2] == seen[3] && seen[3] < seen[4]);
    }

    #[test]
    fn a_full_filter_claims_nothing() {
        let names = Names::new(true);
        names.current.store(names.fill(&[]).unwrap(), Ordering::Release);
        assert!(names.exclude(b"x"));
        let last = (0..1000).find(|i: &u32| {
            names.add(&i.to_le_bytes());
            names.is_unknown()
        });
        assert!(last.is_some() && !names.exclude(b"x"));
        names.give_up();
        assert!(!names.is_unknown() && !names.exclude(b"x"));
    }
}
