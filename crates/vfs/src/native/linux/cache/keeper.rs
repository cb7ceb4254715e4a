//! Learning and forgetting: the only place where what is kept changes.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, Statx, StatxFlags};
use rustix::io::Result;

use super::super::root::{PLACE, open_step};
use super::Shared;
use super::host::Mount;
use super::names::Names;
use super::snapshot::{Node, Snapshot};
use super::watcher::{DIRECTORIES, ITSELF, NEW_NAMES, Report, Watcher};
use crate::path::{VfsPath, VfsPathBuf};

#[derive(Debug)]
pub(super) struct Keeper {
    root: OwnedFd,
    mount: Mount,
    limit: usize,
    keeps_names: bool,
    /// Started when there is something to watch.
    watcher: Option<Watcher>,
    /// Nothing can be watched (any more).
    gave_up: bool,
    /// The paths of watched directories. A watch that is not here is over, whatever is still
    /// reported of it.
    watched: HashMap<i32, VfsPathBuf>,
    /// Counts the times that room was made.
    turn: usize,
}

impl Keeper {
    pub(super) fn new(root: OwnedFd, mount: Mount, limit: usize, keeps_names: bool) -> Self {
        Keeper {
            root,
            mount,
            limit,
            keeps_names,
            watcher: None,
            gave_up: false,
            watched: HashMap::new(),
            turn: 0,
        }
    }

    pub(super) fn take_watcher(&mut self) -> Option<Watcher> {
        self.gave_up = true;
        self.watcher.take()
    }

    /// Keeps `dir` and what is above it, as far as it is there and can be proven; whether
    /// anything is known that was not.
    pub(super) fn learn(&mut self, shared: &Arc<Shared>, dir: &VfsPath) -> bool {
        if !self.can_watch(shared) {
            return false;
        }
        let root_learnt = self.learn_names(&shared.root_names, None);
        let mut draft = Draft::new(shared);
        let mut names_learnt = false;
        // An error ends the walk; what was found before it is proven and stays.
        let _ = self.walk(&mut draft, dir, &mut names_learnt);
        draft.publish(shared) | root_learnt | names_learnt
    }

    /// `path` is there now: its name, and every name that leads to it, of which another
    /// process may have made some that are not reported yet.
    pub(super) fn add_names(&self, shared: &Shared, path: &VfsPath) {
        let snapshot = shared.snapshot.load();
        for path in path.ancestors().skip(1).chain([path]) {
            if let Some((dir, name)) = path.split_last() {
                add_name(shared, &snapshot, dir, name);
            }
        }
    }

    /// Drops what is kept at and below `path`.
    pub(super) fn forget(&mut self, shared: &Shared, path: &VfsPath) {
        let mut draft = Draft::new(shared);
        self.forget_below(&mut draft, path);
        draft.publish(shared);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self, shared: &Shared) {
        if let Some(watcher) = &self.watcher {
            self.watched.drain().for_each(|(watch, _)| watcher.remove(watch));
        }
        shared.root_names.forget();
        shared.snapshot.store(Arc::new(Snapshot::empty()));
    }

    /// Takes what the watches report.
    pub(super) fn take(&mut self, shared: &Shared, reports: Vec<Report>) {
        let mut draft = Draft::new(shared);
        for report in reports {
            match report {
                Report::Gone(watch) => {
                    if let Some(path) = self.watched.get(&watch).cloned() {
                        self.forget_below(&mut draft, &path);
                    }
                }
                Report::ChildGone(watch, name) => {
                    if let Some(path) = self.child(watch, &name) {
                        self.forget_below(&mut draft, &path);
                    }
                }
                Report::NewName(watch, name) => {
                    if let Some(dir) = self.watched.get(&watch) {
                        add_name(shared, draft.view(), dir, &name);
                    }
                }
                Report::Ended(watch) => {
                    match self.watched.remove(&watch) {
                        // Nothing is proven without the root's.
                        Some(path) if path.is_root() => {
                            self.clear(shared);
                            draft = Draft::new(shared);
                        }
                        Some(path) => self.forget_below(&mut draft, &path),
                        None => {}
                    }
                }
                Report::Lost => {
                    self.clear(shared);
                    draft = Draft::new(shared);
                }
                Report::Broken => {
                    self.gave_up = true;
                    return self.clear(shared);
                }
            }
        }
        draft.publish(shared);
    }

    fn child(&self, watch: i32, name: &[u8]) -> Option<VfsPathBuf> {
        self.watched.get(&watch)?.join_name(name).ok()
    }

    /// Whether there is a watcher; starts it when it is first needed.
    fn can_watch(&mut self, shared: &Arc<Shared>) -> bool {
        if self.watcher.is_none() && !self.gave_up {
            let taker = Arc::clone(shared);
            match Watcher::start(move |reports| taker.keeper().take(&taker, reports)) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(_) => self.gave_up = true,
            }
        }
        self.watcher.is_some() && !self.gave_up
    }

    /// Keeps each directory on the way to `dir`; sets `learnt` when names became known of one
    /// that was kept already.
    fn walk(&mut self, draft: &mut Draft, dir: &VfsPath, learnt: &mut bool) -> Result<()> {
        if !self.make_room(draft, dir) {
            return Ok(());
        }
        for path in dir.ancestors().chain([dir]) {
            let Some((parent, name)) = path.split_last() else { continue };
            if let Some(node) = draft.view().get(path).cloned() {
                *learnt |= self.learn_names(&node.names, Some(&node));
                continue;
            }
            let above = draft.view().get(parent).cloned();
            let Some((fd, watch)) = self.prove(above.as_deref(), name)? else {
                return Ok(());
            };
            if let Some(elsewhere) = self.watched.get(&watch).cloned() {
                // It has moved, and the report is still on its way: what is kept under its old
                // path is wrong, and its one watch cannot prove both.
                self.forget_below(draft, &elsewhere);
                return Ok(());
            }
            self.watched.insert(watch, path.to_owned());
            let names = Names::new(self.keeps_names);
            let node = Arc::new(Node { path: path.to_owned(), fd, watch, names });
            self.learn_names(&node.names, Some(&node));
            draft.edit().insert(node);
        }
        Ok(())
    }

    /// Opens `name` in a kept directory (the root for `None`) and proves that it stays there:
    /// from the moment the watches are set, everything that takes it away is reported, and what
    /// happened before shows in the comparison that follows.
    fn prove(&mut self, above: Option<&Node>, name: &[u8]) -> Result<Option<(OwnedFd, i32)>> {
        let Some(watcher) = &self.watcher else { return Ok(None) };
        let dir = above.map_or(self.root.as_fd(), |node| node.fd.as_fd());
        let fd = open_step(dir, name, PLACE, Mode::empty())?;
        let opened = identify(fd.as_fd(), b"", AtFlags::EMPTY_PATH)?;
        if Mount::of(&opened) != self.mount {
            return Ok(None);
        }
        let parent_watch = watcher.add(dir, DIRECTORIES)?;
        if above.is_none() {
            self.watched.insert(parent_watch, VfsPathBuf::new());
        }
        let watch = watcher.add(fd.as_fd(), ITSELF)?;
        match identify(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if is_same(&named, &opened) => Ok(Some((fd, watch))),
            _ => {
                if !self.watched.contains_key(&watch) {
                    watcher.remove(watch);
                }
                Ok(None)
            }
        }
    }

    /// Makes sure that `dir` and all above it fit; `false` when they never will.
    fn make_room(&mut self, draft: &mut Draft, dir: &VfsPath) -> bool {
        let on_the_way = || dir.ancestors().skip(1).chain([dir]);
        if dir.is_root() || on_the_way().count() > self.limit {
            return false;
        }
        let new = on_the_way().filter(|path| draft.view().get(path).is_none()).count();
        while draft.view().nodes.len() + new > self.limit {
            self.turn = self.turn.wrapping_add(1);
            let count = (self.limit / 8).max(new);
            let leaves = draft.edit().take_leaves(count, self.turn, dir);
            if leaves.is_empty() {
                return false;
            }
            self.unwatch(&leaves);
        }
        true
    }

    /// Learns the names of a kept directory (the root for `None`) unless they are known: first
    /// the watch, then the list, so that whatever appears later is reported.
    fn learn_names(&mut self, names: &Names, node: Option<&Node>) -> bool {
        let Some(watcher) = &self.watcher else { return false };
        if !names.is_unknown() {
            return false;
        }
        let dir = node.map_or(self.root.as_fd(), |node| node.fd.as_fd());
        match watcher.add(dir, NEW_NAMES) {
            Ok(watch) => {
                let path = node.map_or_else(VfsPathBuf::new, |node| node.path.clone());
                self.watched.insert(watch, path);
                names.learn(dir);
            }
            Err(_) => names.give_up(),
        }
        true
    }

    fn forget_below(&mut self, draft: &mut Draft, path: &VfsPath) {
        // The directories above a kept one are kept, so nothing is below what is not.
        if draft.view().get(path).is_some() {
            let gone = draft.edit().take_below(path);
            self.unwatch(&gone);
        }
    }

    fn unwatch(&mut self, gone: &[Arc<Node>]) {
        for node in gone {
            if self.watched.remove(&node.watch).is_some()
                && let Some(watcher) = &self.watcher
            {
                watcher.remove(node.watch);
            }
        }
    }
}

/// The next snapshot, copied from the present one when it first differs.
struct Draft {
    present: Arc<Snapshot>,
    next: Option<Snapshot>,
}

impl Draft {
    fn new(shared: &Shared) -> Self {
        Draft { present: shared.snapshot.load_full(), next: None }
    }

    fn view(&self) -> &Snapshot {
        self.next.as_ref().unwrap_or(&self.present)
    }

    fn edit(&mut self) -> &mut Snapshot {
        self.next.get_or_insert_with(|| Snapshot::clone(&self.present))
    }

    /// Whether it differs.
    fn publish(self, shared: &Shared) -> bool {
        match self.next {
            Some(next) => {
                shared.snapshot.store(Arc::new(next));
                true
            }
            None => false,
        }
    }
}

/// Adds a name to what is known of a directory.
fn add_name(shared: &Shared, snapshot: &Snapshot, dir: &VfsPath, name: &[u8]) {
    match snapshot.get(dir) {
        Some(node) => node.names.add(name),
        None if dir.is_root() => shared.root_names.add(name),
        None => {}
    }
}

fn identify(dir: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<Statx> {
    rustix::fs::statx(dir, name, flags, StatxFlags::INO | StatxFlags::MNT_ID)
}

fn is_same(one: &Statx, other: &Statx) -> bool {
    one.stx_ino == other.stx_ino
        && (one.stx_dev_major, one.stx_dev_minor) == (other.stx_dev_major, other.stx_dev_minor)
        && Mount::of(one) == Mount::of(other)
}
