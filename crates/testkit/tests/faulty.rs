//! Failures midway: the tree is then as it was before.

use std::sync::Arc;

use stratafs::{
    ErrorKind, FileSystem, MemoryFs, MetadataChange, OpenOptions, OverlayFs, RenameMode,
};
use stratafs_testkit::FaultyFs;
use stratafs_testkit::faulty::{Fault, Operation};
use stratafs_testkit::fixture::{self, Item, Tree};
use stratafs_testkit::tools::*;

#[test]
fn it_fails_from_the_nth_write_on() {
    let fs = FaultyFs::new(
        Arc::new(MemoryFs::new()),
        Operation::Write,
        2,
        Fault::Fail(ErrorKind::NoSpace),
    );
    let file = edit(&fs, "file");
    assert_eq!(file.write_at(b"a", 0).unwrap(), 1);
    assert_eq!(file.write_at(b"b", 1).unwrap(), 1);
    fails(file.write_at(b"c", 2), ErrorKind::NoSpace);
    fails(file.write_at(b"c", 2), ErrorKind::NoSpace);
    assert_eq!(get(&fs, "file"), b"ab");
    fs.disarm();
    assert_eq!(file.write_at(b"c", 2).unwrap(), 1);
    assert_eq!(fs.seen(), 5);
}

#[test]
fn it_tears_a_write() {
    let fs =
        FaultyFs::new(Arc::new(MemoryFs::new()), Operation::Write, 0, Fault::Tear(ErrorKind::Io));
    let file = edit(&fs, "file");
    assert_eq!(file.write_at(b"12345678", 0).unwrap(), 4);
    fails(file.write_at(b"5678", 4), ErrorKind::Io);
    assert_eq!(get(&fs, "file"), b"1234");
}

/// A change that makes an overlay copy up.
type Change = fn(&dyn FileSystem) -> stratafs::BackendResult<()>;

const CHANGES: &[(&str, Change)] = &[
    ("write", |fs| {
        let file = fs.open(p("large"), &OpenOptions::new().write(true))?.file;
        file.write_at(b"new", 100).map(drop)
    }),
    ("append", |fs| {
        let file = fs.open(p("a/b/c/deep.txt"), &OpenOptions::new().append(true))?.file;
        file.write_at(b"new", 0).map(drop)
    }),
    ("cut", |fs| fs.open(p("cut"), &OpenOptions::new().write(true))?.file.set_len(10)),
    ("change of mode", |fs| {
        fs.set_metadata(p("a/b/c/deep.txt"), &MetadataChange::new().mode(0o600)).map(drop)
    }),
    ("rename of a file", |fs| {
        fs.rename(p("a/b/c/deep.txt"), p("moved"), RenameMode::Replace).map(drop)
    }),
    ("rename onto a file", |fs| {
        fs.rename(p("new"), p("a/b/c/deep.txt"), RenameMode::Replace).map(drop)
    }),
    ("rename of a directory", |fs| fs.rename(p("a"), p("moved"), RenameMode::Replace).map(drop)),
    ("removal of a file", |fs| fs.remove_file(p("a/b/c/deep.txt"))),
    ("removal of a directory", |fs| fs.remove_dir(p("empty"))),
    ("hard link", |fs| fs.link(p("a/b/c/deep.txt"), p("many/linked")).map(drop)),
    ("new file", |fs| fs.open(p("a/b/c/new"), &OpenOptions::writing()).map(drop)),
];

/// The overlay over a populated lower, its faulty upper, and what the tree holds.
fn stack(fault: Fault) -> (OverlayFs, Arc<FaultyFs>, Tree) {
    let lower = Arc::new(MemoryFs::new());
    let mut tree = Tree::empty();
    for dir in ["a", "a/b", "a/b/c", "empty", "many"] {
        tree.add(dir.as_bytes(), Item::Directory(0o755));
    }
    for (path, len) in [("a/b/c/deep.txt", 10), ("large", 200_000), ("cut", 70_000), ("new", 3)] {
        tree.add(path.as_bytes(), Item::File(0o640, noise(len as u64, len)));
    }
    fixture::write(&*lower, &tree);
    let upper =
        Arc::new(FaultyFs::new(Arc::new(MemoryFs::new()), Operation::Change, u64::MAX, fault));
    let shared: Arc<dyn FileSystem> = Arc::clone(&upper) as _;
    let overlay = OverlayFs::builder().upper(shared).lower(lower).build().unwrap();
    (overlay, upper, tree)
}

/// Lets the upper fail at the first, second, ... change that a change of the overlay needs.
fn fails_midway(fault: Fault, kind: ErrorKind) {
    for (name, change) in CHANGES {
        let mut failed = 0;
        for first in 0.. {
            assert!(first < 1000, "{name}: never ends");
            let (overlay, upper, tree) = stack(fault);
            upper.arm(first);
            let result = change(&overlay);
            upper.disarm();
            let Err(error) = result else { break };
            failed += 1;
            assert_eq!(error.kind(), kind, "{name}, change {first}");
            fixture::check(&overlay, &tree);
            // Nothing that is left behind stands in the way of the next try.
            change(&overlay).unwrap_or_else(|error| panic!("{name}, after {first}: {error}"));
        }
        assert!(failed > 0, "{name}: no change of the upper was met");
    }
}

#[test]
fn a_full_upper_leaves_the_tree_as_it_was() {
    fails_midway(Fault::Fail(ErrorKind::NoSpace), ErrorKind::NoSpace);
}

#[test]
fn a_torn_write_in_the_upper_leaves_the_tree_as_it_was() {
    fails_midway(Fault::Tear(ErrorKind::NoSpace), ErrorKind::NoSpace);
}
