//! The immutable table that every lookup reads.

use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::FileSystem;
use crate::error::BackendResult;
use crate::metadata::{FileId, Metadata};
use crate::path::{VfsPath, VfsPathBuf};

/// One mount point, its stack already composed into one file system.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) path: VfsPathBuf,
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) hidden: bool,
    /// Tells this point's file ids from those of other points; 0 leaves them as they are.
    pub(super) salt: u64,
}

/// A directory that leads to mount points, and the names in it that do.
#[derive(Debug)]
pub(super) struct Lead {
    path: VfsPathBuf,
    pub(super) names: Vec<Box<[u8]>>,
}

/// Mount points by path.
#[derive(Debug, Default)]
pub(super) struct Table {
    root: Option<Point>,
    nested: Vec<Point>,
    by_path: HashTable<usize>,
    lengths: Lengths,
    leads: HashTable<Lead>,
    lead_lengths: Lengths,
}

fn hash(path: &VfsPath) -> u64 {
    xxh3_64(path.as_bytes())
}

impl Table {
    pub(super) fn new(points: Vec<Point>) -> Self {
        let mut table = Table::default();
        for point in points {
            if point.path.is_root() {
                table.root = Some(point);
                continue;
            }
            table.lengths.insert(point.path.len());
            table.add_leads(&point);
            let index = table.nested.len();
            table
                .by_path
                .insert_unique(hash(&point.path), index, |&other| hash(&table.nested[other].path));
            table.nested.push(point);
        }
        table
    }

    /// Each ancestor directory leads to this point by one name. A hidden point is led to as
    /// well (its parents can be named) but by no name that shows.
    fn add_leads(&mut self, point: &Point) {
        let mut below: &VfsPath = &point.path;
        let mut shows = !point.hidden;
        while let Some((parent, name)) = below.split_last() {
            self.lead_lengths.insert(parent.len());
            let lead = self
                .leads
                .entry(hash(parent), |lead| &*lead.path == parent, |lead| hash(&lead.path))
                .or_insert_with(|| Lead { path: parent.to_owned(), names: Vec::new() })
                .into_mut();
            if shows && !lead.names.iter().any(|known| **known == *name) {
                lead.names.push(name.into());
            }
            shows = !point.hidden;
            below = parent;
        }
    }

    /// The mount point that serves `path`, and the rest of the path below it.
    #[inline]
    pub(super) fn find<'t, 'p>(&'t self, path: &'p VfsPath) -> Option<(&'t Point, &'p VfsPath)> {
        if !self.nested.is_empty()
            && let Some(found) = self.find_nested(path)
        {
            return Some(found);
        }
        self.root.as_ref().map(|root| (root, path))
    }

    /// Tries the prefixes of the path that are as long as some mount point, longest first: a
    /// path of n components costs at most n searches for a slash, and hashes only prefixes
    /// that could be mount points.
    fn find_nested<'t, 'p>(&'t self, path: &'p VfsPath) -> Option<(&'t Point, &'p VfsPath)> {
        let bytes = path.as_bytes();
        let mut end = bytes.len();
        if end > self.lengths.longest {
            end = self.lengths.longest;
            if bytes[end] != b'/' {
                end = memchr::memrchr(b'/', &bytes[..end])?;
            }
        }
        while end > 0 {
            if self.lengths.contains(end) {
                let prefix = VfsPath::from_normal(&bytes[..end]);
                if let Some(point) = self.point(prefix) {
                    let rest = VfsPath::from_normal(bytes.get(end + 1..).unwrap_or_default());
                    return Some((point, rest));
                }
            }
            end = memchr::memrchr(b'/', &bytes[..end])?;
        }
        None
    }

    /// The mount at exactly this path.
    pub(super) fn point(&self, path: &VfsPath) -> Option<&Point> {
        if path.is_root() {
            return self.root.as_ref();
        }
        self.by_path
            .find(hash(path), |&index| *self.nested[index].path == *path)
            .map(|&index| &self.nested[index])
    }

    /// The names in `path` that lead to mount points, if it is such a directory.
    #[inline]
    pub(super) fn lead(&self, path: &VfsPath) -> Option<&Lead> {
        if !self.lead_lengths.contains(path.len()) {
            return None;
        }
        self.leads.find(hash(path), |lead| *lead.path == *path)
    }

    /// Whether the name is a mount point or leads to one.
    pub(super) fn is_pinned(&self, path: &VfsPath) -> bool {
        self.lead(path).is_some() || self.point(path).is_some()
    }

    /// Every mount point at or below `path`.
    pub(super) fn at_or_below(&self, path: &VfsPath) -> impl Iterator<Item = &Point> {
        self.root.iter().chain(&self.nested).filter(move |point| point.path.starts_with(path))
    }

    /// All mount points.
    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.root.iter().chain(&self.nested)
    }
}

impl Point {
    /// File ids of different backends must not meet: a door takes equal ids for hard links.
    /// The mapping is a bijection for each point.
    #[inline]
    pub(super) fn id(&self, id: FileId) -> FileId {
        id.salted(self.salt)
    }

    /// The same for what the point's file system answers.
    pub(super) fn salted(&self, answer: BackendResult<Metadata>) -> BackendResult<Metadata> {
        answer.map(|metadata| Metadata { id: self.id(metadata.id), ..metadata })
    }
}

/// Which byte lengths occur: rules most prefixes out before they are hashed.
#[derive(Debug, Default)]
struct Lengths {
    bits: [u64; 4],
    longest: usize,
}

impl Lengths {
    fn insert(&mut self, len: usize) {
        self.longest = self.longest.max(len);
        if let Some(word) = self.bits.get_mut(len / 64) {
            *word |= 1 << (len % 64);
        }
    }

    /// May say yes for a length over 255 that does not occur.
    #[inline]
    fn contains(&self, len: usize) -> bool {
        match self.bits.get(len / 64) {
            Some(word) => word >> (len % 64) & 1 == 1,
            None => len <= self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_never_deny_what_was_inserted() {
        let mut lengths = Lengths::default();
        for len in [0, 1, 63, 64, 255, 256, 4000] {
            lengths.insert(len);
        }
        for len in [0, 1, 63, 64, 255, 256, 4000] {
            assert!(lengths.contains(len), "{len}");
        }
        assert!(!lengths.contains(2));
        assert!(!lengths.contains(4001));
    }

    #[test]
    fn ids_of_one_point_stay_apart() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|n| FileId(n).salted(3)).collect();
        assert_eq!(ids.len(), 1000);
        assert_eq!(FileId(9).salted(0), FileId(9));
    }
}
