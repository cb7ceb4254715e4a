//! A handle of one entry.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::kit::FixedContents;
use crate::metadata::Metadata;
use crate::sharded::Shared;
use crate::source::lend;

use super::inflate::{Inflater, check_sizes, corrupt, inflate_whole};
use super::{Data, Inner, Method};

impl Inner {
    /// Checks that an entry lies in the file and that its sizes can be true.
    pub(super) fn check_range(&self, number: u32) -> BackendResult<()> {
        let data = &self.nodes.get(number).data;
        let end = data.offset.checked_add(data.stored_len);
        if end.is_none_or(|end| end > self.source_len) {
            return Err(self.explain(number, corrupt("it lies outside of the zip file")));
        }
        match data.method {
            Method::Stored if data.stored_len != data.len => {
                Err(self.explain(number, corrupt("it is stored and has two lengths")))
            }
            Method::Deflated => check_sizes(data).map_err(|error| self.explain(number, error)),
            _ => Ok(()),
        }
    }

    #[cold]
    pub(super) fn explain(&self, number: u32, error: BackendError) -> BackendError {
        let path = self.nodes.path(number).display();
        match error.cause() {
            Some(cause) => BackendError::new(error.kind(), format!("{path}: {cause}")),
            None => error,
        }
    }

    /// Opens the contents of a file or symbolic link.
    pub(super) fn contents(&self, number: u32) -> BackendResult<Contents> {
        let data = self.nodes.get(number).data;
        let unsupported = |reason| Err(BackendError::new(ErrorKind::Unsupported, reason));
        let how = match data.method {
            Method::Stored => How::Stored,
            Method::Deflated if self.cache.takes(data.len) => How::Whole(OnceLock::new()),
            Method::Deflated => How::Stream(Box::new(Mutex::new(Inflater::new()))),
            Method::Encrypted => return unsupported("the zip entry is encrypted"),
            Method::Unknown => return unsupported("the zip entry's compression is not known"),
        };
        self.check_range(number)?;
        Ok(Contents { number, data, how })
    }

    /// Reads within the entry: the caller has cut `buf` at its end.
    pub(super) fn read(
        &self,
        contents: &Contents,
        buf: &mut [u8],
        offset: u64,
    ) -> BackendResult<()> {
        let data = &contents.data;
        match &contents.how {
            How::Stored => self.source.read_exact_at(buf, data.offset + offset),
            How::Whole(known) => {
                let whole = match known.get() {
                    Some(whole) => whole,
                    None => {
                        let whole = self.whole(contents.number, data)?;
                        known.get_or_init(|| whole)
                    }
                };
                let start = offset as usize;
                buf.copy_from_slice(&whole[start..start + buf.len()]);
                Ok(())
            }
            How::Stream(inflater) => {
                let mut inflater = inflater.lock().unwrap_or_else(PoisonError::into_inner);
                let read = self.read_stream(&mut inflater, data, buf, offset);
                if read.is_err() {
                    // Half-way states are not to be read on from.
                    *inflater = Inflater::new();
                }
                read
            }
        }
        .map_err(|error| self.explain(contents.number, error))
    }

    fn whole(&self, number: u32, data: &Data) -> BackendResult<Arc<Vec<u8>>> {
        if let Some(known) = self.cache.get(number) {
            return Ok(known);
        }
        let whole = Arc::new(inflate_whole(&self.source, data)?);
        self.cache.insert(number, Arc::clone(&whole));
        Ok(whole)
    }

    fn read_stream(
        &self,
        inflater: &mut Inflater,
        data: &Data,
        buf: &mut [u8],
        offset: u64,
    ) -> BackendResult<()> {
        if inflater.position() > offset {
            *inflater = Inflater::new();
        }
        let mut dropped = [0; 16 << 10];
        while inflater.position() < offset {
            let n = (offset - inflater.position()).min(dropped.len() as u64) as usize;
            inflater.read(&self.source, data, &mut dropped[..n])?;
        }
        inflater.read(&self.source, data, buf)
    }
}

/// The contents of one entry, open.
#[derive(Debug)]
pub(super) struct Contents {
    pub number: u32,
    pub data: Data,
    how: How,
}

#[derive(Debug)]
enum How {
    Stored,
    /// Inflated at the first read.
    Whole(OnceLock<Arc<Vec<u8>>>),
    /// Too large to keep: inflated as it is read, anew for a read that goes back.
    Stream(Box<Mutex<Inflater>>),
}

#[derive(Debug)]
pub(super) struct ZipFile {
    pub zip: Shared<Inner>,
    pub contents: Contents,
}

impl FixedContents for ZipFile {
    #[inline]
    fn len(&self) -> u64 {
        self.contents.data.len
    }

    #[inline]
    fn read(&self, buf: &mut [u8], offset: u64) -> BackendResult<()> {
        self.zip.read(&self.contents, buf, offset)
    }

    fn again(&self) -> BackendResult<Self> {
        let contents = self.zip.contents(self.contents.number)?;
        Ok(ZipFile { zip: self.zip.clone(), contents })
    }

    /// A slice of the map, for stored entries.
    fn lend(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        Ok(match self.contents.how {
            How::Stored => {
                let offset = self.contents.data.offset + range.start;
                lend(&self.zip, offset, range.end - range.start)
            }
            _ => None,
        })
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        Ok(self.zip.metadata(self.contents.number))
    }
}
