//! An open directory: a snapshot of its entries, so that cookies stay true while names come
//! and go.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use stratafs::{BackendResult, FileSystem, FileType, VfsPath};

/// A directory that somebody lists.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub(crate) node: u64,
    listing: Mutex<Option<Arc<Listing>>>,
}

/// The entries of a directory at one moment. The names lie in one allocation.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    end: usize,
    file_type: FileType,
    id: u64,
}

impl OpenDir {
    pub(crate) fn new(node: u64) -> Self {
        OpenDir { node, listing: Mutex::new(None) }
    }

    /// The entries: read at the first call, and again when the reader starts over (`rewind`).
    pub(crate) fn listing(
        &self,
        rewind: bool,
        read: impl FnOnce() -> Result<Listing, rustix::io::Errno>,
    ) -> Result<Arc<Listing>, rustix::io::Errno> {
        let known = self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (false, Some(listing)) = (rewind, known) {
            return Ok(listing);
        }
        let listing = Arc::new(read()?);
        *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&listing));
        Ok(listing)
    }
}

impl Listing {
    pub(crate) fn read(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<Self> {
        let mut listing = Listing::default();
        fs.read_dir(path, &mut |entry| {
            listing.names.extend_from_slice(entry.name);
            let end = listing.names.len();
            listing.entries.push(Entry { end, file_type: entry.file_type, id: entry.id.0 });
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
}
