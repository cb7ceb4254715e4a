//! The parts of an archive by the page of its format, found without the library's own code.

/// Lengths of the fixed-size records.
pub const HEADER: usize = 256;
pub const TRAILER: usize = 24;
pub const SLOT: usize = 8;
pub const ENTRY: usize = 64;
pub const BLOCK: usize = 24;

/// The fields of the header, as offset and size.
pub const HEADER_FIELDS: &[(usize, usize)] = &[
    (8, 2),
    (10, 2),
    (12, 4),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 4),
    (44, 4),
    (48, 1),
    (49, 1),
    (50, 1),
    (51, 1),
    (52, 4),
    (56, 8),
    (64, 8),
    (72, 8),
    (80, 8),
    (88, 4),
    (92, 4),
    (96, 4),
];

/// The fields of an entry.
pub const ENTRY_FIELDS: &[(usize, usize)] = &[
    (0, 8),
    (8, 8),
    (8, 4),
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 2),
    (26, 2),
    (28, 1),
    (29, 1),
    (30, 1),
    (32, 2),
    (36, 4),
    (40, 8),
    (48, 4),
    (60, 4),
];

/// The fields of a block record.
pub const BLOCK_FIELDS: &[(usize, usize)] = &[(0, 8), (8, 4), (12, 1)];

/// Where the sections lie, as far as the header's numbers make sense.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub index: usize,
    pub index_end: usize,
    pub table_len: usize,
    pub entries: usize,
    pub entry_count: usize,
    pub blocks: usize,
    pub block_count: usize,
    pub extras: usize,
    pub names: usize,
}

/// A little-endian number, or 0 outside of the bytes.
pub fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut value = [0; 8];
    if let Some(field) = at.checked_add(size).and_then(|end| bytes.get(at..end)) {
        value[..size].copy_from_slice(field);
    }
    u64::from_le_bytes(value)
}

impl Frame {
    /// `None` when the sections do not lie within the bytes.
    pub fn of(bytes: &[u8]) -> Option<Frame> {
        let size = |at, size| usize::try_from(number(bytes, at, size)).ok();
        let (entry_count, block_count) = (size(40, 4)?, size(44, 4)?);
        let index = size(24, 8)?;
        let table_len = SLOT.checked_shl(size(48, 1)? as u32).filter(|&len| len <= bytes.len())?;
        let after = |start: usize, len: usize| -> Option<usize> {
            start.checked_add(len)?.checked_next_multiple_of(64)
        };
        let entries = after(0, table_len)?;
        let blocks = after(entries, entry_count.checked_mul(ENTRY)?)?;
        let hashes = after(blocks, block_count.checked_mul(BLOCK)?)?;
        let extras = after(hashes, entry_count.checked_mul(32)?)?;
        let names = after(extras, size(64, 8)?)?;
        let index_end = index.checked_add(names.checked_add(size(72, 8)?)?)?;
        let fits = index >= HEADER && index_end.checked_add(TRAILER)? <= bytes.len();
        fits.then(|| Frame {
            index,
            index_end,
            table_len,
            entries: index + entries,
            entry_count,
            blocks: index + blocks,
            block_count,
            extras: index + extras,
            names: index + names,
        })
    }

    /// The sum of the lengths of all files, whether they can be true or not.
    pub fn content_len(&self, bytes: &[u8]) -> u64 {
        let entries = bytes[self.entries..].chunks_exact(ENTRY).take(self.entry_count);
        let files = entries.filter(|entry| entry[28] == 1);
        files.fold(0, |sum, entry| number(entry, 0, 8).saturating_add(sum))
    }
}
