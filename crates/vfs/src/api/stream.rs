//! `Read`, `Write` and `Seek` over a handle.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::file::VfsFile;

/// A cursor over an open file, borrowed or owned. It keeps its own position; the handle has
/// none. Unbuffered: wrap it in `std::io::BufReader` or `BufWriter` for small pieces.
///
/// On a handle opened to append, writes go to the end whatever the position, which afterwards
/// is the end of the file.
#[derive(Debug)]
pub struct FileStream<F> {
    file: F,
    position: u64,
}

impl<F: AsRef<VfsFile>> FileStream<F> {
    pub(super) fn new(file: F) -> Self {
        FileStream { file, position: 0 }
    }

    /// The handle.
    pub fn file(&self) -> &VfsFile {
        self.file.as_ref()
    }

    /// The handle, for good.
    pub fn into_inner(self) -> F {
        self.file
    }
}

impl<F: AsRef<VfsFile>> Read for FileStream<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.file.as_ref().read_at(buf, self.position)?;
        self.position += count as u64;
        Ok(count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let count = self.file.as_ref().read_to_end_at(buf, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl<F: AsRef<VfsFile>> Write for FileStream<F> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let file = self.file.as_ref();
        let count = file.write_at(buf, self.position)?;
        self.position = match file.appends() {
            true => file.len()?,
            false => self.position + count as u64,
        };
        Ok(count)
    }

    /// Nothing is held back, so there is nothing to do; see [`VfsFile::sync`] for durability.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: AsRef<VfsFile>> Seek for FileStream<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(by) => (self.position, by),
            SeekFrom::End(by) => (self.file.as_ref().len()?, by),
        };
        self.position = base.checked_add_signed(by).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "seek before the start of the file")
        })?;
        Ok(self.position)
    }
}
