//! Backends of files that never change and have an index of all their paths: what a miss means, and
//! how such files are read.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::backend::{File, Opened};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange};
use crate::options::{Allocation, OpenOptions, Seek, SyncScope};
use crate::path::VfsPath;

/// Paths of files that never change, each with a number.
pub trait PathIndex {
    /// The number of a path, that of the root included.
    fn find(&self, path: &VfsPath) -> BackendResult<Option<u32>>;

    /// What the path with this number is.
    fn kind(&self, number: u32) -> BackendResult<FileType>;

    /// The number of a path, or the error that the contract wants for a miss.
    #[inline]
    fn resolve(&self, path: &VfsPath) -> BackendResult<u32> {
        match self.find(path)? {
            Some(number) => Ok(number),
            None => Err(self.miss(path)),
        }
    }

    /// Why a path is not there: the nearest ancestor that is decides.
    #[cold]
    fn miss(&self, path: &VfsPath) -> BackendError {
        match self.nearest_ancestor(path) {
            Ok(FileType::Directory) => ErrorKind::NotFound.into(),
            Ok(FileType::Symlink) => ErrorKind::SymlinkInPath.into(),
            Ok(_) => ErrorKind::NotADirectory.into(),
            Err(error) => error,
        }
    }

    /// What the nearest directory or other thing above a path is that is there.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    fn nearest_ancestor(&self, path: &VfsPath) -> BackendResult<FileType> {
        let mut path = path;
        while let Some(parent) = path.parent() {
            if let Some(number) = self.find(parent)? {
                return self.kind(number);
            }
            path = parent;
        }
        Ok(FileType::Directory)
    }

    /// What a call that would change something answers: a broken path first.
    #[cold]
    fn refuse<T>(&self, path: &VfsPath) -> BackendResult<T> {
        match path.parent() {
            Some(parent) if self.find(parent)?.is_none() => Err(self.miss(path)),
            Some(_) if self.nearest_ancestor(path)? != FileType::Directory => Err(self.miss(path)),
            _ => Err(ErrorKind::ReadOnly.into()),
        }
    }
}

/// The contents of one open file that never change.
pub trait FixedContents: Sized + fmt::Debug + Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf`, which lies within the file.
    fn read(&self, buf: &mut [u8], offset: u64) -> BackendResult<()>;

    /// The bytes of a range that lies within the file and is not empty, where they can be lent.
    fn lend(&self, range: Range<u64>) -> BackendResult<Option<Bytes>>;

    /// Metadata of the file.
    fn metadata(&self) -> BackendResult<Metadata>;

    /// The same contents, for one more handle.
    fn again(&self) -> BackendResult<Self>;
}

/// The handle of such a file.
#[derive(Debug)]
pub struct ImmutableFile<C>(pub C);

impl<C: FixedContents> File for ImmutableFile<C> {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        let Some(rest) = self.0.len().checked_sub(offset) else { return Ok(0) };
        let len = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        self.0.read(&mut buf[..len], offset)?;
        Ok(len)
    }

    fn write_at(&self, _: &[u8], _: u64) -> BackendResult<usize> {
        Err(ErrorKind::BadHandle.into())
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        let end = range.end.min(self.0.len());
        match range.start < end {
            true => self.0.lend(range.start..end),
            false => Ok(Some(Bytes::new())),
        }
    }

    fn set_len(&self, _: u64) -> BackendResult<()> {
        Err(ErrorKind::BadHandle.into())
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.0.metadata()
    }

    fn set_metadata(&self, _: &MetadataChange) -> BackendResult<Metadata> {
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
            _ if offset >= self.0.len() => Err(ErrorKind::NoSuchOffset.into()),
            Seek::Data => Ok(offset),
            Seek::Hole => Ok(self.0.len()),
        }
    }

    fn link_to(&self, _: &VfsPath) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        match options.is_valid() {
            true if options.needs_writable() => Err(ErrorKind::ReadOnly.into()),
            true => Opened::new(Box::new(ImmutableFile(self.0.again()?)), false, options),
            false => Err(ErrorKind::InvalidArgument.into()),
        }
    }
}
