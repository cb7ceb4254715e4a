//! All names of all directories in one lock-free map.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use papaya::{Equivalent, HashMap, LocalGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::dir::Entry;
use super::node::NodeId;

/// From (directory, name) to entry. Keyed by the directory's id, so that renaming a directory
/// touches one entry whatever lies below it.
pub(super) struct Names {
    map: HashMap<Key, Entry, Ready>,
}

struct Key {
    directory: NodeId,
    name: Arc<[u8]>,
}

struct Query<'a> {
    directory: NodeId,
    name: &'a [u8],
}

fn hash(directory: NodeId, name: &[u8]) -> u64 {
    let seed = u64::from(directory.generation) << 32 | u64::from(directory.index);
    xxh3_64_with_seed(name, seed)
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(hash(self.directory, &self.name));
    }
}

impl Hash for Query<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(hash(self.directory, self.name));
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.directory == other.directory && self.name == other.name
    }
}

impl Eq for Key {}

impl Equivalent<Key> for Query<'_> {
    #[inline]
    fn equivalent(&self, key: &Key) -> bool {
        self.directory == key.directory && *self.name == *key.name
    }
}

/// Hands on the hash that the keys have already computed.
#[derive(Default, Clone)]
struct Ready(u64);

impl BuildHasher for Ready {
    type Hasher = Ready;
    fn build_hasher(&self) -> Ready {
        Ready(0)
    }
}

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Names {
    pub(super) fn new() -> Self {
        Names { map: HashMap::with_hasher(Ready::default()) }
    }

    /// Keeps what lookups see alive; one for a whole walk.
    #[inline]
    pub(super) fn guard(&self) -> LocalGuard<'_> {
        self.map.guard()
    }

    #[inline]
    pub(super) fn get(
        &self,
        directory: NodeId,
        name: &[u8],
        guard: &LocalGuard<'_>,
    ) -> Option<Entry> {
        self.map.get(&Query { directory, name }, guard).copied()
    }

    pub(super) fn insert(&self, directory: NodeId, name: Arc<[u8]>, entry: Entry) {
        self.map.insert(Key { directory, name }, entry, &self.map.guard());
    }

    pub(super) fn remove(&self, directory: NodeId, name: &[u8]) {
        self.map.remove(&Query { directory, name }, &self.map.guard());
    }
}
