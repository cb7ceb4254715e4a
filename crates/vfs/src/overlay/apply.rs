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
    /// target is synced before the second step and after it. A renamed directory is renamed
    /// when `target` is the very lower layer and the only one, and its host lets it move; else
    /// it is copied whole. Nothing may change the overlay meanwhile.
    ///
    /// Where others changed the lower layers meanwhile ([`conflicts`](Self::conflicts)) nothing
    /// is applied.
    ///
    /// # Errors
    /// `Conflict`, with [`Conflicts`](crate::Conflicts) as its source and nothing changed. What the layers or the target meet, with the path. An error in the first step changes
    /// nothing; one in the second leaves a part done, and the rest in the directory that the
    /// error's cause names; one after it says that all changes are in place.
    pub fn apply(&self, target: &dyn FileSystem) -> Result<()> {
        self.apply_with(target, &|_| ())
    }

    /// As [`apply`](Self::apply); `progress` is told after each file how many bytes of contents
    /// are written so far.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_with(&self, target: &dyn FileSystem, progress: &dyn Fn(u64)) -> Result<()> {
        let changes = self.changes()?;
        self.refuse_conflicts(&changes)?;
        self.apply_changes(target, &changes, progress)
    }

    /// As [`apply_with`](Self::apply_with), whatever others changed: it is overwritten.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), but for `Conflict`.
    pub fn apply_over(&self, target: &dyn FileSystem, progress: &dyn Fn(u64)) -> Result<()> {
        self.apply_changes(target, &self.changes()?, progress)
    }

    fn apply_changes(
        &self,
        target: &dyn FileSystem,
        changes: &[Change],
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let is_lower = match &self.state.layers[..] {
            [_, lower] => std::ptr::addr_eq(&raw const *lower.fs, target),
            _ => false,
        };
        if !self.attempt(target, changes, is_lower, progress)? {
            self.attempt(target, changes, false, progress)?;
        }
        self.state.baseline.end();
        Ok(())
    }

    /// One try; `false`, with the target as it was, when a directory would not move.
    fn attempt(
        &self,
        target: &dyn FileSystem,
        changes: &[Change],
        moving: bool,
        progress: &dyn Fn(u64),
    ) -> Result<bool> {
        let root = VfsPath::root();
        let named = |path: &VfsPath, error: BackendError| error.at("apply", path);
        let staging = self.state.spare_in(root);
        target.create(&staging, &NewNode::directory()).map_err(|e| named(&staging, e))?;
        let left = |(path, error): Failed| {
            // Refused while anything waits there.
            if target.remove_dir(&staging).is_ok() {
                return error.at("apply", &path);
            }
            let rest = format!("what was not applied is in {}", staging.display());
            let reason = match error.cause() {
                Some(cause) => format!("{cause}; {rest}"),
                None => rest,
            };
            BackendError::new(error.kind(), reason).at("apply", &path)
        };
        let mut plan = Plan::new(self, target, &staging, moving, progress);
        let staged =
            plan.make(changes).and_then(|()| target.sync().map_err(|error| named(&staging, error)));
        if let Err(error) = staged {
            // The first error is the one to tell.
            let _ = remove_tree(target, &staging);
            return Err(error);
        }
        if !plan.take_out().map_err(left)? {
            remove_tree(target, &staging).map_err(|error| named(&staging, error))?;
            return Ok(false);
        }
        plan.carry_out().map_err(left)?;
        let late = |path: &VfsPath, error: BackendError| {
            let reason = format!("{error}; all changes are in place");
            BackendError::new(error.kind(), reason).at("apply", path)
        };
        remove_tree(target, &staging).map_err(|error| late(&staging, error))?;
        if let Some(facts) = plan.directories.get(root) {
            plan.finish(root, facts).map_err(|error| late(root, error))?;
        }
        target.sync().map_err(|error| late(root, error))?;
        Ok(true)
    }
}

type Failed = (VfsPathBuf, BackendError);

/// How a name comes to show what it shall.
#[derive(PartialEq, Eq)]
enum Place {
    /// A directory, made unless it is there.
    Directory,
    /// What is staged under this name.
    Staged(VfsPathBuf),
    /// The directory that waits there since it was taken out.
    Moved(VfsPathBuf),
}

/// What to do once everything new is staged.
struct Plan<'a> {
    view: &'a OverlayFs,
    target: &'a dyn FileSystem,
    staging: &'a VfsPath,
    /// Whether renamed directories are moved.
    moving: bool,
    /// Directories to be moved, and where they wait for it.
    moves: Vec<(VfsPathBuf, VfsPathBuf)>,
    /// What renamed files had for a name.
    left: Vec<VfsPathBuf>,
    /// Names to remove, whatever they are; what is in a directory that moves, where it waits.
    remove: BTreeSet<VfsPathBuf>,
    place: BTreeMap<VfsPathBuf, Place>,
    /// Directories whose metadata is set last.
    directories: BTreeMap<VfsPathBuf, Facts>,
    linked: Linked,
    written: u64,
    progress: &'a dyn Fn(u64),
}

impl<'a> Plan<'a> {
    fn new(
        view: &'a OverlayFs,
        target: &'a dyn FileSystem,
        staging: &'a VfsPath,
        moving: bool,
        progress: &'a dyn Fn(u64),
    ) -> Self {
        Plan {
            view,
            target,
            staging,
            moving,
            moves: Vec::new(),
            left: Vec::new(),
            remove: BTreeSet::new(),
            place: BTreeMap::new(),
            directories: BTreeMap::new(),
            linked: Linked::new(),
            written: 0,
            progress,
        }
    }

    fn make(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes {
            self.add(change).map_err(|error| error.at("apply", &change.path))?;
        }
        for from in std::mem::take(&mut self.left) {
            // In a directory that moves it moves along, and goes where it then is.
            let within = |(dir, waiting): &(VfsPathBuf, VfsPathBuf)| {
                Some((dir.len(), waiting.join(from.strip_prefix(dir)?)))
            };
            let moved = self.moves.iter().filter_map(within).max_by_key(|(len, _)| *len);
            self.remove.insert(moved.map_or(from, |(_, moved)| moved));
        }
        // What goes with all that is below it may show something by now, which stays.
        let moved = self.moves.iter().map(|(from, _)| from.clone());
        for path in self.remove.iter().cloned().chain(moved).collect::<Vec<_>>() {
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
        match &change.kind {
            ChangeKind::Deleted => {
                // Parents sort first: a directory above that moves is known by now.
                let mut above = path.parent();
                while let Some(dir) = above {
                    if let Some(Place::Moved(waiting)) = self.place.get(dir) {
                        let rest = path.strip_prefix(dir).unwrap_or(VfsPath::root());
                        self.remove.insert(waiting.join(rest));
                        return Ok(());
                    }
                    above = dir.parent();
                }
                self.remove.insert(path.clone());
                Ok(())
            }
            ChangeKind::Renamed { from } => {
                self.touch_parent(from)?;
                let is_dir = change.file_type == FileType::Directory;
                if is_dir && self.moving {
                    return self.move_dir(from, path);
                }
                self.left.push(from.clone());
                if is_dir {
                    self.remove.insert(path.clone());
                }
                self.stage(path)
            }
            ChangeKind::Added | ChangeKind::Modified => self.stage(path),
        }
    }

    fn move_dir(&mut self, from: &VfsPath, path: &VfsPath) -> BackendResult<()> {
        let waiting = self.spare();
        self.moves.push((from.to_owned(), waiting.clone()));
        self.place.insert(path.to_owned(), Place::Moved(waiting));
        self.directories.insert(path.to_owned(), Facts::of(self.view, path)?);
        Ok(())
    }

    /// A name in the staging directory; each entry of the plan takes one at most.
    fn spare(&self) -> VfsPathBuf {
        self.staging.join(VfsPath::from_normal(self.place.len().to_string().as_bytes()))
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
            self.place.insert(path.to_owned(), Place::Directory);
            self.directories.insert(path.to_owned(), facts);
            return Ok(());
        }
        let staged = self.spare();
        let several = facts.metadata.links > 1;
        match self.linked.get(&facts.metadata.id).filter(|_| several) {
            Some(first) => drop(self.target.link(first, &staged)?),
            None => {
                copy_one(self.view, path, &facts, self.target, &staged)?;
                self.written += facts.metadata.len;
                (self.progress)(self.written);
            }
        }
        if several {
            self.linked.entry(facts.metadata.id).or_insert_with(|| staged.clone());
        }
        self.place.insert(path.to_owned(), Place::Staged(staged));
        Ok(())
    }

    fn stage_all(&mut self, path: &VfsPath) -> BackendResult<()> {
        let mut pending = vec![path.to_owned()];
        while let Some(path) = pending.pop() {
            self.stage(&path)?;
            if self.place.get(&path) == Some(&Place::Directory) {
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
            Err(error)
                if is_refusal(&error)
                    && matches!(self.place.get(path), None | Some(Place::Moved(_))) =>
            {
                Ok(())
            }
            answer => answer,
        }
    }

    /// Takes the directories that move out of the way. `false` when one does not move: then all
    /// are back where they were.
    fn take_out(&mut self) -> std::result::Result<bool, Failed> {
        // One inside of another goes first.
        self.moves.sort_by(|a, b| b.cmp(a));
        let rename = |from: &VfsPath, to: &VfsPath| {
            let moved = self.target.rename(from, to, RenameMode::Replace);
            moved.map_err(|error| (from.to_owned(), error))
        };
        for (nth, (from, waiting)) in self.moves.iter().enumerate() {
            if rename(from, waiting).is_err() {
                for (from, waiting) in self.moves[..nth].iter().rev() {
                    rename(waiting, from)?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn carry_out(&self) -> std::result::Result<(), Failed> {
        for path in &self.remove {
            remove_tree(self.target, path).map_err(|error| (path.clone(), error))?;
        }
        // Parents sort before what is below them.
        for (path, place) in &self.place {
            self.put(path, place).map_err(|error| (path.clone(), error))?;
        }
        for (path, facts) in self.directories.iter().rev() {
            self.finish(path, facts).map_err(|error| (path.clone(), error))?;
        }
        Ok(())
    }

    fn put(&self, path: &VfsPath, place: &Place) -> BackendResult<()> {
        let target = self.target;
        let there = match target.metadata(path) {
            Ok(there) => Some(there.is_dir()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match (place, there) {
            (Place::Directory, Some(true)) => Ok(()),
            (Place::Directory, _) => {
                remove_tree(target, path)?;
                target.create(path, &NewNode::directory()).map(drop)
            }
            (Place::Staged(staged), there) => {
                if there == Some(true) {
                    remove_tree(target, path)?;
                }
                target.rename(staged, path, RenameMode::Replace).map(drop)
            }
            (Place::Moved(waiting), _) => {
                remove_tree(target, path)?;
                target.rename(waiting, path, RenameMode::Replace).map(drop)
            }
        }
    }
}
