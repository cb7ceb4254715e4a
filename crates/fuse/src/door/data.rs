//! Open files: made, read, written, closed.

use std::cell::RefCell;
use std::sync::Arc;

use rustix::io::Errno;
use stratafs::{Capabilities, Entry, File, NodeId, OpenOptions, SyncScope};

use crate::errno::{Answer, of};
use crate::handles::OpenFile;
use crate::ids::FileHandle;

use super::names::new_file;
use super::{Caller, Door};

/// How much one `copy_file_range` request copies at most: the caller asks again for the rest,
/// and other requests get their turn meanwhile.
const COPY_AT_ONCE: usize = 8 << 20;

const COPY_PIECE: usize = 1 << 20;

/// How a program opens a file, from the flags of its `open`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    read: bool,
    write: bool,
    truncate: bool,
    exclusive: bool,
}

impl Opening {
    pub(crate) fn from_flags(flags: i32) -> Self {
        let access = flags & libc::O_ACCMODE;
        Opening {
            read: access != libc::O_WRONLY,
            write: access != libc::O_RDONLY,
            truncate: flags & libc::O_TRUNC != 0,
            exclusive: flags & libc::O_EXCL != 0,
        }
    }

    /// Appending is not passed on: the kernel knows the end and sends offsets, and it may
    /// write pages back through any handle, which must go where they belong. Nor is
    /// truncating: the kernel does it by a request of its own, once it knows that nobody
    /// executes the file.
    fn options(self) -> OpenOptions {
        OpenOptions::new().read(self.read).write(self.write)
    }
}

thread_local! {
    /// What was read, until it is sent: each serving thread has one buffer.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Door {
    pub(super) fn file(&self, handle: FileHandle) -> Answer<Arc<OpenFile>> {
        self.files.get(handle).ok_or(Errno::BADF)
    }

    fn opened(&self, node: NodeId, file: Box<dyn File>, write: bool) -> FileHandle {
        self.files.insert(node, Arc::new(OpenFile::new(node, file, write)))
    }

    pub(crate) fn open(&self, node: NodeId, how: Opening) -> Answer<FileHandle> {
        let opened = self.nodes().open(node, &how.options()).map_err(of)?;
        Ok(self.opened(node, opened.file, how.write))
    }

    pub(crate) fn create(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &[u8],
        mode: u32,
        how: Opening,
    ) -> Answer<(Entry, FileHandle)> {
        // Creating needs a writable handle; what the program may do with its own, the kernel
        // sees to.
        let options = new_file(caller, mode)
            .read(how.read)
            .write(true)
            .create(true)
            .create_new(how.exclusive)
            .truncate(how.truncate);
        let created = self.made(parent, name, &options)?;
        let handle = self.opened(created.entry.node, created.file, true);
        Ok((created.entry, handle))
    }

    /// Reads the whole range, or up to the end, and hands the bytes to `send`.
    pub(crate) fn read<T>(
        &self,
        handle: FileHandle,
        offset: u64,
        len: usize,
        send: impl FnOnce(&[u8]) -> T,
    ) -> Answer<T> {
        let file = self.file(handle)?;
        let end = offset.saturating_add(len as u64);
        if let Some(bytes) = file.lent(offset..end).map_err(of)? {
            return Ok(send(&bytes));
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            let filled = read_fully(&*file.file, &mut buffer[..len], offset)?;
            Ok(send(&buffer[..filled]))
        })
    }

    /// Writes everything, unless an error comes after a part.
    pub(crate) fn write(
        &self,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        clear_privilege_bits: bool,
    ) -> Answer<usize> {
        let file = self.file(handle)?;
        let written = write_fully(&*file.file, data, offset)?;
        if clear_privilege_bits {
            self.clear_privilege_bits(file.node)?;
        }
        Ok(written)
    }

    pub(crate) fn copy(
        &self,
        from: (FileHandle, u64),
        to: (FileHandle, u64),
        len: u64,
    ) -> Answer<usize> {
        let (source, target) = (self.file(from.0)?, self.file(to.0)?);
        let len = usize::try_from(len).map_or(COPY_AT_ONCE, |len| len.min(COPY_AT_ONCE));
        let mut piece = Vec::new();
        let mut copied = 0;
        while copied < len {
            let want = (len - copied).min(COPY_PIECE);
            let at = from.1 + copied as u64;
            let shared = source.lent(at..at + want as u64).map_err(of)?;
            let bytes: &[u8] = match &shared {
                Some(bytes) => bytes,
                None => {
                    piece.resize(want, 0);
                    let filled = read_fully(&*source.file, &mut piece, at)?;
                    &piece[..filled]
                }
            };
            if bytes.is_empty() {
                break;
            }
            match write_fully(&*target.file, bytes, to.1 + copied as u64) {
                Ok(written) => copied += written,
                Err(_) if copied > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }

    pub(crate) fn sync_file(&self, handle: FileHandle, data_only: bool) -> Answer<()> {
        let scope = if data_only { SyncScope::Data } else { SyncScope::All };
        self.file(handle)?.file.sync(scope).map_err(of)
    }

    /// The names in a directory.
    pub(crate) fn sync_dir(&self, node: NodeId) -> Answer<()> {
        if !self.capabilities.contains(Capabilities::DURABLE) {
            return Ok(());
        }
        self.nodes().sync_dir(node).map_err(of)
    }

    /// One of the descriptors of an open file is closed: what is wrong with its writes is told.
    pub(crate) fn flush(&self, handle: FileHandle) -> Answer<()> {
        self.file(handle)?.file.close().map_err(of)
    }

    pub(crate) fn close(&self, handle: FileHandle) -> Answer<()> {
        self.files.remove(handle).map(drop).ok_or(Errno::BADF)
    }
}

fn read_fully(file: &dyn File, buffer: &mut [u8], offset: u64) -> Answer<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == stratafs::ErrorKind::Interrupted => {}
            Err(_) if filled > 0 => break,
            Err(error) => return Err(of(error)),
        }
    }
    Ok(filled)
}

fn write_fully(file: &dyn File, data: &[u8], offset: u64) -> Answer<usize> {
    let mut written = 0;
    while written < data.len() {
        match file.write_at(&data[written..], offset + written as u64) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == stratafs::ErrorKind::Interrupted => {}
            Err(_) if written > 0 => break,
            Err(error) => return Err(of(error)),
        }
    }
    Ok(written)
}
