//! What is kept, as an immutable value that readers borrow.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::filter::Filter;
use crate::path::{VfsPath, VfsPathBuf};

/// A directory that a watch proves to be at its path.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) path: VfsPathBuf,
    pub(super) fd: OwnedFd,
    pub(super) watch: i32,
}

/// What is known of a directory's names.
#[derive(Clone, Debug)]
pub(super) enum Names {
    /// Nothing yet, or not any more.
    Unknown,
    /// Nothing, and never will be: it cannot be listed, or its names have no one spelling.
    Unprovable,
    /// All of them.
    Known(Arc<Filter>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) node: Arc<Node>,
    pub(super) names: Names,
}

/// Every directory that is kept. The directories above a kept one are kept too; the root is
/// not among the entries, since its descriptor is always there.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) entries: HashTable<Entry>,
    pub(super) root_names: Names,
}

/// What the cache knows of a name in a directory.
pub(in super::super) enum Place<'a> {
    /// There is no such name, or no such directory.
    Missing,
    /// Look here.
    In(BorrowedFd<'a>),
    /// Ask the disk by the whole path.
    Unknown,
}

impl Names {
    /// What is known before anything is: where names are not kept, that will never change.
    fn at_first(keeps_names: bool) -> Self {
        if keeps_names { Names::Unknown } else { Names::Unprovable }
    }

    fn is_unknown(&self) -> bool {
        matches!(self, Names::Unknown)
    }

    #[inline]
    fn exclude(&self, name: &[u8]) -> bool {
        matches!(self, Names::Known(filter) if !filter.may_contain(name))
    }
}

impl Snapshot {
    pub(super) fn empty(keeps_names: bool) -> Self {
        Snapshot { entries: HashTable::new(), root_names: Names::at_first(keeps_names) }
    }

    #[inline]
    pub(super) fn get(&self, path: &VfsPath) -> Option<&Entry> {
        self.entries.find(xxh3_64(path.as_bytes()), |entry| *entry.node.path == *path)
    }

    pub(super) fn get_mut(&mut self, path: &VfsPath) -> Option<&mut Entry> {
        self.entries.find_mut(xxh3_64(path.as_bytes()), |entry| *entry.node.path == *path)
    }

    pub(super) fn insert(&mut self, node: Node, keeps_names: bool) {
        let hash = xxh3_64(node.path.as_bytes());
        let entry = Entry { node: Arc::new(node), names: Names::at_first(keeps_names) };
        self.entries.insert_unique(hash, entry, |entry| xxh3_64(entry.node.path.as_bytes()));
    }

    /// What is known of a directory's names.
    pub(super) fn names_mut(&mut self, path: &VfsPath) -> Option<&mut Names> {
        if path.is_root() {
            return Some(&mut self.root_names);
        }
        self.get_mut(path).map(|entry| &mut entry.names)
    }

    pub(super) fn names(&self, path: &VfsPath) -> Option<&Names> {
        if path.is_root() {
            return Some(&self.root_names);
        }
        self.get(path).map(|entry| &entry.names)
    }

    /// The directory itself.
    #[inline]
    pub(super) fn place_of(&self, dir: &VfsPath) -> Place<'_> {
        match self.get(dir) {
            Some(entry) => Place::In(entry.node.fd.as_fd()),
            None => Place::Unknown,
        }
    }

    /// Where to look for `name` in `dir`, with `root` the root's descriptor; and whether
    /// learning more could save that.
    #[inline]
    pub(super) fn place_in<'a>(
        &'a self,
        root: BorrowedFd<'a>,
        dir: &VfsPath,
        name: &[u8],
    ) -> (Place<'a>, bool) {
        let Some((first, _)) = dir.split_first() else {
            return match self.root_names.exclude(name) {
                true => (Place::Missing, false),
                false => (Place::In(root), self.root_names.is_unknown()),
            };
        };
        // The usual question to an override directory ends here.
        if self.root_names.exclude(first) {
            return (Place::Missing, false);
        }
        match self.get(dir) {
            Some(entry) if entry.names.exclude(name) => (Place::Missing, false),
            Some(entry) => (Place::In(entry.node.fd.as_fd()), entry.names.is_unknown()),
            None => self.place_below_kept(dir),
        }
    }

    /// Asks the deepest kept directory above `dir` for the name that leads there.
    fn place_below_kept(&self, dir: &VfsPath) -> (Place<'_>, bool) {
        let mut at = dir;
        while let Some((parent, name)) = at.split_last() {
            match self.get(parent) {
                Some(entry) if entry.names.exclude(name) => return (Place::Missing, false),
                Some(_) => break,
                None => at = parent,
            }
        }
        (Place::Unknown, true)
    }

    /// Takes out what lies at or below `path`.
    pub(super) fn take_below(&mut self, path: &VfsPath) -> Vec<Entry> {
        self.entries.extract_if(|entry| entry.node.path.starts_with(path)).collect()
    }

    /// Takes out up to `count` directories that have no kept ones below them and are not on the
    /// way to `spared`; others each time that `turn` differs.
    pub(super) fn take_leaves(
        &mut self,
        count: usize,
        turn: usize,
        spared: &VfsPath,
    ) -> Vec<Entry> {
        let paths = || self.entries.iter().map(|entry| &entry.node.path);
        let inner: HashSet<&VfsPath> = paths().filter_map(|path| path.parent()).collect();
        let mut leaves: Vec<VfsPathBuf> = paths()
            .filter(|path| !inner.contains(&***path) && !spared.starts_with(path))
            .cloned()
            .collect();
        leaves.sort();
        let start = turn.wrapping_mul(count) % leaves.len().max(1);
        leaves.rotate_left(start);
        leaves.truncate(count);
        leaves.sort();
        self.entries.extract_if(|entry| leaves.binary_search(&entry.node.path).is_ok()).collect()
    }
}
