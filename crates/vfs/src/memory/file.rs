//! Open files.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use super::contents::Position;
use super::node::Node;
use super::store::{Hold, Store};
use crate::backend::File;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange};
use crate::options::{Allocation, OpenOptions, Seek, SyncScope};
use crate::path::VfsPath;
use crate::sharded::{Sharded, Shared};
use crate::watch::WatchKind;

/// An open file: holds its node, and the whole file system.
pub(crate) struct MemoryFile {
    store: Shared<Store>,
    hold: Hold,
    read: bool,
    write: bool,
    append: bool,
    temporary: bool,
}

pub(crate) fn open(
    store: &Sharded<Store>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    if !options.is_valid() {
        return Err(ErrorKind::InvalidArgument.into());
    }
    if options.temporary {
        return open_temporary(store, path, options);
    }
    loop {
        let Some(found) = store.find(path)? else {
            if !(options.create || options.create_new) {
                return Err(ErrorKind::NotFound.into());
            }
            match store.create_file(path, options)? {
                Some(hold) => return Ok(MemoryFile::boxed(store, hold, options)),
                None => continue, // somebody else has made it meanwhile
            }
        };
        if options.create_new {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match found.file_type {
            FileType::File => {}
            FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
            FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
            _ => return Err(ErrorKind::InvalidArgument.into()),
        }
        let Some(hold) = store.hold(found.node) else { continue };
        let file = MemoryFile::boxed(store, hold, options);
        if options.truncate {
            store.node(hold.node).lock().set_len(0, &store.storage)?;
            store.watches.report(WatchKind::Modified, path);
        }
        return Ok(file);
    }
}

fn open_temporary(
    store: &Sharded<Store>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    match store.existing(path)?.file_type {
        FileType::Directory => {}
        FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
        _ => return Err(ErrorKind::NotADirectory.into()),
    }
    Ok(MemoryFile::boxed(store, store.create_temporary(options)?, options))
}

impl MemoryFile {
    #[inline]
    fn boxed(store: &Sharded<Store>, hold: Hold, options: &OpenOptions) -> Box<dyn File> {
        Box::new(MemoryFile {
            store: store.share(),
            hold,
            read: options.read,
            write: options.is_writing(),
            append: options.append,
            temporary: options.temporary,
        })
    }

    #[inline]
    fn node(&self) -> &Node {
        self.store.node(self.hold.node)
    }

    /// The node, to read.
    #[inline]
    fn readable(&self) -> BackendResult<&Node> {
        if self.read { Ok(self.node()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    /// The node, to write.
    #[inline]
    fn writable(&self) -> BackendResult<&Node> {
        if self.write { Ok(self.node()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    #[inline]
    fn report(&self, kind: WatchKind) {
        self.store.report_node(kind, self.hold.node);
    }
}

impl File for MemoryFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        Ok(self.readable()?.read(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        let node = self.writable()?;
        if buf.is_empty() {
            return Ok(0);
        }
        let position = if self.append { Position::End } else { Position::At(offset) };
        node.lock().write(buf, position, &self.store.storage)?;
        self.report(WatchKind::Modified);
        Ok(buf.len())
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        Ok(self.readable()?.bytes(range))
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.writable()?.lock().set_len(len, &self.store.storage)?;
        self.report(WatchKind::Modified);
        Ok(())
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        // The handle keeps the node, so it is there.
        self.node().metadata(self.hold.node).ok_or_else(|| ErrorKind::Stale.into())
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        self.node().lock().apply(change);
        self.report(WatchKind::Metadata);
        Ok(())
    }

    /// Nothing to do: there is no medium.
    fn sync(&self, _: SyncScope) -> BackendResult<()> {
        Ok(())
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.writable()?.lock().allocate(what, range, &self.store.storage)?;
        self.report(WatchKind::Modified);
        Ok(())
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.node().seek(offset, what)
    }

    fn link_to(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.temporary {
            return Err(ErrorKind::Unsupported.into());
        }
        self.store.link_held(self.hold.node, path)
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

impl Drop for MemoryFile {
    #[inline]
    fn drop(&mut self) {
        self.store.close(self.hold);
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFile").field("node", &self.hold.node).finish_non_exhaustive()
    }
}
