//! What others changed beneath an overlay where the overlay changed something as well.
//!
//! Whatever shows of a lower name is put down when it is copied up or hidden, and compared with
//! what is there when the changes are to be applied. Names that the overlay made are not put
//! down: nothing was there, so that anything there without a record has appeared since.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::Metadata;
use crate::path::{VfsPath, VfsPathBuf};

use super::changes::{Change, ChangeKind};
use super::lookup::{Hit, Probe};
use super::{OverlayFs, State};

/// How a lower name differs from what the overlay's user changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConflictKind {
    /// It is there, and was not.
    Appeared,
    /// It is another file, or its contents or metadata changed.
    Changed,
    /// It is gone.
    Vanished,
}

/// A lower name that others changed, where the overlay changed it too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// What happened.
    pub kind: ConflictKind,
    /// The name in the layers beneath.
    pub path: VfsPathBuf,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            ConflictKind::Appeared => "appeared",
            ConflictKind::Changed => "changed",
            ConflictKind::Vanished => "vanished",
        };
        let path = self.path.display().to_string();
        let name = path.trim_start_matches('/');
        write!(f, "{verb:<9} {}", if name.is_empty() { "./" } else { name })
    }
}

/// The cause of an error of the kind [`ErrorKind::Conflict`].
#[derive(Clone, Debug)]
pub struct Conflicts(pub Vec<Conflict>);

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for conflict in &self.0 {
            write!(f, "\n  {conflict}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}

/// The lower names that the overlay changed, as they were just before.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    /// Whether the upper layer was empty at first: then what has no record was not touched.
    complete: AtomicBool,
    records: Mutex<HashMap<VfsPathBuf, Metadata>>,
}

impl Baseline {
    /// From the lower root, of an overlay whose upper layer is empty.
    pub(super) fn begin(&self, root: &Metadata) {
        self.complete.store(true, Ordering::Relaxed);
        self.record(VfsPathBuf::new(), root);
    }

    fn records(&self) -> MutexGuard<'_, HashMap<VfsPathBuf, Metadata>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, beneath: VfsPathBuf, metadata: &Metadata) {
        self.records().entry(beneath).or_insert(*metadata);
    }

    /// The lower layer has the changes: what it was is of no more use.
    pub(super) fn end(&self) {
        self.complete.store(false, Ordering::Relaxed);
        self.records().clear();
    }
}

impl OverlayFs {
    /// Where others changed the lower layers, since the overlay copied or hid a name or while
    /// it made one; sorted by path. New names in directories that stay, and changes of files
    /// that the overlay did not touch, are none. An overlay that began with changes in its
    /// upper layer, or that was applied, knows only of what it changed since. Costs as
    /// [`changes`](Self::changes), and a look at each lower name that was changed.
    ///
    /// # Errors
    /// As [`changes`](Self::changes).
    pub fn conflicts(&self) -> Result<Vec<Conflict>> {
        self.conflicts_of(&self.changes()?)
    }

    pub(super) fn conflicts_of(&self, changes: &[Change]) -> Result<Vec<Conflict>> {
        let _alone = self.state.tree.exclusive();
        self.state.conflicts(changes).map_err(|error| error.at("compare", VfsPath::root()))
    }

    pub(super) fn refuse_conflicts(&self, changes: &[Change]) -> Result<()> {
        let conflicts = self.conflicts_of(changes)?;
        if conflicts.is_empty() {
            return Ok(());
        }
        let error = BackendError::new(ErrorKind::Conflict, Conflicts(conflicts));
        Err(error.at("apply", VfsPath::root()))
    }
}

impl State {
    /// Begins to put down what lower names are, if the upper layer is empty.
    pub(super) fn begin_baseline(&self) -> BackendResult<()> {
        let root = VfsPath::root();
        if self.writable
            && self.upper_names(root)?.is_empty()
            && let Some(lower) = self.lower(root)?
        {
            self.baseline.begin(&lower.metadata);
        }
        Ok(())
    }

    /// Puts down what a lower name shows that is about to be copied up or hidden.
    pub(super) fn note_lower(&self, path: &VfsPath, hit: &Hit<'_>) {
        if hit.layer > 0
            && let Some(beneath) = self.beneath(path)
        {
            self.baseline.record(beneath.into_owned(), &hit.metadata);
        }
    }

    fn conflicts(&self, changes: &[Change]) -> BackendResult<Vec<Conflict>> {
        let wanted = self.sources(changes)?;
        let complete = self.baseline.complete.load(Ordering::Relaxed);
        let records = self.baseline.records();
        let mut found = BTreeMap::new();
        for (path, before) in &*records {
            let Some(now) = self.lower(path)? else {
                if wanted.contains(path) || self.shows(path, |_| true)? {
                    found.insert(path.clone(), ConflictKind::Vanished);
                }
                continue;
            };
            if !is_unchanged(before, &now.metadata) {
                found.insert(path.clone(), ConflictKind::Changed);
            } else if complete && now.is_dir() && !self.shows(path, |hit| hit.is_dir())? {
                for name in self.lower_names(path)? {
                    let inside = path.join(VfsPath::from_normal(&name));
                    if !records.contains_key(&inside) && self.lower(&inside)?.is_some() {
                        found.insert(inside, ConflictKind::Appeared);
                    }
                }
            }
        }
        for change in changes.iter().filter(|_| complete) {
            if change.kind != ChangeKind::Deleted
                && let Some(beneath) = self.covered(&change.path)
                && !records.contains_key(&*beneath)
                && self.lower(&beneath)?.is_some()
            {
                found.insert(beneath.into_owned(), ConflictKind::Appeared);
            }
        }
        Ok(found.into_iter().map(|(path, kind)| Conflict { kind, path }).collect())
    }

    /// The lower names whose files the overlay has, under whatever names.
    fn sources(&self, changes: &[Change]) -> BackendResult<BTreeSet<VfsPathBuf>> {
        let mut sources = BTreeSet::new();
        for change in changes {
            if let Probe::Hit(hit) = self.probe(&change.path)?
                && hit.layer == 0
            {
                sources.extend(self.came_from(&change.path, &hit)?);
            }
        }
        Ok(sources)
    }

    /// Whether something of the kind is at a name that stands for this lower one.
    fn shows(&self, beneath: &VfsPath, is_it: impl Fn(&Hit<'_>) -> bool) -> BackendResult<bool> {
        for path in self.layers[0].remaps.unmap(beneath) {
            if let Probe::Hit(hit) = self.probe(&path)?
                && is_it(&hit)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Of a directory the times and the count of links do not matter: they move with its names.
fn is_unchanged(before: &Metadata, now: &Metadata) -> bool {
    let facts = |of: &Metadata| (of.id, of.file_type, of.mode, of.owner, of.device);
    let contents = |of: &Metadata| (of.len, of.modified, of.changed);
    facts(before) == facts(now) && (now.is_dir() || contents(before) == contents(now))
}
