//! Zip files, read-only.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use stratafs::{Vfs, ZipFs};
//! let tree = Vfs::with_root(ZipFs::open("assets.zip")?);
//! let text = tree.read_to_string("readme.txt")?;
//! # Ok(())
//! # }
//! ```
//!
//! The index is built once, when the file is opened, into a hash map over full paths and a
//! tree. Stored entries are read where they lie, mapped entries without a copy; deflated
//! entries are inflated as a whole and kept in a cache of bounded size, the largest ones are
//! inflated anew by each handle that reads them.
//!
//! # Names
//! Whatever a zip file calls its entries, they stay inside: `\` separates like `/`, leading and
//! doubled separators and `.` are dropped, and an entry whose name has `..`, a NUL byte or a
//! name over 255 bytes is left out. Of two entries with one path the later one counts; a file
//! that is also a directory of other entries is left out. What is left out is told by
//! [`ZipFs::skipped`]. Directories that are only implied by paths exist, with mode 0755.
//!
//! # What is understood
//! Stored and deflated entries, Zip64, Unix modes, symbolic links, the extended timestamp (else
//! the local time of DOS, taken as UTC). Opening an encrypted or otherwise compressed entry is
//! [`ErrorKind::Unsupported`]; its metadata is there.
//!
//! # Untrusted files
//! An entry that inflates to more or less than it declares, or to other bytes than its checksum
//! says, is [`ErrorKind::Corrupt`]; memory for it grows with what
//! is inflated, never beyond the declared size.

mod build;
mod file;
mod fs;
mod inflate;

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::File;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::kit::PathIndex;
use crate::metadata::{FileType, Timestamp};
use crate::path::VfsPath;
use crate::sharded::Sharded;
use crate::source::{HostFile, Source, from_io};

use inflate::InflateCache;

/// A zip file, open for reading.
pub struct ZipFs {
    inner: Sharded<Inner>,
}

/// How to open a zip file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZipOptions {
    /// Read at offsets instead of mapping the file. A mapped file that is cut short in place
    /// kills the process on its next read of the lost part.
    pub positional: bool,
    /// How many bytes of inflated entries to keep; 0: none. An entry over a quarter of it is not
    /// kept. Default: 64 MiB.
    pub inflate_cache_bytes: u64,
}

impl Default for ZipOptions {
    fn default() -> Self {
        ZipOptions { positional: false, inflate_cache_bytes: 64 << 20 }
    }
}

/// An entry of the zip file that is not in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedEntry {
    /// Its name in the zip file.
    pub name: Vec<u8>,
    /// Why.
    pub reason: &'static str,
}

#[derive(Debug)]
pub(crate) struct Inner {
    source: Source,
    source_len: u64,
    nodes: Nodes,
    by_path: HashTable<u32>,
    has_symlinks: bool,
    cache: InflateCache,
    skipped: Vec<SkippedEntry>,
}

/// All nodes. An entry and the directories that its path implies share the bytes of the path:
/// a name of a few thousand bytes implies thousands of directories.
#[derive(Debug)]
struct Nodes {
    all: Vec<Node>,
    paths: Vec<u8>,
}

impl Nodes {
    #[inline]
    fn get(&self, number: u32) -> &Node {
        &self.all[number as usize]
    }

    #[inline]
    fn path_bytes(&self, number: u32) -> &[u8] {
        let node = self.get(number);
        &self.paths[node.path_start..][..node.path_len]
    }

    fn path(&self, number: u32) -> &VfsPath {
        VfsPath::from_normal(self.path_bytes(number))
    }
}

#[derive(Debug)]
struct Node {
    /// Where its path lies in the paths of all.
    path_start: usize,
    path_len: usize,
    kind: FileType,
    mode: u32,
    modified: Timestamp,
    data: Data,
    /// Sorted by name.
    children: Vec<u32>,
}

/// Where an entry's bytes lie.
#[derive(Clone, Copy, Default, Debug)]
struct Data {
    offset: u64,
    stored_len: u64,
    len: u64,
    crc: u32,
    method: Method,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Method {
    #[default]
    Stored,
    Deflated,
    Encrypted,
    Unknown,
}

impl AsRef<Source> for Inner {
    fn as_ref(&self) -> &Source {
        &self.source
    }
}

impl Inner {
    #[inline]
    fn number(&self, path: &VfsPath) -> Option<u32> {
        let path = path.as_bytes();
        let same = |&number: &u32| self.nodes.path_bytes(number) == path;
        self.by_path.find(xxh3_64(path), same).copied()
    }
}

impl ZipFs {
    /// Opens a zip file of the host, mapped. Reads its directory.
    ///
    /// # Errors
    /// `UnknownFormat` or `Corrupt` for what is no good zip file, and what opening the file
    /// meets.
    pub fn open(path: impl AsRef<Path>) -> BackendResult<ZipFs> {
        Self::open_with(path, &ZipOptions::default())
    }

    /// Opens a zip file of the host.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ZipOptions) -> BackendResult<ZipFs> {
        let file = std::fs::File::open(path).map_err(from_io)?;
        let len = file.metadata().map_err(from_io)?.len();
        if options.positional || len == 0 {
            return Self::from_source(Source::Host(HostFile { file, base: 0 }), len, options);
        }
        let map_len = usize::try_from(len)
            .map_err(|_| BackendError::new(ErrorKind::OutOfMemory, "larger than memory"))?;
        let bytes = crate::mapping::map(&file, 0, map_len).map_err(from_io)?;
        Self::from_source(Source::Memory(bytes), len, options)
    }

    /// A zip file in memory, without a copy.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<Bytes>, options: &ZipOptions) -> BackendResult<ZipFs> {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        Self::from_source(Source::Memory(bytes), len, options)
    }

    /// A zip file in a file of any backend: lent by it where it can
    /// ([`File::bytes_at`]) and the options do not say otherwise, else read at offsets.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_file(file: Box<dyn File>, options: &ZipOptions) -> BackendResult<ZipFs> {
        let len = file.metadata()?.len;
        let lent = if options.positional { None } else { file.bytes_at(0..len)? };
        let source = match lent {
            Some(bytes) if bytes.len() as u64 == len => Source::Memory(bytes),
            _ => Source::File(file, 0),
        };
        Self::from_source(source, len, options)
    }

    fn from_source(source: Source, len: u64, options: &ZipOptions) -> BackendResult<ZipFs> {
        let cache = InflateCache::new(options.inflate_cache_bytes);
        let inner = build::build(source, len, cache)?;
        Ok(ZipFs { inner: Sharded::new(inner) })
    }

    /// The entries that are not in the tree, and why; see the [module documentation](self).
    pub fn skipped(&self) -> &[SkippedEntry] {
        &self.inner.skipped
    }

    /// Where the bytes of an entry that is stored uncompressed lie in the zip file: offset and
    /// length.
    ///
    /// # Errors
    /// `NotFound`; `IsADirectory`; `Unsupported` for an entry that is compressed or encrypted;
    /// `Corrupt` for one that lies outside of the file.
    pub fn stored_range(&self, path: &VfsPath) -> BackendResult<(u64, u64)> {
        let inner = &*self.inner;
        let number = inner.resolve(path)?;
        let node = inner.nodes.get(number);
        match (node.kind, node.data.method) {
            (FileType::Directory, _) => Err(ErrorKind::IsADirectory.into()),
            (FileType::File, Method::Stored) => {
                inner.check_range(number)?;
                Ok((node.data.offset, node.data.len))
            }
            _ => Err(BackendError::new(ErrorKind::Unsupported, "it is compressed or encrypted")),
        }
    }
}

#[cfg(feature = "archive")]
impl crate::archive::ArchiveFs {
    /// An archive that is an entry of a zip file (an APK), stored uncompressed.
    ///
    /// # Errors
    /// As [`ZipFs::open`], [`ZipFs::stored_range`] and
    /// [`open_with`](crate::archive::ArchiveFs::open_with).
    pub fn within_zip(
        zip: impl AsRef<Path>,
        entry: impl crate::AsPath,
        options: &crate::archive::ArchiveOptions,
    ) -> BackendResult<Self> {
        let entry = entry.path_bytes();
        let entry = crate::path::normalize(&entry)?;
        let named = |error: BackendError| {
            let reason = error.cause().map(|cause| format!(": {cause}")).unwrap_or_default();
            BackendError::new(error.kind(), format!("its entry {}{reason}", entry.display()))
        };
        let (offset, len) = ZipFs::open(&zip)?.stored_range(&entry).map_err(named)?;
        Self::open_with(zip, &options.clone().window(offset, len))
    }
}

impl fmt::Debug for ZipFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZipFs")
            .field("entries", &self.inner.nodes.all.len())
            .finish_non_exhaustive()
    }
}
