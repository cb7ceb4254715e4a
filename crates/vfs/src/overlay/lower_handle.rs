//! Open files of lower layers, which may be copied up while they are open.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use smallvec::SmallVec;

use crate::backend::{File, Opened};
use crate::backing::Backing;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Advice, Allocation, OpenOptions, Seek, SyncScope, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::{Shared, shard_index};
use crate::watch::WatchKind;

use super::State;
use super::attributes::{not_reserved, shown_xattr, shown_xattrs};
use super::copies::{UNSETTLED, bucket};
use super::copy_up::Contents;
use super::handle::upper_file;
use super::lookup::Probe;

/// Paths up to this length need no allocation of their own.
const SHORT_PATH: usize = 64;

/// A handle on a lower file. It changes over to the copy as soon as there is one, and makes
/// one at the first change through it.
pub(super) struct LowerFile {
    fs: Shared<State>,
    lower: Box<dyn File>,
    layer: usize,
    shard: usize,
    bucket: usize,
    options: OpenOptions,
    /// How many copy-ups had started when it last looked whether its file was among them.
    seen: AtomicU64,
    /// How many lower names were hidden when it was opened.
    removals: u64,
    /// By which path the layers beneath the upper one know the file: this is who it is.
    beneath: SmallVec<[u8; SHORT_PATH]>,
    copy: OnceLock<Copy>,
    switching: Mutex<()>,
    /// For reports, of handles that can change the file: the name it was opened by.
    path: Option<Box<VfsPathBuf>>,
}

/// Who a lower file is.
pub(super) struct LowerName<'a> {
    pub(super) layer: usize,
    /// As the layers beneath the upper one name it.
    pub(super) beneath: &'a VfsPath,
}

struct Copy {
    file: Arc<dyn File>,
    /// Of a handle opened to append whose file in the upper layer has no name to open it by:
    /// the lock that makes "write at the end" one step among all such handles.
    appends: Option<Arc<Mutex<()>>>,
}

impl LowerFile {
    /// Counts the handle. The caller has captured what `seen` was before it looked the file
    /// up, and looks afterwards whether that still stands.
    pub(super) fn new(
        fs: Shared<State>,
        lower: Box<dyn File>,
        name: LowerName<'_>,
        path: Option<&VfsPath>,
        options: &OpenOptions,
        seen: u64,
    ) -> Self {
        let LowerName { layer, beneath } = name;
        let (shard, bucket) = (shard_index(), bucket(beneath));
        fs.copies.count_open(shard, bucket);
        let changes = options.is_writing() || options.reference;
        LowerFile {
            lower,
            layer,
            shard,
            bucket,
            options: *options,
            seen: AtomicU64::new(seen),
            removals: fs.copies.removals(),
            beneath: SmallVec::from_slice(beneath.as_bytes()),
            copy: OnceLock::new(),
            switching: Mutex::new(()),
            path: path.filter(|_| changes).map(|path| Box::new(path.to_owned())),
            fs,
        }
    }

    fn beneath(&self) -> &VfsPath {
        VfsPath::from_normal(&self.beneath)
    }

    /// The copy, if the file has been copied up.
    #[inline]
    fn copy(&self) -> BackendResult<Option<&Copy>> {
        if let Some(copy) = self.copy.get() {
            return Ok(Some(copy));
        }
        if self.fs.copies.started() == self.seen.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.look_for_copy()
    }

    #[cold]
    fn look_for_copy(&self) -> BackendResult<Option<&Copy>> {
        // Before the look at the records: what has finished by now has left its record.
        let settled = self.fs.copies.settled();
        match self.fs.copies.record(self.beneath()) {
            Some(record) if !self.options.is_writing() => {
                Ok(Some(self.copy.get_or_init(|| Copy { file: record.file, appends: None })))
            }
            Some(_) => self.changed_over().map(Some),
            None => {
                if settled != UNSETTLED {
                    self.seen.store(settled, Ordering::Relaxed);
                }
                Ok(None)
            }
        }
    }

    /// The copy, made if there is none.
    fn changed_over(&self) -> BackendResult<&Copy> {
        if let Some(copy) = self.copy.get() {
            return Ok(copy);
        }
        let _one = self.switching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = self.copy.get() {
            return Ok(copy);
        }
        let copy = self.find_or_make_copy()?;
        Ok(self.copy.get_or_init(|| copy))
    }

    fn find_or_make_copy(&self) -> BackendResult<Copy> {
        loop {
            let shown_at = {
                let _shared = self.fs.tree.shared();
                if let Some(copy) = self.known_copy()? {
                    return Ok(copy);
                }
                self.fs.whereabouts(self.beneath())?
            };
            match shown_at {
                // The record of the copy stays: this handle counts.
                Some(path) => match self.fs.copy_up(&path, Contents::All) {
                    // Moved or removed meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    done => done?,
                },
                None => drop(self.fs.copy_orphan(self.layer, &*self.lower, self.beneath())?),
            }
        }
    }

    /// Opens the copy as this handle was opened, while it has the name that it was given; else
    /// shares the record's handle.
    fn known_copy(&self) -> BackendResult<Option<Copy>> {
        let Some(record) = self.fs.copies.record(self.beneath()) else { return Ok(None) };
        let options = self.options.existing().metadata(false);
        for path in self.fs.layers[0].remaps.unmap(self.beneath()) {
            let Probe::Hit(hit) = self.fs.probe(&path)? else { continue };
            if hit.layer > 0 || hit.metadata.id != record.id {
                continue;
            }
            // Between the two calls the name may have gone to another file.
            if let Ok(Opened { file, .. }) = self.fs.top().open(&path, &options)
                && file.metadata()?.id == record.id
            {
                return Ok(Some(Copy { file: Arc::from(file), appends: None }));
            }
        }
        let appends = self.options.append.then_some(record.appends);
        Ok(Some(Copy { file: record.file, appends }))
    }

    fn can_read(&self) -> BackendResult<()> {
        if self.options.read { Ok(()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    fn can_write(&self) -> BackendResult<()> {
        if self.options.is_writing() { Ok(()) } else { Err(ErrorKind::BadHandle.into()) }
    }

    /// The file as it is now.
    #[inline]
    fn current(&self) -> BackendResult<&dyn File> {
        Ok(self.copy()?.map_or(&*self.lower, |copy| &*copy.file))
    }

    fn report(&self, kind: WatchKind) {
        if let Some(path) = &self.path {
            self.fs.report_by_handle(kind, path, self);
        }
    }

    /// The lower file counts a name that the overlay no longer shows.
    fn hidden_names(&self) -> BackendResult<u32> {
        if self.fs.copies.removals() == self.removals {
            return Ok(0);
        }
        let _shared = self.fs.tree.shared();
        Ok(u32::from(self.fs.whereabouts(self.beneath())?.is_none()))
    }
}

#[deny(clippy::missing_trait_methods)]
impl File for LowerFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.can_read()?;
        self.current()?.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        self.can_write()?;
        if buf.is_empty() {
            return Ok(0);
        }
        let copy = self.changed_over()?;
        let written = match &copy.appends {
            None => copy.file.write_at(buf, offset)?,
            Some(appends) => {
                let _one = appends.lock().unwrap_or_else(PoisonError::into_inner);
                copy.file.write_at(buf, copy.file.metadata()?.len)?
            }
        };
        self.report(WatchKind::Modified);
        Ok(written)
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.can_read()?;
        self.current()?.bytes_at(range)
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.can_write()?;
        self.changed_over()?.file.set_len(len)?;
        self.report(WatchKind::Modified);
        Ok(())
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        if let Some(copy) = self.copy()? {
            let mut metadata = copy.file.metadata()?;
            metadata.id = self.fs.ids.shown(0, metadata.id);
            return Ok(metadata);
        }
        let mut metadata = self.lower.metadata()?;
        metadata.id = self.fs.ids.shown(self.layer, metadata.id);
        metadata.links = metadata.links.saturating_sub(self.hidden_names()?);
        Ok(metadata)
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<Metadata> {
        if change.is_empty() {
            return self.metadata();
        }
        if change.len.is_some() {
            self.can_write()?;
        }
        let changed = self.changed_over()?.file.set_metadata(change)?;
        self.report(if change.len.is_some() { WatchKind::Modified } else { WatchKind::Metadata });
        Ok(self.fs.shown(0, changed))
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        match self.copy()? {
            Some(copy) => copy.file.sync(scope),
            None => Ok(()), // nothing was changed
        }
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.can_write()?;
        if range.is_empty() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        self.changed_over()?.file.allocate(what, range)?;
        self.report(WatchKind::Modified);
        Ok(())
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.current()?.seek(offset, what)
    }

    fn link_to(&self, _: &VfsPath) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        if !options.is_valid() || *options != options.existing() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        let path = self.path.as_deref();
        if let Some(copy) = self.copy()? {
            let opened = copy.file.reopen(options)?;
            return Ok(upper_file(self.fs.clone(), opened, path.cloned(), false));
        }
        let lower = self.lower.reopen(&OpenOptions::reading())?.file;
        let name = LowerName { layer: self.layer, beneath: self.beneath() };
        let path = path.map(|path| &**path);
        let file = LowerFile::new(self.fs.clone(), lower, name, path, options, UNSETTLED);
        Opened::new(Box::new(file), false, options)
    }

    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        shown_xattr(name, || self.current()?.xattr(name))
    }

    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        self.current()?.xattrs().map(shown_xattrs)
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
        not_reserved(name)?;
        self.changed_over()?.file.set_xattr(name, value, mode)?;
        self.report(WatchKind::Metadata);
        Ok(())
    }

    fn remove_xattr(&self, name: &[u8]) -> BackendResult<()> {
        not_reserved(name)?;
        self.changed_over()?.file.remove_xattr(name)?;
        self.report(WatchKind::Metadata);
        Ok(())
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        if let Ok(file) = self.current() {
            file.advise(advice, range);
        }
    }

    fn close(&self) -> BackendResult<()> {
        match self.copy()? {
            Some(copy) => copy.file.close(),
            None => Ok(()),
        }
    }

    fn seal(&self) -> BackendResult<()> {
        match self.copy()? {
            Some(copy) => copy.file.seal(),
            None => Ok(()),
        }
    }

    /// None: a kernel that kept it would read the lower file after a copy-up.
    fn backing(&self) -> Option<Backing> {
        None
    }
}

impl Drop for LowerFile {
    fn drop(&mut self) {
        self.fs.copies.count_close(self.shard, self.bucket);
    }
}

impl fmt::Debug for LowerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerFile")
            .field("lower", &self.lower)
            .field("copied", &self.copy.get().is_some())
            .finish_non_exhaustive()
    }
}
