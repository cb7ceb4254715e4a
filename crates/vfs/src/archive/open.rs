//! Opening: the header is checked, the index mapped as it lies.

use std::fs;
use std::path::Path;

use bytes::Bytes;

use crate::backend::File;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::sharded::Sharded;

use super::ArchiveFs;
use super::cache::BlockCache;
use super::cipher::Cipher;
use super::format::{
    CipherKind, HEADER_LEN, Header, MAGIC, SEAL_AT, TRAILER_LEN, corrupt, decode_trailer, root_hash,
};
use super::index::Index;
use super::inner::Inner;
use super::key::{Key, Keys};
use crate::source::{HostFile, Source, from_io};

/// How [`ArchiveFs::open_with`] gets at the archive's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArchiveSource {
    /// Mapped into memory: the fastest. When somebody cuts the file short in place, the process
    /// is killed on its next read of the lost part; replacing it by rename is harmless.
    #[default]
    Mapped,
    /// Positioned reads; the index is read into memory. A file that is cut short answers with
    /// an error.
    Positional,
    /// Read into memory as a whole when it is opened.
    InMemory,
}

/// What is checked when an archive is opened, beyond its header and the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OpenCheck {
    /// Nothing more: opening takes the same time for an archive of any size.
    #[default]
    Header,
    /// Checksum and root hash of the index: every byte of the index is read. An archive with
    /// AES-256-GCM-SIV is always opened so when its key is given.
    Index,
}

/// How to open an archive.
///
/// ```
/// use stratafs::archive::{ArchiveOptions, ArchiveSource};
/// let options = ArchiveOptions::new().source(ArchiveSource::Positional).block_cache_bytes(0);
/// ```
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// How to get at its bytes.
    pub source: ArchiveSource,
    /// The key of an encrypted archive. Without one, what is not encrypted can be read; with
    /// one, an archive that is not encrypted is refused.
    pub key: Option<Key>,
    /// How many bytes of decoded blocks to keep; 0: none. Default: 64 MiB.
    pub block_cache_bytes: u64,
    /// Where in the file the archive starts. `None`: at its beginning, or, when it does not
    /// start like an archive, found by the trailer at its end.
    pub offset: Option<u64>,
    /// How many bytes of the file belong to the archive at most; `None`: up to its end.
    pub len: Option<u64>,
    /// What to check when opening.
    pub check: OpenCheck,
    /// Check the checksum of every block of stored files, too, each time it is read: much
    /// slower for small reads. Off by default; compressed and authenticated blocks are always
    /// checked.
    pub verify_reads: bool,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        ArchiveOptions {
            source: ArchiveSource::default(),
            key: None,
            block_cache_bytes: 64 << 20,
            offset: None,
            len: None,
            check: OpenCheck::default(),
            verify_reads: false,
        }
    }
}

impl ArchiveOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how to get at the bytes.
    #[must_use]
    pub fn source(mut self, source: ArchiveSource) -> Self {
        self.source = source;
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the size of the cache of decoded blocks.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: u64) -> Self {
        self.block_cache_bytes = bytes;
        self
    }

    /// Sets where in the file the archive lies.
    #[must_use]
    pub fn window(mut self, offset: u64, len: u64) -> Self {
        self.offset = Some(offset);
        self.len = Some(len);
        self
    }

    /// Sets what to check when opening.
    #[must_use]
    pub fn check(mut self, check: OpenCheck) -> Self {
        self.check = check;
        self
    }

    /// Sets whether reads of stored files are checked.
    #[must_use]
    pub fn verify_reads(mut self, yes: bool) -> Self {
        self.verify_reads = yes;
        self
    }
}

impl ArchiveFs {
    /// Opens an archive file of the host, mapped. Takes the same time for an archive of any
    /// size.
    ///
    /// # Errors
    /// `UnknownFormat` for a file that is no archive or one of another version, `Corrupt` for a
    /// damaged header or a file that is too short, and what opening the file meets.
    pub fn open(path: impl AsRef<Path>) -> BackendResult<ArchiveFs> {
        Self::open_with(path, &ArchiveOptions::default())
    }

    /// Opens an archive file of the host.
    ///
    /// # Errors
    /// As [`open`](Self::open); `WrongKey` for a wrong key, or a key for an archive that has no
    /// encryption.
    pub fn open_with(path: impl AsRef<Path>, options: &ArchiveOptions) -> BackendResult<ArchiveFs> {
        let file = fs::File::open(path).map_err(from_io)?;
        let file_len = file.metadata().map_err(from_io)?.len();
        let raw = Source::Host(HostFile { file, base: 0 });
        let (base, len) = window(&raw, file_len, options)?;
        let Source::Host(HostFile { file, .. }) = raw else {
            return Err(ErrorKind::Io.into());
        };
        let in_memory = || {
            usize::try_from(len)
                .map_err(|_| BackendError::new(ErrorKind::OutOfMemory, "larger than memory"))
        };
        let source = match options.source {
            ArchiveSource::Mapped => {
                Source::Memory(crate::mapping::map(&file, base, in_memory()?).map_err(from_io)?)
            }
            ArchiveSource::Positional => Source::Host(HostFile { file, base }),
            ArchiveSource::InMemory => {
                Source::Memory(Source::Host(HostFile { file, base }).bytes(0, in_memory()?)?)
            }
        };
        from_source(source, len, options)
    }

    /// An archive in memory, without a copy.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> BackendResult<ArchiveFs> {
        Self::from_bytes_with(bytes, &ArchiveOptions::default())
    }

    /// An archive compiled into the program (`include_bytes!`), without a copy.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_static(bytes: &'static [u8]) -> BackendResult<ArchiveFs> {
        Self::from_bytes(Bytes::from_static(bytes))
    }

    /// An archive in memory, without a copy.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn from_bytes_with(
        bytes: impl Into<Bytes>,
        options: &ArchiveOptions,
    ) -> BackendResult<ArchiveFs> {
        let bytes = bytes.into();
        let total = bytes.len() as u64;
        let raw = Source::Memory(bytes);
        let (base, len) = window(&raw, total, options)?;
        let source = Source::Memory(raw.bytes(base, len as usize)?);
        from_source(source, len, options)
    }

    /// An archive in a file of any backend: lent by it where it can
    /// ([`File::bytes_at`]), else read at offsets, or as a whole when the options say so.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn from_file(file: Box<dyn File>, options: &ArchiveOptions) -> BackendResult<ArchiveFs> {
        let file_len = file.metadata()?.len;
        let raw = Source::File(file, 0);
        let (base, len) = window(&raw, file_len, options)?;
        let Source::File(file, _) = raw else {
            return Err(ErrorKind::Io.into());
        };
        let lent = match options.source {
            ArchiveSource::Mapped => file.bytes_at(base..base + len)?,
            ArchiveSource::Positional => None,
            ArchiveSource::InMemory => {
                let len =
                    usize::try_from(len).map_err(|_| BackendError::from(ErrorKind::OutOfMemory))?;
                let mut buf = vec![0; len];
                Source::File(file, base).read_exact_at(&mut buf, 0)?;
                return from_source(Source::Memory(buf.into()), len as u64, options);
            }
        };
        let source = match lent {
            Some(bytes) if bytes.len() as u64 == len => Source::Memory(bytes),
            _ => Source::File(file, base),
        };
        from_source(source, len, options)
    }
}

/// Where in a file the archive lies: offset and length.
fn window(source: &Source, file_len: u64, options: &ArchiveOptions) -> BackendResult<(u64, u64)> {
    let start = options.offset.unwrap_or(0);
    let available = file_len.checked_sub(start).ok_or_else(|| {
        corrupt(format!("the file ends at {file_len}, before the archive's offset {start}"))
    })?;
    let len = options.len.map_or(available, |len| len.min(available));
    if options.offset.is_none() && len == file_len && len >= (HEADER_LEN + TRAILER_LEN) as u64 {
        let mut magic = [0; MAGIC.len()];
        source.read_exact_at(&mut magic, 0)?;
        if magic != MAGIC {
            let mut trailer = [0; TRAILER_LEN];
            source.read_exact_at(&mut trailer, file_len - TRAILER_LEN as u64)?;
            if let Some(len) = decode_trailer(&trailer)
                && len <= file_len
            {
                return Ok((file_len - len, len));
            }
        }
    }
    if len < HEADER_LEN as u64 {
        let reason = format!("{len} bytes are too few for an archive");
        return Err(BackendError::new(ErrorKind::UnknownFormat, reason));
    }
    Ok((start, len))
}

/// Opens the archive at the beginning of `source`, which has `len` bytes.
fn from_source(source: Source, len: u64, options: &ArchiveOptions) -> BackendResult<ArchiveFs> {
    let mut raw_header = [0; HEADER_LEN];
    source.read_exact_at(&mut raw_header, 0)?;
    let header = Header::decode(&raw_header)?;
    if header.archive_len > len {
        return Err(corrupt(format!(
            "truncated: the archive has {} bytes, the file {len}",
            header.archive_len
        )));
    }
    let index_len = usize::try_from(header.index_len).map_err(|_| {
        BackendError::new(ErrorKind::OutOfMemory, "the index is larger than memory")
    })?;
    let index = source.bytes(header.index_offset, index_len)?;
    let (cipher, seal) = unlock(&header, options.key.as_ref())?;
    if options.check == OpenCheck::Index || seal.is_some() {
        if xxhash_rust::xxh3::xxh3_64(&index) != header.index_sum {
            return Err(corrupt("index: wrong checksum"));
        }
        if root_hash(&raw_header, &index) != header.root {
            return Err(corrupt("index: wrong root hash"));
        }
    }
    if let Some(seal) = seal {
        // `blake3::Hash` compares in constant time.
        if blake3::keyed_hash(&seal, &raw_header[..SEAL_AT]) != blake3::Hash::from(header.seal) {
            return Err(corrupt("header: the seal is broken"));
        }
    }
    let index = Index::new(&header, index)?;
    let cache = BlockCache::new(options.block_cache_bytes);
    let verify_reads = options.verify_reads;
    let inner = Inner { header, index, source, cipher, cache, verify_reads };
    Ok(ArchiveFs { inner: Sharded::new(inner) })
}

/// The cipher of the archive, and the key of its seal if it has one.
fn unlock(header: &Header, key: Option<&Key>) -> BackendResult<(Cipher, Option<[u8; 32]>)> {
    let Some(key) = key else {
        return Ok(match header.cipher {
            CipherKind::None => (Cipher::None, None),
            cipher => (Cipher::Locked(cipher), None),
        });
    };
    if key.cipher() != header.cipher {
        let reason = match header.cipher {
            CipherKind::None => "a key was given, and the archive is not encrypted",
            CipherKind::Xor => "the archive wants an XOR key",
            CipherKind::Aead => "the archive wants a key for AES-256-GCM-SIV, not for XOR",
        };
        return Err(BackendError::new(ErrorKind::WrongKey, reason));
    }
    let derived = key.derive(header.kdf, &header.salt)?;
    if derived.check != header.key_check {
        return Err(BackendError::new(ErrorKind::WrongKey, "the key is not this archive's"));
    }
    let seal = match &derived.keys {
        Keys::Aead { seal, .. } => Some(*seal),
        Keys::Xor(_) => None,
    };
    Ok((Cipher::new(&derived.keys), seal))
}
