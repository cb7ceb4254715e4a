//! The `peer:vfs-` targets: the file systems of the `vfs` crate.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};

use vfs::{MemoryFS, OverlayFS, PhysicalFS, SeekAndRead, VfsFileType, VfsPath};

use crate::contestant::{Contestant, Listing};
use crate::dataset;
use crate::world::World;

/// A file system of that crate, by its root.
pub(crate) struct Peer {
    root: VfsPath,
}

impl Peer {
    pub(crate) fn new(root: VfsPath) -> Self {
        Peer { root }
    }
}

impl Contestant for Peer {
    type Name = VfsPath;
    type Reader = Box<dyn SeekAndRead + Send>;

    fn name(&self, path: &str) -> VfsPath {
        self.root.join(path).expect("names of the data set are valid paths")
    }

    fn open(&self, name: &VfsPath) -> io::Result<Self::Reader> {
        name.open_file().map_err(io::Error::other)
    }

    fn read_next(file: &mut Self::Reader, buf: &mut [u8], _: u64) -> io::Result<()> {
        file.read_exact(buf)
    }

    fn read_at(file: &mut Self::Reader, buf: &mut [u8], offset: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buf)
    }

    fn stat(&self, name: &VfsPath) -> io::Result<u64> {
        Ok(name.metadata().map_err(io::Error::other)?.len)
    }

    fn exists(&self, name: &VfsPath) -> io::Result<bool> {
        name.exists().map_err(io::Error::other)
    }

    fn list(&self, name: &VfsPath) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in name.read_dir().map_err(io::Error::other)? {
            // Entries of this crate are paths; their type is asked for one by one.
            let file_type = entry.metadata().map_err(io::Error::other)?.file_type;
            listing.add(file_type == VfsFileType::File, entry.filename().as_bytes());
        }
        Ok(listing)
    }
}

/// The in-memory file system, with all data in it.
pub(super) fn memory(world: &World) -> io::Result<VfsPath> {
    let root = VfsPath::new(MemoryFS::new());
    for path in dataset::files(world.sizes()) {
        let file = root.join(&path).map_err(io::Error::other)?;
        file.parent().create_dir_all().map_err(io::Error::other)?;
        let contents = fs::read(world.data().join(&path))?;
        file.create_file().map_err(io::Error::other)?.write_all(&contents)?;
    }
    Ok(root)
}

/// An empty writable layer over the directory.
pub(super) fn overlay(world: &World) -> io::Result<VfsPath> {
    let layers = [MemoryFS::new().into(), PhysicalFS::new(world.data()).into()];
    Ok(OverlayFS::new(&layers).into())
}
