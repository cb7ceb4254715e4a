//! The index, used as it lies: every look-up checks what it reads, nothing is parsed ahead.

use std::fmt::Display;

use bytes::Bytes;

use crate::error::BackendResult;
use crate::metadata::{Device, FileId, FileType, Metadata, Owner};
use crate::path::VfsPath;

use super::format::{
    BLOCK_BITS, BLOCK_LEN, Block, ENTRY_LEN, EntryRef, HASH_LEN, Header, Layout, SLOT_LEN, corrupt,
    u16_at, u32_at,
};

pub(crate) const ROOT: u32 = 0;

/// The index region and where its sections lie.
#[derive(Debug)]
pub(crate) struct Index {
    bytes: Bytes,
    seed: u64,
    slot_mask: u64,
    max_probe: u32,
    entry_count: u32,
    block_count: u32,
    /// End of the data region, which starts behind the header.
    data_end: u64,
    entries: usize,
    blocks: usize,
    hashes: usize,
    extras: usize,
    extras_len: usize,
    names: usize,
}

/// A record of the extras section: hard links and extended attributes.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    pub file: u32,
    pub links: u32,
    pub xattr_count: u32,
    xattrs: &'a [u8],
}

impl<'a> Extra<'a> {
    /// Calls `visit` with each name and value until it answers `false`.
    pub(crate) fn xattrs(
        &self,
        mut visit: impl FnMut(&'a [u8], &'a [u8]) -> bool,
    ) -> BackendResult<()> {
        let mut rest = self.xattrs;
        for _ in 0..self.xattr_count {
            let Some((head, tail)) = rest.split_at_checked(6) else {
                return Err(corrupt("extended attributes: cut short"));
            };
            let name_len = usize::from(u16_at(head, 0));
            let value_len = u32_at(head, 2) as usize;
            let split = tail.split_at_checked(name_len).and_then(|(name, tail)| {
                tail.split_at_checked(value_len).map(|(value, tail)| (name, value, tail))
            });
            let Some((name, value, tail)) = split else {
                return Err(corrupt("extended attributes: cut short"));
            };
            if !visit(name, value) {
                return Ok(());
            }
            rest = tail;
        }
        Ok(())
    }
}

#[inline]
pub(crate) fn path_hash(path: &[u8], seed: u64) -> u64 {
    match seed {
        0 => xxhash_rust::xxh3::xxh3_64(path),
        seed => xxhash_rust::xxh3::xxh3_64_with_seed(path, seed),
    }
}

impl Index {
    /// `bytes` is the index region of an archive whose header has been checked.
    pub(crate) fn new(header: &Header, bytes: Bytes) -> BackendResult<Index> {
        let layout = Layout::of(header).filter(|layout| layout.len == bytes.len() as u64);
        let Some(layout) = layout else {
            return Err(corrupt("index: its length is not the header's"));
        };
        // No section starts behind the end of `bytes`, whose length is a `usize`.
        Ok(Index {
            bytes,
            seed: header.seed,
            slot_mask: (1u64 << header.table_bits) - 1,
            max_probe: header.max_probe,
            entry_count: header.entry_count,
            block_count: header.block_count,
            data_end: header.index_offset,
            entries: layout.entries as usize,
            blocks: layout.blocks as usize,
            hashes: layout.hashes as usize,
            extras: layout.extras as usize,
            extras_len: header.extras_len as usize,
            names: layout.names as usize,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn entry_count(&self) -> u32 {
        self.entry_count
    }

    pub(crate) fn block_count(&self) -> u32 {
        self.block_count
    }

    pub(crate) fn data_end(&self) -> u64 {
        self.data_end
    }

    /// How many slots of the table are in use.
    pub(crate) fn used_slots(&self) -> u64 {
        let table = self.bytes.get(..(self.slot_mask as usize + 1) * SLOT_LEN).unwrap_or_default();
        table.chunks_exact(SLOT_LEN).filter(|slot| u32_at(slot, 4) != 0).count() as u64
    }

    #[inline]
    fn record<const N: usize>(&self, section: usize, number: usize) -> Option<&[u8; N]> {
        self.bytes.get(section + number * N..)?.first_chunk()
    }

    /// Finds the entry of a path: one probe for a hit or a miss, no allocation.
    #[inline]
    pub(crate) fn find(&self, path: &VfsPath) -> BackendResult<Option<u32>> {
        let path = path.as_bytes();
        let hash = path_hash(path, self.seed);
        let fingerprint = (hash >> 32) as u32;
        let mut slot = hash & self.slot_mask;
        for _ in 0..=self.max_probe {
            let Some(record) = self.record::<SLOT_LEN>(0, slot as usize) else { break };
            let number = match u32_at(record, 4) {
                0 => return Ok(None),
                number => number - 1,
            };
            if u32_at(record, 0) == fingerprint && self.path(self.entry(number)?)? == path {
                return Ok(Some(number));
            }
            slot = (slot + 1) & self.slot_mask;
        }
        Ok(None)
    }

    #[inline]
    pub(crate) fn entry(&self, number: u32) -> BackendResult<EntryRef<'_>> {
        match self.record::<ENTRY_LEN>(self.entries, number as usize) {
            Some(record) if number < self.entry_count => Ok(EntryRef(record)),
            _ => Err(corrupt(format!("entry {number} of {}", self.entry_count))),
        }
    }

    /// The full path of an entry, not checked for its form but for its length: paths may share
    /// their bytes, so that a small archive could hold many long ones.
    #[inline]
    pub(crate) fn path<'a>(&'a self, entry: EntryRef<'_>) -> BackendResult<&'a [u8]> {
        if usize::from(entry.path_len()) > crate::path::MAX_PATH_LEN {
            return Err(corrupt("path: too long"));
        }
        self.names(entry.path().into(), entry.path_len().into(), &"path")
    }

    #[inline]
    fn names(&self, start: u64, len: u64, what: &dyn Display) -> BackendResult<&[u8]> {
        let names = self.bytes.get(self.names..).unwrap_or_default();
        let range = start.checked_add(len).filter(|&end| end <= names.len() as u64);
        match range {
            Some(end) => Ok(&names[start as usize..end as usize]),
            None => Err(corrupt(format!("{what}: outside of the names"))),
        }
    }

    /// The path for messages; what cannot be read is told by number.
    #[cold]
    pub(crate) fn describe(&self, number: u32) -> String {
        match self.entry(number).and_then(|entry| self.path(entry)) {
            Ok(path) => format!("/{}", String::from_utf8_lossy(path)),
            Err(_) => format!("entry {number}"),
        }
    }

    #[cold]
    pub(crate) fn corrupt(&self, number: u32, reason: impl Display) -> crate::error::BackendError {
        corrupt(format!("{}: {reason}", self.describe(number)))
    }

    #[inline]
    pub(crate) fn kind(&self, number: u32, entry: EntryRef<'_>) -> BackendResult<FileType> {
        match entry.kind() {
            Some(kind) => Ok(kind),
            None => Err(self.corrupt(number, "unknown kind of entry")),
        }
    }

    pub(crate) fn link_target(&self, number: u32, entry: EntryRef<'_>) -> BackendResult<&[u8]> {
        self.names(entry.data(), entry.len(), &"target")
            .map_err(|_| self.corrupt(number, "the target lies outside of the names"))
    }

    /// The children of a directory, with their names checked. A child always lies behind its
    /// directory, so that following children ends.
    #[inline]
    pub(crate) fn children(
        &self,
        number: u32,
        entry: EntryRef<'_>,
    ) -> BackendResult<std::ops::Range<u32>> {
        let first = entry.first_child();
        match first.checked_add(entry.child_count()) {
            Some(end) if end <= self.entry_count && (first > number || first == end) => {
                Ok(first..end)
            }
            _ => Err(self.corrupt(number, "its children are not entries behind it")),
        }
    }

    /// The last name of a child of `parent`, checked to be one.
    #[inline]
    pub(crate) fn child_name<'a>(
        &'a self,
        parent: u32,
        number: u32,
        entry: EntryRef<'_>,
    ) -> BackendResult<&'a [u8]> {
        let path = self.path(entry)?;
        let name = path.get(usize::from(entry.name_start())..).unwrap_or_default();
        let good = entry.parent() == parent
            && !name.is_empty()
            && name.len() <= crate::path::MAX_NAME_LEN
            && name != b"."
            && name != b".."
            && memchr::memchr2(b'/', 0, name).is_none();
        match good {
            true => Ok(name),
            false => Err(self.corrupt(number, "not a good name for a child of its directory")),
        }
    }

    /// How many blocks a file has, checked to lie in the table.
    pub(crate) fn block_range(
        &self,
        number: u32,
        entry: EntryRef<'_>,
    ) -> BackendResult<std::ops::Range<u32>> {
        let bits = entry.block_bits();
        if !BLOCK_BITS.contains(&bits) {
            return Err(self.corrupt(number, format_args!("block size 2^{bits}")));
        }
        let count = entry.len().div_ceil(1 << bits);
        let first = entry.first_block();
        match u64::from(first).checked_add(count) {
            Some(end) if end <= u64::from(self.block_count) => Ok(first..end as u32),
            _ => Err(self.corrupt(number, "more blocks than the archive has")),
        }
    }

    #[inline]
    pub(crate) fn block(&self, block: u32) -> BackendResult<Block> {
        let record = self.record::<BLOCK_LEN>(self.blocks, block as usize);
        match record.filter(|_| block < self.block_count).and_then(Block::decode) {
            Some(decoded)
                if decoded.offset >= super::format::HEADER_LEN as u64
                    && decoded
                        .offset
                        .checked_add(decoded.stored_len.into())
                        .is_some_and(|end| end <= self.data_end) =>
            {
                Ok(decoded)
            }
            _ => Err(corrupt(format!("block {block}: bad record"))),
        }
    }

    pub(crate) fn content_hash(&self, number: u32) -> BackendResult<&[u8; HASH_LEN]> {
        self.record(self.hashes, number as usize)
            .filter(|_| number < self.entry_count)
            .ok_or_else(|| self.corrupt(number, "no content hash"))
    }

    pub(crate) fn extra(
        &self,
        number: u32,
        entry: EntryRef<'_>,
    ) -> BackendResult<Option<Extra<'_>>> {
        let at = match entry.extra() {
            0 => return Ok(None),
            at => at as usize,
        };
        let extras = &self.bytes[self.extras..self.extras + self.extras_len];
        match extras.get(at..).and_then(|rest| rest.split_at_checked(12)) {
            Some((head, xattrs)) => Ok(Some(Extra {
                file: u32_at(head, 0),
                links: u32_at(head, 4),
                xattr_count: u32_at(head, 8),
                xattrs,
            })),
            None => Err(self.corrupt(number, "its extra record lies outside of the extras")),
        }
    }

    #[inline]
    pub(crate) fn metadata(&self, number: u32) -> BackendResult<Metadata> {
        let entry = self.entry(number)?;
        let kind = self.kind(number, entry)?;
        let mut metadata = Metadata::new(kind, entry.mode());
        metadata.id = FileId(u64::from(number) + 1);
        metadata.owner = Owner { user: entry.user(), group: entry.group() };
        metadata.modified = entry.modified();
        metadata.accessed = metadata.modified;
        metadata.changed = metadata.modified;
        match kind {
            FileType::File => {
                metadata.len = entry.len();
                metadata.allocated = self.allocated(entry);
            }
            FileType::Symlink => metadata.len = entry.len(),
            FileType::CharDevice | FileType::BlockDevice => {
                metadata.device = Device { major: entry.first_child(), minor: entry.child_count() };
            }
            _ => {}
        }
        if entry.extra() != 0
            && let Some(extra) = self.extra(number, entry)?
        {
            metadata.id = FileId(u64::from(extra.file) + 1);
            metadata.links = extra.links.max(1);
        }
        Ok(metadata)
    }

    /// The blocks of a file lie one behind the other, so first and last tell the room they
    /// take. A damaged record only makes this number wrong.
    fn allocated(&self, entry: EntryRef<'_>) -> u64 {
        let len = entry.len();
        if entry.is_plain() || len == 0 {
            return len.checked_next_multiple_of(512).unwrap_or(len);
        }
        let bits = entry.block_bits().clamp(*BLOCK_BITS.start(), *BLOCK_BITS.end());
        let last = u64::from(entry.first_block()) + (len.div_ceil(1 << bits) - 1);
        let ends = self
            .block(entry.first_block())
            .ok()
            .zip(u32::try_from(last).ok().and_then(|last| self.block(last).ok()));
        let stored = ends.map_or(len, |(first, last)| {
            (last.offset + u64::from(last.stored_len)).saturating_sub(first.offset)
        });
        stored.checked_next_multiple_of(512).unwrap_or(stored)
    }
}
