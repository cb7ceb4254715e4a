//! Reports of changes: the overlay's own, and those of lower layers as far as they show.

use std::borrow::Cow;
use std::sync::Arc;

use crate::backend::{Capabilities, File};
use crate::error::{BackendResult, ErrorKind};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::{Sharded, Shared};
use crate::watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};

use super::State;
use super::lookup::Probe;

pub(super) fn watch(
    state: &Sharded<State>,
    path: &VfsPath,
    sink: Arc<dyn WatchSink>,
) -> BackendResult<WatchGuard> {
    if !state.capabilities.contains(Capabilities::WATCH) {
        return Err(ErrorKind::Unsupported.into());
    }
    state.lookup(path)?;
    let mut guards = Vec::new();
    let mut name = Some(Cow::Borrowed(path));
    for (index, layer) in state.layers.iter().enumerate() {
        let Some(here) = name else { break };
        let is_upper = index == 0 && state.writable;
        if !is_upper && layer.fs.capabilities().contains(Capabilities::WATCH) {
            let forward = Forward {
                state: state.share(),
                layer: index,
                path: path.to_owned(),
                sink: Arc::clone(&sink),
            };
            match layer.fs.watch(&here, Arc::new(forward)) {
                Ok(guard) => guards.push(guard),
                // The layer has no part of this directory.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        name = layer.remaps.map(here);
    }
    guards.push(state.watches.add(path, sink));
    Ok(WatchGuard::new(guards))
}

/// Passes on what a lower layer reports, by the names that it shows as.
struct Forward {
    state: Shared<State>,
    layer: usize,
    /// What is watched, as the overlay names it.
    path: VfsPathBuf,
    sink: Arc<dyn WatchSink>,
}

impl WatchSink for Forward {
    fn event(&self, event: WatchEvent) {
        let shown: Vec<_> = self.state.names_above(self.layer, &event.path);
        if event.kind == WatchKind::Overflow {
            // It may stand for names that show elsewhere.
            let lost = |path| self.sink.event(WatchEvent { kind: event.kind, path });
            return match shown.is_empty() || event.path.is_root() {
                true => lost(self.path.clone()),
                false => shown.into_iter().for_each(lost),
            };
        }
        for path in shown {
            if path.starts_with(&self.path) && !self.state.hides(self.layer, &path) {
                self.sink.event(WatchEvent { kind: event.kind, path });
            }
        }
    }
}

impl State {
    /// Reports a change made through a handle that was opened by `path`. Which name the file
    /// has when that is no longer its own, nobody knows: then everything must be looked at.
    pub(super) fn report_by_handle(&self, kind: WatchKind, path: &VfsPath, file: &dyn File) {
        if !self.watches.any() {
            return;
        }
        match (file.metadata(), self.metadata(path)) {
            (Ok(open), _) if open.links == 0 => {}
            (Ok(open), Ok(named)) if open.id == named.id => self.watches.report(kind, path),
            _ => self.watches.report_overflow(),
        }
    }

    /// The names that a lower layer's name may show as, now.
    fn names_above(&self, layer: usize, name: &VfsPath) -> Vec<VfsPathBuf> {
        let mut names = vec![name.to_owned()];
        for above in self.layers[..layer].iter().rev() {
            names = names.iter().flat_map(|name| above.remaps.unmap(name)).collect();
        }
        names
    }

    /// Whether the layers above have something in the place of what a lower layer has there.
    fn hides(&self, layer: usize, path: &VfsPath) -> bool {
        match self.probe(path) {
            Ok(Probe::Hit(hit)) => hit.layer < layer && !hit.is_dir(),
            Ok(Probe::Missing { whiteout }) => whiteout,
            Ok(Probe::Blocked) => true,
            // A report too many does no harm.
            Err(_) => false,
        }
    }
}
