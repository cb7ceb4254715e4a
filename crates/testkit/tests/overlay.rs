//! Overlays of pairs of layers, each from an empty tree.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs, OverlayFs};
use stratafs_testkit::{Subject, conformance_tests};

fn overlay(upper: Arc<dyn FileSystem>, lower: Arc<dyn FileSystem>) -> Arc<OverlayFs> {
    let overlay = OverlayFs::builder().upper(upper).lower(lower).build();
    Arc::new(overlay.expect("both layers are what an overlay needs"))
}

fn native() -> (Arc<dyn FileSystem>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fs = NativeFs::new(dir.path()).expect("open the directory");
    (Arc::new(fs), dir)
}

fn memory_over_memory() -> Subject {
    Subject::new(overlay(Arc::new(MemoryFs::new()), Arc::new(MemoryFs::new())))
}

fn memory_over_native() -> Subject {
    let (lower, keeps) = native();
    Subject::keeping(overlay(Arc::new(MemoryFs::new()), lower), keeps)
}

fn native_over_memory() -> Subject {
    let (upper, keeps) = native();
    Subject::keeping(overlay(upper, Arc::new(MemoryFs::new())), keeps)
}

fn native_over_native() -> Subject {
    let ((upper, one), (lower, other)) = (native(), native());
    Subject::keeping(overlay(upper, lower), (one, other))
}

conformance_tests!(memory_memory, memory_over_memory);
conformance_tests!(memory_native, memory_over_native);
conformance_tests!(native_memory, native_over_memory);
conformance_tests!(native_native, native_over_native);
