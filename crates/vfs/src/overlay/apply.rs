//! Writing an overlay's changes back to where its lower layer came from.

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::FileType;
use crate::options::{NewNode, NodeKind, OpenOptions, RenameMode, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};

use super::changes::{Change, ChangeKind};
use super::copy_up::{all_of, copy_contents, temporary_name};
use super::{Overlay, OverlayFs};

impl OverlayFs {
    /// Makes `target` look like the overlay. `target` is the lower layer's own file system,
    /// opened writable.
    ///
    /// Everything new is first written to a directory beside the rest of the target, named
    /// `.strata-` and sixteen digits, so that a full disk or another error on the way leaves
    /// the target as it was. Then names are removed and put in place, directories first. The
    /// target is synced before the second step and after it. Nothing may change the overlay
    /// meanwhile.
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
        let named = |path: &VfsPath, error: BackendError| error.at("apply", path);
        let staging = temporary_name(VfsPath::root()).map_err(|e| named(VfsPath::root(), e))?;
        target.create(&staging, &NewNode::directory()).map_err(|e| named(&staging, e))?;
        let whole = (|| {
            let plan = self.inner.stage(&changes, target, &staging)?;
            target.sync().map_err(|error| named(&staging, error))?;
            Ok(plan)
        })();
        let plan = whole.inspect_err(|_| {
            // The first error is the one to tell.
            let _ = remove_tree(target, &staging);
        })?;
        let left = |path: &VfsPath, error: BackendError| {
            let kind = error.kind();
            let reason = format!("{error}; what was not applied is in {}", staging.display());
            BackendError::new(kind, reason).at("apply", path)
        };
        for path in &plan.remove {
            remove_tree(target, path).map_err(|error| left(path, error))?;
        }
        for step in &plan.place {
            step.carry_out(target).map_err(|error| left(&step.to, error))?;
        }
        for path in plan.directories.iter().rev() {
            copy_facts(self, path, target, path).map_err(|error| left(path, error))?;
        }
        remove_tree(target, &staging).map_err(|error| left(&staging, error))?;
        target.sync().map_err(|error| named(VfsPath::root(), error))
    }

    /// Copies what the upper layer holds to an empty directory of `target`: a native directory
    /// then serves as the upper layer of a later overlay, whiteouts and marks included.
    ///
    /// # Errors
    /// What the layers or the target meet; `ReadOnly` for an overlay without an upper layer.
    pub fn keep(&self, target: &dyn FileSystem) -> Result<()> {
        let root = VfsPath::root();
        let overlay = &*self.inner;
        let _trees = overlay.whole_trees();
        let upper = &*overlay.upper().map_err(|error| error.at("keep", root))?.fs;
        copy_tree(upper, root, target, root)
    }
}

/// What to do once everything new is staged.
#[derive(Default)]
struct Plan {
    /// Names to remove, whatever they are.
    remove: Vec<VfsPathBuf>,
    place: Vec<Step>,
    /// Directories whose metadata is set last, parents first.
    directories: Vec<VfsPathBuf>,
}

struct Step {
    /// Where the staged file is; `None` for a directory to be made.
    from: Option<VfsPathBuf>,
    to: VfsPathBuf,
}

impl Step {
    fn carry_out(&self, target: &dyn FileSystem) -> BackendResult<()> {
        match &self.from {
            Some(from) => target.rename(from, &self.to, RenameMode::Replace),
            None => match target.create(&self.to, &NewNode::directory()) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                answer => answer.map(drop),
            },
        }
    }
}

impl Overlay {
    fn stage(
        &self,
        changes: &[Change],
        target: &dyn FileSystem,
        staging: &VfsPath,
    ) -> Result<Plan> {
        let mut plan = Plan::default();
        // Names of one file are staged once and linked.
        let mut linked = std::collections::HashMap::new();
        for change in changes {
            let path = &change.path;
            let there = target.metadata(path).ok();
            match &change.kind {
                ChangeKind::Deleted => {
                    plan.remove.push(path.clone());
                    continue;
                }
                ChangeKind::Renamed { from } => plan.remove.push(from.clone()),
                ChangeKind::Added | ChangeKind::Modified => {}
            }
            let is_dir = change.file_type == FileType::Directory;
            if there.is_some_and(|there| there.is_dir() != is_dir) {
                plan.remove.push(path.clone());
            }
            if !is_dir {
                self.stage_one(path, target, staging, &mut plan, &mut linked)
                    .map_err(|error| error.at("apply", path))?;
                continue;
            }
            plan.place.push(Step { from: None, to: path.clone() });
            plan.directories.push(path.clone());
            // What an added directory holds is in the list; what a renamed or opaque one shows
            // may come from lower layers, which is not.
            if let ChangeKind::Renamed { .. } = change.kind {
                self.stage_below(path, changes, target, staging, &mut plan, &mut linked)
                    .map_err(|error| error.at("apply", path))?;
            }
        }
        Ok(plan)
    }

    /// Stages everything below a renamed directory that is no change of its own.
    fn stage_below(
        &self,
        directory: &VfsPath,
        changes: &[Change],
        target: &dyn FileSystem,
        staging: &VfsPath,
        plan: &mut Plan,
        linked: &mut Linked,
    ) -> BackendResult<()> {
        let mut pending = vec![directory.to_owned()];
        while let Some(directory) = pending.pop() {
            let mut entries = Vec::new();
            self.read_dir(&directory, &mut |entry| {
                entries.push((entry.name.to_vec(), entry.file_type));
                std::ops::ControlFlow::Continue(())
            })?;
            for (name, file_type) in entries {
                let path = directory.join_name(&name)?;
                let listed = changes.binary_search_by(|change| change.path.cmp(&path)).is_ok();
                if file_type == FileType::Directory {
                    if !listed {
                        plan.place.push(Step { from: None, to: path.clone() });
                        plan.directories.push(path.clone());
                        pending.push(path);
                    }
                } else if !listed {
                    self.stage_one(&path, target, staging, plan, linked)?;
                }
            }
        }
        Ok(())
    }

    fn stage_one(
        &self,
        path: &VfsPath,
        target: &dyn FileSystem,
        staging: &VfsPath,
        plan: &mut Plan,
        linked: &mut Linked,
    ) -> BackendResult<()> {
        let place = staging.join_name(plan.place.len().to_string().as_bytes())?;
        let found = self.find(path)?;
        let source = &*self.layers[found.layer].fs;
        let id = self.ids.shown(found.layer, found.metadata.id);
        let first = linked.get(&id).filter(|_| found.metadata.links > 1);
        match first {
            Some(first) => target.link(first, &place)?,
            None => copy_one(source, &found.at, target, &place)?,
        }
        if found.metadata.links > 1 {
            linked.entry(id).or_insert_with(|| place.clone());
        }
        plan.place.push(Step { from: Some(place), to: path.to_owned() });
        Ok(())
    }
}

type Linked = std::collections::HashMap<crate::metadata::FileId, VfsPathBuf>;

/// Copies one file that is no directory, with everything known of it.
fn copy_one(
    from: &dyn FileSystem,
    source: &VfsPath,
    to: &dyn FileSystem,
    path: &VfsPath,
) -> BackendResult<()> {
    let metadata = from.metadata(source)?;
    let target;
    let kind = match metadata.file_type {
        FileType::File => {
            let options = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(metadata.mode)
                .owner(metadata.owner);
            let copy = to.open(path, &options)?;
            copy_contents(&*from.open(source, &OpenOptions::reading())?, &*copy, metadata.len)?;
            return copy_facts(from, source, to, path);
        }
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => {
            target = from.read_link(source)?;
            NodeKind::Symlink(&target)
        }
        FileType::Fifo => NodeKind::Fifo,
        FileType::Socket => NodeKind::Socket,
        FileType::CharDevice => NodeKind::CharDevice(metadata.device),
        FileType::BlockDevice => NodeKind::BlockDevice(metadata.device),
        FileType::Whiteout => return to.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop),
    };
    to.create(path, &NewNode { kind, mode: metadata.mode, owner: Some(metadata.owner) })?;
    copy_facts(from, source, to, path)
}

/// Copies attributes, owner, mode and times.
fn copy_facts(
    from: &dyn FileSystem,
    source: &VfsPath,
    to: &dyn FileSystem,
    path: &VfsPath,
) -> BackendResult<()> {
    for name in from.xattrs(source)? {
        let value = from.xattr(source, &name)?;
        match to.set_xattr(path, &name, &value, XattrMode::Set) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::OperationNotPermitted
                        | ErrorKind::PermissionDenied
                        | ErrorKind::Unsupported
                ) => {}
            answer => answer?,
        }
    }
    let all = all_of(&from.metadata(source)?);
    match to.set_metadata(path, &all) {
        // Giving files away is for the privileged; the rest can still be kept.
        Err(error) if error.kind() == ErrorKind::OperationNotPermitted => {
            to.set_metadata(path, &crate::MetadataChange { user: None, group: None, ..all })
        }
        answer => answer,
    }
}

/// Copies everything below one directory to another that is empty, names of one file as links.
fn copy_tree(
    from: &dyn FileSystem,
    base: &VfsPath,
    to: &dyn FileSystem,
    target: &VfsPath,
) -> Result<()> {
    let mut linked = Linked::new();
    let mut directories = Vec::new();
    let mut pending = vec![base.to_owned()];
    while let Some(directory) = pending.pop() {
        let at = |error: BackendError| error.at("copy", &directory);
        let mut entries = Vec::new();
        from.read_dir(&directory, &mut |entry| {
            entries.push(entry.name.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .map_err(at)?;
        for name in entries {
            let source = directory.join_name(&name).map_err(at)?;
            let rest = source.strip_prefix(base).unwrap_or(VfsPath::root());
            let place = target.join(rest);
            let copied = (|| {
                let metadata = from.metadata(&source)?;
                if let Some(first) = linked.get(&metadata.id).filter(|_| !metadata.is_dir()) {
                    return to.link(first, &place);
                }
                copy_one(from, &source, to, &place)?;
                if metadata.is_dir() {
                    pending.push(source.clone());
                } else if metadata.links > 1 {
                    linked.insert(metadata.id, place.clone());
                }
                Ok(())
            })();
            copied.map_err(|error| error.at("copy", &source))?;
        }
        directories.push(directory);
    }
    // Times of a directory last, when nothing is made in it any more.
    for directory in directories.iter().rev() {
        let rest = directory.strip_prefix(base).unwrap_or(VfsPath::root());
        copy_facts(from, directory, to, &target.join(rest))
            .map_err(|error| error.at("copy", directory))?;
    }
    Ok(())
}

/// Removes whatever a path names; nothing there is fine.
fn remove_tree(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<()> {
    let mut pending = vec![(path.to_owned(), false)];
    while let Some((path, emptied)) = pending.pop() {
        let gone = match fs.metadata(&path) {
            Ok(metadata) if !metadata.is_dir() => fs.remove_file(&path),
            Ok(_) if emptied => fs.remove_dir(&path),
            Ok(_) => {
                pending.push((path.clone(), true));
                let mut children = Vec::new();
                fs.read_dir(&path, &mut |entry| {
                    children.push(entry.name.to_vec());
                    std::ops::ControlFlow::Continue(())
                })?;
                for name in children {
                    pending.push((path.join_name(&name)?, false));
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        match gone {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            answer => answer?,
        }
    }
    Ok(())
}
