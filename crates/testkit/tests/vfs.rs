//! A tree of mounts as one file system, and changed while it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stratafs::{ErrorKind, FileSystem, MemoryFs, MountOptions, NativeFs, SubdirFs, Vfs};
use stratafs_testkit::tools::*;
use stratafs_testkit::{Subject, conformance_tests};

fn native() -> (NativeFs, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    (NativeFs::new(dir.path()).expect("open the directory"), dir)
}

/// A tree whose other mounts do not show: one below the root, one below that one.
fn among_mounts(root: impl FileSystem) -> Vfs {
    let vfs = Vfs::with_root(root);
    for at in ["mounted", "mounted/below/deep"] {
        vfs.mount(at, Arc::new(MemoryFs::new()), MountOptions::new().hidden(true)).unwrap();
    }
    vfs
}

/// The part of a tree that is another mount than the root: every path crosses into it.
fn below_a_mount(mounted: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
    let vfs = among_mounts(MemoryFs::new());
    vfs.mount("outer/point", mounted, MountOptions::new()).unwrap();
    Arc::new(SubdirFs::new(vfs.freeze(), p("outer/point").to_owned()).expect("a directory"))
}

fn over_memory() -> Subject {
    Subject::new(among_mounts(MemoryFs::new()).freeze())
}

fn over_native() -> Subject {
    let (fs, keeps) = native();
    Subject::keeping(among_mounts(fs).freeze(), keeps)
}

fn nested_memory() -> Subject {
    Subject::new(below_a_mount(Arc::new(MemoryFs::new())))
}

fn nested_native() -> Subject {
    let (fs, keeps) = native();
    Subject::keeping(below_a_mount(Arc::new(fs)), keeps)
}

conformance_tests!(memory_at_the_root, over_memory);
conformance_tests!(native_at_the_root, over_native);
conformance_tests!(memory_below, nested_memory);
conformance_tests!(native_below, nested_native);

#[test]
fn readers_writers_mounts_and_unmounts_together() {
    let vfs = Vfs::with_root(MemoryFs::new());
    vfs.create_dir("stable").unwrap();
    vfs.create_dir("point").unwrap();
    vfs.write("stable/file", "contents").unwrap();
    let stop = AtomicBool::new(false);
    let mounted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // What is not mounted over is there at every moment.
                    assert_eq!(vfs.read_to_string("stable/file").unwrap(), "contents");
                    // What comes and goes is there whole, or not at all.
                    match vfs.read("point/data") {
                        Ok(data) => assert_eq!(data.len(), 1001),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    }
                    for entry in vfs.read_dir("").unwrap().iter() {
                        assert!(matches!(entry.name, b"stable" | b"point"), "{:?}", entry.name);
                    }
                }
            });
        }
        for thread in 0..2 {
            let (vfs, stop) = (&vfs, &stop);
            scope.spawn(move || {
                let mut round = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let path = format!("stable/own-{thread}");
                    vfs.write(&path, round.to_string()).unwrap();
                    assert_eq!(vfs.read_to_string(&path).unwrap(), round.to_string());
                    vfs.rename(&path, format!("{path}-moved")).unwrap();
                    vfs.remove_file(format!("{path}-moved")).unwrap();
                    round += 1;
                }
            });
        }
        scope.spawn(|| {
            for round in 0..300u64 {
                let fs = MemoryFs::new();
                let mut data = vec![round as u8];
                data.extend(noise(round, 1000));
                put(&fs, "data", data);
                let id = vfs.mount("point", Arc::new(fs), MountOptions::new()).unwrap();
                mounted.fetch_add(1, Ordering::Relaxed);
                // A handle outlives its mount.
                let held = vfs.open("point/data").unwrap();
                vfs.unmount(id).unwrap();
                assert_eq!(held.len().unwrap(), 1001);
                assert!(!vfs.exists("point/data").unwrap());
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert_eq!(mounted.load(Ordering::Relaxed), 300);
    assert!(FileSystem::exists(&*vfs.tree(), p("stable/file")).unwrap());
}
