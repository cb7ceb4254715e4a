//! Changing metadata and extended attributes.

use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange};
use crate::options::XattrMode;
use crate::path::VfsPath;
use crate::watch::WatchKind;

use super::State;
use super::copy_up::{Contents, is_refusal};
use super::remaps::{CHANGED, NAMESPACE, read};

impl State {
    pub(super) fn set_metadata(
        &self,
        path: &VfsPath,
        change: &MetadataChange,
    ) -> BackendResult<Metadata> {
        self.upper(path)?;
        if change.is_empty() {
            return self.metadata(path);
        }
        let (contents, kind) = match change.len {
            None => (Contents::All, WatchKind::Metadata),
            Some(len) => {
                // What would fail copies nothing, and what is cut to nothing is not copied.
                let hit = self.lookup(path)?;
                match hit.file_type() {
                    FileType::File => {}
                    FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
                    _ => return Err(ErrorKind::InvalidArgument.into()),
                }
                (if len == 0 { Contents::Nothing } else { Contents::All }, WatchKind::Modified)
            }
        };
        let changed =
            self.changing(path, contents, kind, || self.top().set_metadata(path, change))?;
        match changed.is_dir() {
            // Whether it merges takes a look at the layers beneath.
            true => self.metadata(path),
            false => Ok(self.shown(0, changed)),
        }
    }

    /// Calls the upper layer, which has the file by then.
    fn changing<T>(
        &self,
        path: &VfsPath,
        contents: Contents,
        kind: WatchKind,
        change: impl Fn() -> BackendResult<T>,
    ) -> BackendResult<T> {
        loop {
            if self.lookup(path)?.layer > 0 {
                self.copy_up(path, contents)?;
            }
            let changed = {
                // What the path shows may have changed: another lower file, or a whiteout.
                let _shared = self.tree.shared();
                let _name = self.names.lock(path);
                if self.find(path)?.layer > 0 {
                    continue;
                }
                self.mark_root(path)?;
                change()?
            };
            self.watches.report(kind, path);
            return Ok(changed);
        }
    }

    fn changing_attributes(
        &self,
        path: &VfsPath,
        change: impl Fn() -> BackendResult<()>,
    ) -> BackendResult<()> {
        self.changing(path, Contents::All, WatchKind::Metadata, change)
    }

    /// Notes on the upper layer's root that it is no longer only what its maker gave it: the
    /// report of changes compares it from then on.
    fn mark_root(&self, path: &VfsPath) -> BackendResult<()> {
        if !path.is_root() || read(self.top(), path, CHANGED)?.is_some() {
            return Ok(());
        }
        match self.top().set_xattr(path, CHANGED, b"y", XattrMode::Set) {
            Err(error) if !is_refusal(&error) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        if name.starts_with(NAMESPACE) {
            self.lookup(path)?;
            return Err(ErrorKind::NoAttribute.into());
        }
        self.reading(path, |fs, path| fs.xattr(path, name))
    }

    pub(super) fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.reading(path, |fs, path| fs.xattrs(path)).map(shown_xattrs)
    }

    pub(super) fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.upper(path)?;
        self.not_reserved_at(path, name)?;
        // What would fail copies nothing.
        let known = self.reading(path, |fs, path| match fs.xattr(path, name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(false),
            Err(error) => Err(error),
        });
        match (mode, known?) {
            (XattrMode::Create, true) => return Err(ErrorKind::AlreadyExists.into()),
            (XattrMode::Replace, false) => return Err(ErrorKind::NoAttribute.into()),
            _ => {}
        }
        self.changing_attributes(path, || self.top().set_xattr(path, name, value, mode))
    }

    pub(super) fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.upper(path)?;
        self.not_reserved_at(path, name)?;
        self.xattr(path, name)?;
        self.changing_attributes(path, || self.top().remove_xattr(path, name))
    }

    fn not_reserved_at(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        if name.starts_with(NAMESPACE) {
            self.lookup(path)?;
        }
        not_reserved(name)
    }
}

/// The overlay's own attributes are not for its users.
pub(super) fn not_reserved(name: &[u8]) -> BackendResult<()> {
    match name.starts_with(NAMESPACE) {
        true => Err(ErrorKind::OperationNotPermitted.into()),
        false => Ok(()),
    }
}

pub(super) fn shown_xattr(
    name: &[u8],
    read: impl FnOnce() -> BackendResult<Vec<u8>>,
) -> BackendResult<Vec<u8>> {
    match name.starts_with(NAMESPACE) {
        true => Err(ErrorKind::NoAttribute.into()),
        false => read(),
    }
}

pub(super) fn shown_xattrs(mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    names.retain(|name| !name.starts_with(NAMESPACE));
    names
}
