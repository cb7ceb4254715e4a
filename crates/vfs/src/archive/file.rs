//! A handle of one file in an archive.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::error::BackendResult;
use crate::kit::FixedContents;
use crate::metadata::Metadata;
use crate::sharded::Shared;
use crate::source::lend;

use super::inner::{Contents, Inner};

#[derive(Clone)]
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

impl FixedContents for ArchiveFile {
    #[inline]
    fn len(&self) -> u64 {
        self.contents.len
    }

    #[inline]
    fn read(&self, buf: &mut [u8], offset: u64) -> BackendResult<()> {
        self.archive.read(&self.contents, buf, offset)
    }

    fn again(&self) -> BackendResult<Self> {
        Ok(self.clone())
    }

    /// A slice of the map, for stored files that are not encrypted.
    fn lend(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        Ok(match self.contents.plain {
            // Fits: the file lies within the source.
            Some(plain) if !self.archive.verify_reads => {
                lend(&self.archive, plain + range.start, range.end - range.start)
            }
            _ => None,
        })
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.archive.index.metadata(self.contents.number)
    }
}
