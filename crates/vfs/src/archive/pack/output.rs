//! Where the packer's bytes go: memory, or a temporary file that is renamed at the end.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::BackendResult;
use crate::source::from_io;

/// Something that can be written at offsets and cut.
pub(crate) trait Sink {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&mut self, len: u64) -> io::Result<()>;
}

impl Sink for Vec<u8> {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = offset as usize;
        if self.len() < start + bytes.len() {
            self.resize(start + bytes.len(), 0);
        }
        self[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.resize(len as usize, 0);
        Ok(())
    }
}

/// A file beside its later place; gone again unless it is finished.
pub(crate) struct TempFile {
    file: fs::File,
    path: PathBuf,
    finished: bool,
}

impl TempFile {
    pub(crate) fn create_beside(out: &Path) -> BackendResult<TempFile> {
        out.file_name().ok_or_else(|| from_io(io::ErrorKind::IsADirectory.into()))?;
        let mut nth = 0;
        loop {
            // Not made of the archive's own name, which may be as long as a name can be.
            let path = out.with_file_name(format!(".strata-{}-{nth}.tmp", std::process::id()));
            match fs::File::create_new(&path) {
                Ok(file) => return Ok(TempFile { file, path, finished: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && nth < 1000 => {
                    nth += 1;
                }
                Err(error) => return Err(from_io(error)),
            }
        }
    }

    /// Brings the file to the medium and gives it its name.
    pub(crate) fn finish(mut self, out: &Path) -> BackendResult<()> {
        self.file.sync_all().map_err(from_io)?;
        fs::rename(&self.path, out).map_err(from_io)?;
        self.finished = true;
        // The name is durable once its directory is; where directories cannot be synced, the
        // host decides.
        #[cfg(unix)]
        {
            let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = fs::File::open(parent.unwrap_or(Path::new("."))).map_err(from_io)?;
            directory.sync_all().map_err(from_io)?;
        }
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing better can be done with an error here.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Sink for TempFile {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

const BUFFER: usize = 1 << 20;

/// Buffers what is written in a row.
pub(crate) struct Output<'a> {
    sink: &'a mut dyn Sink,
    buffer: Vec<u8>,
    flushed: u64,
}

impl<'a> Output<'a> {
    /// Starts behind the header.
    pub(crate) fn new(sink: &'a mut dyn Sink) -> Output<'a> {
        let flushed = crate::archive::format::HEADER_LEN as u64;
        Output { sink, buffer: Vec::new(), flushed }
    }

    pub(crate) fn position(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> BackendResult<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        match bytes.len() > BUFFER {
            true => {
                self.sink.write_all_at(bytes, self.flushed).map_err(from_io)?;
                self.flushed += bytes.len() as u64;
            }
            false => self.buffer.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Writes zeros up to a multiple of `alignment`, at most a page.
    pub(crate) fn align(&mut self, alignment: u64) -> BackendResult<()> {
        let zeros = [0; 4096];
        let gap = self.position().next_multiple_of(alignment) - self.position();
        self.write(&zeros[..gap as usize])
    }

    /// Takes back everything from `position` on.
    pub(crate) fn rewind(&mut self, position: u64) {
        match position.checked_sub(self.flushed) {
            Some(kept) => self.buffer.truncate(kept as usize),
            None => {
                self.buffer.clear();
                self.flushed = position;
            }
        }
    }

    /// Writes the header and ends the archive here.
    pub(crate) fn finish(mut self, header: &[u8]) -> BackendResult<()> {
        self.flush()?;
        self.sink.set_len(self.flushed).map_err(from_io)?;
        self.sink.write_all_at(header, 0).map_err(from_io)
    }

    fn flush(&mut self) -> BackendResult<()> {
        self.sink.write_all_at(&self.buffer, self.flushed).map_err(from_io)?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
