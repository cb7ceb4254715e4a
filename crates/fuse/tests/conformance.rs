//! The conformance suite through real mounts: each case gets a mount of its own, opened as a
//! directory of the host.

mod support;

use std::sync::Arc;

use stratafs::{Capabilities, FileSystem, MemoryFs, NativeFs};
use stratafs_testkit::{Subject, conformance};
use support::{Mounted, like_a_disk, memory_over};

/// Runs the suite on mounts of what `make` makes, which needs its second part to live as long.
fn suite<K: 'static>(name: &str, make: impl Fn() -> (Arc<dyn FileSystem>, K)) {
    let mount = || {
        let (fs, keeps) = make();
        Some((Mounted::new(fs, &like_a_disk())?, keeps))
    };
    if mount().is_none() {
        return;
    }
    let factory = || {
        let (mounted, keeps) = mount().expect("the first mount was made");
        let fs = NativeFs::new(mounted.path()).expect("open the mount");
        Subject::keeping(Arc::new(fs), (mounted, keeps))
    };
    // Whether device 0:0 is a whiteout, and whether a rename can leave one, is for the server
    // of a mount to say, and the tree of a mount shows none.
    let whiteouts = conformance::needing(Capabilities::WHITEOUTS);
    let without: Vec<&str> = whiteouts.iter().map(String::as_str).collect();
    conformance::run_except(name, &factory, &without);
}

#[test]
fn memory() {
    suite("memory, mounted", || (Arc::new(MemoryFs::new()), ()));
}

#[test]
fn native() {
    suite("native, mounted", || {
        let directory = tempfile::tempdir().unwrap();
        (Arc::new(NativeFs::new(directory.path()).unwrap()), directory)
    });
}

#[test]
fn memory_over_native() {
    suite("memory over native, mounted", || {
        let directory = tempfile::tempdir().unwrap();
        (memory_over(directory.path()), directory)
    });
}
