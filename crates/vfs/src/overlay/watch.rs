//! Reports of changes: the overlay's own, and those of lower layers as far as they show.

use std::sync::Arc;

use crate::backend::Capabilities;
use crate::error::{BackendResult, ErrorKind};
use crate::path::VfsPath;
use crate::watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};

use super::State;

impl State {
    pub(super) fn watch(
        &self,
        path: &VfsPath,
        sink: Arc<dyn WatchSink>,
    ) -> BackendResult<WatchGuard> {
        self.lookup(path)?;
        if !self.capabilities.contains(Capabilities::WATCH) {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut guards = Vec::new();
        let first = usize::from(self.writable);
        let mut beneath = match self.writable {
            true => self.beneath(path).map(|beneath| beneath.into_owned()),
            false => Some(path.to_owned()),
        };
        for layer in first..self.layers.len() {
            let Some(name) = beneath else { break };
            if let Some(guard) = self.watch_layer(layer, &name, path, &sink)? {
                guards.push(guard);
            }
            beneath = self.layers[layer]
                .remaps
                .map(std::borrow::Cow::Borrowed(&*name))
                .map(|beneath| beneath.into_owned());
        }
        guards.push(self.watches.add(path, sink));
        Ok(WatchGuard::new(guards))
    }

    /// Reports what a lower layer reports, unless a layer above has the name as well. The path
    /// is the one it had when the watch began.
    fn watch_layer(
        &self,
        layer: usize,
        name: &VfsPath,
        shown: &VfsPath,
        sink: &Arc<dyn WatchSink>,
    ) -> BackendResult<Option<WatchGuard>> {
        let fs = &self.layers[layer].fs;
        if !fs.capabilities().contains(Capabilities::WATCH) {
            return Ok(None);
        }
        let above: Vec<_> =
            self.layers[..layer].iter().map(|layer| Arc::clone(&layer.fs)).collect();
        let (base, shown, sink) = (name.to_owned(), shown.to_owned(), Arc::clone(sink));
        let forward = move |event: WatchEvent| {
            let rest = event.path.strip_prefix(&base).unwrap_or(VfsPath::root());
            let path = shown.join(rest);
            let hidden = event.kind != WatchKind::Overflow
                && above.iter().any(|fs| fs.metadata(&path).is_ok_and(|found| !found.is_dir()));
            if !hidden {
                sink.event(WatchEvent { kind: event.kind, path });
            }
        };
        match fs.watch(name, Arc::new(forward)) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
