//! `base:std`: Rust's standard library.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::contestant::{Contestant, Listing, Writable};

/// A directory on the disk.
pub(crate) struct Standard {
    root: PathBuf,
}

impl Standard {
    pub(crate) fn new(root: &Path) -> Self {
        Standard { root: root.to_owned() }
    }
}

impl Contestant for Standard {
    type Name = PathBuf;
    type Reader = File;

    fn name(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn open(&self, name: &PathBuf) -> io::Result<File> {
        File::open(name)
    }

    fn read_next(file: &mut File, buf: &mut [u8], _: u64) -> io::Result<()> {
        file.read_exact(buf)
    }

    fn read_at(file: &mut File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buf, offset)
    }

    fn stat(&self, name: &PathBuf) -> io::Result<u64> {
        stat(name)
    }

    fn exists(&self, name: &PathBuf) -> io::Result<bool> {
        name.try_exists()
    }

    fn list(&self, name: &PathBuf) -> io::Result<Listing> {
        list(name)
    }
}

impl Writable for Standard {
    type Writer = File;

    fn create(&self, name: &PathBuf) -> io::Result<File> {
        File::create(name)
    }

    fn open_in_place(&self, name: &PathBuf) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(name)
    }

    fn open_append(&self, name: &PathBuf) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).open(name)
    }

    fn write_next(file: &mut File, buf: &[u8], _: u64) -> io::Result<()> {
        file.write_all(buf)
    }

    fn write_at(file: &mut File, buf: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(buf, offset)
    }

    fn close(_: File) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &PathBuf) -> io::Result<()> {
        fs::remove_file(name)
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        fs::create_dir_all(self.root.join(path))
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        remove_dir_all(&self.root.join(path))
    }
}

#[inline]
pub(super) fn stat(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.len())
}

pub(super) fn list(path: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        listing.add(entry.file_type()?.is_file(), entry.file_name().as_bytes());
    }
    Ok(listing)
}

pub(super) fn remove_dir_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
