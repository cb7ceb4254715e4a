//! Changing metadata and extended attributes.

use crate::error::{BackendResult, ErrorKind};
use crate::metadata::MetadataChange;
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
    ) -> BackendResult<()> {
        self.upper(path)?;
        if change.is_empty() {
            return self.lookup(path).map(drop);
        }
        self.changing(path, || self.top().set_metadata(path, change))
    }

    /// Calls the upper layer, which has the file by then.
    fn changing(
        &self,
        path: &VfsPath,
        change: impl Fn() -> BackendResult<()>,
    ) -> BackendResult<()> {
        loop {
            if self.lookup(path)?.layer > 0 {
                self.copy_up(path, Contents::All)?;
            }
            {
                // What the path shows may have changed: another lower file, or a whiteout.
                let _shared = self.tree.shared();
                let _name = self.names.lock(path);
                if self.find(path)?.layer > 0 {
                    continue;
                }
                self.mark_root(path)?;
                change()?;
            }
            self.watches.report(WatchKind::Metadata, path);
            return Ok(());
        }
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
        let mut names = self.reading(path, |fs, path| fs.xattrs(path))?;
        names.retain(|name| !name.starts_with(NAMESPACE));
        Ok(names)
    }

    pub(super) fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.upper(path)?;
        self.not_reserved(path, name)?;
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
        self.changing(path, || self.top().set_xattr(path, name, value, mode))
    }

    pub(super) fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.upper(path)?;
        self.not_reserved(path, name)?;
        self.xattr(path, name)?;
        self.changing(path, || self.top().remove_xattr(path, name))
    }

    fn not_reserved(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        if name.starts_with(NAMESPACE) {
            self.lookup(path)?;
            return Err(ErrorKind::OperationNotPermitted.into());
        }
        Ok(())
    }
}
