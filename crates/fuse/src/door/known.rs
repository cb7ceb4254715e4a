//! What the door knows without asking, of a tree that changes only through it.
//!
//! The kernel forgets what it knows of a directory each time a name in it comes or goes, and asks
//! for it again before the next; and it looks every name up before it is made. Where nobody else
//! changes the tree, the answers to the calls that made the changes say all that: what the
//! directory is like now, which names a directory made through this door can have at most, and
//! that a file made through it has no attributes.
//!
//! # What keeps it true
//! A call that changes a node opens a [`Change`] of it before and closes it after. Metadata is kept
//! only when no other change of the node was under way or has begun since, so that of two answers
//! that cross the wrong one is never kept. Names are added before the call that makes them, and
//! never taken away. A kernel's `forget` drops everything known of the node.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stratafs::{Metadata, NodeId};

const SHARDS: usize = 16;

/// How many names of one directory are kept at most: of a larger one the backend is asked.
const MOST_NAMES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Known {
    /// `None` where others change the tree too: then nothing is known.
    shards: Option<Box<[Shard; SHARDS]>>,
    hasher: RandomState,
}

type Shard = Mutex<HashMap<NodeId, Facts>>;

#[derive(Debug, Default)]
struct Facts {
    under_way: u32,
    begun: u32,
    metadata: Option<Box<Metadata>>,
    /// It has no extended attributes.
    plain: bool,
    /// Hashes of all names that it may have.
    names: Option<HashSet<u64>>,
}

/// A change of a node that is under way.
#[derive(Debug)]
pub(crate) struct Change<'k> {
    known: &'k Known,
    node: NodeId,
    number: u32,
    after: Option<Metadata>,
}

impl Known {
    pub(crate) fn new(exclusive: bool) -> Self {
        let shards = || Box::new(std::array::from_fn(|_| Mutex::default()));
        Known { shards: exclusive.then(shards), hasher: RandomState::new() }
    }

    fn shard(&self, node: NodeId) -> Option<MutexGuard<'_, HashMap<NodeId, Facts>>> {
        // Numbers of memory differ in their low half, those of hosts anywhere.
        let shard = (node.0 ^ node.0 >> 32) as usize % SHARDS;
        Some(self.shards.as_ref()?[shard].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a change of a node.
    pub(crate) fn change(&self, node: NodeId) -> Option<Change<'_>> {
        let mut shard = self.shard(node)?;
        let facts = shard.entry(node).or_default();
        facts.under_way += 1;
        facts.begun = facts.begun.wrapping_add(1);
        facts.metadata = None;
        Some(Change { known: self, node, number: facts.begun, after: None })
    }

    /// What a node is like, if that is known.
    pub(crate) fn metadata(&self, node: NodeId) -> Option<Metadata> {
        let shard = self.shard(node)?;
        shard.get(&node)?.metadata.as_deref().copied()
    }

    /// A file or directory was made, which has no attributes and no entries.
    pub(crate) fn made(&self, node: NodeId, is_dir: bool) {
        if let Some(mut shard) = self.shard(node) {
            let facts = shard.entry(node).or_default();
            facts.plain = true;
            facts.names = is_dir.then(HashSet::new);
        }
    }

    /// Whether a node surely has no extended attributes.
    pub(crate) fn is_plain(&self, node: NodeId) -> bool {
        self.shard(node).is_some_and(|shard| shard.get(&node).is_some_and(|facts| facts.plain))
    }

    /// A node may get an attribute.
    pub(crate) fn not_plain(&self, node: NodeId) {
        if let Some(mut shard) = self.shard(node)
            && let Some(facts) = shard.get_mut(&node)
        {
            facts.plain = false;
        }
    }

    /// A name is about to appear in a directory.
    pub(crate) fn add_name(&self, directory: NodeId, name: &[u8]) {
        if let Some(mut shard) = self.shard(directory)
            && let Some(facts) = shard.get_mut(&directory)
            && let Some(names) = &mut facts.names
        {
            names.insert(self.hasher.hash_one(name));
            if names.len() > MOST_NAMES {
                facts.names = None;
            }
        }
    }

    /// Whether a directory surely has no such name.
    pub(crate) fn lacks(&self, directory: NodeId, name: &[u8]) -> bool {
        let Some(shard) = self.shard(directory) else { return false };
        let names = shard.get(&directory).and_then(|facts| facts.names.as_ref());
        names.is_some_and(|names| !names.contains(&self.hasher.hash_one(name)))
    }

    /// The kernel does not know the node any more.
    pub(crate) fn forget(&self, node: NodeId) {
        if let Some(mut shard) = self.shard(node)
            && shard.get(&node).is_some_and(|facts| facts.under_way == 0)
        {
            shard.remove(&node);
        }
    }
}

/// Closes changes, with what the nodes are like now where the answer said so.
pub(crate) fn close<const N: usize>(changes: [Option<Change<'_>>; N], now: [Option<Metadata>; N]) {
    for (change, now) in changes.into_iter().zip(now) {
        if let Some(mut change) = change {
            change.after = now;
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let Some(mut shard) = self.known.shard(self.node) else { return };
        let Some(facts) = shard.get_mut(&self.node) else { return };
        facts.under_way -= 1;
        if facts.under_way == 0 && facts.begun == self.number {
            facts.metadata = self.after.take().map(Box::new);
        }
    }
}

#[cfg(test)]
mod tests {
    use stratafs::FileType;

    use super::*;

    const NODE: NodeId = NodeId(7);

    fn metadata(len: u64) -> Metadata {
        Metadata { len, ..Metadata::new(FileType::Directory, 0o755) }
    }

    #[test]
    fn of_two_changes_that_cross_nothing_is_kept() {
        let known = Known::new(true);
        let (one, other) = (known.change(NODE), known.change(NODE));
        close([other], [Some(metadata(2))]);
        close([one], [Some(metadata(1))]);
        assert_eq!(known.metadata(NODE), None);
        close([known.change(NODE)], [Some(metadata(3))]);
        assert_eq!(known.metadata(NODE).unwrap().len, 3);
        let under_way = known.change(NODE);
        assert_eq!(known.metadata(NODE), None);
        drop(under_way);
        assert_eq!(known.metadata(NODE), None);
    }

    #[test]
    fn a_directory_lacks_only_what_was_never_made_in_it() {
        let known = Known::new(true);
        assert!(!known.lacks(NODE, b"a"));
        known.made(NODE, true);
        assert!(known.lacks(NODE, b"a"));
        known.add_name(NODE, b"a");
        assert!(!known.lacks(NODE, b"a") && known.lacks(NODE, b"b"));
        (0..MOST_NAMES).for_each(|name| known.add_name(NODE, name.to_string().as_bytes()));
        assert!(!known.lacks(NODE, b"b"));
        known.made(NODE, false);
        assert!(!known.lacks(NODE, b"b") && known.is_plain(NODE));
        known.forget(NODE);
        assert!(!known.is_plain(NODE));
    }

    #[test]
    fn of_a_tree_that_others_change_nothing_is_known() {
        let known = Known::new(false);
        assert!(known.change(NODE).is_none());
        known.made(NODE, true);
        assert!(!known.lacks(NODE, b"a") && !known.is_plain(NODE));
    }
}
