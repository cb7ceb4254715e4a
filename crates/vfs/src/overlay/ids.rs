//! File ids across layers, and across copy-up.
//!
//! The top layer's ids are shown as they are, those of each other layer through a bijection of
//! their own. A copied-up file keeps showing the id that it had: the table from its id in the
//! upper layer to its origin lives as long as the overlay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use papaya::HashMap;

use crate::metadata::FileId;
use crate::path::VfsPathBuf;

/// Where a file of the upper layer came from.
#[derive(Debug)]
pub(super) struct Origin {
    /// The id it showed before it was copied up. A file that had several names has none: the
    /// other names keep showing the old file, so this one must not look like it.
    pub(super) id: Option<FileId>,
    /// Its path in the layers beneath.
    pub(super) path: VfsPathBuf,
}

#[derive(Debug, Default)]
pub(super) struct Ids {
    any: AtomicBool,
    origins: HashMap<FileId, Arc<Origin>>,
}

impl Ids {
    /// What a file of layer `layer` shows as its id.
    #[inline]
    pub(super) fn shown(&self, layer: usize, id: FileId) -> FileId {
        if layer > 0 {
            return id.salted(layer as u64);
        }
        if !self.any.load(Ordering::Acquire) {
            return id;
        }
        self.origins.pin().get(&id).and_then(|origin| origin.id).unwrap_or(id)
    }

    /// Whether any file was copied up.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(super) fn origin(&self, id: FileId) -> Option<Arc<Origin>> {
        if !self.any() {
            return None;
        }
        self.origins.pin().get(&id).cloned()
    }

    pub(super) fn insert(&self, id: FileId, origin: Origin) {
        self.origins.pin().insert(id, Arc::new(origin));
        self.any.store(true, Ordering::Release);
    }

    /// A new file has this id: what had it before is gone.
    pub(super) fn forget(&self, id: FileId) {
        if self.any() {
            self.origins.pin().remove(&id);
        }
    }
}
