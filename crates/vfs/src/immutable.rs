//! What backends and layers that cannot be changed have in common: what they answer to calls
//! that would change something, and, for backends with an index of all their paths, what a miss
//! means and how their files are read.

use crate::backend::FileSystem;
use crate::error::{BackendResult, ErrorKind};
use crate::path::VfsPath;

#[cfg(any(feature = "archive", feature = "zip"))]
pub(crate) use self::indexed::{FixedContents, ImmutableFile, PathIndex, lend};

/// What a layer answers to a call that would change something: a broken path first.
#[cold]
pub(crate) fn refuse<T>(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<T> {
    if let Some(parent) = path.parent() {
        let parent = fs.metadata(parent)?;
        if parent.is_symlink() {
            return Err(ErrorKind::SymlinkInPath.into());
        }
        if !parent.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
    }
    Err(ErrorKind::ReadOnly.into())
}

/// The methods of a [`FileSystem`] that change something, each refused by the expression.
macro_rules! refuse_changes {
    (|$self:ident, $path:ident| $refuse:expr) => {
        fn create(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::NewNode<'_>,
        ) -> $crate::BackendResult<$crate::Metadata> {
            $refuse
        }

        fn link(&$self, $path: &$crate::VfsPath, _: &$crate::VfsPath) -> $crate::BackendResult<()> {
            $refuse
        }

        fn rename(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::VfsPath,
            _: $crate::RenameMode,
        ) -> $crate::BackendResult<()> {
            $refuse
        }

        fn remove_file(&$self, $path: &$crate::VfsPath) -> $crate::BackendResult<()> {
            $refuse
        }

        fn remove_dir(&$self, $path: &$crate::VfsPath) -> $crate::BackendResult<()> {
            $refuse
        }

        fn set_metadata(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::MetadataChange,
        ) -> $crate::BackendResult<()> {
            $refuse
        }

        fn set_xattr(
            &$self,
            $path: &$crate::VfsPath,
            _: &[u8],
            _: &[u8],
            _: $crate::XattrMode,
        ) -> $crate::BackendResult<()> {
            $refuse
        }

        fn remove_xattr(&$self, $path: &$crate::VfsPath, _: &[u8]) -> $crate::BackendResult<()> {
            $refuse
        }
    };
}
pub(crate) use refuse_changes;

#[cfg(any(feature = "archive", feature = "zip"))]
mod indexed {
    use std::fmt;
    use std::ops::Range;

    use bytes::Bytes;

    use crate::backend::File;
    use crate::error::{BackendError, BackendResult, ErrorKind};
    use crate::metadata::{FileType, Metadata, MetadataChange};
    use crate::options::{Allocation, Seek, SyncScope};
    use crate::path::VfsPath;
    use crate::sharded::Shared;
    use crate::source::Source;

    /// Paths of files that never change, each with a number.
    pub(crate) trait PathIndex {
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
                Some(_) if self.nearest_ancestor(path)? != FileType::Directory => {
                    Err(self.miss(path))
                }
                _ => Err(ErrorKind::ReadOnly.into()),
            }
        }
    }

    /// The contents of one open file that never change.
    pub(crate) trait FixedContents: fmt::Debug + Send + Sync + 'static {
        fn len(&self) -> u64;

        /// Fills `buf`, which lies within the file.
        fn read(&self, buf: &mut [u8], offset: u64) -> BackendResult<()>;

        /// The bytes of a range that lies within the file and is not empty, where they can be lent.
        fn lend(&self, range: Range<u64>) -> BackendResult<Option<Bytes>>;

        fn metadata(&self) -> BackendResult<Metadata>;
    }

    /// The handle of such a file.
    #[derive(Debug)]
    pub(crate) struct ImmutableFile<C>(pub(crate) C);

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
                _ if offset >= self.0.len() => Err(ErrorKind::NoSuchOffset.into()),
                Seek::Data => Ok(offset),
                Seek::Hole => Ok(self.0.len()),
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

    /// A slice of the source as bytes of their own; `None` where the source is not in memory or
    /// ends before.
    ///
    /// They keep the owner of the source alive through a counter of their thread's own: a slice of
    /// the source's `Bytes` would make all readers write one counter.
    pub(crate) fn lend<T: AsRef<Source> + Send + Sync + 'static>(
        owner: &Shared<T>,
        offset: u64,
        len: u64,
    ) -> Option<Bytes> {
        let lent = Lent { owner: owner.clone(), offset, len: usize::try_from(len).ok()? };
        lent.slice().is_some().then(|| Bytes::from_owner(lent))
    }

    struct Lent<T> {
        owner: Shared<T>,
        offset: u64,
        len: usize,
    }

    impl<T: AsRef<Source>> Lent<T> {
        fn slice(&self) -> Option<&[u8]> {
            (*self.owner).as_ref().slice(self.offset, self.len)?.ok()
        }
    }

    impl<T: AsRef<Source>> AsRef<[u8]> for Lent<T> {
        fn as_ref(&self) -> &[u8] {
            self.slice().unwrap_or_default()
        }
    }
}
