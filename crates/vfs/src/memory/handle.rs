//! Open files in memory.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::backend::File;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Device, FileType, Metadata, MetadataChange};
use crate::options::{Allocation, OpenOptions, Seek, SyncScope};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::{Sharded, Shared, shard_index};
use crate::watch::WatchKind;

use super::contents::{Body, Large, MAX_LEN, SMALL};
use super::dir::Entry;
use super::node::{CHANGED, MODIFIED, Node, NodeId};
use super::store::{Store, lock};

pub(super) struct MemoryFile {
    store: Shared<Store>,
    id: NodeId,
    shard: u32,
    read: bool,
    write: bool,
    append: bool,
    temporary: bool,
    /// Large contents never become small again, so they are looked for once.
    large: OnceLock<Arc<Large>>,
    /// For reports of changes, of handles that can make them: the name it was opened by.
    path: Option<Box<VfsPathBuf>>,
}

pub(super) fn open(
    store: &Sharded<Store>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    if options.temporary {
        return open_temporary(store, path, options);
    }
    loop {
        let (id, made) = match store.find(path)? {
            Some(entry) => {
                if options.create_new {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                match entry.kind {
                    FileType::File => {}
                    FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
                    FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
                    // To its own layer a whiteout is a name that is there and cannot be opened.
                    _ => return Err(ErrorKind::InvalidArgument.into()),
                }
                (entry.id, false)
            }
            None if options.create || options.create_new => match make(store, path, options)? {
                Some(id) => (id, true),
                None => continue, // somebody else made it
            },
            None => return Err(ErrorKind::NotFound.into()),
        };
        let file = MemoryFile::new(store, id, path, options);
        if made {
            store.watches.report(WatchKind::Created, path);
            return Ok(Box::new(file));
        }
        // Counted by now; see the protocol of open counts in the module documentation.
        file.store.count_open(id, file.shard as usize);
        if !file.node().is_linked(id) {
            continue; // removed between lookup and count: dropping takes the count back
        }
        if options.truncate {
            file.cut(0)?;
        }
        return Ok(Box::new(file));
    }
}

/// The two forms of contents, to look at.
enum Contents<'a> {
    Small(&'a Bytes),
    Large(&'a Large),
}

/// Makes a file and counts a handle on it, before anyone can find it; `None` if the name has
/// been taken meanwhile.
fn make(
    store: &Sharded<Store>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Option<NodeId>> {
    let (parent, name) = store.parent(path)?;
    let mut state = store.alive(parent)?;
    if state.entries.contains_key(name) {
        return Ok(None);
    }
    let id = store.allocate(FileType::File, options.mode, options.owner, Device::default())?;
    store.count_open(id, shard_index());
    store.put(parent, &mut state, name, Entry { id, kind: FileType::File });
    Ok(Some(id))
}

fn open_temporary(
    store: &Sharded<Store>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    match store.existing(path)?.kind {
        FileType::Directory => {}
        FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
        _ => return Err(ErrorKind::NotADirectory.into()),
    }
    let id = store.allocate(FileType::File, options.mode, options.owner, Device::default())?;
    store.count_open(id, shard_index());
    store.node(id).set_links(0);
    Ok(Box::new(MemoryFile::new(store, id, path, options)))
}

impl MemoryFile {
    /// A handle on a node whose count the caller takes care of.
    fn new(store: &Sharded<Store>, id: NodeId, path: &VfsPath, options: &OpenOptions) -> Self {
        let writes = options.is_writing();
        MemoryFile {
            store: store.share(),
            id,
            shard: shard_index() as u32,
            read: options.read,
            write: writes,
            append: options.append,
            temporary: options.temporary,
            large: OnceLock::new(),
            path: (writes && !options.temporary).then(|| Box::new(path.to_owned())),
        }
    }

    fn node(&self) -> &Node {
        self.store.node(self.id)
    }

    fn can_read(&self) -> BackendResult<()> {
        if self.read { Ok(()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    fn can_write(&self) -> BackendResult<()> {
        if self.write { Ok(()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    /// Calls with the contents, whichever form they have.
    #[inline]
    fn with_contents<T>(&self, call: impl FnOnce(Contents<'_>) -> T) -> T {
        if let Some(contents) = self.large.get() {
            return call(Contents::Large(contents));
        }
        let body = self.node().body.load();
        match &**body {
            Body::Large(contents) => {
                call(Contents::Large(self.large.get_or_init(|| Arc::clone(contents))))
            }
            Body::Small(contents) => call(Contents::Small(contents)),
            Body::Link(_) => call(Contents::Small(&Bytes::new())),
        }
    }

    fn changed(&self, kind: WatchKind) {
        if let Some(path) = &self.path {
            self.store.watches.report(kind, path);
        }
    }

    /// The contents as segments, made so if they are small. The caller holds the guard.
    fn make_large(&self, node: &Node) -> BackendResult<&Arc<Large>> {
        if let Some(large) = self.large.get() {
            return Ok(large);
        }
        let body = node.body.load_full();
        let large = match &*body {
            Body::Large(large) => Arc::clone(large),
            Body::Small(bytes) => {
                let large = Arc::new(Large::default());
                let mut segments = large.write();
                let (old, new) = (node.allocated(), segments.missing(0..bytes.len() as u64));
                self.store.reserve(new.saturating_sub(old))?;
                segments.write_at(bytes, 0);
                drop(segments);
                node.change(|facts| facts.allocated(new));
                self.store.release(old.saturating_sub(new));
                node.body.store(Arc::new(Body::Large(Arc::clone(&large))));
                large
            }
            Body::Link(_) => return Err(ErrorKind::InvalidArgument.into()),
        };
        Ok(self.large.get_or_init(|| large))
    }

    /// Replaces small contents. The caller holds the guard.
    fn store_small(&self, node: &Node, contents: Vec<u8>) -> BackendResult<()> {
        let (old, new) = (node.allocated(), allocation(contents.len()));
        if new > old {
            self.store.reserve(new - old)?;
        }
        let len = contents.len() as u64;
        node.body.store(Arc::new(Body::Small(contents.into())));
        self.facts(node, len, new);
        self.store.release(old.saturating_sub(new));
        Ok(())
    }

    fn facts(&self, node: &Node, len: u64, allocated: u64) {
        let now = crate::Timestamp::now();
        node.change(|facts| {
            facts.len(len);
            facts.allocated(allocated);
            facts.time(MODIFIED, now);
            facts.time(CHANGED, now);
        });
    }

    /// Small contents, or `None` when they are large.
    fn small(&self, node: &Node) -> Option<Bytes> {
        if self.large.get().is_some() {
            return None;
        }
        match &**node.body.load() {
            Body::Small(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    fn cut(&self, len: u64) -> BackendResult<()> {
        if len > MAX_LEN {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let node = self.node();
        let _guard = lock(&node.guard);
        if let Some(old) = self.small(node)
            && len <= SMALL
        {
            let len = len as usize;
            let mut contents = old[..old.len().min(len)].to_vec();
            contents.resize(len, 0);
            return self.store_small(node, contents);
        }
        let large = self.make_large(node)?;
        let freed = large.write().set_len(len);
        self.facts(node, len, node.allocated() - freed);
        self.store.release(freed);
        Ok(())
    }

    /// Reserves quota and storage for a range of large contents, then changes them.
    fn grow(
        &self,
        node: &Node,
        range: Range<u64>,
        change: impl FnOnce(&mut super::contents::Segments),
    ) -> BackendResult<()> {
        let large = self.make_large(node)?;
        let mut segments = large.write();
        let need = segments.missing(range);
        self.store.reserve(need)?;
        change(&mut segments);
        let len = segments.len();
        drop(segments);
        self.facts(node, len, node.allocated() + need);
        Ok(())
    }
}

/// What small contents count for: whole units of 512 bytes, as `Metadata::allocated` has them.
fn allocation(len: usize) -> u64 {
    (len as u64).next_multiple_of(512)
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.can_read()?;
        Ok(self.with_contents(|contents| match contents {
            Contents::Small(small) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(small.len());
                let count = buf.len().min(small.len() - start);
                buf[..count].copy_from_slice(&small[start..start + count]);
                count
            }
            Contents::Large(large) => large.read().read_at(buf, offset),
        }))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        self.can_write()?;
        if buf.is_empty() {
            return Ok(0);
        }
        let node = self.node();
        let guard = lock(&node.guard);
        let start = if self.append { node.len() } else { offset };
        let end = start.checked_add(buf.len() as u64).filter(|&end| end <= MAX_LEN);
        let end = end.ok_or(ErrorKind::FileTooLarge)?;
        match self.small(node) {
            Some(old) if end <= SMALL => {
                let (start, end) = (start as usize, end as usize);
                let mut contents = Vec::with_capacity(old.len().max(end));
                contents.extend_from_slice(&old[..old.len().min(start)]);
                contents.resize(start, 0);
                contents.extend_from_slice(buf);
                contents.extend_from_slice(old.get(end..).unwrap_or_default());
                self.store_small(node, contents)?;
            }
            _ => self.grow(node, start..end, |segments| segments.write_at(buf, start))?,
        }
        drop(guard);
        self.changed(WatchKind::Modified);
        Ok(buf.len())
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.can_read()?;
        Ok(self.with_contents(|contents| match contents {
            Contents::Small(small) => {
                let len = small.len() as u64;
                let start = range.start.min(len) as usize;
                let end = range.end.min(len) as usize;
                Some(small.slice(start..end.max(start)))
            }
            Contents::Large(_) => None,
        }))
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.can_write()?;
        self.cut(len)?;
        self.changed(WatchKind::Modified);
        Ok(())
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        // The handle's count keeps the node, so the generation stands.
        self.node().metadata(self.id).ok_or_else(|| ErrorKind::Stale.into())
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        let node = self.node();
        let guard = lock(&node.guard);
        node.apply(change);
        drop(guard);
        self.changed(WatchKind::Metadata);
        Ok(())
    }

    fn sync(&self, _: SyncScope) -> BackendResult<()> {
        Ok(())
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.can_write()?;
        if range.is_empty() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if range.end > MAX_LEN {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let node = self.node();
        let guard = lock(&node.guard);
        let keeps_len = matches!(
            what,
            Allocation::ReserveKeepLen | Allocation::PunchHole | Allocation::ZeroKeepLen
        );
        let reserves = matches!(what, Allocation::Reserve | Allocation::ReserveKeepLen);
        if reserves {
            self.grow(node, range.clone(), |segments| {
                segments.reserve(range.clone());
                if !keeps_len && range.end > segments.len() {
                    segments.set_len(range.end);
                }
            })?;
        } else {
            let large = self.make_large(node)?;
            let mut segments = large.write();
            if !keeps_len && range.end > segments.len() {
                segments.set_len(range.end);
            }
            let freed = segments.clear(range);
            let len = segments.len();
            drop(segments);
            self.facts(node, len, node.allocated() - freed);
            self.store.release(freed);
        }
        drop(guard);
        self.changed(WatchKind::Modified);
        Ok(())
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.with_contents(|contents| match contents {
            Contents::Small(small) => {
                let len = small.len() as u64;
                match what {
                    _ if offset >= len => Err(ErrorKind::NoSuchOffset.into()),
                    Seek::Data => Ok(offset),
                    Seek::Hole => Ok(len),
                }
            }
            Contents::Large(large) => large.read().seek(offset, what),
        })
    }

    fn link_to(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.temporary {
            return Err(ErrorKind::Unsupported.into());
        }
        let (parent, name) = self.store.parent(path)?;
        let mut state = self.store.alive(parent)?;
        if state.entries.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = self.node();
        {
            let _guard = lock(&node.guard);
            node.set_links(node.links() + 1);
        }
        let entry = Entry { id: self.id, kind: FileType::File };
        self.store.put(parent, &mut state, name, entry);
        drop(state);
        self.store.watches.report(WatchKind::Created, path);
        Ok(())
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.store.count_close(self.id, self.shard as usize);
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFile").field("id", &self.id).finish_non_exhaustive()
    }
}
