//! An open file of a tree.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::backend::File;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Allocation, Seek, SyncScope};
use crate::path::{AsPath, VfsPath, normalize};

use super::stream::FileStream;

/// An open file: reads and writes at offsets, from many threads at once if wished.
/// [`stream`](Self::stream) gives a cursor with `Read`, `Write` and `Seek`.
///
/// It outlives the unmounting of its backend, and the removal of its name.
pub struct VfsFile {
    file: Box<dyn File>,
    salt: u64,
    appends: bool,
    // For error messages. Inline up to a usual length, so that an open does not allocate twice.
    path: SmallVec<[u8; 48]>,
}

impl VfsFile {
    #[inline]
    pub(super) fn new(file: Box<dyn File>, salt: u64, appends: bool, path: &VfsPath) -> Self {
        VfsFile { file, salt, appends, path: SmallVec::from_slice(path.as_bytes()) }
    }

    pub(super) fn appends(&self) -> bool {
        self.appends
    }

    /// The path it was opened by.
    pub fn path(&self) -> &VfsPath {
        VfsPath::from_normal(&self.path)
    }

    #[inline]
    fn named<T>(&self, operation: &'static str, answer: BackendResult<T>) -> Result<T> {
        answer.map_err(|error| error.at(operation, self.path()))
    }

    /// Reads up to `buf.len()` bytes at `offset`; 0 only at or after the end.
    ///
    /// # Errors
    /// `BadHandle` when not opened for reading; what the backend meets.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.named("read", self.file.read_at(buf, offset))
    }

    /// Reads exactly `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); `NoSuchOffset` when the file ends before, with an
    /// undefined part of `buf` filled.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset + done as u64)? {
                0 => {
                    let ends = BackendError::new(ErrorKind::NoSuchOffset, "the file ends before");
                    return Err(ends.at("read", self.path()));
                }
                count => done += count,
            }
        }
        Ok(())
    }

    /// Appends everything from `offset` to the end of the file to `buf`.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); what was read before stays in `buf`.
    pub fn read_to_end_at(&self, buf: &mut Vec<u8>, offset: u64) -> Result<usize> {
        let start = buf.len();
        let expected = self.len()?.saturating_sub(offset);
        // A file that says it is huge gets its buffer as the bytes come.
        buf.reserve(usize::try_from(expected).unwrap_or(usize::MAX).min(64 << 20) + 1);
        loop {
            let done = buf.len() - start;
            let room = (buf.capacity() - buf.len()).max(32);
            buf.resize(buf.len() + room, 0);
            let count = self.read_at(&mut buf[start + done..], offset + done as u64);
            buf.truncate(start + done + *count.as_ref().unwrap_or(&0));
            if count? == 0 {
                return Ok(buf.len() - start);
            }
        }
    }

    /// Writes up to `buf.len()` bytes at `offset` (at the end on a handle opened to append).
    ///
    /// # Errors
    /// `BadHandle` when not opened for writing; `NoSpace`; what the backend meets.
    #[inline]
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        self.named("write", self.file.write_at(buf, offset))
    }

    /// Writes all of `buf` at `offset`.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at); a part may have been written.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            done += self.write_at(&buf[done..], offset + done as u64)?;
        }
        Ok(())
    }

    /// The bytes of a range (cut at the end of the file) without copying, where the backend
    /// can lend them: stored archive entries, small memory files. `None`: use
    /// [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn bytes_at(&self, range: Range<u64>) -> Result<Option<Bytes>> {
        self.named("read", self.file.bytes_at(range))
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn len(&self) -> Result<u64> {
        Ok(self.metadata()?.len)
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn metadata(&self) -> Result<Metadata> {
        let mut metadata = self.named("metadata", self.file.metadata())?;
        metadata.id = metadata.id.salted(self.salt);
        Ok(metadata)
    }

    /// Changes metadata.
    ///
    /// # Errors
    /// As [`File::set_metadata`].
    pub fn set_metadata(&self, change: &MetadataChange) -> Result<()> {
        self.named("set metadata", self.file.set_metadata(change)).map(drop)
    }

    /// Cuts, or lengthens by a hole.
    ///
    /// # Errors
    /// As [`File::set_len`].
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.named("set length", self.file.set_len(len))
    }

    /// Waits until contents (and metadata, by scope) are on the medium.
    ///
    /// # Errors
    /// What the backend meets: the data may not be on the medium.
    pub fn sync(&self, scope: SyncScope) -> Result<()> {
        self.named("sync", self.file.sync(scope))
    }

    /// Reserves or gives back storage.
    ///
    /// # Errors
    /// As [`File::allocate`].
    pub fn allocate(&self, what: Allocation, range: Range<u64>) -> Result<()> {
        self.named("allocate", self.file.allocate(what, range))
    }

    /// Finds data or a hole at or after `offset`.
    ///
    /// # Errors
    /// As [`File::seek`].
    pub fn seek(&self, offset: u64, what: Seek) -> Result<u64> {
        self.named("seek", self.file.seek(offset, what))
    }

    /// Gives a file that was opened as a temporary one its name.
    ///
    /// # Errors
    /// As [`File::link_to`]; `SymlinkInPath` where a symbolic link leads to the name.
    pub fn link_to(&self, path: impl AsPath) -> Result<()> {
        let bytes = path.path_bytes();
        let at = |error: BackendError, path: &VfsPath| error.at("link", path);
        let path = normalize(&bytes).map_err(|error| at(error, VfsPath::unchecked(&bytes)))?;
        self.file.link_to(&path).map_err(|error| at(error, &path))
    }

    /// A cursor at offset 0 over this handle. Several may be in use at once.
    pub fn stream(&self) -> FileStream<&VfsFile> {
        FileStream::new(self)
    }

    /// A cursor at offset 0 that owns this handle.
    pub fn into_stream(self) -> FileStream<VfsFile> {
        FileStream::new(self)
    }
}

impl AsRef<VfsFile> for VfsFile {
    fn as_ref(&self) -> &VfsFile {
        self
    }
}

impl fmt::Debug for VfsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VfsFile").field("path", &self.path()).field("file", &self.file).finish()
    }
}
