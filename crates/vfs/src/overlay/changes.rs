//! What an overlay's upper layer changed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::backend::{File, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{FileType, Metadata};
use crate::options::{Detail, OpenOptions};
use crate::path::{VfsPath, VfsPathBuf};

use super::lookup::{Hit, Probe};
use super::remaps::{CHANGED, ORIGIN, Remap, read};
use super::{OverlayFs, State};

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
    /// Whether owner, mode or extended attributes differ, where something was there.
    pub attributes: bool,
    /// Whether type, length, contents or target differ, of a modified name.
    pub contents: bool,
}

impl OverlayFs {
    /// Every difference between the overlay and its lower layers alone, sorted by path. A
    /// directory that was added, renamed or deleted is one change; what an added one holds is
    /// reported as well, and of a renamed one what differs from what it held. A directory that
    /// is in the upper layer only because something in it changed is none, nor is a file that
    /// was copied up without a difference. The root counts when its owner, mode or attributes
    /// were changed through the overlay. Costs a walk over the upper layer; large lower trees
    /// cost nothing. Nothing may change the overlay meanwhile: it waits.
    ///
    /// # Errors
    /// What the layers meet; `ReadOnly` for an overlay without an upper layer.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let root = VfsPath::root();
        self.state.upper(root).map_err(|error| error.at("compare", root))?;
        let _alone = self.state.tree.exclusive();
        self.state.changes().map_err(|error| error.at("compare", root))
    }
}

fn len(metadata: &Metadata) -> Option<u64> {
    matches!(metadata.file_type, FileType::File | FileType::Symlink).then_some(metadata.len)
}

/// A directory to compare: where it shows, and what it was in the layers beneath.
struct Pair {
    path: VfsPathBuf,
    /// `None`: nothing, so that all in it is new.
    before: Option<VfsPathBuf>,
    /// Whether it hides what was there without a whiteout for each name.
    hides: bool,
}

impl State {
    fn changes(&self) -> BackendResult<Vec<Change>> {
        let mut changes = Vec::new();
        changes.extend(self.compare_root()?);
        let mut deleted = Vec::new();
        let root = Some(VfsPathBuf::new());
        let mut pending = vec![Pair { path: VfsPathBuf::new(), before: root, hides: false }];
        while let Some(pair) = pending.pop() {
            let mut names = self.upper_names(&pair.path)?;
            if let (true, Some(before)) = (pair.hides, &pair.before) {
                names.extend(self.lower_names(before)?);
            }
            for name in names {
                let name = VfsPath::from_normal(&name);
                let path = pair.path.join(name);
                let before = pair.before.as_ref().map(|before| before.join(name));
                let (change, inside) = self.compare(path, before.clone())?;
                match (change, before) {
                    (Some(change), Some(before)) if change.kind == ChangeKind::Deleted => {
                        deleted.push((before, change));
                    }
                    (change, _) => changes.extend(change),
                }
                pending.extend(inside);
            }
        }
        join_renames(&mut changes, deleted);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    /// The root is in every upper layer, as its maker made it: it differs only when it was
    /// changed through the overlay.
    fn compare_root(&self) -> BackendResult<Option<Change>> {
        let root = VfsPath::root();
        if read(self.top(), root, CHANGED)?.is_none() {
            return Ok(None);
        }
        let Some(old) = self.lower(root)? else { return Ok(None) };
        if self.same_facts(&self.find(root)?, &old)? {
            return Ok(None);
        }
        Ok(Some(Change {
            kind: ChangeKind::Modified,
            path: VfsPathBuf::new(),
            file_type: FileType::Directory,
            old_len: None,
            new_len: None,
            attributes: true,
            contents: false,
        }))
    }

    fn compare(
        &self,
        path: VfsPathBuf,
        before: Option<VfsPathBuf>,
    ) -> BackendResult<(Option<Change>, Option<Pair>)> {
        let now = match self.probe(&path)? {
            Probe::Hit(hit) => Some(hit),
            _ => None,
        };
        let old = match &before {
            Some(before) => self.lower(before)?,
            None => None,
        };
        let Some(now) = now else {
            let change = old.map(|old| Change {
                kind: ChangeKind::Deleted,
                path: path.clone(),
                file_type: old.metadata.file_type,
                old_len: len(&old.metadata),
                new_len: None,
                attributes: false,
                contents: false,
            });
            return Ok((change, None));
        };
        let (file_type, new_len) = (now.file_type(), len(&now.metadata));
        let change = |kind, old: Option<&Hit<'_>>| {
            let old_len = old.and_then(|old| len(&old.metadata));
            let attributes = match old {
                Some(old) => !self.same_facts(&now, old)?,
                None => false,
            };
            let contents = match old {
                Some(old) if kind == ChangeKind::Modified => !self.same_data(&now, old)?,
                _ => false,
            };
            let path = path.clone();
            Ok::<_, BackendError>(Change {
                kind,
                path,
                file_type,
                old_len,
                new_len,
                attributes,
                contents,
            })
        };
        if now.layer > 0 {
            // A lower name that shows: as it was, or in a directory that was.
            return Ok((None, None));
        }
        if let Some(from) = self.came_from(&path, &now)?
            && Some(&from) != before.as_ref()
            && let Some(old) = self.lower(&from)?
            && old.is_dir() == now.is_dir()
            && !self.has_kept_name(&from, &path, &now)?
        {
            let inside = now.is_dir().then(|| Pair {
                path: path.clone(),
                before: Some(from.clone()),
                hides: false,
            });
            return Ok((
                Some(change(ChangeKind::Renamed { from: from.clone() }, Some(&old))?),
                inside,
            ));
        }
        let Some(old) = old else {
            let inside =
                now.is_dir().then(|| Pair { path: path.clone(), before: None, hides: false });
            return Ok((Some(change(ChangeKind::Added, None)?), inside));
        };
        if !now.is_dir() || !old.is_dir() {
            let same = self.is_same(&now, &old)?;
            let inside =
                now.is_dir().then(|| Pair { path: path.clone(), before: None, hides: false });
            let changed = (!same).then(|| change(ChangeKind::Modified, Some(&old)));
            return Ok((changed.transpose()?, inside));
        }
        let hides = self.layers[0].remaps.get(&path).is_some();
        let same = !hides && self.same_facts(&now, &old)?;
        let changed = (!same).then(|| change(ChangeKind::Modified, Some(&old)));
        Ok((changed.transpose()?, Some(Pair { path: path.clone(), before: before.clone(), hides })))
    }

    /// Whether what was beneath at `from` still shows where that is, besides as `now` at `path`:
    /// a second name is no rename.
    fn has_kept_name(&self, from: &VfsPath, path: &VfsPath, now: &Hit<'_>) -> BackendResult<bool> {
        for name in self.layers[0].remaps.unmap(from) {
            if *name != *path
                && let Probe::Hit(hit) = self.probe(&name)?
                && (hit.layer > 0 || hit.metadata.id == now.metadata.id)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the layers beneath the upper one show at a path of theirs.
    pub(super) fn lower<'p>(&self, path: &'p VfsPath) -> BackendResult<Option<Hit<'p>>> {
        match self.probe_from(1, Cow::Borrowed(path))? {
            Probe::Hit(hit) => Ok(Some(hit)),
            _ => Ok(None),
        }
    }

    /// The lower name that something of the upper layer had.
    pub(super) fn came_from(
        &self,
        path: &VfsPath,
        now: &Hit<'_>,
    ) -> BackendResult<Option<VfsPathBuf>> {
        if now.is_dir() {
            return Ok(match self.layers[0].remaps.get(path) {
                Some(Remap::To(from)) => Some(from),
                _ => None,
            });
        }
        if let Some(origin) = self.ids.origin(now.metadata.id) {
            return Ok(Some(origin.path.clone()));
        }
        let kept = read(self.top(), path, ORIGIN)?;
        Ok(kept.and_then(|kept| VfsPath::new(&kept).ok().map(VfsPath::to_owned)))
    }

    pub(super) fn upper_names(&self, directory: &VfsPath) -> BackendResult<BTreeSet<Vec<u8>>> {
        let mut names = BTreeSet::new();
        self.top().read_dir(directory, Detail::Names, &mut |entry| {
            if !self.is_spare(entry.name) {
                names.insert(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    pub(super) fn lower_names(&self, directory: &VfsPath) -> BackendResult<BTreeSet<Vec<u8>>> {
        let mut names = BTreeSet::new();
        let mut next = Some(Cow::Borrowed(directory));
        let mut layer = 1;
        while let Some(path) = next.take() {
            let Some((found, at)) = self.next_part(layer, path)? else { break };
            self.layers[found].fs.read_dir(&at, Detail::Names, &mut |entry| {
                names.insert(entry.name.to_vec());
                ControlFlow::Continue(())
            })?;
            layer = found + 1;
            next = self.layers[found].remaps.map(at);
        }
        Ok(names)
    }

    /// Whether two directories look the same to their users, times aside: those move with what
    /// is in them.
    fn same_facts(&self, now: &Hit<'_>, old: &Hit<'_>) -> BackendResult<bool> {
        Ok(now.metadata.mode == old.metadata.mode
            && now.metadata.owner == old.metadata.owner
            && self.xattrs_to_copy(now)? == self.xattrs_to_copy(old)?)
    }

    fn is_same(&self, now: &Hit<'_>, old: &Hit<'_>) -> BackendResult<bool> {
        // With more links it got another name through the overlay: copies have one.
        Ok(now.metadata.modified == old.metadata.modified
            && now.metadata.links <= 1
            && self.same_facts(now, old)?
            && self.same_data(now, old)?)
    }

    /// Whether two names show the same besides metadata. The names in directories do not count.
    fn same_data(&self, now: &Hit<'_>, old: &Hit<'_>) -> BackendResult<bool> {
        let (new_facts, old_facts) = (&now.metadata, &old.metadata);
        if new_facts.file_type != old_facts.file_type {
            return Ok(false);
        }
        if !now.is_dir() && (new_facts.len != old_facts.len || new_facts.device != old_facts.device)
        {
            return Ok(false);
        }
        let (new_layer, old_layer) = (&*self.layers[now.layer].fs, &*self.layers[old.layer].fs);
        match new_facts.file_type {
            FileType::File => {
                let open = |layer: &dyn FileSystem, path: &VfsPath| {
                    layer.open(path, &OpenOptions::reading())
                };
                let (new, old) = (open(new_layer, &now.path)?, open(old_layer, &old.path)?);
                same_contents(&*new.file, &*old.file)
            }
            FileType::Symlink => {
                Ok(new_layer.read_link(&now.path)? == old_layer.read_link(&old.path)?)
            }
            _ => Ok(true),
        }
    }
}

/// A rename is one change, not also a deletion of what it was beneath; and the name it had can
/// have gone to one name only, the others are new.
fn join_renames(changes: &mut Vec<Change>, deleted: Vec<(VfsPathBuf, Change)>) {
    let mut gone = BTreeSet::new();
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    for change in &mut *changes {
        if let ChangeKind::Renamed { from } = &change.kind
            && !gone.insert(from.clone())
        {
            change.kind = ChangeKind::Added;
            change.old_len = None;
        }
    }
    let stays = deleted.into_iter().filter(|(before, _)| !gone.contains(before));
    changes.extend(stays.map(|(_, change)| change));
}

fn same_contents(one: &dyn File, other: &dyn File) -> BackendResult<bool> {
    let mut pieces = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut at = 0;
    loop {
        let count = one.read_at(&mut pieces.0, at)?;
        let mut read = 0;
        while read < count {
            match other.read_at(&mut pieces.1[read..count], at + read as u64)? {
                0 => return Ok(false),
                more => read += more,
            }
        }
        if count == 0 || pieces.0[..count] != pieces.1[..count] {
            return Ok(count == 0);
        }
        at += count as u64;
    }
}

impl State {
    /// Writes down where a file that is about to be renamed came from: what it was is part of
    /// the report of changes, also after the overlay is opened again.
    pub(super) fn note_origin(&self, path: &VfsPath, hit: &Hit<'_>) -> BackendResult<()> {
        let Some(origin) = self.ids.origin(hit.metadata.id) else { return Ok(()) };
        if self.beneath(path).as_deref() != Some(&*origin.path) {
            return Ok(()); // it was renamed before
        }
        let mode = crate::options::XattrMode::Set;
        match self.top().set_xattr(path, ORIGIN, origin.path.as_bytes(), mode) {
            // Hosts keep no such attributes on links and special files.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::OperationNotPermitted
                        | ErrorKind::PermissionDenied
                        | ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            answer => answer,
        }
    }
}
