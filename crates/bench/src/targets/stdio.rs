//! `base:stdio`: the C library's streams, the baseline of all ratios.
//!
//! Metadata and listings, for which C has no streams, go through Rust's standard library.

use std::ffi::{CStr, CString};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::contestant::{Contestant, Listing, Writable};

use super::standard;

/// A directory on the disk.
pub(crate) struct Stdio {
    root: PathBuf,
}

impl Stdio {
    pub(crate) fn new(root: &Path) -> Self {
        Stdio { root: root.to_owned() }
    }
}

/// Each interface gets the name as it takes it.
pub(crate) struct Name {
    c: CString,
    path: PathBuf,
}

impl Contestant for Stdio {
    type Name = Name;
    type Reader = Stream;

    fn name(&self, path: &str) -> Name {
        let path = self.root.join(path);
        Name { c: super::c_string(&path), path }
    }

    fn open(&self, name: &Name) -> io::Result<Stream> {
        Stream::open(&name.c, c"rb")
    }

    fn read_next(stream: &mut Stream, buf: &mut [u8], _: u64) -> io::Result<()> {
        stream.read_exact(buf)
    }

    fn read_at(stream: &mut Stream, buf: &mut [u8], offset: u64) -> io::Result<()> {
        stream.seek(offset)?;
        stream.read_exact(buf)
    }

    fn stat(&self, name: &Name) -> io::Result<u64> {
        standard::stat(&name.path)
    }

    fn exists(&self, name: &Name) -> io::Result<bool> {
        name.path.try_exists()
    }

    fn list(&self, name: &Name) -> io::Result<Listing> {
        standard::list(&name.path)
    }
}

impl Writable for Stdio {
    type Writer = Stream;

    fn create(&self, name: &Name) -> io::Result<Stream> {
        Stream::open(&name.c, c"wb")
    }

    fn open_in_place(&self, name: &Name) -> io::Result<Stream> {
        Stream::open(&name.c, c"r+b")
    }

    fn open_append(&self, name: &Name) -> io::Result<Stream> {
        Stream::open(&name.c, c"ab")
    }

    fn write_next(stream: &mut Stream, buf: &[u8], _: u64) -> io::Result<()> {
        stream.write_all(buf)
    }

    fn write_at(stream: &mut Stream, buf: &[u8], offset: u64) -> io::Result<()> {
        stream.seek(offset)?;
        stream.write_all(buf)
    }

    fn close(stream: Stream) -> io::Result<()> {
        stream.close()
    }

    fn remove(&self, name: &Name) -> io::Result<()> {
        // SAFETY: the argument is a C string that lives during the call.
        match unsafe { libc::remove(name.c.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.root.join(path))
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        standard::remove_dir_all(&self.root.join(path))
    }
}

/// An open `FILE`, owned by this value alone.
pub(crate) struct Stream(NonNull<libc::FILE>);

impl Stream {
    fn open(name: &CStr, mode: &CStr) -> io::Result<Self> {
        // SAFETY: both arguments are C strings that live during the call.
        let file = unsafe { libc::fopen(name.as_ptr(), mode.as_ptr()) };
        NonNull::new(file).map(Stream).ok_or_else(io::Error::last_os_error)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        // SAFETY: the stream is open as long as `self` lives, and `buf` has room for what is
        // asked for.
        let count = unsafe { libc::fread(buf.as_mut_ptr().cast(), 1, buf.len(), self.0.as_ptr()) };
        if count == buf.len() {
            return Ok(());
        }
        // SAFETY: the stream is open as long as `self` lives.
        match unsafe { libc::ferror(self.0.as_ptr()) } {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        // SAFETY: the stream is open as long as `self` lives, and `buf` holds what is given.
        let count = unsafe { libc::fwrite(buf.as_ptr().cast(), 1, buf.len(), self.0.as_ptr()) };
        if count == buf.len() { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        let offset = offset.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the stream is open as long as `self` lives.
        match unsafe { libc::fseeko(self.0.as_ptr(), offset, libc::SEEK_SET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn close(self) -> io::Result<()> {
        let file = std::mem::ManuallyDrop::new(self).0;
        // SAFETY: the stream is open, and as its value was not dropped and is gone, nobody
        // closes or uses it again.
        match unsafe { libc::fclose(file.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open until here, and nobody uses it again. Errors of writing
        // are seen by those who call `close`.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}
