//! An open file of the host: positional calls on one descriptor, no state of our own.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Advice as HostAdvice, FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};

use super::stat::{self, DeviceId};
use super::{Inner, attributes, open, xattr};
use crate::backend::{File, Opened};
use crate::backing::Backing;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Advice, Allocation, OpenOptions, Seek, SyncScope, XattrMode};
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

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<Metadata> {
        if change.len.is_some() {
            self.check_writable()?;
        }
        Ok(stat::metadata(&attributes::change(self.fd.as_fd(), change)?, self.root_device))
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

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        let mut file = open::reopen(self.fd.as_fd(), self.root_device, options)?;
        // Of a temporary file every handle may name it.
        file.temporary_in = self.temporary_in.clone();
        Opened::new(Box::new(file), false, options)
    }

    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        xattr::get(&xattr::of(self.fd.as_fd()), name)
    }

    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        xattr::list(&xattr::of(self.fd.as_fd()))
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
        xattr::set(&xattr::of(self.fd.as_fd()), name, value, mode)
    }

    fn remove_xattr(&self, name: &[u8]) -> BackendResult<()> {
        xattr::remove(&xattr::of(self.fd.as_fd()), name)
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        let advice = match advice {
            Advice::WillNeed => HostAdvice::WillNeed,
            Advice::DontNeed => HostAdvice::DontNeed,
            Advice::Sequential => HostAdvice::Sequential,
            Advice::Random => HostAdvice::Random,
        };
        let len = NonZeroU64::new(range.end.saturating_sub(range.start));
        // Only a hint.
        let _ = rustix::fs::fadvise(&self.fd, range.start, len, advice);
    }

    /// The file itself: the host tells who watches it of what a kernel writes.
    fn backing(&self) -> Option<Backing> {
        let fd = self.fd.try_clone().ok()?;
        Some(Backing::new(fd, true))
    }
}
