//! Open files of an overlay.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::backend::File;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileId, Metadata, MetadataChange};
use crate::options::{Allocation, OpenOptions, Seek, SyncScope};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::{Shared, shard_index};

use super::copy_up::Contents;
use super::{Copied, Overlay, lock};

/// How many open handles there are on lower files, by hash of the file's id.
pub(super) struct Live([AtomicU32; LIVE]);

const LIVE: usize = 256;

impl Default for Live {
    fn default() -> Self {
        Live([const { AtomicU32::new(0) }; LIVE])
    }
}

fn slot(file: FileId) -> usize {
    (file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % LIVE
}

impl Copied {
    fn is_live(&self, file: FileId) -> bool {
        self.live.iter().any(|live| live.0[slot(file)].load(Ordering::SeqCst) > 0)
    }

    /// Keeps a handle on the copy for those that have the lower file open. Copies that nobody
    /// can ask for any more are let go.
    pub(super) fn remember(&self, file: FileId, copy: Arc<dyn File>) {
        let mut handles = lock(&self.handles);
        handles.retain(|&file, _| self.is_live(file));
        if self.is_live(file) {
            handles.insert(file, copy);
        }
        drop(handles);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self, file: FileId) -> Option<Arc<dyn File>> {
        lock(&self.handles).get(&file).cloned()
    }
}

/// A handle on a lower file of a writable overlay. It moves to the copy when there is one: its
/// own first change makes one, and somebody else's shows.
pub(super) struct LowerFile {
    overlay: Shared<Overlay>,
    lower: Box<dyn File>,
    /// The id that users see.
    file: FileId,
    layer: usize,
    shard: usize,
    /// The generation of copies at which there was none of this file.
    seen: AtomicU64,
    copy: OnceLock<Arc<dyn File>>,
    writing: Option<Writing>,
}

/// What a handle that may write needs to know.
struct Writing {
    path: VfsPathBuf,
    read: bool,
    append: bool,
}

impl LowerFile {
    pub(super) fn new(
        overlay: Shared<Overlay>,
        lower: Box<dyn File>,
        layer: usize,
        path: &VfsPath,
        options: &OpenOptions,
    ) -> BackendResult<Self> {
        let file = overlay.ids.shown(layer, lower.metadata()?.id);
        let shard = shard_index();
        // Counted before the generation is read: a copy-up that missed the count came before.
        overlay.copied.live[shard].0[slot(file)].fetch_add(1, Ordering::SeqCst);
        let seen = overlay.copied.generation.load(Ordering::SeqCst).into();
        let writing = options.is_writing().then(|| Writing {
            path: path.to_owned(),
            read: options.read,
            append: options.append,
        });
        let copy = OnceLock::new();
        Ok(LowerFile { overlay, lower, file, layer, shard, seen, copy, writing })
    }

    /// The handle to read by.
    #[inline]
    fn current(&self) -> &dyn File {
        if let Some(copy) = self.copy.get() {
            return &**copy;
        }
        let generation = self.overlay.copied.generation.load(Ordering::Acquire);
        if generation != self.seen.load(Ordering::Relaxed) {
            if let Some(copy) = self.overlay.copied.get(self.file) {
                return &**self.copy.get_or_init(|| copy);
            }
            self.seen.store(generation, Ordering::Relaxed);
        }
        &*self.lower
    }

    fn can_read(&self) -> BackendResult<()> {
        match &self.writing {
            Some(writing) if !writing.read => Err(ErrorKind::BadHandle.into()),
            _ => Ok(()),
        }
    }

    /// The handle to write by, which makes the copy.
    fn writable(&self, contents: Contents) -> BackendResult<&dyn File> {
        let writing = self.writing.as_ref().ok_or(ErrorKind::BadHandle)?;
        self.copied(&writing.path, contents)
    }

    fn copied(&self, path: &VfsPath, contents: Contents) -> BackendResult<&dyn File> {
        if let Some(copy) = self.copy.get() {
            return Ok(&**copy);
        }
        let overlay = &*self.overlay;
        let _one = overlay.one_name();
        let _name = overlay.lock_name(path);
        if let Some(copy) = overlay.copied.get(self.file) {
            return Ok(&**self.copy.get_or_init(|| self.appending(path).unwrap_or(copy)));
        }
        let still_here = overlay.find(path).ok().filter(|found| {
            found.layer > 0 && overlay.ids.shown(found.layer, found.metadata.id) == self.file
        });
        let copy = match still_here {
            Some(found) => {
                overlay.copy_up_found(path, &found, contents)?;
                overlay.copied.get(self.file)
            }
            None => None,
        };
        let copy = match copy {
            Some(copy) => copy,
            // The name is gone or names another file: the file lives on without a name.
            None => overlay.copy_unnamed(&*self.lower, self.file)?,
        };
        Ok(&**self.copy.get_or_init(|| self.appending(path).unwrap_or(copy)))
    }

    /// The copy opened to append, for a handle that appends, if it still has its name: the
    /// upper then makes appends atomic among all handles.
    fn appending(&self, path: &VfsPath) -> Option<Arc<dyn File>> {
        let writing = self.writing.as_ref().filter(|writing| writing.append)?;
        let upper = self.overlay.upper().ok()?;
        let options = OpenOptions::new().append(true).read(writing.read);
        let file = upper.fs.open(path, &options).ok()?;
        let id = self.overlay.ids.shown(0, file.metadata().ok()?.id);
        (id == self.file).then(|| Arc::from(file))
    }

    fn shown(&self, metadata: Metadata) -> Metadata {
        Metadata { id: self.file, ..metadata }
    }
}

impl File for LowerFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.can_read()?;
        self.current().read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        let file = self.writable(Contents::Copy)?;
        let appends = self.writing.as_ref().is_some_and(|writing| writing.append);
        if !appends {
            return file.write_at(buf, offset);
        }
        // A handle that had to take a copy without a name appends by offset, one at a time;
        // one that appends by itself ignores the offset.
        let _one = lock(&self.overlay.names[slot(self.file) % self.overlay.names.len()]);
        file.write_at(buf, file.metadata()?.len)
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.can_read()?;
        self.current().bytes_at(range)
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        let contents = if len == 0 { Contents::Leave } else { Contents::Copy };
        self.writable(contents)?.set_len(len)
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        let metadata = self.current().metadata()?;
        Ok(self.shown(metadata))
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        // Allowed on any handle, so the name of one opened for reading is not known; it is
        // only needed to give the copy its name.
        match &self.writing {
            Some(writing) => self.copied(&writing.path, Contents::Copy)?.set_metadata(change),
            None => match self.current() {
                current if self.copy.get().is_some() => current.set_metadata(change),
                _ => Err(ErrorKind::BadHandle.into()),
            },
        }
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        self.current().sync(scope)
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.writable(Contents::Copy)?.allocate(what, range)
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.current().seek(offset, what)
    }

    fn link_to(&self, _: &VfsPath) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        // A descriptor handed out now could not follow the file to its copy.
        self.copy.get().and_then(|copy| copy.as_fd())
    }
}

impl Drop for LowerFile {
    fn drop(&mut self) {
        self.overlay.copied.live[self.shard].0[slot(self.file)].fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for LowerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerFile")
            .field("layer", &self.layer)
            .field("lower", &self.lower)
            .field("copy", &self.copy.get())
            .finish_non_exhaustive()
    }
}

crate::handle::wrap_file! {
    /// A handle on an upper file that is shown under another id than the upper's.
    struct CopiedFile { shown: FileId }
    fn metadata(self) {
        let metadata = self.file.metadata()?;
        Ok(Metadata { id: self.shown, ..metadata })
    }
    fn link_to(self, path) { self.file.link_to(path) }
}

/// An unnamed file of the upper layer, which is to get its name in the overlay.
pub(super) struct TemporaryLink {
    pub(super) overlay: Shared<Overlay>,
}

impl fmt::Debug for TemporaryLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TemporaryLink")
    }
}

crate::handle::wrap_file! {
    /// A handle on an unnamed file.
    struct TemporaryFile { link: TemporaryLink }
    fn metadata(self) { self.file.metadata() }
    fn link_to(self, path) {
        let overlay = &*self.link.overlay;
        let _one = overlay.one_name();
        let _name = overlay.lock_name(path);
        if overlay.is_there(path)? {
            return Err(ErrorKind::AlreadyExists.into());
        }
        overlay.copy_up_parents(path)?;
        overlay.place(path, |place| self.file.link_to(place))
    }
}
