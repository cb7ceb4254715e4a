//! Renaming directories: the directory alone moves, and a redirect says where the lower part
//! of its contents is.

use crate::backend::Capabilities;
use crate::error::BackendResult;
use crate::options::RenameMode;
use crate::path::{VfsPath, VfsPathBuf};

use super::State;
use super::lookup::Probe;
use super::remaps::{Remap, move_entries, set_entry};

impl State {
    /// Moves a directory to a name that shows nothing or, when `emptied`, a directory of the
    /// upper layer that shows nothing in it. The caller holds the tree alone.
    pub(super) fn move_dir(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        target_in_upper: bool,
    ) -> BackendResult<()> {
        let upper = self.top();
        self.make_dir(from)?;
        self.make_dir(to.parent().unwrap_or(VfsPath::root()))?;
        let remap = self.remap_at(from, to)?;
        if target_in_upper {
            self.clear_whiteouts(to)?;
        }
        let leaves_whiteout = self.is_covering(from)?;
        let onto_whiteout = matches!(self.probe(to)?, Probe::Missing { whiteout: true });
        self.persist_before(from, remap.as_ref())?;
        if onto_whiteout && leaves_whiteout && self.capabilities.contains(Capabilities::EXCHANGE) {
            // The whiteout of the new name becomes that of the old one.
            upper.rename(from, to, RenameMode::Exchange)?;
        } else if onto_whiteout && !leaves_whiteout {
            self.replace_whiteout(from, to)?;
        } else {
            if onto_whiteout {
                upper.remove_file(to)?;
            }
            let mode = if leaves_whiteout { RenameMode::Whiteout } else { RenameMode::Replace };
            upper.rename(from, to, mode)?;
        }
        self.layers[0].remaps.edit(|table| {
            move_entries(table, from, to, false);
            set_entry(table, to, remap.clone());
        });
        if leaves_whiteout {
            self.copies.count_removal();
        }
        self.persist_after(to, remap.as_ref())
    }

    /// Lets two names change places, at least one of them a directory's, each of them in the
    /// upper layer or a directory. The caller holds the tree alone.
    pub(super) fn exchange_dirs(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        for path in [from, to] {
            match self.find(path)?.is_dir() {
                true => self.make_dir(path)?,
                false => self.make_dir(path.parent().unwrap_or(VfsPath::root()))?,
            }
        }
        let (at_to, at_from) = (self.remap_at(from, to)?, self.remap_at(to, from)?);
        self.persist_before(from, at_to.as_ref())?;
        self.persist_before(to, at_from.as_ref())?;
        self.top().rename(from, to, RenameMode::Exchange)?;
        self.layers[0].remaps.edit(|table| {
            move_entries(table, from, to, true);
            set_entry(table, to, at_to.clone());
            set_entry(table, from, at_from.clone());
        });
        self.copies.count_removal();
        self.persist_after(to, at_to.as_ref())?;
        self.persist_after(from, at_from.as_ref())
    }

    /// What a directory must say of itself at a new name to show the same contents there.
    fn remap_at(&self, directory: &VfsPath, new_name: &VfsPath) -> BackendResult<Option<Remap>> {
        if !self.find(directory)?.is_dir() {
            return Ok(None);
        }
        let natural = self.covered(new_name);
        Ok(match self.lower_dir(directory)? {
            Some(lower) if natural.as_deref() == Some(&*lower) => None,
            Some(lower) => Some(Remap::To(lower)),
            None => self.is_covering(new_name)?.then_some(Remap::Opaque),
        })
    }

    /// The directory of the layers beneath that merges with one of the upper layer.
    fn lower_dir(&self, directory: &VfsPath) -> BackendResult<Option<VfsPathBuf>> {
        let Some(beneath) = self.beneath(directory) else { return Ok(None) };
        match self.probe_from(1, beneath.clone())? {
            Probe::Hit(hit) if hit.is_dir() => Ok(Some(beneath.into_owned())),
            _ => Ok(None),
        }
    }

    /// A remap means the same at the old name, so it is put there before the directory moves:
    /// a crash between the two steps changes nothing.
    fn persist_before(&self, directory: &VfsPath, remap: Option<&Remap>) -> BackendResult<()> {
        match remap {
            Some(_) => self.layers[0].remaps.persist(self.top(), directory, remap),
            None => Ok(()),
        }
    }

    /// One that is no longer needed means the same at the new name, and goes after the move.
    fn persist_after(&self, directory: &VfsPath, remap: Option<&Remap>) -> BackendResult<()> {
        match remap {
            Some(_) => Ok(()),
            None if self.find(directory)?.is_dir() => {
                self.layers[0].remaps.persist(self.top(), directory, None)
            }
            None => Ok(()),
        }
    }
}
