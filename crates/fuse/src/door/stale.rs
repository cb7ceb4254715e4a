//! What other programs' changes make untrue of what the kernel was told.

use std::sync::Arc;

use stratafs::{
    BackendResult, FileId, Metadata, VfsPath, WatchEvent, WatchGuard, WatchKind, WatchSink,
};

use super::Door;

/// Something that the kernel must ask for again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stale {
    /// What a name in a directory leads to.
    Entry(u64, Vec<u8>),
    /// The attributes of a node.
    Attributes(u64),
    /// The attributes and contents of a node.
    Contents(u64),
}

impl Door {
    /// Reports every change of the tree, whoever makes it.
    pub(crate) fn watch(&self, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.fs.watch(VfsPath::root(), sink)
    }

    /// What a report makes untrue. A change that came through this mount makes little untrue:
    /// the kernel knows of it.
    pub(crate) fn stale(&self, report: &WatchEvent) -> Vec<Stale> {
        match report.kind {
            WatchKind::Created | WatchKind::Removed => self.stale_by_name(&report.path),
            WatchKind::Modified => {
                self.node_of(&report.path).map(Stale::Contents).into_iter().collect()
            }
            WatchKind::Metadata => {
                self.node_of(&report.path).map(Stale::Attributes).into_iter().collect()
            }
            WatchKind::Overflow => self.inodes().all_below(&report.path),
        }
    }

    fn stale_by_name(&self, path: &VfsPath) -> Vec<Stale> {
        let mut stale = Vec::new();
        let Some((directory, name)) = path.split_last() else { return stale };
        let _names = self.hold_names();
        let now = self.fs.metadata(path).ok();
        let inodes = self.inodes();
        if let Some(directory) = inodes.at_path(directory) {
            stale.push(Stale::Attributes(directory));
            let known = inodes.child((directory, name));
            let is_known = |now: &Metadata| known.is_some_and(|node| inodes.is(node, now));
            if now.map_or(known.is_some(), |now| !is_known(&now)) {
                stale.push(Stale::Entry(directory, name.to_vec()));
            }
            // It has lost or won a name.
            stale.extend(known.map(Stale::Attributes));
        }
        let by_other_name = now.and_then(|now| inodes.of_file(now.id));
        stale.extend(by_other_name.map(Stale::Attributes));
        stale
    }

    /// The node that the kernel knows by this path, or by another name of the same file.
    fn node_of(&self, path: &VfsPath) -> Option<u64> {
        let _names = self.hold_names();
        let known = self.inodes().at_path(path);
        known.or_else(|| {
            let id: FileId = self.fs.metadata(path).ok()?.id;
            self.inodes().of_file(id)
        })
    }
}
