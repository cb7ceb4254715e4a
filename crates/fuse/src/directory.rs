//! An open directory: a snapshot of its entries, so that cookies stay true while names come
//! and go.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use stratafs::{BackendResult, Detail, FileType, Metadata, NodeId, NodeSystem};

/// A directory that somebody lists.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub(crate) node: NodeId,
    listing: Mutex<Option<Arc<Listing>>>,
}

/// The entries of a directory at one moment. The names lie in one allocation.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// Of each entry, where it was asked for.
    metadata: Vec<Metadata>,
    /// How many reports of changes there had been before it was read.
    pub(crate) begun: u64,
}

#[derive(Debug)]
struct Entry {
    end: usize,
    file_type: FileType,
    id: u64,
}

impl OpenDir {
    pub(crate) fn new(node: NodeId) -> Self {
        OpenDir { node, listing: Mutex::new(None) }
    }

    /// The entries, and whether they were read just now: at the first call, and again when the
    /// reader starts over (`rewind`). No lock is held meanwhile.
    pub(crate) fn listing<E>(
        &self,
        rewind: bool,
        read: impl FnOnce() -> Result<Listing, E>,
    ) -> Result<(Arc<Listing>, bool), E> {
        let known = self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (false, Some(listing)) = (rewind, known) {
            return Ok((listing, false));
        }
        let listing = Arc::new(read()?);
        *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&listing));
        Ok((listing, true))
    }
}

impl Listing {
    pub(crate) fn read(
        nodes: &dyn NodeSystem,
        node: NodeId,
        detail: Detail,
        begun: u64,
    ) -> BackendResult<Self> {
        let mut listing = Listing { begun, ..Listing::default() };
        nodes.read_dir(node, detail, &mut |entry| {
            listing.names.extend_from_slice(entry.name);
            let end = listing.names.len();
            listing.entries.push(Entry { end, file_type: entry.file_type, id: entry.id.0 });
            listing.metadata.extend(entry.metadata);
            ControlFlow::Continue(())
        })?;
        Ok(listing)
    }

    /// The entry at a position: name, type, file id.
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], FileType, u64)> {
        let entry = self.entries.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.entries[before].end);
        Some((&self.names[start..entry.end], entry.file_type, entry.id))
    }

    /// What was known of the entry at a position when the directory was read.
    pub(crate) fn metadata(&self, index: usize) -> Option<&Metadata> {
        self.metadata.get(index).filter(|_| self.metadata.len() == self.entries.len())
    }
}
