//! Open files of the upper layer.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::backend::File;
use crate::error::BackendResult;
use crate::metadata::{Metadata, MetadataChange};
use crate::options::{Allocation, Seek, SyncScope};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::Shared;
use crate::watch::WatchKind;

use super::State;

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
        let mut metadata = self.file.metadata()?;
        metadata.id = self.fs.ids.shown(0, metadata.id);
        Ok(metadata)
    }

    fn set_metadata(&self, change: &MetadataChange) -> BackendResult<()> {
        self.report(WatchKind::Metadata, self.file.set_metadata(change))
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

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.file.as_fd()
    }
}

crate::handle::wrap_file! {
    /// A file of a layer that is not the top one, where nothing can be changed.
    struct ReadOnlyFile { layer: u64 }
    fn metadata(self) {
        let mut metadata = self.file.metadata()?;
        metadata.id = crate::mount::mix(self.layer, metadata.id);
        Ok(metadata)
    }
    fn link_to(self, path) { self.file.link_to(path) }
}
