//! What an open archive holds, and reading of blocks.

use crate::error::{BackendError, BackendResult, ErrorKind};

use super::cache::BlockCache;
use super::cipher::{BlockId, Cipher};
use super::codec::decompress;
use super::format::{BLOCK_BITS, Block, Codec, EntryRef, Header};
use super::index::Index;
use crate::source::Source;

use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Inner {
    pub header: Header,
    pub index: Index,
    pub source: Source,
    pub cipher: Cipher,
    pub cache: Option<BlockCache>,
    pub verify_reads: bool,
}

/// Where the contents of one file lie: what a handle needs of an entry, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents {
    pub number: u32,
    pub len: u64,
    pub first_block: u32,
    pub block_bits: u8,
    pub encrypted: bool,
    /// The offset of all bytes in a row, where they lie as they are.
    pub plain: Option<u64>,
}

impl AsRef<Source> for Inner {
    fn as_ref(&self) -> &Source {
        &self.source
    }
}

impl Inner {
    /// The contents of the file with this entry.
    #[inline]
    pub(crate) fn contents(&self, number: u32, entry: EntryRef<'_>) -> BackendResult<Contents> {
        let len = entry.len();
        let encrypted = entry.is_encrypted();
        let mut contents = Contents {
            number,
            len,
            first_block: entry.first_block(),
            block_bits: entry.block_bits(),
            encrypted,
            plain: None,
        };
        if entry.is_plain() && !encrypted {
            let offset = entry.data();
            match offset.checked_add(len) {
                Some(end) if end <= self.index.data_end() => contents.plain = Some(offset),
                _ => return Err(self.index.corrupt(number, "its bytes lie outside of the data")),
            }
            if !self.verify_reads {
                return Ok(contents);
            }
        }
        self.index.block_range(number, entry)?;
        if encrypted && matches!(self.cipher, Cipher::Locked(_) | Cipher::None) {
            return Err(Cipher::locked());
        }
        Ok(contents)
    }

    /// Reads within the file: the caller has cut `buf` at its end.
    #[inline]
    pub(crate) fn read(&self, file: &Contents, buf: &mut [u8], offset: u64) -> BackendResult<()> {
        match file.plain {
            Some(start) if !self.verify_reads => self.source.read_exact_at(buf, start + offset),
            _ => self.read_blocks(file, buf, offset),
        }
    }

    fn read_blocks(&self, file: &Contents, buf: &mut [u8], offset: u64) -> BackendResult<()> {
        let bits = file.block_bits;
        debug_assert!(BLOCK_BITS.contains(&bits));
        let (mut offset, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let nth = offset >> bits;
            let block_start = nth << bits;
            let raw_len = (file.len - block_start).min(1 << bits) as usize;
            let skip = (offset - block_start) as usize;
            let (part, tail) = rest.split_at_mut(rest.len().min(raw_len - skip));
            let number = file.first_block + nth as u32;
            self.read_block(file, number, raw_len, skip, part)
                .map_err(|error| self.explain(file, nth, error))?;
            offset += part.len() as u64;
            rest = tail;
        }
        Ok(())
    }

    /// Reads `part` from byte `skip` of one block on.
    fn read_block(
        &self,
        file: &Contents,
        number: u32,
        raw_len: usize,
        skip: usize,
        part: &mut [u8],
    ) -> BackendResult<()> {
        let block = self.checked_block(number, raw_len)?;
        let whole = part.len() == raw_len;
        if block.codec == Codec::Stored && !self.verify_reads {
            // No need for the rest of a block that lies as it is, or nearly so.
            match &self.cipher {
                _ if !file.encrypted => {
                    return self.source.read_exact_at(part, block.offset + skip as u64);
                }
                Cipher::Xor(key) => {
                    let at = block.offset + skip as u64;
                    match self.source.slice(at, part.len()) {
                        Some(stored) => key.copy(stored?, part, skip),
                        None => {
                            self.source.read_exact_at(part, at)?;
                            key.apply(part, skip);
                        }
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        let cached = self.cache.as_ref().and_then(|cache| cache.get(number));
        if let Some(decoded) = cached
            && decoded.len() == raw_len
        {
            part.copy_from_slice(&decoded[skip..skip + part.len()]);
            return Ok(());
        }
        if whole {
            return self.decode(file.encrypted, number, block, part);
        }
        let mut decoded = vec![0; raw_len];
        self.decode(file.encrypted, number, block, &mut decoded)?;
        part.copy_from_slice(&decoded[skip..skip + part.len()]);
        if let Some(cache) = &self.cache {
            cache.insert(number, Arc::new(decoded));
        }
        Ok(())
    }

    /// The record of a block that decodes to `raw_len` bytes: as a block that compression does
    /// not shrink is stored, no block is longer than that.
    pub(crate) fn checked_block(&self, number: u32, raw_len: usize) -> BackendResult<Block> {
        let block = self.index.block(number)?;
        if block.stored_len as usize > raw_len + self.cipher.overhead() {
            return Err(super::format::corrupt("it is longer than what it decodes to"));
        }
        Ok(block)
    }

    /// Checks, decrypts and decodes one block into exactly `out`.
    pub(crate) fn decode(
        &self,
        encrypted: bool,
        number: u32,
        block: Block,
        out: &mut [u8],
    ) -> BackendResult<()> {
        let owned;
        let stored = match self.source.slice(block.offset, block.stored_len as usize) {
            Some(slice) => slice?,
            None => {
                let mut buf = vec![0; block.stored_len as usize];
                self.source.read_exact_at(&mut buf, block.offset)?;
                owned = buf;
                &owned
            }
        };
        if !encrypted {
            check_sum(stored, block)?;
            return decompress(block.codec, stored, out);
        }
        // A tag says more than a checksum; XOR has none.
        if !matches!(self.cipher, Cipher::Aead { .. }) {
            check_sum(stored, block)?;
        }
        let id = BlockId { number, raw_len: out.len() as u32, codec: block.codec };
        let text_len = stored.len().checked_sub(self.cipher.overhead());
        match (block.codec, text_len) {
            (Codec::Stored, Some(len)) if len == out.len() => self.cipher.open(stored, out, id),
            (_, Some(len)) => {
                let mut text = vec![0; len];
                self.cipher.open(stored, &mut text, id)?;
                decompress(block.codec, &text, out)
            }
            (_, None) => Err(super::format::corrupt("an encrypted block without its tag")),
        }
    }

    /// Says which file and block an error is about; kinds that are no damage pass as they are.
    #[cold]
    fn explain(&self, file: &Contents, nth: u64, error: BackendError) -> BackendError {
        if error.kind() == ErrorKind::WrongKey {
            return error;
        }
        let kind = error.kind();
        let reason = error.cause().map_or_else(|| kind.to_string(), ToString::to_string);
        let path = self.index.describe(file.number);
        BackendError::new(kind, format!("{path}: block {nth}: {reason}"))
    }
}

pub(crate) fn check_sum(stored: &[u8], block: Block) -> BackendResult<()> {
    match xxhash_rust::xxh3::xxh3_64(stored) == block.sum {
        true => Ok(()),
        false => Err(super::format::corrupt("wrong checksum")),
    }
}
