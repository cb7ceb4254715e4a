//! `base:posix`: the system calls themselves, `open`, `read`, `pread`, `stat`, `access`,
//! `getdents`.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, CWD, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::contestant::{Contestant, Listing, Writable};

use super::standard;

/// A directory on the disk.
pub(crate) struct Posix {
    root: PathBuf,
}

impl Posix {
    pub(crate) fn new(root: &Path) -> Self {
        Posix { root: root.to_owned() }
    }
}

/// As wide as the C library's `opendir` makes its buffer.
const LISTING_BUFFER: usize = 32 * 1024;

fn open(name: &CString, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?)
}

impl Contestant for Posix {
    type Name = CString;
    type Reader = OwnedFd;

    fn name(&self, path: &str) -> CString {
        super::c_string(&self.root.join(path))
    }

    fn open(&self, name: &CString) -> io::Result<OwnedFd> {
        open(name, OFlags::RDONLY)
    }

    fn read_next(file: &mut OwnedFd, buf: &mut [u8], _: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::read(&*file, &mut buf[done..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    fn read_at(file: &mut OwnedFd, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::pread(&*file, &mut buf[done..], offset + done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    fn stat(&self, name: &CString) -> io::Result<u64> {
        Ok(rustix::fs::stat(name)?.st_size as u64)
    }

    fn exists(&self, name: &CString) -> io::Result<bool> {
        match rustix::fs::access(name, Access::EXISTS) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, name: &CString) -> io::Result<Listing> {
        let dir = open(name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buffer = [MaybeUninit::uninit(); LISTING_BUFFER];
        let mut entries = RawDir::new(dir, &mut buffer);
        let mut listing = Listing::default();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                listing.add(entry.file_type() == FileType::RegularFile, name);
            }
        }
        Ok(listing)
    }
}

impl Writable for Posix {
    type Writer = OwnedFd;

    fn create(&self, name: &CString) -> io::Result<OwnedFd> {
        open(name, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
    }

    fn open_in_place(&self, name: &CString) -> io::Result<OwnedFd> {
        open(name, OFlags::RDWR)
    }

    fn open_append(&self, name: &CString) -> io::Result<OwnedFd> {
        open(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)
    }

    fn write_next(file: &mut OwnedFd, mut buf: &[u8], _: u64) -> io::Result<()> {
        while !buf.is_empty() {
            let count = rustix::io::write(&*file, buf)?;
            buf = &buf[count..];
        }
        Ok(())
    }

    fn write_at(file: &mut OwnedFd, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            done += rustix::io::pwrite(&*file, &buf[done..], offset + done as u64)?;
        }
        Ok(())
    }

    fn close(_: OwnedFd) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &CString) -> io::Result<()> {
        Ok(rustix::fs::unlink(name)?)
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.root.join(path))
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        standard::remove_dir_all(&self.root.join(path))
    }
}
