//! Reports of changes, in a build without the feature `watch`.

use std::sync::Arc;

use super::Inner;
use crate::error::{BackendResult, ErrorKind};
use crate::path::VfsPath;
use crate::watch::{WatchGuard, WatchSink};

pub(super) const SUPPORTED: bool = false;

pub(super) fn start(
    _inner: &Inner,
    _path: &VfsPath,
    _sink: Arc<dyn WatchSink>,
) -> BackendResult<WatchGuard> {
    Err(ErrorKind::Unsupported.into())
}
