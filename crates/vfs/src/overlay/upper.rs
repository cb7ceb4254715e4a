//! Changes of one name in the upper layer, where a whiteout may stand or be needed.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata};
use crate::options::{NewNode, NodeKind, RenameMode};
use crate::path::VfsPath;

use super::Overlay;
use super::copy_up::temporary_name;
use super::remaps::{Remaps, Target};

impl Overlay {
    pub(super) fn one_name(&self) -> RwLockReadGuard<'_, ()> {
        self.trees.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn whole_trees(&self) -> RwLockWriteGuard<'_, ()> {
        self.trees.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the upper layer itself has at a path.
    pub(super) fn in_upper(&self, path: &VfsPath) -> BackendResult<Option<Metadata>> {
        match self.upper()?.fs.metadata(path) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn has_whiteout(&self, path: &VfsPath) -> BackendResult<bool> {
        Ok(self.in_upper(path)?.is_some_and(|found| found.file_type == FileType::Whiteout))
    }

    /// Makes something new, that no directory is, under a name that does not show: directly,
    /// or beside a whiteout, which it then replaces in one step.
    pub(super) fn place<T>(
        &self,
        path: &VfsPath,
        make: impl FnOnce(&VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        if !self.has_whiteout(path)? {
            return make(path);
        }
        let upper = &*self.upper()?.fs;
        let beside = temporary_name(path.parent().unwrap_or(VfsPath::root()))?;
        let made = make(&beside)?;
        match upper.rename(&beside, path, RenameMode::Replace) {
            Ok(()) => Ok(made),
            Err(error) => {
                // The first error is the one to tell.
                let _ = upper.remove_file(&beside);
                Err(error)
            }
        }
    }

    /// Makes a directory under a name that does not show. Over a whiteout it is opaque.
    pub(super) fn place_directory(
        &self,
        path: &VfsPath,
        node: &NewNode<'_>,
    ) -> BackendResult<Metadata> {
        let upper = &*self.upper()?.fs;
        if !self.has_whiteout(path)? {
            let made = upper.create(path, node)?;
            // A name can be free although a layer below has a directory there: beneath a
            // directory that shadows a file, for one.
            return Ok(made);
        }
        let beside = temporary_name(path.parent().unwrap_or(VfsPath::root()))?;
        let made = upper.create(&beside, node)?;
        let placed = (|| {
            Remaps::store(upper, &beside, &None)?;
            self.remap(|remaps| remaps.insert(path.to_owned(), None));
            upper.rename(&beside, path, RenameMode::Exchange)
        })();
        if let Err(error) = placed {
            self.remap(|remaps| remaps.remove_below(path));
            let _ = upper.remove_dir(&beside);
            return Err(error);
        }
        // The whiteout is at the other name now.
        upper.remove_file(&beside)?;
        Ok(made)
    }

    /// Changes the table of opaque and redirected directories of the upper layer.
    pub(super) fn remap(&self, change: impl Fn(&mut Remaps)) {
        let layer = &self.layers[0];
        layer.remaps.rcu(|remaps| {
            let mut remaps = Remaps::clone(remaps);
            change(&mut remaps);
            remaps
        });
        if !layer.remaps.load().is_empty() {
            layer.any_remaps.store(true, Ordering::Release);
        }
    }

    /// Marks a directory of the upper layer, in the layer and in the table.
    pub(super) fn mark(&self, path: &VfsPath, target: &Target) -> BackendResult<()> {
        Remaps::store(&*self.upper()?.fs, path, target)?;
        self.remap(|remaps| remaps.insert(path.to_owned(), target.clone()));
        Ok(())
    }

    /// Takes away what is no directory. `trees` is held, and the lock of the name unless
    /// `trees` is written.
    pub(super) fn remove_name(&self, path: &VfsPath) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        let found = self.find(path)?;
        if found.metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        if found.layer > 0 {
            self.copy_up_parents(path)?;
            return upper.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop);
        }
        match self.shows_below(path)? {
            true => upper.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop)?,
            false => upper.remove_file(path)?,
        }
        if found.metadata.links <= 1 {
            self.ids.remove(found.metadata.id);
        }
        Ok(())
    }

    /// Takes an empty directory away. The caller holds `trees` for writing.
    pub(super) fn remove_directory(&self, path: &VfsPath) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        let found = self.find(path)?;
        if !found.metadata.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let (layer, id) = (found.layer, found.metadata.id);
        self.must_be_empty(path)?;
        if layer > 0 {
            self.copy_up_parents(path)?;
            return upper.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop);
        }
        let lower_shows = self.shows_below(path)?;
        self.clear_whiteouts(path, lower_shows)?;
        match lower_shows {
            true => upper.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop)?,
            false => upper.remove_dir(path)?,
        }
        self.remap(|remaps| remaps.remove_below(path));
        self.ids.remove(id);
        Ok(())
    }

    /// Whether the name itself would show from the layers below, were the upper's gone: its
    /// own mark does not matter, its parent's does.
    pub(super) fn shows_below(&self, path: &VfsPath) -> BackendResult<bool> {
        let Some((parent, name)) = path.split_last() else { return Ok(true) };
        let at = self.layers[0].below(Cow::Borrowed(parent));
        let Some(at) = at else { return Ok(false) };
        let at = at.join_name(name)?;
        self.shows_from(1, &at)
    }

    pub(super) fn must_be_empty(&self, path: &VfsPath) -> BackendResult<()> {
        let mut empty = true;
        self.read_dir(path, &mut |_| {
            empty = false;
            ControlFlow::Break(())
        })?;
        if empty { Ok(()) } else { Err(ErrorKind::DirectoryNotEmpty.into()) }
    }

    /// Removes the whiteouts in an upper directory that shows as empty, having made it opaque,
    /// so that nothing lower shows in between.
    pub(super) fn clear_whiteouts(&self, path: &VfsPath, merges: bool) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        let mut whiteouts = Vec::new();
        upper.read_dir(path, &mut |entry| {
            if entry.file_type == FileType::Whiteout {
                whiteouts.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        if whiteouts.is_empty() {
            return Ok(());
        }
        if merges {
            self.mark(path, &None)?;
        }
        for name in whiteouts {
            upper.remove_file(&path.join_name(&name)?)?;
        }
        Ok(())
    }
}
