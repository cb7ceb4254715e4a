//! Making names.

use std::sync::atomic::Ordering;

use crate::backend::{Capabilities, FileSystem, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata};
use crate::options::{NewNode, NodeKind, OpenOptions, RenameMode};
use crate::path::{VfsPath, VfsPathBuf};
use crate::watch::WatchKind;

use super::State;
use super::copy_up::Contents;
use super::lookup::Probe;
use super::remaps::{Remap, set_entry};

/// Makes a node that is no whiteout. To some layers character device 0:0 is a whiteout:
/// refused there, so that no file of a user hides another.
pub(super) fn create_node(
    layer: &dyn FileSystem,
    path: &VfsPath,
    node: &NewNode<'_>,
) -> BackendResult<Metadata> {
    let made = layer.create(path, node)?;
    if made.file_type == FileType::Whiteout {
        layer.remove_file(path)?;
        return Err(ErrorKind::OperationNotPermitted.into());
    }
    Ok(made)
}

impl State {
    pub(super) fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        self.upper(path)?;
        if node.kind == NodeKind::Whiteout {
            // Whiteouts are the overlay's own.
            let _shared = self.tree.shared();
            self.check_parent(path)?;
            return Err(ErrorKind::Unsupported.into());
        }
        if path.is_root() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let made = match node.kind {
            NodeKind::Directory => match self.create_dir(path, node)? {
                Some(made) => made,
                None => self.create_opaque_dir(path, node)?,
            },
            _ => self.make(path, |at| create_node(self.top(), at, node))?,
        };
        self.ids.forget(made.id);
        self.watches.report(WatchKind::Created, path);
        Ok(self.shown(0, made))
    }

    /// Makes a name that is no directory's by `make`, in one step also where a whiteout has it.
    /// Callers hold no lock.
    pub(super) fn make<T>(
        &self,
        path: &VfsPath,
        make: impl Fn(&VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        let _shared = self.tree.shared();
        self.check_parent(path)?;
        if let Probe::Hit(_) = self.probe(path)? {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.make_dir(path.parent().unwrap_or(VfsPath::root()))?;
        let _name = self.names.lock(path);
        match self.probe(path)? {
            Probe::Hit(_) => Err(ErrorKind::AlreadyExists.into()),
            Probe::Missing { whiteout: true } => {
                let spare = self.spare(path);
                let made = make(&spare)?;
                match self.top().rename(&spare, path, RenameMode::Replace) {
                    Ok(_) => Ok(made),
                    Err(error) => {
                        let _ = self.top().remove_file(&spare);
                        Err(error)
                    }
                }
            }
            _ => make(path),
        }
    }

    /// Makes a directory where the upper layer has nothing; `None` where it has a whiteout.
    fn create_dir(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Option<Metadata>> {
        let _shared = self.tree.shared();
        self.check_parent(path)?;
        match self.probe(path)? {
            Probe::Hit(_) => return Err(ErrorKind::AlreadyExists.into()),
            Probe::Missing { whiteout: true } => return Ok(None),
            _ => {}
        }
        self.make_dir(path.parent().unwrap_or(VfsPath::root()))?;
        let _name = self.names.lock(path);
        match self.probe(path)? {
            Probe::Hit(_) => Err(ErrorKind::AlreadyExists.into()),
            Probe::Missing { whiteout: true } => Ok(None),
            _ => self.top().create(path, node).map(Some),
        }
    }

    /// Makes a directory in the place of a whiteout: it must not merge with what the whiteout
    /// hides.
    fn create_opaque_dir(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        let _alone = self.tree.exclusive();
        self.check_parent(path)?;
        let whiteout = match self.probe(path)? {
            Probe::Hit(_) => return Err(ErrorKind::AlreadyExists.into()),
            Probe::Missing { whiteout } => whiteout,
            Probe::Blocked => false,
        };
        if !whiteout {
            return self.top().create(path, node);
        }
        let spare = self.spare(path);
        let made = self.top().create(&spare, node)?;
        let remaps = &self.layers[0].remaps;
        let opaque = self.is_covering(path)?.then_some(Remap::Opaque);
        remaps
            .persist(self.top(), &spare, opaque.as_ref())
            .and_then(|()| self.replace_whiteout(&spare, path))
            .inspect_err(|_| drop(self.top().remove_dir(&spare)))?;
        if opaque.is_some() {
            remaps.edit(|table| set_entry(table, path, opaque));
        }
        Ok(made)
    }

    /// Renames a directory onto a whiteout, which only changing places can do in one step.
    pub(super) fn replace_whiteout(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        let upper = self.top();
        if self.capabilities.contains(Capabilities::EXCHANGE) {
            upper.rename(from, to, RenameMode::Exchange)?;
            return upper.remove_file(from);
        }
        upper.remove_file(to)?;
        upper.rename(from, to, RenameMode::Replace).map(drop)
    }

    /// A regular file, which must not be there yet.
    pub(super) fn create_file(
        &self,
        path: &VfsPath,
        options: &OpenOptions,
    ) -> BackendResult<Opened> {
        let options = OpenOptions { create: false, create_new: true, truncate: false, ..*options };
        let opened = self.make(path, |at| self.top().open(at, &options))?;
        if self.ids.any() {
            let id = match &opened.metadata {
                Some(metadata) => metadata.id,
                None => opened.file.metadata()?.id,
            };
            self.ids.forget(id);
        }
        self.watches.report(WatchKind::Created, path);
        Ok(opened)
    }

    pub(super) fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        self.upper(from)?;
        self.needs(Capabilities::HARD_LINKS)?;
        {
            let _shared = self.tree.shared();
            self.check_parent(from)?;
            self.check_parent(to)?;
        }
        let source = self.lookup(from)?;
        if source.is_dir() {
            return Err(ErrorKind::OperationNotPermitted.into());
        }
        if to.is_root() || self.lookup_any(to)?.is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if source.layer > 0 {
            self.copy_up(from, Contents::All)?;
        }
        let linked = self.make(to, |at| self.top().link(from, at))?;
        self.watches.report(WatchKind::Created, to);
        Ok(self.shown(0, linked))
    }

    /// A name for something that is not yet ready for its own, in the same directory.
    pub(super) fn spare(&self, path: &VfsPath) -> VfsPathBuf {
        self.spare_in(path.parent().unwrap_or(VfsPath::root()))
    }

    pub(super) fn spare_in(&self, directory: &VfsPath) -> VfsPathBuf {
        let number = self.next_spare.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", self.spare_prefix());
        directory.join(VfsPath::from_normal(name.as_bytes()))
    }

    fn spare_prefix(&self) -> String {
        format!(".stratafs-{:016x}-", self.token)
    }

    /// Whether a name of the upper layer is one of this overlay's spare ones.
    pub(super) fn is_spare(&self, name: &[u8]) -> bool {
        name.starts_with(b".stratafs-") && name.starts_with(self.spare_prefix().as_bytes())
    }
}
