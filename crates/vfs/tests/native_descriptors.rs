//! The native backend keeps few descriptors and gives all of them back. One test, since it
//! counts what the whole process has.
#![cfg(target_os = "linux")]

use std::ops::ControlFlow;

use stratafs::{
    Detail, FileSystem, NativeFs, NativeOptions, NewNode, NodeKind, OpenOptions, VfsPath,
};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

/// Descriptors and threads.
fn in_use() -> (usize, usize) {
    let count = |dir| std::fs::read_dir(dir).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn descriptors_are_few_and_given_back() {
    let before = in_use();
    let (kept, names) = (NativeOptions::new(), NativeOptions::new().cache_negative(true));
    for options in [kept, names, kept.cache_directories(false), names.cache_directories(false)] {
        let dir = tempfile::tempdir().unwrap();
        let fs = NativeFs::with_options(dir.path(), options.max_directories(8)).unwrap();
        for round in 0..20 {
            for i in 0..20 {
                let name = format!("d{}/e{i}/f", i % 5);
                std::fs::create_dir_all(dir.path().join(&name).parent().unwrap()).unwrap();
                drop(fs.open(path(&name), &OpenOptions::writing()).unwrap().file);
                assert!(fs.exists(path(&name)).unwrap());
                assert!(!fs.exists(path(&format!("{name}/x"))).unwrap());
                assert!(fs.open(path(&format!("d0/e{i}")), &OpenOptions::reading()).is_err());
                let _ = fs.create(path("fifo"), &NewNode::new(NodeKind::Fifo));
                assert!(fs.open(path("fifo"), &OpenOptions::reading()).is_err());
                let _ = fs.create(path("d0/e0"), &NewNode::new(NodeKind::Whiteout));
                fs.read_dir(path("d0"), Detail::Names, &mut |_| ControlFlow::Break(())).unwrap();
            }
            // The root twice, eight directories, inotify and eventfd twice each.
            let now = in_use();
            assert!(now.0 <= before.0 + 2 + 8 + 4, "{now:?} after {before:?}, round {round}");
            assert!(now.1 <= before.1 + 1);
        }
    }
    assert_eq!(in_use(), before);
}
