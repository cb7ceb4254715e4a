//! What is kept, as an immutable value that readers borrow.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::names::Names;
use crate::path::{VfsPath, VfsPathBuf};

/// A directory that a watch proves to be at its path.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) path: VfsPathBuf,
    pub(super) fd: OwnedFd,
    pub(super) watch: i32,
    pub(super) names: Names,
}

/// Every directory that is kept. The directories above a kept one are kept too; the root is
/// not among them, since its descriptor is always there.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) nodes: HashTable<Arc<Node>>,
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

impl Snapshot {
    pub(super) fn empty() -> Self {
        Snapshot { nodes: HashTable::new() }
    }

    #[inline]
    pub(super) fn get(&self, path: &VfsPath) -> Option<&Arc<Node>> {
        self.nodes.find(xxh3_64(path.as_bytes()), |node| *node.path == *path)
    }

    pub(super) fn insert(&mut self, node: Arc<Node>) {
        let hash = xxh3_64(node.path.as_bytes());
        self.nodes.insert_unique(hash, node, |node| xxh3_64(node.path.as_bytes()));
    }

    /// The directory itself.
    #[inline]
    pub(super) fn place_of(&self, dir: &VfsPath) -> Place<'_> {
        match self.get(dir) {
            Some(node) => Place::In(node.fd.as_fd()),
            None => Place::Unknown,
        }
    }

    /// Where to look for `name` in `dir`, a directory below the root; and whether learning more
    /// could save that.
    #[inline]
    pub(super) fn place_in(&self, dir: &VfsPath, name: &[u8]) -> (Place<'_>, bool) {
        match self.get(dir) {
            Some(node) if node.names.exclude(name) => (Place::Missing, false),
            Some(node) => (Place::In(node.fd.as_fd()), node.names.is_unknown()),
            None => self.place_below_kept(dir),
        }
    }

    /// Asks the deepest kept directory above `dir` for the name that leads there.
    fn place_below_kept(&self, dir: &VfsPath) -> (Place<'_>, bool) {
        let mut at = dir;
        while let Some((parent, name)) = at.split_last() {
            match self.get(parent) {
                Some(node) if node.names.exclude(name) => return (Place::Missing, false),
                Some(_) => break,
                None => at = parent,
            }
        }
        (Place::Unknown, true)
    }

    /// Takes out what lies at or below `path`.
    pub(super) fn take_below(&mut self, path: &VfsPath) -> Vec<Arc<Node>> {
        self.nodes.extract_if(|node| node.path.starts_with(path)).collect()
    }

    /// Takes out up to `count` directories that have no kept ones below them and are not on the
    /// way to `spared`; others each time that `turn` differs.
    pub(super) fn take_leaves(
        &mut self,
        count: usize,
        turn: usize,
        spared: &VfsPath,
    ) -> Vec<Arc<Node>> {
        let paths = || self.nodes.iter().map(|node| &node.path);
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
        self.nodes.extract_if(|node| leaves.binary_search(&node.path).is_ok()).collect()
    }
}
