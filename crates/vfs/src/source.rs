//! Where the bytes of an archive or a zip come from: memory (mapped or not), or positioned reads.

use std::fs;
use std::io;

use bytes::Bytes;

use crate::backend::File;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::sharded::Shared;

/// The bytes of one archive, from its header on.
pub(crate) enum Source {
    /// All of it, in memory or mapped.
    Memory(Bytes),
    /// A file of the host, read at offsets.
    Host(HostFile),
    /// A file of any backend, and where in it the archive starts.
    File(Box<dyn File>, u64),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Memory(bytes) => write!(f, "Memory({} bytes)", bytes.len()),
            Source::Host(file) => file.fmt(f),
            Source::File(file, base) => write!(f, "File({file:?} from {base})"),
        }
    }
}

impl Source {
    /// The bytes of the range, where they lie in memory.
    #[inline]
    pub(crate) fn slice(&self, offset: u64, len: usize) -> Option<BackendResult<&[u8]>> {
        let Source::Memory(bytes) = self else { return None };
        let slice = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)?.get(..len));
        Some(slice.ok_or_else(|| outside(offset, len)))
    }

    pub(crate) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<()> {
        match self {
            Source::Memory(_) => match self.slice(offset, buf.len()) {
                Some(slice) => buf.copy_from_slice(slice?),
                None => return Err(outside(offset, buf.len())),
            },
            Source::Host(file) => file.read_exact_at(buf, offset).map_err(from_io)?,
            Source::File(file, base) => {
                let mut done = 0;
                while done < buf.len() {
                    let at = offset.checked_add(*base).and_then(|at| at.checked_add(done as u64));
                    let at = at.ok_or_else(|| outside(offset, buf.len()))?;
                    match file.read_at(&mut buf[done..], at)? {
                        0 => return Err(outside(offset, buf.len())),
                        n => done += n,
                    }
                }
            }
        }
        Ok(())
    }

    /// The range as shared bytes: a slice of what lies in memory, else read now. The caller has
    /// checked the range against the length of the file.
    #[cfg(feature = "archive")]
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> BackendResult<Bytes> {
        match self {
            Source::Memory(bytes) => {
                self.slice(offset, len).transpose()?;
                Ok(bytes.slice(offset as usize..offset as usize + len))
            }
            _ => {
                let mut buf = vec![0; len];
                self.read_exact_at(&mut buf, offset)?;
                Ok(buf.into())
            }
        }
    }
}

#[cold]
fn outside(offset: u64, len: usize) -> BackendError {
    BackendError::new(
        ErrorKind::Corrupt,
        format!("{len} bytes at offset {offset} lie behind the end of the file"),
    )
}

/// A file of the host with the offset of the archive in it.
#[derive(Debug)]
pub(crate) struct HostFile {
    // The browser reads no file by position.
    #[cfg_attr(not(any(unix, windows)), allow(dead_code))]
    pub file: fs::File,
    pub base: u64,
}

impl HostFile {
    #[cfg(unix)]
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(buf, self.position(offset)?)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        use std::os::windows::fs::FileExt;
        let mut done = 0;
        while done < buf.len() {
            match self.file.seek_read(&mut buf[done..], self.position(offset)? + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(not(any(unix, windows)))]
    fn read_exact_at(&self, _: &mut [u8], offset: u64) -> io::Result<()> {
        self.position(offset)?;
        Err(io::ErrorKind::Unsupported.into())
    }

    fn position(&self, offset: u64) -> io::Result<u64> {
        offset.checked_add(self.base).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// The nearest kind, with the host's own words.
pub(crate) fn from_io(error: io::Error) -> BackendError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::NotADirectory => ErrorKind::NotADirectory,
        io::ErrorKind::IsADirectory => ErrorKind::IsADirectory,
        io::ErrorKind::StorageFull => ErrorKind::NoSpace,
        io::ErrorKind::QuotaExceeded => ErrorKind::QuotaExceeded,
        io::ErrorKind::FileTooLarge => ErrorKind::FileTooLarge,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        io::ErrorKind::UnexpectedEof => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    BackendError::new(kind, error)
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
