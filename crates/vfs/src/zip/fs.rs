//! The zip file as a backend.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::kit::{ImmutableFile, PathIndex, refuse_changes};
use crate::metadata::{FileId, FileType, Metadata, Statfs};
use crate::options::{Detail, OpenOptions};
use crate::path::{MAX_PATH_LEN, VfsPath};
use crate::watch::{WatchGuard, WatchSink};

use super::file::ZipFile;
use super::{Inner, ZipFs};

impl PathIndex for Inner {
    #[inline]
    fn find(&self, path: &VfsPath) -> BackendResult<Option<u32>> {
        Ok(self.number(path))
    }

    fn kind(&self, number: u32) -> BackendResult<FileType> {
        Ok(self.nodes.get(number).kind)
    }
}

impl Inner {
    pub(super) fn metadata(&self, number: u32) -> Metadata {
        let node = self.nodes.get(number);
        let mut metadata = Metadata::new(node.kind, node.mode);
        metadata.id = FileId(u64::from(number) + 1);
        metadata.len = node.data.len;
        let stored = node.data.stored_len;
        metadata.allocated = stored.checked_next_multiple_of(512).unwrap_or(stored);
        metadata.modified = node.modified;
        metadata.accessed = node.modified;
        metadata.changed = node.modified;
        metadata
    }
}

impl FileSystem for ZipFs {
    fn capabilities(&self) -> Capabilities {
        Capabilities::MODES | Capabilities::STABLE_IDS | Capabilities::IMMUTABLE
    }

    #[inline]
    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        let inner = &*self.inner;
        if !options.is_valid() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if options.needs_writable() {
            return inner.refuse(path);
        }
        let number = inner.resolve(path)?;
        if options.reference {
            return Err(ErrorKind::Unsupported.into());
        }
        match inner.nodes.get(number).kind {
            FileType::Directory => Err(ErrorKind::IsADirectory.into()),
            FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
            _ => {
                let contents = inner.contents(number)?;
                let file = ImmutableFile(ZipFile { zip: self.inner.share(), contents });
                Opened::new(Box::new(file), false, options)
            }
        }
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        let inner = &*self.inner;
        Ok(inner.metadata(inner.resolve(path)?))
    }

    #[inline]
    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        let inner = &*self.inner;
        if inner.number(path).is_some() {
            return Ok(true);
        }
        match inner.has_symlinks && inner.nearest_ancestor(path)? == FileType::Symlink {
            true => Err(ErrorKind::SymlinkInPath.into()),
            false => Ok(false),
        }
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let inner = &*self.inner;
        let directory = inner.nodes.get(inner.resolve(path)?);
        if directory.kind != FileType::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        for &number in &directory.children {
            let file_type = inner.nodes.get(number).kind;
            let name = inner.nodes.path(number).file_name().unwrap_or_default();
            let id = FileId(u64::from(number) + 1);
            let known = (detail == Detail::Metadata).then(|| inner.metadata(number));
            let entry = DirEntry { name, file_type, id, metadata: known.as_ref() };
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        let inner = &*self.inner;
        let number = inner.resolve(path)?;
        let node = inner.nodes.get(number);
        if node.kind != FileType::Symlink {
            return Err(ErrorKind::InvalidArgument.into());
        }
        let contents = inner.contents(number)?;
        let len = usize::try_from(contents.data.len).ok().filter(|&len| len <= MAX_PATH_LEN);
        let Some(len) = len else {
            let reason = "the target of the symbolic link is too long";
            return Err(BackendError::new(ErrorKind::Corrupt, reason));
        };
        let mut target = vec![0; len];
        if len > 0 {
            inner.read(&contents, &mut target, 0)?;
        }
        Ok(target)
    }

    fn xattr(&self, path: &VfsPath, _: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.resolve(path)?;
        Err(ErrorKind::NoAttribute.into())
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.resolve(path)?;
        Ok(Vec::new())
    }

    refuse_changes!(|self, path| self.inner.refuse(path));

    fn statfs(&self) -> BackendResult<Statfs> {
        Ok(Statfs {
            total: self.inner.source_len,
            files: self.inner.nodes.all.len() as u64,
            block_size: 4096,
            ..Statfs::default()
        })
    }

    fn sync(&self) -> BackendResult<()> {
        Ok(())
    }

    /// # Errors
    /// Nothing ever changes, so there is nothing to watch: `Unsupported`.
    fn watch(&self, _: &VfsPath, _: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        Err(ErrorKind::Unsupported.into())
    }
}
