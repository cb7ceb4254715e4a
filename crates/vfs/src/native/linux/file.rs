//! An open file of the host: positional calls on one descriptor, no state of our own.

use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};

use super::stat::{self, DeviceId};
use super::{Inner, attributes};
use crate::backend::File;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Allocation, Seek, SyncScope};
use crate::path::VfsPath;

/// The last offset the host can say.
const MAX_OFFSET: u64 = i64::MAX as u64;

pub(super) struct NativeFile {
    pub(super) fd: OwnedFd,
    pub(super) root_device: DeviceId,
    pub(super) writable: bool,
    /// Only for a temporary file, which may ask for a name later.
    pub(super) temporary_in: Option<Arc<Inner>>,
}

impl NativeFile {
    fn check_writable(&self) -> BackendResult<()> {
        if self.writable { Ok(()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    /// A write that would end behind the last offset: cut, or for an appender, whose offset
    /// means nothing but is checked by the host all the same, whole.
    #[cold]
    fn write_far(&self, buf: &[u8], offset: u64, room: usize) -> BackendResult<usize> {
        if rustix::fs::fcntl_getfl(&self.fd)?.contains(OFlags::APPEND) {
            return Ok(retry_on_intr(|| rustix::io::pwrite(&self.fd, buf, 0))?);
        }
        if room == 0 {
            return Err(ErrorKind::FileTooLarge.into());
        }
        Ok(retry_on_intr(|| rustix::io::pwrite(&self.fd, &buf[..room], offset))?)
    }
}

impl fmt::Debug for NativeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeFile").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl File for NativeFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        if offset > MAX_OFFSET {
            return Ok(0);
        }
        let room = usize::try_from(MAX_OFFSET - offset).unwrap_or(usize::MAX).min(buf.len());
        let buf = &mut buf[..room];
        Ok(retry_on_intr(|| rustix::io::pread(&self.fd, &mut *buf, offset))?)
    }

    #[inline]
    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        self.check_writable()?;
        let room = usize::try_from(MAX_OFFSET.saturating_sub(offset)).unwrap_or(usize::MAX);
        if room < buf.len() {
            return self.write_far(buf, offset, room);
        }
        // With `O_APPEND` the host ignores the offset of `pwrite`, as the contract wants.
        Ok(retry_on_intr(|| rustix::io::pwrite(&self.fd, buf, offset.min(MAX_OFFSET)))?)
    }

    fn bytes_at(&self, _range: Range<u64>) -> BackendResult<Option<Bytes>> {
        // A mapping would be shared without a copy, but another process can cut the file under
        // it, which kills this one.
        Ok(None)
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.check_writable()?;
        if len > MAX_OFFSET {
            return Err(ErrorKind::FileTooLarge.into());
        }
        Ok(retry_on_intr(|| rustix::fs::ftruncate(&self.fd, len))?)
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        Ok(stat::metadata(&stat::of(self.fd.as_fd(), stat::WANTED)?, self.root_device))
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        Ok(attributes::change(self.fd.as_fd(), change)?)
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        Ok(match scope {
            SyncScope::Data => retry_on_intr(|| rustix::fs::fdatasync(&self.fd)),
            SyncScope::All => retry_on_intr(|| rustix::fs::fsync(&self.fd)),
        }?)
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.check_writable()?;
        if range.is_empty() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if range.end > MAX_OFFSET {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let call = |mode| {
            retry_on_intr(|| {
                rustix::fs::fallocate(&self.fd, mode, range.start, range.end - range.start)
            })
        };
        let keep = FallocateFlags::KEEP_SIZE;
        let punch = FallocateFlags::PUNCH_HOLE | keep;
        let zero = FallocateFlags::ZERO_RANGE;
        let done = match what {
            Allocation::Reserve => call(FallocateFlags::empty()),
            Allocation::ReserveKeepLen => call(keep),
            Allocation::PunchHole => call(punch),
            // tmpfs and others know no zeroed range: a hole with storage put back is the same.
            Allocation::Zero => match call(zero) {
                Err(Errno::OPNOTSUPP) => call(punch).and_then(|()| call(FallocateFlags::empty())),
                answer => answer,
            },
            Allocation::ZeroKeepLen => match call(zero | keep) {
                Err(Errno::OPNOTSUPP) => call(punch).and_then(|()| call(keep)),
                answer => answer,
            },
        };
        Ok(done?)
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        if offset > MAX_OFFSET {
            return Err(ErrorKind::NoSuchOffset.into());
        }
        // Moves the descriptor's own position, which nothing here uses.
        Ok(rustix::fs::seek(
            &self.fd,
            match what {
                Seek::Data => SeekFrom::Data(offset),
                Seek::Hole => SeekFrom::Hole(offset),
            },
        )?)
    }

    fn link_to(&self, path: &VfsPath) -> BackendResult<()> {
        match &self.temporary_in {
            Some(backend) => backend.link_temporary(self.fd.as_fd(), path),
            None => Err(ErrorKind::Unsupported.into()),
        }
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}
