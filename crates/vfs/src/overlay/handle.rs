//! Open files of the upper layer.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::backend::{File, Opened};
use crate::backing::Backing;
use crate::error::BackendResult;
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Advice, Allocation, OpenOptions, Seek, SyncScope, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::Shared;
use crate::watch::WatchKind;

use super::State;
use super::attributes::{not_reserved, shown_xattr, shown_xattrs};

/// Shows the id that the file had before it was copied up, and reports changes.
pub(super) struct UpperFile {
    pub(super) fs: Shared<State>,
    pub(super) file: Box<dyn File>,
    /// For reports, of handles that can change the file: the name it was opened by, or given.
    pub(super) path: OnceLock<VfsPathBuf>,
    pub(super) temporary: bool,
}

impl UpperFile {
    fn report<T>(&self, kind: WatchKind, answer: BackendResult<T>) -> BackendResult<T> {
        if let (Ok(_), Some(path)) = (&answer, self.path.get()) {
            self.fs.report_by_handle(kind, path, self);
        }
        answer
    }
}

impl fmt::Debug for UpperFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UpperFile").field(&self.file).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl File for UpperFile {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> BackendResult<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> BackendResult<usize> {
        self.report(WatchKind::Modified, self.file.write_at(buf, offset))
    }

    fn bytes_at(&self, range: Range<u64>) -> BackendResult<Option<Bytes>> {
        self.file.bytes_at(range)
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        self.report(WatchKind::Modified, self.file.set_len(len))
    }

    fn metadata(&self) -> BackendResult<Metadata> {
        self.file.metadata().map(|metadata| self.fs.shown(0, metadata))
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<Metadata> {
        let kind = if change.len.is_some() { WatchKind::Modified } else { WatchKind::Metadata };
        let changed = self.report(kind, self.file.set_metadata(change))?;
        Ok(self.fs.shown(0, changed))
    }

    fn sync(&self, scope: SyncScope) -> BackendResult<()> {
        self.file.sync(scope)
    }

    fn allocate(&self, what: Allocation, range: Range<u64>) -> BackendResult<()> {
        self.report(WatchKind::Modified, self.file.allocate(what, range))
    }

    fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        self.file.seek(offset, what)
    }

    fn link_to(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.temporary {
            return self.file.link_to(path);
        }
        self.fs.make(path, |at| self.file.link_to(at))?;
        self.path.get_or_init(|| path.to_owned());
        self.fs.watches.report(WatchKind::Created, path);
        Ok(())
    }

    fn reopen(&self, options: &OpenOptions) -> BackendResult<Opened> {
        let opened = self.file.reopen(options)?;
        let path = self.path.get().filter(|_| options.is_writing()).cloned();
        Ok(upper_file(self.fs.clone(), opened, path, self.temporary))
    }

    fn xattr(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        shown_xattr(name, || self.file.xattr(name))
    }

    fn xattrs(&self) -> BackendResult<Vec<Vec<u8>>> {
        self.file.xattrs().map(shown_xattrs)
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
        not_reserved(name)?;
        self.report(WatchKind::Metadata, self.file.set_xattr(name, value, mode))
    }

    fn remove_xattr(&self, name: &[u8]) -> BackendResult<()> {
        not_reserved(name)?;
        self.report(WatchKind::Metadata, self.file.remove_xattr(name))
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.file.advise(advice, range);
    }

    fn close(&self) -> BackendResult<()> {
        self.file.close()
    }

    fn seal(&self) -> BackendResult<()> {
        self.file.seal()
    }

    /// As the upper layer has it: whoever watches hears of a kernel's writes when it is closed.
    fn backing(&self) -> Option<Backing> {
        self.file.backing()
    }
}

/// Wraps a handle that the upper layer answered; `path` is for the reports of one that may change
/// the file.
pub(super) fn upper_file(
    fs: Shared<State>,
    mut opened: Opened,
    path: Option<VfsPathBuf>,
    temporary: bool,
) -> Opened {
    if let Some(metadata) = &mut opened.metadata {
        **metadata = fs.shown(0, **metadata);
    }
    let path = path.map(OnceLock::from).unwrap_or_default();
    opened.map(|file| Box::new(UpperFile { fs, file, path, temporary }))
}

crate::kit::wrap_file! {
    /// A file of a layer that is not the top one, where nothing can be changed.
    struct ReadOnlyFile { layer: u64 }
    fn shown(self, metadata) { Metadata { id: metadata.id.salted(self.layer), ..metadata } }
    fn reopened(self, opened) {
        let layer = self.layer;
        opened.map(|file| Box::new(ReadOnlyFile { file, layer }))
    }
    fn link_to(self, path) { self.file.link_to(path) }
}
