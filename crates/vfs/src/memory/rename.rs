//! Renaming.

use super::changes::{Locked, birth};
use super::life::Dropped;
use super::names::Found;
use super::node::NodeId;
use super::store::{Beginning, Place, Store, Way};
use super::sync::Ordering;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, Timestamp};
use crate::options::{NewNode, NodeKind, RenameMode};
use crate::watch::WatchKind;

/// What became of a rename.
pub(crate) struct Renamed {
    /// Of what has the new name.
    pub(crate) metadata: Metadata,
    /// What has the old name now, in exchange mode.
    pub(crate) exchanged: Option<NodeId>,
    /// Whether anything was to do.
    changed: bool,
}

impl Store {
    pub(crate) fn rename(
        &self,
        from: Way<'_>,
        to: Way<'_>,
        mode: RenameMode,
    ) -> BackendResult<Renamed> {
        if from.is_root() || to.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        let renamed = loop {
            if let Some(renamed) = self.try_rename(from, to, mode)? {
                break renamed;
            }
        };
        if renamed.changed {
            self.report_at(WatchKind::Removed, from);
            if mode == RenameMode::Exchange {
                self.report_at(WatchKind::Removed, to);
                self.report_at(WatchKind::Created, from);
            }
            self.report_at(WatchKind::Created, to);
        }
        Ok(renamed)
    }

    /// `None` when names changed between looking and locking.
    fn try_rename(
        &self,
        from: Way<'_>,
        to: Way<'_>,
        mode: RenameMode,
    ) -> BackendResult<Option<Renamed>> {
        let stays = match (from, to) {
            (Way::Path(from), Way::Path(to)) => from.parent() == to.parent(),
            (Way::Name(from, _), Way::Name(to, _)) => from == to,
            _ => false,
        };
        // Taken before the paths are looked at: while it is held, no directory gets another
        // parent, so what lies below what stays as it is found.
        let _moves = (!stays).then(|| self.lock_moves());
        let from = self.place(from)?;
        let mut to = self.place(to)?;
        if stays {
            // Both paths have the same parent, so they are in one directory, even if that path
            // stands for another directory by now.
            to.directory = from.directory;
        }
        let source = self.names.find(from.directory, &from.name).ok_or(ErrorKind::NotFound)?;
        let target = self.names.find(to.directory, &to.name);
        let replaces = matches!(mode, RenameMode::Replace | RenameMode::Whiteout);
        let mut directories = vec_of(from.directory, to.directory);
        if let Some(target) = target
            && target.file_type.is_dir()
            && replaces
        {
            directories.push(target.node);
        }
        let Ok(mut locked) = Locked::new(self, &directories) else { return Ok(None) };
        if self.names.find(from.directory, &from.name) != Some(source)
            || self.names.find(to.directory, &to.name) != target
        {
            return Ok(None);
        }

        if mode == RenameMode::Exchange && target.is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        if source.file_type.is_dir() && self.is_at_or_below(to.directory, source.node) {
            return Err(ErrorKind::InvalidArgument.into());
        }
        let Some(target) = target else {
            self.move_to_free(&mut locked, &from, source, &to, mode)?;
            return self.renamed(source, true);
        };
        if mode == RenameMode::Exchange
            && target.file_type.is_dir()
            && self.is_at_or_below(from.directory, target.node)
        {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if mode == RenameMode::NoReplace {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if source.node == target.node {
            return self.renamed(source, false);
        }
        if mode == RenameMode::Exchange {
            self.exchange(&from, source, &to, target);
            let renamed = self.renamed(source, true)?;
            return Ok(renamed.map(|it| Renamed { exchanged: Some(target.node), ..it }));
        }
        match (source.file_type.is_dir(), target.file_type.is_dir()) {
            (false, true) => return Err(ErrorKind::IsADirectory.into()),
            (true, false) => return Err(ErrorKind::NotADirectory.into()),
            (true, true) if !locked.names(target.node).is_empty() => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            _ => {}
        }
        let whiteout = self.whiteout(mode)?;
        self.names.replace(target.entry, source.node, source.file_type);
        self.settle(source.node, source.file_type, target.entry, to.directory);
        self.leave(&mut locked, &from, source, whiteout);
        self.touch_moved(&from, &to, source.node);
        // A directory's life ends under its lock, so that nothing is made in it any more.
        let dropped = self.drop_link_only(target.node, Timestamp::now());
        let renamed = self.renamed(source, true);
        drop(locked);
        if dropped == Dropped::Free {
            self.free(target.node.index());
        }
        renamed
    }

    /// The answer, while the directories are locked and the source therefore has its name.
    fn renamed(&self, source: Found, changed: bool) -> BackendResult<Option<Renamed>> {
        let metadata = self.node(source.node).metadata(source.node).ok_or(ErrorKind::NotFound)?;
        Ok(Some(Renamed { metadata, exchanged: None, changed }))
    }

    fn move_to_free(
        &self,
        locked: &mut Locked<'_>,
        from: &Place<'_>,
        source: Found,
        to: &Place<'_>,
        mode: RenameMode,
    ) -> BackendResult<()> {
        let whiteout = self.whiteout(mode)?;
        let list = locked.names(to.directory);
        let put = self.put(list, to.directory, &to.name, source.node, source.file_type);
        if let Err(error) = put {
            if let Some(whiteout) = whiteout {
                self.drop_link(whiteout, Timestamp::now());
            }
            return Err(error);
        }
        self.leave(locked, from, source, whiteout);
        self.touch_moved(from, to, source.node);
        Ok(())
    }

    fn exchange(&self, from: &Place<'_>, source: Found, to: &Place<'_>, target: Found) {
        self.names.replace(source.entry, target.node, target.file_type);
        self.names.replace(target.entry, source.node, source.file_type);
        self.settle(target.node, target.file_type, source.entry, from.directory);
        self.settle(source.node, source.file_type, target.entry, to.directory);
        self.touch_moved(from, to, source.node);
        self.node(target.node).lock().touch_changed(Timestamp::now(), || {});
    }

    /// Takes the source's old name away, or lets it stand for a whiteout.
    fn leave(
        &self,
        locked: &mut Locked<'_>,
        from: &Place<'_>,
        source: Found,
        whiteout: Option<NodeId>,
    ) {
        match whiteout {
            Some(whiteout) => {
                self.names.replace(source.entry, whiteout, FileType::Whiteout);
                self.settle(whiteout, FileType::Whiteout, source.entry, from.directory);
            }
            None => self.names.remove(locked.names(from.directory), source.entry),
        }
    }

    /// A whiteout to leave behind, where the mode wants one.
    fn whiteout(&self, mode: RenameMode) -> BackendResult<Option<NodeId>> {
        if mode != RenameMode::Whiteout {
            return Ok(None);
        }
        let new = birth(&NewNode::new(NodeKind::Whiteout));
        Ok(Some(self.new_node(&new, &Beginning::Named, Timestamp::now())?.node))
    }

    fn touch_moved(&self, from: &Place<'_>, to: &Place<'_>, moved: NodeId) {
        let now = Timestamp::now();
        self.node(from.directory).lock().touch(now);
        if to.directory != from.directory {
            self.node(to.directory).lock().touch(now);
        }
        self.node(moved).lock().touch_changed(now, || {});
    }

    /// Whether `directory` is `top` or lies below it. The caller holds the lock of moves, or
    /// asks about a directory and one of its own entries, and holds that directory's lock.
    fn is_at_or_below(&self, directory: NodeId, top: NodeId) -> bool {
        let mut at = directory;
        loop {
            if at == top {
                return true;
            }
            if at == NodeId::ROOT || at == NodeId::NONE {
                return false;
            }
            at = NodeId(self.node(at).parent.load(Ordering::Relaxed));
        }
    }
}

fn vec_of(from: NodeId, to: NodeId) -> smallvec::SmallVec<[NodeId; 3]> {
    smallvec::smallvec![from, to]
}
