//! Applying an overlay's changes while its target fails at one change after another.

use std::collections::BTreeMap;
use std::sync::Arc;

use stratafs::{
    ErrorKind, FileSystem, FileType, MemoryFs, OpenOptions, OverlayFs, VfsPath, VfsPathBuf,
};
use stratafs_testkit::FaultyFs;
use stratafs_testkit::faulty::{Fault, Operation};
use stratafs_testkit::tools::{contents, entries, link, mkdir, p, put, rename, stat, unlink};

type Tree = BTreeMap<VfsPathBuf, Option<Vec<u8>>>;

/// Names and contents, but for what an interrupted application leaves.
fn tree(fs: &dyn FileSystem) -> Tree {
    let (mut tree, mut pending) = (Tree::new(), vec![VfsPath::root().to_owned()]);
    while let Some(directory) = pending.pop() {
        for (name, file_type) in entries(fs, &directory) {
            if name.starts_with(b".stratafs-") {
                continue;
            }
            let path = directory.join_name(&name).unwrap();
            let content = match file_type {
                FileType::Directory => {
                    pending.push(path.clone());
                    None
                }
                _ => Some(contents(&*fs.open(&path, &OpenOptions::reading()).unwrap().file)),
            };
            tree.insert(path, content);
        }
    }
    tree
}

/// A lower layer that can fail, and an overlay with all kinds of changes over it.
fn changed() -> (Arc<FaultyFs>, OverlayFs) {
    let memory = Arc::new(MemoryFs::new());
    for dir in ["a", "a/deep", "b", "c"] {
        mkdir(&*memory, dir);
    }
    for file in ["a/deep/f", "a/g", "b/h", "c/i", "j"] {
        put(&*memory, file, file);
    }
    let fault = Fault::Fail(ErrorKind::NoSpace);
    let lower = Arc::new(FaultyFs::new(memory, Operation::Change, u64::MAX, fault));
    let overlay = OverlayFs::builder().upper(Arc::new(MemoryFs::new())).lower(lower.clone());
    let overlay = overlay.build().unwrap();
    rename(&overlay, "a/deep", "b/deep");
    rename(&overlay, "b", "moved");
    put(&overlay, "moved/new", "new");
    unlink(&overlay, "moved/h");
    link(&overlay, "j", "twin");
    unlink(&overlay, "c/i");
    mkdir(&overlay, "made");
    (lower, overlay)
}

#[test]
fn what_cannot_be_staged_or_moved_changes_nothing() {
    let (lower, overlay) = changed();
    let (before, after) = (tree(&*lower), tree(&overlay));
    assert_ne!(before, after);
    drop(lower);
    let mut whole = 0;
    for first in 0.. {
        let (lower, overlay) = changed();
        lower.arm(first);
        let answer = overlay.apply(&*lower);
        lower.disarm();
        let Err(error) = answer else {
            assert_eq!(tree(&*lower), after);
            assert!(stat(&*lower, "twin").links == 2 && whole > 10, "{whole} whole of {first}");
            return;
        };
        let text = error.to_string();
        if text.contains("all changes are in place") {
            assert_eq!(tree(&*lower), after, "change {first}: {text}");
        } else if !text.contains("what was not applied is in") {
            assert_eq!(tree(&*lower), before, "change {first}: {text}");
            assert_eq!(tree(&overlay), after, "change {first}: {text}");
            overlay.apply(&*lower).unwrap();
            assert_eq!(tree(&*lower), after, "change {first}, the second time");
            whole += 1;
        } else {
            let place = text.rsplit("is in /").next().unwrap();
            assert!(lower.exists(p(place)).unwrap(), "change {first}: {text}");
        }
    }
}
