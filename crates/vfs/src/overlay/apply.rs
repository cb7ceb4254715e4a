//! Writing an overlay's changes back to where its lower layer came from.

use std::collections::{BTreeMap, BTreeSet};

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::FileType;
use crate::options::{NewNode, RenameMode};
use crate::path::{VfsPath, VfsPathBuf};

use super::OverlayFs;
use super::changes::{Change, ChangeKind};
use super::copy_up::is_refusal;
use super::keep::{Facts, Linked, copy_one, names_in, remove_tree};

impl OverlayFs {
    /// Makes `target` look like the overlay. `target` is the lower layer's own file system,
    /// opened writable.
    ///
    /// Everything new is first written to a directory beside the rest of the target, named
    /// `.stratafs-` and a number, so that a full disk or another error on the way leaves the
    /// target as it was. Then names are removed and put in place, directories first. The
    /// target is synced before the second step and after it. A renamed directory is copied
    /// whole. Nothing may change the overlay meanwhile.
    ///
    /// # Errors
    /// What the layers or the target meet, with the path. An error in the first step changes
    /// nothing; one in the second leaves a part done, and the rest in the directory that the
    /// error's cause names.
    pub fn apply(&self, target: &dyn FileSystem) -> Result<()> {
        let changes = self.changes()?;
        if changes.is_empty() {
            return Ok(());
        }
        let root = VfsPath::root();
        let named = |path: &VfsPath, error: BackendError| error.at("apply", path);
        let staging = self.state.spare_in(root);
        target.create(&staging, &NewNode::directory()).map_err(|e| named(&staging, e))?;
        let mut plan = Plan::new(self, target, &staging);
        let staged = plan
            .make(&changes)
            .and_then(|()| target.sync().map_err(|error| named(&staging, error)));
        if let Err(error) = staged {
            // The first error is the one to tell.
            let _ = remove_tree(target, &staging);
            return Err(error);
        }
        plan.carry_out().map_err(|(path, error)| {
            let reason = format!("{error}; what was not applied is in {}", staging.display());
            BackendError::new(error.kind(), reason).at("apply", &path)
        })?;
        remove_tree(target, &staging).map_err(|error| named(&staging, error))?;
        if let Some(facts) = plan.directories.get(root) {
            plan.finish(root, facts).map_err(|error| named(root, error))?;
        }
        target.sync().map_err(|error| named(root, error))
    }
}

/// What to do once everything new is staged.
struct Plan<'a> {
    view: &'a OverlayFs,
    target: &'a dyn FileSystem,
    staging: &'a VfsPath,
    /// Names to remove, whatever they are.
    remove: BTreeSet<VfsPathBuf>,
    /// What to put in place, and where it is staged; directories are made.
    place: BTreeMap<VfsPathBuf, Option<VfsPathBuf>>,
    /// Directories whose metadata is set last.
    directories: BTreeMap<VfsPathBuf, Facts>,
    linked: Linked,
}

impl<'a> Plan<'a> {
    fn new(view: &'a OverlayFs, target: &'a dyn FileSystem, staging: &'a VfsPath) -> Self {
        Plan {
            view,
            target,
            staging,
            remove: BTreeSet::new(),
            place: BTreeMap::new(),
            directories: BTreeMap::new(),
            linked: Linked::new(),
        }
    }

    fn make(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes {
            self.add(change).map_err(|error| error.at("apply", &change.path))?;
        }
        // What goes with all that is below it may show something by now, which stays.
        for path in self.remove.clone() {
            match self.view.metadata(&path) {
                Ok(_) => self.stage_all(&path).map_err(|error| error.at("apply", &path))?,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::SymlinkInPath
                    ) => {}
                Err(error) => return Err(error.at("apply", &path)),
            }
        }
        Ok(())
    }

    fn add(&mut self, change: &Change) -> BackendResult<()> {
        let path = &change.path;
        self.touch_parent(path)?;
        let is_dir = change.file_type == FileType::Directory;
        match &change.kind {
            ChangeKind::Deleted => {
                self.remove.insert(path.clone());
                return Ok(());
            }
            ChangeKind::Renamed { from } => {
                self.remove.insert(from.clone());
                self.touch_parent(from)?;
                if is_dir {
                    self.remove.insert(path.clone());
                }
            }
            ChangeKind::Added | ChangeKind::Modified => {
                let there = self.target.metadata(path);
                if there.is_ok_and(|there| there.is_dir() != is_dir) {
                    self.remove.insert(path.clone());
                }
            }
        }
        self.stage(path)
    }

    /// A directory in which names come or go ends up with the times that the overlay shows.
    fn touch_parent(&mut self, path: &VfsPath) -> BackendResult<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        if !self.directories.contains_key(parent) {
            match Facts::of(self.view, parent) {
                Ok(facts) if facts.metadata.is_dir() => {
                    self.directories.insert(parent.to_owned(), facts);
                }
                _ => {} // gone as well
            }
        }
        Ok(())
    }

    /// Stages one name as the overlay shows it, of a directory itself alone.
    fn stage(&mut self, path: &VfsPath) -> BackendResult<()> {
        if self.place.contains_key(path) {
            return Ok(());
        }
        let facts = Facts::of(self.view, path)?;
        if facts.metadata.is_dir() {
            self.place.insert(path.to_owned(), None);
            self.directories.insert(path.to_owned(), facts);
            return Ok(());
        }
        let number = self.place.len().to_string();
        let staged = self.staging.join(VfsPath::from_normal(number.as_bytes()));
        let several = facts.metadata.links > 1;
        match self.linked.get(&facts.metadata.id).filter(|_| several) {
            Some(first) => self.target.link(first, &staged)?,
            None => copy_one(self.view, path, &facts, self.target, &staged)?,
        }
        if several {
            self.linked.entry(facts.metadata.id).or_insert_with(|| staged.clone());
        }
        self.place.insert(path.to_owned(), Some(staged));
        Ok(())
    }

    fn stage_all(&mut self, path: &VfsPath) -> BackendResult<()> {
        let mut pending = vec![path.to_owned()];
        while let Some(path) = pending.pop() {
            self.stage(&path)?;
            if self.place.get(&path) == Some(&None) {
                for name in names_in(self.view, &path)? {
                    pending.push(path.join(VfsPath::from_normal(&name)));
                }
            }
        }
        Ok(())
    }

    /// Gives a directory the metadata that the overlay shows of it. Whoever may change the names
    /// in somebody else's directory may still not set its times: one that is here only because
    /// of its names then keeps the times of this change.
    fn finish(&self, path: &VfsPath, facts: &Facts) -> BackendResult<()> {
        match facts.replace(self.target, path) {
            Err(error) if is_refusal(&error) && !self.place.contains_key(path) => Ok(()),
            answer => answer,
        }
    }

    fn carry_out(&self) -> std::result::Result<(), (VfsPathBuf, BackendError)> {
        let target = self.target;
        for path in &self.remove {
            remove_tree(target, path).map_err(|error| (path.clone(), error))?;
        }
        // Parents sort before what is below them.
        for (path, staged) in &self.place {
            let placed = match staged {
                Some(staged) => target.rename(staged, path, RenameMode::Replace),
                None => match target.create(path, &NewNode::directory()) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                    answer => answer.map(drop),
                },
            };
            placed.map_err(|error| (path.clone(), error))?;
        }
        for (path, facts) in self.directories.iter().rev() {
            self.finish(path, facts).map_err(|error| (path.clone(), error))?;
        }
        Ok(())
    }
}
