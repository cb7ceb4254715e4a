//! Removing names, and the whiteouts this leaves.

use std::ops::ControlFlow;

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::FileType;
use crate::options::{Detail, NewNode, NodeKind};
use crate::path::VfsPath;
use crate::watch::WatchKind;

use super::State;
use super::remaps::{Remap, set_entry};

impl State {
    pub(super) fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        let upper = self.upper(path)?;
        let not_a_dir = |file_type| match file_type {
            FileType::Directory => Err(BackendError::from(ErrorKind::IsADirectory)),
            _ => Ok(()),
        };
        {
            let _shared = self.tree.shared();
            let hit = self.find(path)?;
            not_a_dir(hit.file_type())?;
            if hit.layer > 0 {
                self.make_dir(path.parent().unwrap_or(VfsPath::root()))?;
            }
            let _name = self.names.lock(path);
            let hit = self.find(path)?;
            not_a_dir(hit.file_type())?;
            self.note_lower(path, &hit);
            if self.is_covering(path)? {
                self.put_whiteout(path)?;
            } else {
                upper.remove_file(path)?;
            }
        }
        self.watches.report(WatchKind::Removed, path);
        Ok(())
    }

    /// Hides a lower name, in the place of whatever the upper layer has there.
    fn put_whiteout(&self, path: &VfsPath) -> BackendResult<()> {
        self.top().create(path, &NewNode::new(NodeKind::Whiteout))?;
        self.copies.count_removal();
        Ok(())
    }

    pub(super) fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        let upper = self.upper(path)?;
        if path.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        {
            let _alone = self.tree.exclusive();
            let hit = self.find(path)?;
            if !hit.is_dir() {
                return Err(ErrorKind::NotADirectory.into());
            }
            self.must_be_empty(path)?;
            self.note_lower(path, &hit);
            if hit.layer == 0 {
                self.clear_whiteouts(path)?;
            }
            if self.is_covering(path)? {
                self.make_dir(path.parent().unwrap_or(VfsPath::root()))?;
                self.put_whiteout(path)?;
            } else {
                upper.remove_dir(path)?;
            }
            self.layers[0].remaps.forget(path);
        }
        self.watches.report(WatchKind::Removed, path);
        Ok(())
    }

    /// Makes a directory of the upper layer that looks empty really empty. It becomes opaque
    /// first, so that nothing reappears in it whatever happens then.
    pub(super) fn clear_whiteouts(&self, path: &VfsPath) -> BackendResult<()> {
        let upper = self.top();
        let mut names = Vec::new();
        upper.read_dir(path, Detail::Names, &mut |entry| {
            if entry.file_type == FileType::Whiteout {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        if names.is_empty() {
            return Ok(());
        }
        let remaps = &self.layers[0].remaps;
        if remaps.get(path) != Some(Remap::Opaque) {
            remaps.persist(upper, path, Some(&Remap::Opaque))?;
            remaps.edit(|table| set_entry(table, path, Some(Remap::Opaque)));
        }
        for name in names {
            remove_if_there(upper, &path.join(VfsPath::from_normal(&name)))?;
        }
        Ok(())
    }
}

fn remove_if_there(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<()> {
    match fs.remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
