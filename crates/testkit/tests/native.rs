//! The native backend, in a temporary directory.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use stratafs::NativeFs;
use stratafs_testkit::{Subject, conformance_tests};

fn native() -> Subject {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fs = NativeFs::new(dir.path()).expect("open the directory");
    Subject::keeping(Arc::new(fs), dir)
}

conformance_tests!(conformance, native);
