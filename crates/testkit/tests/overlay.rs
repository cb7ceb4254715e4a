//! Overlays of pairs of layers, each from an empty tree.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs, OpenOptions, OverlayFs};
use stratafs_testkit::tools::*;
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

fn keeps_holes(lower: Arc<dyn FileSystem>) {
    let file = edit(&*lower, "file");
    for start in [0, 32 << 20] {
        write_all(&*file, &noise(start, 256 << 10), start);
    }
    file.set_len(64 << 20).unwrap();
    let fs = overlay(Arc::new(MemoryFs::new()), lower);
    let file = open(&*fs, "file", OpenOptions::new().read(true).write(true));
    write_all(&*file, b"x", 1 << 20);
    let known = stat(&*fs, "file");
    assert_eq!(known.len, 64 << 20);
    assert!(known.allocated < 2 << 20, "{} bytes of storage", known.allocated);
    assert!(read(&*file, 32 << 20, 256 << 10) == noise(32 << 20, 256 << 10));
    assert_eq!(read(&*file, (1 << 20) - 1, 3), b"\0x\0");
}

#[test]
fn a_copy_up_keeps_holes() {
    keeps_holes(Arc::new(MemoryFs::new()));
    let (lower, _keeps) = native();
    keeps_holes(lower);
}
