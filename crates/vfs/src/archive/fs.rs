//! The archive as a backend.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::kit::{ImmutableFile, PathIndex, refuse_changes};
use crate::metadata::{FileId, FileType, Metadata, Statfs};
use crate::options::{Detail, OpenOptions};
use crate::path::VfsPath;
use crate::watch::{WatchGuard, WatchSink};

use super::ArchiveFs;
use super::file::ArchiveFile;
use super::format::flag;
use super::index::ROOT;
use super::inner::Inner;

impl PathIndex for Inner {
    #[inline]
    fn find(&self, path: &VfsPath) -> BackendResult<Option<u32>> {
        if path.is_root() {
            return Ok(Some(ROOT));
        }
        self.index.find(path)
    }

    fn kind(&self, number: u32) -> BackendResult<FileType> {
        self.index.kind(number, self.index.entry(number)?)
    }
}

impl FileSystem for ArchiveFs {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::MODES
            | Capabilities::OWNERS
            | Capabilities::STABLE_IDS
            | Capabilities::IMMUTABLE;
        if self.inner.header.flags & flag::WHITEOUTS != 0 {
            capabilities |= Capabilities::WHITEOUTS;
        }
        capabilities
    }

    #[inline]
    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        let inner = &*self.inner;
        if options.needs_writable() || !options.is_valid() {
            return match options.is_valid() {
                true => inner.refuse(path),
                false => Err(ErrorKind::InvalidArgument.into()),
            };
        }
        let number = inner.resolve(path)?;
        if options.reference {
            return Err(ErrorKind::Unsupported.into());
        }
        let entry = inner.index.entry(number)?;
        match inner.index.kind(number, entry)? {
            FileType::File => {
                let contents = inner.contents(number, entry)?;
                let file = ImmutableFile(ArchiveFile { archive: self.inner.share(), contents });
                Opened::new(Box::new(file), false, options)
            }
            FileType::Directory => Err(ErrorKind::IsADirectory.into()),
            FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
            FileType::Whiteout => Err(ErrorKind::NotFound.into()),
            FileType::Fifo | FileType::Socket | FileType::CharDevice | FileType::BlockDevice => {
                Err(ErrorKind::InvalidArgument.into())
            }
        }
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        let inner = &*self.inner;
        inner.index.metadata(inner.resolve(path)?)
    }

    #[inline]
    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        let inner = &*self.inner;
        if inner.find(path)?.is_some() {
            return Ok(true);
        }
        // Only a link above the name could make the miss more than a miss.
        if inner.header.flags & flag::SYMLINKS != 0
            && inner.nearest_ancestor(path)? == FileType::Symlink
        {
            return Err(ErrorKind::SymlinkInPath.into());
        }
        Ok(false)
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let inner = &*self.inner;
        let index = &inner.index;
        let directory = inner.resolve(path)?;
        let entry = index.entry(directory)?;
        match index.kind(directory, entry)? {
            FileType::Directory => {}
            _ => return Err(ErrorKind::NotADirectory.into()),
        }
        let mut last: &[u8] = b"";
        for number in index.children(directory, entry)? {
            let child = index.entry(number)?;
            let name = index.child_name(directory, number, child)?;
            // Names in order are names that differ: one listed a thousand times in each of a
            // few directories would make walks of any length.
            if name <= last {
                return Err(index.corrupt(number, "it is not in order"));
            }
            last = name;
            let file_type = index.kind(number, child)?;
            let id = match child.extra() {
                0 => number,
                _ => index.extra(number, child)?.map_or(number, |extra| extra.file),
            };
            let id = FileId(u64::from(id) + 1);
            let known = match detail {
                Detail::Names => None,
                Detail::Metadata => Some(index.metadata(number)?),
            };
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
        let entry = inner.index.entry(number)?;
        match inner.index.kind(number, entry)? {
            FileType::Symlink => Ok(inner.index.link_target(number, entry)?.to_vec()),
            _ => Err(ErrorKind::InvalidArgument.into()),
        }
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        let inner = &*self.inner;
        let number = inner.resolve(path)?;
        let mut found = None;
        if let Some(extra) = inner.index.extra(number, inner.index.entry(number)?)? {
            extra.xattrs(|known, value| {
                if known == name {
                    found = Some(value.to_vec());
                }
                found.is_none()
            })?;
        }
        found.ok_or_else(|| ErrorKind::NoAttribute.into())
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        let inner = &*self.inner;
        let number = inner.resolve(path)?;
        let mut names = Vec::new();
        if let Some(extra) = inner.index.extra(number, inner.index.entry(number)?)? {
            extra.xattrs(|name, _| {
                names.push(name.to_vec());
                true
            })?;
        }
        Ok(names)
    }

    refuse_changes!(|self, path| self.inner.refuse(path));

    fn statfs(&self) -> BackendResult<Statfs> {
        let header = &self.inner.header;
        Ok(Statfs {
            total: header.archive_len,
            files: header.entry_count.into(),
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
