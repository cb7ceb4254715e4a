//! The part of the contract that holds for a backend that cannot be changed: the whole tree is
//! there, reads agree at every offset, and every change is refused as it should be.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stratafs::{
    Capabilities, Detail, ErrorKind, FileSystem, MetadataChange, OpenOptions, Seek, SyncScope,
    VfsPath,
};

use super::methods::METHODS;
use super::{message, report};
use crate::fixture::{Item, MODIFIED, Tree, check};
use crate::tools::*;

type ReadOnlyCase = fn(&dyn FileSystem, &Tree);

/// The cases' names and what they check.
const CASES: &[(&str, ReadOnlyCase)] = &[
    ("the_tree_is_there", check),
    ("times_are_kept", times_are_kept),
    ("ids_and_types_agree", ids_and_types_agree),
    ("reads_at_any_offset", reads_at_any_offset),
    ("shared_bytes_are_the_bytes", shared_bytes_are_the_bytes),
    ("reads_from_many_threads", reads_from_many_threads),
    ("a_listing_can_stop", a_listing_can_stop),
    ("seeking", seeking),
    ("paths_that_lead_nowhere", paths_that_lead_nowhere),
    ("wrong_types", wrong_types),
    ("changes_are_refused", changes_are_refused),
    ("a_broken_path_comes_before_read_only", a_broken_path_comes_before_read_only),
    ("a_handle_changes_nothing", a_handle_changes_nothing),
    ("the_rest_answers", the_rest_answers),
];

/// Runs the cases on a file system that cannot be changed and holds `tree`.
///
/// # Panics
/// Once, at the end, naming every case that failed.
pub fn read_only(subject: &str, fs: &dyn FileSystem, tree: &Tree) {
    assert!(!fs.capabilities().contains(Capabilities::WRITE), "{subject} can be changed");
    let mut failures = Vec::new();
    for (name, case) in CASES {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(fs, tree))) {
            failures.push((format!("read_only::{name}"), message(&*panic)));
        }
    }
    report(subject, failures);
}

fn times_are_kept(fs: &dyn FileSystem, tree: &Tree) {
    for (path, item) in tree.items() {
        if matches!(item, Item::File(..)) {
            assert_eq!(fs.metadata(path).unwrap().modified, MODIFIED, "{path:?}");
        }
    }
}

fn ids_and_types_agree(fs: &dyn FileSystem, tree: &Tree) {
    let mut ids = Vec::new();
    let mut visit = |dir: &VfsPath| {
        let mut seen = Vec::new();
        fs.read_dir(dir, Detail::Names, &mut |entry| {
            seen.push((entry.name.to_vec(), entry.file_type, entry.id));
            ControlFlow::Continue(())
        })
        .unwrap();
        for (name, file_type, id) in seen {
            let path = dir.join_name(&name).unwrap();
            let known = fs.metadata(&path).unwrap();
            assert_eq!((known.file_type, known.id), (file_type, id), "{path:?}");
            if known.links <= 1 || known.is_dir() {
                ids.push(id);
            }
        }
    };
    visit(VfsPath::root());
    for (path, item) in tree.items() {
        if matches!(item, Item::Directory(_)) {
            visit(path);
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "two files have one id");
}

fn files(tree: &Tree) -> impl Iterator<Item = (&VfsPath, &[u8])> {
    tree.items().filter_map(|(path, _)| Some((path, tree.file(path)?)))
}

fn reads_at_any_offset(fs: &dyn FileSystem, tree: &Tree) {
    let mut random = Random::new(1);
    for (path, expected) in files(tree) {
        let file = fs.open(path, &OpenOptions::reading()).unwrap().file;
        let len = expected.len() as u64;
        for _ in 0..8 {
            let offset = random.below(len + 10);
            let count = random.size(18);
            let start = offset.min(len) as usize;
            let end = (start + count).min(expected.len());
            assert!(
                read(&*file, offset, count) == expected[start..end],
                "{path:?}: {count} bytes at {offset}"
            );
        }
        for offset in [len, len + 1, i64::MAX as u64, u64::MAX] {
            assert_eq!(file.read_at(&mut [0; 8], offset).unwrap(), 0, "{path:?} at {offset}");
        }
        assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
        assert_eq!(file.metadata().unwrap(), fs.metadata(path).unwrap(), "{path:?}");
    }
}

fn shared_bytes_are_the_bytes(fs: &dyn FileSystem, tree: &Tree) {
    for (path, expected) in files(tree) {
        let file = fs.open(path, &OpenOptions::reading()).unwrap().file;
        let len = expected.len() as u64;
        for range in [0..len, 0..len + 100, len / 3..len / 2, len..len + 1, 0..0] {
            let Some(bytes) = file.bytes_at(range.clone()).unwrap() else { continue };
            let end = range.end.min(len) as usize;
            let start = (range.start as usize).min(end);
            assert!(bytes == expected[start..end], "{path:?}: {range:?}");
            drop(file.bytes_at(range).unwrap());
        }
    }
}

fn reads_from_many_threads(fs: &dyn FileSystem, tree: &Tree) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for (path, expected) in files(tree).skip(thread) {
                    let file = fs.open(path, &OpenOptions::reading()).unwrap().file;
                    assert!(contents(&*file) == *expected, "{path:?}");
                }
            });
        }
    });
}

fn a_listing_can_stop(fs: &dyn FileSystem, tree: &Tree) {
    let all = tree.entries(p("many")).len();
    for stop in [1, all / 2, all] {
        let mut visits = 0;
        fs.read_dir(p("many"), Detail::Names, &mut |_| {
            visits += 1;
            if visits == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        assert_eq!(visits, stop);
    }
}

fn seeking(fs: &dyn FileSystem, tree: &Tree) {
    for (path, expected) in files(tree) {
        let file = fs.open(path, &OpenOptions::reading()).unwrap().file;
        let len = expected.len() as u64;
        fails(file.seek(len, Seek::Data), ErrorKind::NoSuchOffset);
        fails(file.seek(len + 1, Seek::Hole), ErrorKind::NoSuchOffset);
        for pair in data_ranges(&*file).windows(2) {
            assert!(pair[0].end <= pair[1].start, "{path:?}: {pair:?}");
        }
    }
}

fn paths_that_lead_nowhere(fs: &dyn FileSystem, tree: &Tree) {
    for path in ["missing", "a/missing", "a/b/c/d", "zzz", "readme.tx", "readme.txt2"] {
        fails(fs.metadata(p(path)), ErrorKind::NotFound);
        fails(fs.open(p(path), &OpenOptions::reading()), ErrorKind::NotFound);
        fails(fs.read_link(p(path)), ErrorKind::NotFound);
        fails(
            fs.read_dir(p(path), Detail::Names, &mut |_| ControlFlow::Continue(())),
            ErrorKind::NotFound,
        );
        fails(fs.xattr(p(path), b"user.a"), ErrorKind::NotFound);
        fails(fs.xattrs(p(path)), ErrorKind::NotFound);
        assert!(!exists(fs, path), "{path:?}");
    }
    let mut broken = vec![
        ("missing/x", ErrorKind::NotFound),
        ("a/missing/x/y", ErrorKind::NotFound),
        ("readme.txt/x", ErrorKind::NotADirectory),
        ("a/file/x/y", ErrorKind::NotADirectory),
    ];
    if tree.get(p("link")).is_some() {
        broken.extend([
            ("link/x", ErrorKind::SymlinkInPath),
            ("dir-link/c/deep.txt", ErrorKind::SymlinkInPath),
            ("dangling/x", ErrorKind::SymlinkInPath),
            ("loop/x/y", ErrorKind::SymlinkInPath),
            ("a/up/x", ErrorKind::SymlinkInPath),
        ]);
    }
    for (path, expected) in broken {
        fails(fs.metadata(p(path)), expected);
        fails(fs.open(p(path), &OpenOptions::reading()), expected);
        fails(fs.read_link(p(path)), expected);
        fails(fs.read_dir(p(path), Detail::Names, &mut |_| ControlFlow::Continue(())), expected);
        fails(fs.xattrs(p(path)), expected);
        match expected {
            ErrorKind::SymlinkInPath => fails(fs.exists(p(path)), expected),
            _ => assert!(!exists(fs, path), "{path:?}"),
        }
    }
}

fn wrong_types(fs: &dyn FileSystem, tree: &Tree) {
    for path in ["", "a", "a/b", "empty"] {
        fails(fs.open(p(path), &OpenOptions::reading()), ErrorKind::IsADirectory);
        fails(fs.read_link(p(path)), ErrorKind::InvalidArgument);
    }
    fails(fs.read_link(p("readme.txt")), ErrorKind::InvalidArgument);
    let list = |path| fs.read_dir(p(path), Detail::Names, &mut |_| ControlFlow::Continue(()));
    fails(list("readme.txt"), ErrorKind::NotADirectory);
    fails(fs.open(p("readme.txt"), &OpenOptions::new()), ErrorKind::InvalidArgument);
    if tree.get(p("link")).is_some() {
        fails(fs.open(p("link"), &OpenOptions::reading()), ErrorKind::SymlinkInPath);
        fails(list("dir-link"), ErrorKind::NotADirectory);
    }
}

/// `ReadOnly` comes before whatever else is wrong with the last name.
fn changes_are_refused(fs: &dyn FileSystem, tree: &Tree) {
    read_only_errors(fs, &["readme.txt", "a", "empty", "missing", "a/b/missing"]);
    check(fs, tree);
}

/// Checks that every method that changes something answers `ReadOnly` for these paths, whose
/// parents are directories.
///
/// # Panics
/// Naming every method that answered otherwise.
pub fn read_only_errors(fs: &dyn FileSystem, paths: &[&str]) {
    let mut wrong = Vec::new();
    for path in paths {
        for method in METHODS.iter().filter(|method| method.needs.contains(Capabilities::WRITE)) {
            match (method.call)(fs, p(path)) {
                Err(error) if error.kind() == ErrorKind::ReadOnly => {}
                answer => wrong.push(format!(
                    "{} {path:?}: {:?}",
                    method.name,
                    answer.map_err(|error| error.kind())
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "expected ReadOnly: {wrong:?}");
}

fn a_broken_path_comes_before_read_only(fs: &dyn FileSystem, tree: &Tree) {
    let mut paths =
        vec![("missing/x", ErrorKind::NotFound), ("readme.txt/x", ErrorKind::NotADirectory)];
    if tree.get(p("link")).is_some() {
        paths.push(("link/x", ErrorKind::SymlinkInPath));
        paths.push(("dir-link/x", ErrorKind::SymlinkInPath));
    }
    let mut wrong = Vec::new();
    for (path, expected) in paths {
        for method in METHODS {
            match (method.call)(fs, p(path)) {
                Err(error) if method.may_answer(fs, error.kind(), expected) => {}
                answer => wrong.push(format!(
                    "{} {path:?}: {:?}, not {expected:?}",
                    method.name,
                    answer.map_err(|error| error.kind())
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn a_handle_changes_nothing(fs: &dyn FileSystem, tree: &Tree) {
    let file = fs.open(p("readme.txt"), &OpenOptions::reading()).unwrap().file;
    fails(file.write_at(b"x", 0), ErrorKind::BadHandle);
    fails(file.set_len(0), ErrorKind::BadHandle);
    fails(file.set_metadata(&MetadataChange::new().mode(0o777)), ErrorKind::ReadOnly);
    assert!(contents(&*file) == tree.file(p("readme.txt")).unwrap());
}

fn the_rest_answers(fs: &dyn FileSystem, _: &Tree) {
    fs.sync().unwrap();
    let file = fs.open(p("readme.txt"), &OpenOptions::reading()).unwrap().file;
    file.sync(SyncScope::Data).unwrap();
    file.sync(SyncScope::All).unwrap();
    let room = fs.statfs().unwrap();
    assert!(room.available <= room.free && room.free <= room.total, "{room:?}");
    assert_eq!(fs.capabilities(), fs.capabilities());
}
