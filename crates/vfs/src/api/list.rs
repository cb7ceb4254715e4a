//! A directory listing.

use crate::backend::DirEntry;
use crate::metadata::{FileId, FileType, Metadata};

/// The entries of one directory, as they were when it was read: one block of names and one of
/// records, not an allocation for each entry. In the backend's order; see
/// [`sorted`](Self::sorted).
#[derive(Clone, Debug, Default)]
pub struct DirList {
    names: Vec<u8>,
    records: Vec<Record>,
    metadata: Vec<Metadata>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    start: u32,
    len: u8,
    file_type: FileType,
    id: FileId,
    /// Where in the metadata of all it is; `NONE` where it was not asked for.
    metadata: u32,
}

const NONE: u32 = u32::MAX;

impl DirList {
    /// Names have up to 255 bytes, so 2^24 entries fit at least; what is more is refused by
    /// `false`.
    #[inline]
    pub(super) fn push(&mut self, entry: DirEntry<'_>) -> bool {
        let (Ok(start), Ok(len)) = (u32::try_from(self.names.len()), entry.name.len().try_into())
        else {
            return false;
        };
        self.names.extend_from_slice(entry.name);
        let DirEntry { file_type, id, metadata: known, .. } = entry;
        let metadata = known.map_or(NONE, |_| self.metadata.len() as u32);
        self.metadata.extend(known);
        self.records.push(Record { start, len, file_type, id, metadata });
        true
    }

    fn entry(&self, record: &Record) -> DirEntry<'_> {
        let start = record.start as usize;
        DirEntry {
            name: &self.names[start..start + usize::from(record.len)],
            file_type: record.file_type,
            id: record.id,
            metadata: self.metadata.get(record.metadata as usize),
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = DirEntry<'_>> {
        self.records.iter().map(|record| self.entry(record))
    }

    /// Orders the entries by the bytes of their names.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let name = |record: &Record| {
            let start = record.start as usize;
            &self.names[start..start + usize::from(record.len)]
        };
        self.records.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        self
    }
}
