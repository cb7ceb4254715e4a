//! The entries of one directory, for listing and for ordering changes.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::metadata::FileType;

use super::node::NodeId;

/// What a name stands for. A node never changes its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) id: NodeId,
    pub(super) kind: FileType,
}

/// Entries under a lock that lookups do not take: they ask the map of all names.
#[derive(Default)]
pub(super) struct Directory {
    state: RwLock<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) entries: HashMap<Arc<[u8]>, Entry>,
    /// The directory has been removed: nothing can be made in it any more.
    pub(super) dead: bool,
}

impl Directory {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
