//! Open files.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use super::contents::Position;
use super::names::Found;
use super::node::{Node, NodeId};
use super::store::{Hold, Store, Subject, Way};
use crate::backend::{File, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange};
use crate::options::{Allocation, OpenOptions, Seek, SyncScope, XattrMode};
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

/// Opens by path.
#[inline]
pub(crate) fn open(
    store: &Sharded<Store>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Opened> {
    if !options.is_valid() {
        return Err(ErrorKind::InvalidArgument.into());
    }
    if options.temporary {
        let directory = match store.existing(path)? {
            Found { file_type: FileType::Directory, node, .. } => node,
            Found { file_type: FileType::Symlink, .. } => {
                return Err(ErrorKind::SymlinkInPath.into());
            }
            _ => return Err(ErrorKind::NotADirectory.into()),
        };
        let hold = store.create_temporary(directory, options)?;
        return Opened::new(MemoryFile::boxed(store.share(), hold, options), true, options);
    }
    let (hold, made) = open_or_make(store, Way::Path(path), options)?;
    Opened::new(MemoryFile::boxed(store.share(), hold, options), made, options)
}

/// Opens what has the name, or makes it as the options say; whether it was made.
pub(crate) fn open_or_make(
    store: &Store,
    way: Way<'_>,
    options: &OpenOptions,
) -> BackendResult<(Hold, bool)> {
    loop {
        let Some(found) = store.find_at(way)? else {
            if !(options.create || options.create_new) {
                return Err(ErrorKind::NotFound.into());
            }
            match store.create_file(way, options)? {
                Some(hold) => return Ok((hold, true)),
                None => continue, // somebody else has made it meanwhile
            }
        };
        if options.create_new {
            return Err(ErrorKind::AlreadyExists.into());
        }
        check_type(found.file_type, options)?;
        let Some(hold) = store.hold(found.node) else { continue };
        if options.truncate {
            let cut = store.node(hold.node).lock().set_len(0, &store.storage);
            cut.inspect_err(|_| store.close(hold))?;
            store.report_at(WatchKind::Modified, way);
        }
        return Ok((hold, false));
    }
}

/// One more handle on a node that the caller keeps, by a handle or by its number.
pub(crate) fn reopen(store: &Store, id: NodeId, options: &OpenOptions) -> BackendResult<Hold> {
    if !options.is_valid() || *options != options.existing() {
        return Err(ErrorKind::InvalidArgument.into());
    }
    check_type(store.known(id)?.file_type(), options)?;
    store.hold_again(id)
}

/// Whether something of the type can be opened.
#[inline]
pub(crate) fn check_type(file_type: FileType, options: &OpenOptions) -> BackendResult<()> {
    match file_type {
        FileType::File => Ok(()),
        _ if options.reference => Ok(()),
        FileType::Directory => Err(ErrorKind::IsADirectory.into()),
        FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
        _ => Err(ErrorKind::InvalidArgument.into()),
    }
}

impl MemoryFile {
    /// The handle of a node that is counted for it.
    #[inline]
    pub(crate) fn boxed(store: Shared<Store>, hold: Hold, options: &OpenOptions) -> Box<dyn File> {
        Box::new(MemoryFile {
            store,
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

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<Metadata> {
        if change.len.is_some() {
            self.writable()?;
        }
        self.store.set_metadata(Subject::Node(self.hold.node), change)
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
        self.store.link_held(self.hold.node, Way::Path(path), true).map(drop)
    }

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        let hold = reopen(&self.store, self.hold.node, options)?;
        // Of a temporary file every handle may name it.
        let like = OpenOptions { temporary: self.temporary, ..*options };
        Opened::new(MemoryFile::boxed(self.store.clone(), hold, &like), false, options)
    }

    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.store.xattr(Subject::Node(self.hold.node), name)
    }

    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        self.store.xattrs(Subject::Node(self.hold.node))
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
        self.store.set_xattr(Subject::Node(self.hold.node), name, value, mode)
    }

    fn remove_xattr(&self, name: &[u8]) -> BackendResult<()> {
        self.store.remove_xattr(Subject::Node(self.hold.node), name)
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
