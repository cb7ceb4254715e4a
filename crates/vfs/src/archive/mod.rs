//! Archives (`.vfs`): one immutable tree of files in one file, made to be mapped.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use stratafs::archive::{ArchiveFs, PackOptions, pack_to_vec};
//! use stratafs::{MemoryFs, Vfs};
//!
//! let assets = Vfs::with_root(MemoryFs::new());
//! assets.write("hello.txt", "hello")?;
//! let (bytes, _report) = pack_to_vec(&*assets.tree(), &PackOptions::new())?;
//!
//! let game = Vfs::with_root(ArchiveFs::from_bytes(bytes)?);
//! assert_eq!(game.read_to_string("hello.txt")?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! The format is described byte by byte in `docs/formats/archive.md`.
//!
//! # Cost
//! Opening touches the header alone (with a key for AES-256-GCM-SIV: it also hashes the index).
//! Open, stat and a miss are one probe of a hash table; a listing is a run of neighbours; reads
//! of stored files are copies from the map, or no copy at all ([`File::bytes_at`]). Small reads
//! of compressed files go through a cache of decoded blocks
//! ([`ArchiveOptions::block_cache_bytes`]); reads of whole blocks decode into the caller's
//! buffer.
//!
//! # Untrusted archives
//! Every offset, count and kind is checked where it is used; what does not fit is
//! [`ErrorKind::Corrupt`] with the entry and the reason. No read takes more memory than two
//! blocks (at most 8 MiB) beside the caller's own buffer and, with positional reads, the
//! index's size in the file.

mod cache;
mod cipher;
mod codec;
mod diff;
mod extract;
mod file;
mod format;
mod fs;
mod index;
mod inner;
mod key;
mod open;
mod pack;
mod verify;

use std::fmt;

use crate::sharded::Sharded;

pub use codec::Compression;
pub use diff::{Change, Differences, diff};
pub use extract::{ExtractOptions, ExtractReport, extract};
pub use format::CipherKind;
pub use key::Key;
pub use open::{ArchiveOptions, ArchiveSource, OpenCheck};
pub use pack::{PackOptions, PackReport, Progress, Rule, Warning, pack, pack_to_vec};

pub use verify::{Problem, VerifyReport};

#[cfg(doc)]
use crate::{ErrorKind, File};

/// An archive, open for reading. Handles keep it alive; all its methods may be used from many
/// threads without sharing a written cache line.
pub struct ArchiveFs {
    inner: Sharded<inner::Inner>,
}

/// What an archive says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchiveInfo {
    /// How many files, directories and other nodes it has, the root included.
    pub entries: u32,
    /// The sum of the lengths of its files, in bytes; hard links count once.
    pub content_len: u64,
    /// Its own length in bytes.
    pub archive_len: u64,
    /// The block size it was packed with, in bytes.
    pub block_size: u32,
    /// The cipher of its encrypted files.
    pub cipher: CipherKind,
    /// Whether it holds what changed since another archive.
    pub is_patch: bool,
    /// The BLAKE3 hash that names all of its contents and metadata.
    pub root_hash: [u8; 32],
}

impl ArchiveFs {
    /// What the archive says of itself; read when it was opened.
    pub fn info(&self) -> ArchiveInfo {
        let header = &self.inner.header;
        ArchiveInfo {
            entries: header.entry_count,
            content_len: header.content_len,
            archive_len: header.archive_len,
            block_size: 1u32.checked_shl(header.block_bits.into()).unwrap_or(0),
            cipher: header.cipher,
            is_patch: header.flags & format::flag::PATCH != 0,
            root_hash: header.root,
        }
    }
}

impl fmt::Debug for ArchiveFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.inner.header;
        f.debug_struct("ArchiveFs")
            .field("entries", &header.entry_count)
            .field("archive_len", &header.archive_len)
            .field("cipher", &header.cipher)
            .finish_non_exhaustive()
    }
}
