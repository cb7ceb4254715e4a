//! `ceiling:map`: no file system, but a hash map from names to bytes in the process's memory.
//!
//! It tells what is due to the machine: the bytes have to come out of memory, or go into it,
//! whoever does it. It has no directories, no metadata but lengths, and no errors; a handle is
//! one counted pointer.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contestant::{Contestant, Listing, Writable};
use crate::dataset;
use crate::world::World;

type Files = HashMap<String, Vec<u8>>;

/// See the [module documentation](self).
pub(crate) struct Map {
    read: HashMap<String, Arc<[u8]>>,
    directories: HashMap<String, Vec<String>>,
    written: Arc<Mutex<Files>>,
}

/// A file that is being written; the map has it again when it is closed.
pub(crate) struct Writer {
    name: String,
    bytes: Vec<u8>,
    files: Arc<Mutex<Files>>,
}

impl Map {
    pub(crate) fn new(world: &World) -> io::Result<Self> {
        let mut map =
            Map { read: HashMap::new(), directories: HashMap::new(), written: Arc::default() };
        for path in dataset::files(world.sizes()) {
            if let Some((parent, name)) = path.rsplit_once('/') {
                map.directories.entry(parent.to_owned()).or_default().push(name.to_owned());
            }
            let bytes = fs::read(world.data().join(&path))?;
            map.read.insert(path, bytes.into());
        }
        Ok(map)
    }

    fn written(&self) -> MutexGuard<'_, Files> {
        locked(&self.written)
    }

    fn writer(&self, name: &str, bytes: Vec<u8>) -> Writer {
        Writer { name: name.to_owned(), bytes, files: Arc::clone(&self.written) }
    }
}

fn locked(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Contestant for Map {
    type Name = String;
    type Reader = Arc<[u8]>;

    fn name(&self, path: &str) -> String {
        path.to_owned()
    }

    fn open(&self, name: &String) -> io::Result<Arc<[u8]>> {
        self.read.get(name).cloned().ok_or_else(missing)
    }

    fn read_next(bytes: &mut Arc<[u8]>, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Self::read_at(bytes, buf, offset)
    }

    fn read_at(bytes: &mut Arc<[u8]>, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        buf.copy_from_slice(&bytes[offset..offset + buf.len()]);
        Ok(())
    }

    fn stat(&self, name: &String) -> io::Result<u64> {
        self.read.get(name).map(|bytes| bytes.len() as u64).ok_or_else(missing)
    }

    fn exists(&self, name: &String) -> io::Result<bool> {
        Ok(self.read.contains_key(name))
    }

    fn list(&self, name: &String) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for name in self.directories.get(name).ok_or_else(missing)? {
            listing.add(true, name.as_bytes());
        }
        Ok(listing)
    }
}

impl Writable for Map {
    type Writer = Writer;

    fn create(&self, name: &String) -> io::Result<Writer> {
        Ok(self.writer(name, Vec::new()))
    }

    fn open_in_place(&self, name: &String) -> io::Result<Writer> {
        let bytes = self.written().remove(name).ok_or_else(missing)?;
        Ok(self.writer(name, bytes))
    }

    fn open_append(&self, name: &String) -> io::Result<Writer> {
        let bytes = self.written().remove(name).unwrap_or_default();
        Ok(self.writer(name, bytes))
    }

    fn write_next(writer: &mut Writer, buf: &[u8], _: u64) -> io::Result<()> {
        writer.bytes.extend_from_slice(buf);
        Ok(())
    }

    fn write_at(writer: &mut Writer, buf: &[u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        writer.bytes[offset..offset + buf.len()].copy_from_slice(buf);
        Ok(())
    }

    fn close(writer: Writer) -> io::Result<()> {
        locked(&writer.files).insert(writer.name, writer.bytes);
        Ok(())
    }

    fn remove(&self, name: &String) -> io::Result<()> {
        self.written().remove(name).map(drop).ok_or_else(missing)
    }

    fn create_dir_all(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        let below = |name: &str| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.written().retain(|name, _| !below(name));
        Ok(())
    }
}
