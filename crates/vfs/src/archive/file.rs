//! A handle of one file in an archive.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::backend::File;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Allocation, Seek, SyncScope};
use crate::path::VfsPath;
use crate::sharded::Shared;

use super::inner::{Contents, Inner};
use crate::source::Source;

pub(crate) struct ArchiveFile {
    pub archive: Shared<Inner>,
    pub contents: Contents,
}

impl fmt::Debug for ArchiveFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.archive.index.describe(self.contents.number);
        f.debug_struct("ArchiveFile").field("path", &path).finish_non_exhaustive()
    }
}

impl File for ArchiveFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        let Some(rest) = self.contents.len.checked_sub(offset) else { return Ok(0) };
        let len = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        self.archive.read(&self.contents, &mut buf[..len], offset)?;
        Ok(len)
    }

    fn write_at(&self, _: &[u8], _: u64) -> BackendResult<usize> {
        Err(ErrorKind::BadHandle.into())
    }

    /// A slice of the map, for stored files that are not encrypted.
    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        let Some(plain) = self.contents.plain else { return Ok(None) };
        if self.archive.verify_reads || !matches!(self.archive.source, Source::Memory(_)) {
            return Ok(None);
        }
        let end = range.end.min(self.contents.len);
        if range.start >= end {
            return Ok(Some(Bytes::new()));
        }
        // Fits: the file lies within the source, which lies in memory.
        let lent = Lent {
            archive: self.archive.clone(),
            offset: plain + range.start,
            len: (end - range.start) as usize,
        };
        match lent.slice() {
            Some(_) => Ok(Some(Bytes::from_owner(lent))),
            None => Ok(None),
        }
    }

    fn set_len(&self, _: u64) -> BackendResult<()> {
        Err(ErrorKind::BadHandle.into())
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.archive.index.metadata(self.contents.number)
    }

    fn set_metadata(&self, _: &MetadataChange) -> BackendResult<()> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn sync(&self, _: SyncScope) -> BackendResult<()> {
        Ok(())
    }

    fn allocate(&self, _: Allocation, _: Range<u64>) -> BackendResult<()> {
        Err(ErrorKind::BadHandle.into())
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        match what {
            _ if offset >= self.contents.len => Err(ErrorKind::NoSuchOffset.into()),
            Seek::Data => Ok(offset),
            Seek::Hole => Ok(self.contents.len),
        }
    }

    fn link_to(&self, _: &VfsPath) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// Lent bytes keep the archive alive through a counter of their thread's own: a slice of the
/// map's `Bytes` would make all readers write one counter.
struct Lent {
    archive: Shared<Inner>,
    offset: u64,
    len: usize,
}

impl Lent {
    fn slice(&self) -> Option<&[u8]> {
        self.archive.source.slice(self.offset, self.len)?.ok()
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.slice().unwrap_or_default()
    }
}
