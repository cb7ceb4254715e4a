//! The fixed-size records of the format, byte for byte as `docs/formats/archive.md` has them.

use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{FileType, Timestamp};

pub(crate) const MAGIC: [u8; 8] = *b"\x89VFS\r\n\x1a\n";
pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"VFS1-END";
pub(crate) const MAJOR: u16 = 1;
pub(crate) const HEADER_LEN: usize = 256;
pub(crate) const TRAILER_LEN: usize = 24;
pub(crate) const SLOT_LEN: usize = 8;
pub(crate) const ENTRY_LEN: usize = 64;
pub(crate) const BLOCK_LEN: usize = 24;
pub(crate) const HASH_LEN: usize = 32;
pub(crate) const TAG_LEN: usize = 16;
pub(crate) const PAGE: u64 = 4096;
pub(crate) const MAX_PROBE: u32 = 1024;
pub(crate) const BLOCK_BITS: std::ops::RangeInclusive<u8> = 12..=22;

/// Header flags.
pub(crate) mod flag {
    pub(crate) const SYMLINKS: u32 = 1;
    pub(crate) const WHITEOUTS: u32 = 2;
    pub(crate) const XATTRS: u32 = 4;
    pub(crate) const PATCH: u32 = 8;
}

/// Entry flags.
pub(crate) const ENCRYPTED: u8 = 1;
pub(crate) const PLAIN: u8 = 2;

#[cold]
#[inline(never)]
pub(crate) fn corrupt(reason: impl Into<String>) -> BackendError {
    BackendError::new(ErrorKind::Corrupt, reason.into())
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// `N` bytes of a record whose length the caller has checked.
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap_or([0; N])
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// How files are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CipherKind {
    /// Not at all.
    None,
    /// By XOR with a repeating key: obfuscation only.
    Xor,
    /// AES-256-GCM-SIV: confidential and authenticated.
    Aead,
}

/// How the key is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kdf {
    Given,
    Argon2id { memory: u32, passes: u32, lanes: u32 },
}

/// How one block is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Codec {
    Stored = 0,
    Lz4 = 1,
    Zstd = 2,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub minor: u16,
    pub flags: u32,
    pub archive_len: u64,
    pub index_offset: u64,
    pub index_len: u64,
    pub entry_count: u32,
    pub block_count: u32,
    pub table_bits: u8,
    pub cipher: CipherKind,
    pub kdf: Kdf,
    pub block_bits: u8,
    pub max_probe: u32,
    pub seed: u64,
    pub extras_len: u64,
    pub names_len: u64,
    pub content_len: u64,
    pub salt: [u8; 32],
    pub key_check: [u8; 16],
    pub index_sum: u64,
    pub root: [u8; 32],
    pub seal: [u8; 32],
}

/// The header bytes that the root hash covers, and those that the seal does.
pub(crate) const ROOT_AT: usize = 160;
pub(crate) const SEAL_AT: usize = 192;
const SUM_AT: usize = 248;

impl Header {
    /// Checks magic, version and checksum, then every field against the others.
    pub(crate) fn decode(bytes: &[u8]) -> BackendResult<Header> {
        if bytes.len() < HEADER_LEN {
            return Err(corrupt(format!("header: {} of {HEADER_LEN} bytes", bytes.len())));
        }
        if bytes[..8] != MAGIC {
            let reason = "not an archive: the magic bytes are missing";
            return Err(BackendError::new(ErrorKind::UnknownFormat, reason));
        }
        let major = u16_at(bytes, 8);
        if major != MAJOR {
            return Err(BackendError::new(
                ErrorKind::UnknownFormat,
                format!("archive format version {major}; this build reads version {MAJOR}"),
            ));
        }
        if xxhash_rust::xxh3::xxh3_64(&bytes[..SUM_AT]) != u64_at(bytes, SUM_AT) {
            return Err(corrupt("header: wrong checksum"));
        }
        let header = Header {
            minor: u16_at(bytes, 10),
            flags: u32_at(bytes, 12),
            archive_len: u64_at(bytes, 16),
            index_offset: u64_at(bytes, 24),
            index_len: u64_at(bytes, 32),
            entry_count: u32_at(bytes, 40),
            block_count: u32_at(bytes, 44),
            table_bits: bytes[48],
            cipher: match bytes[49] {
                0 => CipherKind::None,
                1 => CipherKind::Xor,
                2 => CipherKind::Aead,
                other => return Err(corrupt(format!("header: unknown cipher {other}"))),
            },
            kdf: match bytes[50] {
                0 => Kdf::Given,
                1 => Kdf::Argon2id {
                    memory: u32_at(bytes, 88),
                    passes: u32_at(bytes, 92),
                    lanes: u32_at(bytes, 96),
                },
                other => return Err(corrupt(format!("header: unknown key derivation {other}"))),
            },
            block_bits: bytes[51],
            max_probe: u32_at(bytes, 52),
            seed: u64_at(bytes, 56),
            extras_len: u64_at(bytes, 64),
            names_len: u64_at(bytes, 72),
            content_len: u64_at(bytes, 80),
            salt: array(bytes, 104),
            key_check: array(bytes, 136),
            index_sum: u64_at(bytes, 152),
            root: array(bytes, ROOT_AT),
            seal: array(bytes, SEAL_AT),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> BackendResult<()> {
        let entries = u64::from(self.entry_count);
        if entries == 0 || self.entry_count == u32::MAX {
            return Err(corrupt(format!("header: {entries} entries")));
        }
        if self.table_bits > 32 || (1u64 << self.table_bits) <= entries {
            return Err(corrupt(format!("header: a table of 2^{} slots", self.table_bits)));
        }
        if self.max_probe > MAX_PROBE {
            return Err(corrupt(format!("header: probe length {}", self.max_probe)));
        }
        if self.names_len > u64::from(u32::MAX) {
            return Err(corrupt(format!("header: {} bytes of names", self.names_len)));
        }
        let end = self
            .index_offset
            .checked_add(self.index_len)
            .and_then(|end| end.checked_add(TRAILER_LEN as u64));
        if end != Some(self.archive_len)
            || self.index_offset < HEADER_LEN as u64
            || !self.index_offset.is_multiple_of(PAGE)
        {
            return Err(corrupt("header: the index does not lie before the trailer"));
        }
        match Layout::of(self) {
            Some(layout) if layout.len == self.index_len => Ok(()),
            _ => Err(corrupt("header: the index length does not fit its counts")),
        }
    }

    /// Everything but root hash, seal and checksum, which [`finish`](Self::finish) adds.
    fn encode_fields(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &MAJOR.to_le_bytes());
        put(&mut bytes, 10, &self.minor.to_le_bytes());
        put(&mut bytes, 12, &self.flags.to_le_bytes());
        put(&mut bytes, 16, &self.archive_len.to_le_bytes());
        put(&mut bytes, 24, &self.index_offset.to_le_bytes());
        put(&mut bytes, 32, &self.index_len.to_le_bytes());
        put(&mut bytes, 40, &self.entry_count.to_le_bytes());
        put(&mut bytes, 44, &self.block_count.to_le_bytes());
        bytes[48] = self.table_bits;
        bytes[49] = match self.cipher {
            CipherKind::None => 0,
            CipherKind::Xor => 1,
            CipherKind::Aead => 2,
        };
        if let Kdf::Argon2id { memory, passes, lanes } = self.kdf {
            bytes[50] = 1;
            put(&mut bytes, 88, &memory.to_le_bytes());
            put(&mut bytes, 92, &passes.to_le_bytes());
            put(&mut bytes, 96, &lanes.to_le_bytes());
        }
        bytes[51] = self.block_bits;
        put(&mut bytes, 52, &self.max_probe.to_le_bytes());
        put(&mut bytes, 56, &self.seed.to_le_bytes());
        put(&mut bytes, 64, &self.extras_len.to_le_bytes());
        put(&mut bytes, 72, &self.names_len.to_le_bytes());
        put(&mut bytes, 80, &self.content_len.to_le_bytes());
        put(&mut bytes, 104, &self.salt);
        put(&mut bytes, 136, &self.key_check);
        put(&mut bytes, 152, &self.index_sum.to_le_bytes());
        bytes
    }

    /// Computes checksum, root hash and, with a seal key, seal over header and index, and gives
    /// the header's bytes.
    pub(crate) fn finish(&mut self, index: &[u8], seal: Option<&[u8; 32]>) -> [u8; HEADER_LEN] {
        self.index_sum = xxhash_rust::xxh3::xxh3_64(index);
        let mut bytes = self.encode_fields();
        self.root = root_hash(&bytes, index);
        put(&mut bytes, ROOT_AT, &self.root);
        if let Some(key) = seal {
            self.seal = *blake3::keyed_hash(key, &bytes[..SEAL_AT]).as_bytes();
            put(&mut bytes, SEAL_AT, &self.seal);
        }
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..SUM_AT]);
        put(&mut bytes, SUM_AT, &sum.to_le_bytes());
        bytes
    }
}

/// The hash that names the archive's contents.
pub(crate) fn root_hash(header: &[u8], index: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(&header[..ROOT_AT]).update(index).finalize().as_bytes()
}

/// Where the sections of the index start, from its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub entries: u64,
    pub blocks: u64,
    pub hashes: u64,
    pub extras: u64,
    pub names: u64,
    pub len: u64,
}

impl Layout {
    /// `None` when the counts are so large that the sum overflows.
    pub(crate) fn of(header: &Header) -> Option<Layout> {
        let after = |start: u64, len: u64| start.checked_add(len)?.checked_next_multiple_of(64);
        let entry_count = u64::from(header.entry_count);
        let entries = after(0, (SLOT_LEN as u64) << header.table_bits)?;
        let blocks = after(entries, entry_count * ENTRY_LEN as u64)?;
        let hashes = after(blocks, u64::from(header.block_count) * BLOCK_LEN as u64)?;
        let extras = after(hashes, entry_count * HASH_LEN as u64)?;
        let names = after(extras, header.extras_len)?;
        Some(Layout {
            entries,
            blocks,
            hashes,
            extras,
            names,
            len: names.checked_add(header.names_len)?,
        })
    }
}

/// One entry, lent from the index.
#[derive(Clone, Copy)]
pub(crate) struct EntryRef<'a>(pub &'a [u8; ENTRY_LEN]);

impl EntryRef<'_> {
    #[inline]
    pub(crate) fn len(self) -> u64 {
        u64_at(self.0, 0)
    }
    #[inline]
    pub(crate) fn data(self) -> u64 {
        u64_at(self.0, 8)
    }
    #[inline]
    pub(crate) fn first_child(self) -> u32 {
        u32_at(self.0, 8)
    }
    #[inline]
    pub(crate) fn child_count(self) -> u32 {
        u32_at(self.0, 12)
    }
    #[inline]
    pub(crate) fn first_block(self) -> u32 {
        u32_at(self.0, 16)
    }
    #[inline]
    pub(crate) fn path(self) -> u32 {
        u32_at(self.0, 20)
    }
    #[inline]
    pub(crate) fn path_len(self) -> u16 {
        u16_at(self.0, 24)
    }
    #[inline]
    pub(crate) fn name_start(self) -> u16 {
        u16_at(self.0, 26)
    }
    #[inline]
    pub(crate) fn kind(self) -> Option<FileType> {
        kind_from_code(self.0[28])
    }
    #[inline]
    pub(crate) fn is_encrypted(self) -> bool {
        self.0[29] & ENCRYPTED != 0
    }
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0[29] & PLAIN != 0
    }
    #[inline]
    pub(crate) fn block_bits(self) -> u8 {
        self.0[30]
    }
    #[inline]
    pub(crate) fn mode(self) -> u32 {
        u32::from(u16_at(self.0, 32)) & 0o7777
    }
    #[inline]
    pub(crate) fn parent(self) -> u32 {
        u32_at(self.0, 36)
    }
    #[inline]
    pub(crate) fn modified(self) -> Timestamp {
        let nanoseconds = u32_at(self.0, 48).min(999_999_999);
        Timestamp { seconds: u64_at(self.0, 40).cast_signed(), nanoseconds }
    }
    #[inline]
    pub(crate) fn user(self) -> u32 {
        u32_at(self.0, 52)
    }
    #[inline]
    pub(crate) fn group(self) -> u32 {
        u32_at(self.0, 56)
    }
    #[inline]
    pub(crate) fn extra(self) -> u32 {
        u32_at(self.0, 60)
    }
    /// Whether both are of one kind and their contents lie in the same place in the same way.
    pub(crate) fn same_contents(self, other: EntryRef<'_>) -> bool {
        self.0[..20] == other.0[..20] && self.0[28..31] == other.0[28..31]
    }
    /// Whether the bytes that must be zero are.
    pub(crate) fn reserved_is_zero(self) -> bool {
        self.0[31] == 0 && u16_at(self.0, 34) == 0 && self.0[29] & !(ENCRYPTED | PLAIN) == 0
    }
}

/// One entry, to be written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub len: u64,
    pub data: u64,
    pub first_block: u32,
    pub path: u32,
    pub path_len: u16,
    pub name_start: u16,
    pub kind: FileType,
    pub flags: u8,
    pub block_bits: u8,
    pub mode: u32,
    pub parent: u32,
    pub modified: Timestamp,
    pub user: u32,
    pub group: u32,
    pub extra: u32,
}

impl Entry {
    pub(crate) fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        put(&mut bytes, 0, &self.len.to_le_bytes());
        put(&mut bytes, 8, &self.data.to_le_bytes());
        put(&mut bytes, 16, &self.first_block.to_le_bytes());
        put(&mut bytes, 20, &self.path.to_le_bytes());
        put(&mut bytes, 24, &self.path_len.to_le_bytes());
        put(&mut bytes, 26, &self.name_start.to_le_bytes());
        bytes[28] = code_of_kind(self.kind);
        bytes[29] = self.flags;
        bytes[30] = self.block_bits;
        put(&mut bytes, 32, &((self.mode & 0o7777) as u16).to_le_bytes());
        put(&mut bytes, 36, &self.parent.to_le_bytes());
        put(&mut bytes, 40, &self.modified.seconds.to_le_bytes());
        put(&mut bytes, 48, &self.modified.nanoseconds.to_le_bytes());
        put(&mut bytes, 52, &self.user.to_le_bytes());
        put(&mut bytes, 56, &self.group.to_le_bytes());
        put(&mut bytes, 60, &self.extra.to_le_bytes());
        bytes
    }
}

/// Packs two 32-bit halves into the `data` field.
pub(crate) fn two_halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn kind_from_code(code: u8) -> Option<FileType> {
    Some(match code {
        1 => FileType::File,
        2 => FileType::Directory,
        3 => FileType::Symlink,
        4 => FileType::Fifo,
        5 => FileType::Socket,
        6 => FileType::CharDevice,
        7 => FileType::BlockDevice,
        8 => FileType::Whiteout,
        _ => return None,
    })
}

fn code_of_kind(kind: FileType) -> u8 {
    match kind {
        FileType::File => 1,
        FileType::Directory => 2,
        FileType::Symlink => 3,
        FileType::Fifo => 4,
        FileType::Socket => 5,
        FileType::CharDevice => 6,
        FileType::BlockDevice => 7,
        FileType::Whiteout => 8,
    }
}

/// Where one block's bytes lie and how they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub offset: u64,
    pub stored_len: u32,
    pub codec: Codec,
    pub sum: u64,
}

impl Block {
    pub(crate) fn decode(bytes: &[u8; BLOCK_LEN]) -> Option<Block> {
        Some(Block {
            offset: u64_at(bytes, 0),
            stored_len: u32_at(bytes, 8),
            codec: match bytes[12] {
                0 => Codec::Stored,
                1 => Codec::Lz4,
                2 => Codec::Zstd,
                _ => return None,
            },
            sum: u64_at(bytes, 16),
        })
    }

    pub(crate) fn encode(&self) -> [u8; BLOCK_LEN] {
        let mut bytes = [0; BLOCK_LEN];
        put(&mut bytes, 0, &self.offset.to_le_bytes());
        put(&mut bytes, 8, &self.stored_len.to_le_bytes());
        bytes[12] = self.codec as u8;
        put(&mut bytes, 16, &self.sum.to_le_bytes());
        bytes
    }
}

pub(crate) fn encode_trailer(archive_len: u64) -> [u8; TRAILER_LEN] {
    let mut bytes = [0; TRAILER_LEN];
    put(&mut bytes, 0, &TRAILER_MAGIC);
    put(&mut bytes, 8, &archive_len.to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..16]);
    put(&mut bytes, 16, &sum.to_le_bytes());
    bytes
}

/// The archive's length, when these bytes are a trailer.
pub(crate) fn decode_trailer(bytes: &[u8; TRAILER_LEN]) -> Option<u64> {
    let good = bytes[..8] == TRAILER_MAGIC
        && xxhash_rust::xxh3::xxh3_64(&bytes[..16]) == u64_at(bytes, 16);
    good.then(|| u64_at(bytes, 8))
}
