//! The `vfs:` targets: a tree of this library, reached by the calls of [`Vfs`].

use std::io;

use stratafs::{ErrorKind, OpenOptions, Vfs, VfsFile};

use crate::contestant::{Contestant, Listing, Writable};

/// A tree, and where in it the data lies.
pub(crate) struct Tree {
    vfs: Vfs,
    prefix: String,
}

impl Tree {
    /// `prefix` is empty or ends in a slash.
    pub(crate) fn new(vfs: Vfs, prefix: &str) -> Self {
        Tree { vfs, prefix: prefix.to_owned() }
    }

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}

impl Contestant for Tree {
    type Name = String;
    type Reader = VfsFile;

    fn name(&self, path: &str) -> String {
        self.path(path)
    }

    fn open(&self, name: &String) -> io::Result<VfsFile> {
        Ok(self.vfs.open(name)?)
    }

    fn read_next(file: &mut VfsFile, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Ok(file.read_exact_at(buf, offset)?)
    }

    fn read_at(file: &mut VfsFile, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Ok(file.read_exact_at(buf, offset)?)
    }

    fn stat(&self, name: &String) -> io::Result<u64> {
        Ok(self.vfs.metadata(name)?.len)
    }

    fn exists(&self, name: &String) -> io::Result<bool> {
        Ok(self.vfs.exists(name)?)
    }

    fn list(&self, name: &String) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in self.vfs.read_dir(name)?.iter() {
            listing.add(entry.file_type.is_file(), entry.name);
        }
        Ok(listing)
    }
}

impl Writable for Tree {
    type Writer = VfsFile;

    fn create(&self, name: &String) -> io::Result<VfsFile> {
        Ok(self.vfs.create(name)?)
    }

    fn open_in_place(&self, name: &String) -> io::Result<VfsFile> {
        Ok(self.vfs.open_with(name, &OpenOptions::new().read(true).write(true))?)
    }

    fn open_append(&self, name: &String) -> io::Result<VfsFile> {
        Ok(self.vfs.open_with(name, &OpenOptions::new().append(true).create(true))?)
    }

    fn write_next(file: &mut VfsFile, buf: &[u8], offset: u64) -> io::Result<()> {
        Ok(file.write_all_at(buf, offset)?)
    }

    fn write_at(file: &mut VfsFile, buf: &[u8], offset: u64) -> io::Result<()> {
        Ok(file.write_all_at(buf, offset)?)
    }

    fn close(_: VfsFile) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &String) -> io::Result<()> {
        Ok(self.vfs.remove_file(name)?)
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        Ok(self.vfs.create_dir_all(self.path(path))?)
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        match self.vfs.remove_dir_all(self.path(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => Ok(result?),
        }
    }
}
