//! File ids that are unique across layers and survive a copy-up.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, Ordering};

use papaya::HashMap;

use crate::metadata::{FileId, Metadata};
use crate::mount::mix;

/// Which lower file each copied-up upper file was, by ids.
#[derive(Default)]
pub(super) struct Origins {
    any: AtomicBool,
    map: HashMap<FileId, FileId, BuildHasherDefault<DefaultHasher>>,
}

impl Origins {
    /// Remembers that the upper file `upper` is the file shown as `shown`.
    pub(super) fn insert(&self, upper: FileId, shown: FileId) {
        self.map.pin().insert(upper, shown);
        self.any.store(true, Ordering::Release);
    }

    /// Forgets an upper file that is gone: its number may come again.
    pub(super) fn remove(&self, upper: FileId) {
        if self.any.load(Ordering::Acquire) {
            self.map.pin().remove(&upper);
        }
    }

    /// The id that users see of a file in a layer. A union without an upper numbers its layers
    /// alike: the top one keeps its ids.
    #[inline]
    pub(super) fn shown(&self, layer: usize, id: FileId) -> FileId {
        if layer == 0 && self.any.load(Ordering::Acquire) {
            return self.map.pin().get(&id).copied().unwrap_or(id);
        }
        mix(layer as u64, id)
    }

    /// Whether any upper file is shown under another id.
    pub(super) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// A directory's links are not counted: one layer's number would be wrong, and a program
    /// that believes it overlooks directories of the other layers.
    #[inline]
    pub(super) fn shown_metadata(&self, layer: usize, metadata: Metadata) -> Metadata {
        let links = if metadata.is_dir() { 1 } else { metadata.links };
        Metadata { id: self.shown(layer, metadata.id), links, ..metadata }
    }
}
