//! Watching a tree: one watch on the mount that serves the path, one on each mount below it.

use std::sync::Arc;

use crate::backend::{Capabilities, FileSystem};
use crate::error::{BackendResult, ErrorKind};
use crate::path::VfsPath;
use crate::watch::{WatchEvent, WatchGuard, WatchSink};

use super::tree::Tree;

/// Covers the mounts as they are at the call; that one was added or taken away is reported as
/// an overflow, after which the tree must be watched anew. Mounts
/// that cannot change are passed over; one that can but does not report is an error, as
/// silence would be taken for "nothing changed".
pub(super) fn watch(
    tree: &Tree,
    path: &VfsPath,
    sink: Arc<dyn WatchSink>,
) -> BackendResult<WatchGuard> {
    tree.metadata(path)?;
    let table = tree.table();
    let serving = table.find(path);
    let below = table
        .at_or_below(path)
        .filter(|point| serving.is_none_or(|(serving, _)| serving.path != point.path))
        .map(|point| (point, VfsPath::root()));
    let mut guards = Vec::new();
    for (point, rest) in serving.into_iter().chain(below) {
        let at = point.path.clone();
        let sink = Arc::clone(&sink);
        let prefixed =
            move |event: WatchEvent| sink.event(WatchEvent { path: at.join(&event.path), ..event });
        let immutable = point.fs.capabilities().contains(Capabilities::IMMUTABLE);
        match point.fs.watch(rest, Arc::new(prefixed)) {
            Ok(guard) => guards.push(guard),
            Err(error) if error.kind() == ErrorKind::Unsupported && immutable => {}
            // A directory that exists for a mount's sake only never changes by itself.
            Err(error) if error.kind() == ErrorKind::NotFound && table.lead(path).is_some() => {}
            Err(error) => return Err(error),
        }
    }
    guards.push(tree.watches.add(path, sink));
    Ok(WatchGuard::new(guards))
}
