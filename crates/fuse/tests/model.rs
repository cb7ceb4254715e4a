//! Random operations through real mounts, compared at each step with a naive file system.

mod support;

use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs};
use stratafs_testkit::model::{self, Driver, Rules, operations};
use support::{Mounted, like_a_disk, memory_over};

/// Compares mounts of what `make` makes, which needs its second part to live as long.
fn check<K>(make: impl Fn() -> (Arc<dyn FileSystem>, K)) {
    let mount = || {
        let (fs, keeps) = make();
        Some((Mounted::new(fs, &like_a_disk())?, keeps))
    };
    if mount().is_none() {
        return;
    }
    model::run(10, operations(&["a", "b", "c"], 1..120), |operations| {
        let (mounted, _keeps) = mount().expect("the first mount was made");
        let fs = NativeFs::new(mounted.path()).expect("open the mount");
        // Closes its handles before the mount goes.
        let mut driver = Driver::new(Rules::default());
        let outcome = driver.drive(&fs, &operations);
        driver.close();
        outcome
    });
}

#[test]
fn memory() {
    check(|| (Arc::new(MemoryFs::new()) as Arc<dyn FileSystem>, ()));
}

#[test]
fn native() {
    check(|| {
        let directory = tempfile::tempdir().unwrap();
        (Arc::new(NativeFs::new(directory.path()).unwrap()) as Arc<dyn FileSystem>, directory)
    });
}

#[test]
fn memory_over_native() {
    check(|| {
        let directory = tempfile::tempdir().unwrap();
        (memory_over(directory.path()), directory)
    });
}
