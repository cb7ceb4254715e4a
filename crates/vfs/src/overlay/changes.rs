//! What an overlay's upper layer changed.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::metadata::{FileType, Metadata};
use crate::path::{VfsPath, VfsPathBuf};
use crate::{BackendResult, ErrorKind};

use super::remaps::{ORIGIN, attribute};
use super::{Overlay, OverlayFs};

/// How a name differs from what the lower layers alone show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// There was nothing of this name.
    Added,
    /// Contents or metadata differ, or the type.
    Modified,
    /// The name is gone, with all that was below it.
    Deleted,
    /// What had the other name has this one; contents may differ as well.
    Renamed {
        /// The lower name.
        from: VfsPathBuf,
    },
}

/// One difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// To which name.
    pub path: VfsPathBuf,
    /// The type it has now, or had if it is gone.
    pub file_type: FileType,
    /// Length in bytes before, of a file or link that was there.
    pub old_len: Option<u64>,
    /// Length in bytes now, of a file or link that is there.
    pub new_len: Option<u64>,
}

impl OverlayFs {
    /// Every difference between the overlay and its lower layers alone, sorted by path. A
    /// directory that was added, renamed or deleted is one change (what an added one holds is
    /// reported as well). A directory that is in the upper layer only because something in it
    /// changed is none. Costs a walk over the upper layer; large lower trees cost nothing.
    ///
    /// # Errors
    /// What the layers meet; `ReadOnly` for an overlay without an upper layer.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let overlay = &*self.inner;
        let _trees = overlay.whole_trees();
        overlay.changes().map_err(|error| error.at("compare", VfsPath::root()))
    }
}

fn len(metadata: &Metadata) -> Option<u64> {
    matches!(metadata.file_type, FileType::File | FileType::Symlink).then_some(metadata.len)
}

impl Overlay {
    pub(super) fn changes(&self) -> BackendResult<Vec<Change>> {
        let upper = &*self.upper()?.fs;
        let mut changes = Vec::new();
        let mut renamed = Vec::new();
        let mut pending = vec![VfsPathBuf::new()];
        while let Some(directory) = pending.pop() {
            let mut names = Vec::new();
            upper.read_dir(&directory, &mut |entry| {
                names.push((entry.name.to_vec(), entry.file_type));
                ControlFlow::Continue(())
            })?;
            for (name, file_type) in names {
                let path = directory.join_name(&name)?;
                if file_type == FileType::Directory {
                    pending.push(path.clone());
                }
                let change = match file_type {
                    FileType::Whiteout => self.deleted(&path)?,
                    _ => self.added_or_changed(&path)?,
                };
                if let Some(Change { kind: ChangeKind::Renamed { from }, .. }) = &change {
                    renamed.push(from.clone());
                }
                changes.extend(change);
            }
            self.deleted_beneath_opaque(&directory, &mut changes)?;
        }
        // A rename is one change, not also a deletion.
        changes
            .retain(|change| change.kind != ChangeKind::Deleted || !renamed.contains(&change.path));
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    fn deleted(&self, path: &VfsPath) -> BackendResult<Option<Change>> {
        Ok(self.lower_metadata(path)?.map(|old| Change {
            kind: ChangeKind::Deleted,
            path: path.to_owned(),
            file_type: old.file_type,
            old_len: len(&old),
            new_len: None,
        }))
    }

    fn added_or_changed(&self, path: &VfsPath) -> BackendResult<Option<Change>> {
        let upper = &*self.upper()?.fs;
        let new = upper.metadata(path)?;
        let remaps = self.layers[0].remaps.load();
        let redirect = remaps.get(path).cloned().flatten();
        let origin = match new.is_dir() {
            true => redirect,
            false => attribute(upper, path, ORIGIN)?
                .and_then(|origin| VfsPath::new(&origin).ok().map(VfsPath::to_owned)),
        };
        let opaque = new.is_dir() && matches!(remaps.get(path), Some(None));
        let before = self.lower_metadata(path)?;
        if let Some(from) = origin
            && *from != *path
            && let Some(old) = self.lower_metadata(&from)?
            && self.is_gone(&from)?
        {
            let (old_len, new_len) = (len(&old), len(&new));
            let (kind, path) = (ChangeKind::Renamed { from }, path.to_owned());
            return Ok(Some(Change { kind, path, file_type: new.file_type, old_len, new_len }));
        }
        let kind = match &before {
            None => ChangeKind::Added,
            Some(old) if new.is_dir() && old.is_dir() && !opaque && same_facts(old, &new) => {
                return Ok(None);
            }
            Some(_) => ChangeKind::Modified,
        };
        Ok(Some(Change {
            kind,
            path: path.to_owned(),
            file_type: new.file_type,
            old_len: before.as_ref().and_then(len),
            new_len: len(&new),
        }))
    }

    /// Whether a lower name no longer shows as what it was.
    fn is_gone(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.find(path) {
            Ok(found) => Ok(found.layer == 0),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::SymlinkInPath => {
                    Ok(true)
                }
                _ => Err(error),
            },
        }
    }

    /// An opaque or redirected directory hides what the lower one of its path held, without a
    /// whiteout for each.
    fn deleted_beneath_opaque(
        &self,
        directory: &VfsPath,
        changes: &mut Vec<Change>,
    ) -> BackendResult<()> {
        if self.layers[0].remaps.load().get(directory).is_none() {
            return Ok(());
        }
        for name in self.lower_names(directory)? {
            let path = directory.join_name(&name)?;
            if self.is_hidden(&path)? {
                changes.extend(self.deleted(&path)?);
            }
        }
        Ok(())
    }

    fn is_hidden(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.find(path) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Whether two directories look the same to their users, times aside.
fn same_facts(old: &Metadata, new: &Metadata) -> bool {
    old.mode == new.mode && old.owner == new.owner
}
