//! What every method answers when a component before the last stands in the way.

use stratafs::{ErrorKind, FileSystem, VfsPath};

use super::cases;
use super::methods::{METHODS, OTHER};
use crate::tools::*;

cases![
    below_a_missing_directory,
    below_a_file,
    below_a_symlink: SYMLINKS,
    a_symlink_comes_before_what_is_behind_it: SYMLINKS,
    a_symlink_to_nowhere_is_still_a_symlink: SYMLINKS,
    below_a_fifo: SPECIAL_NODES,
    below_a_whiteout: WHITEOUTS,
    exists_answers_false_below_nothing,
    exists_stops_at_a_symlink: SYMLINKS,
    a_whiteout_exists: WHITEOUTS,
];

/// Path errors come before `Unsupported`, so methods whose capability is missing answer them too.
#[track_caller]
fn all_fail(fs: &dyn FileSystem, path: &str, expected: ErrorKind) {
    put(fs, OTHER, "other");
    let mut wrong = Vec::new();
    for method in METHODS {
        match (method.call)(fs, p(path)) {
            Ok(()) => wrong.push(format!("{} worked", method.name)),
            Err(error) if !method.may_answer(fs, error.kind(), expected) => {
                wrong.push(format!("{}: {:?}", method.name, error.kind()));
            }
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{path:?}: expected {expected:?}, got {wrong:?}");
    assert_eq!(get(fs, OTHER), b"other");
}

fn below_a_missing_directory(fs: &dyn FileSystem) {
    all_fail(fs, "missing/x", ErrorKind::NotFound);
    all_fail(fs, "missing/x/y/z", ErrorKind::NotFound);
    mkdir(fs, "dir");
    all_fail(fs, "dir/missing/x", ErrorKind::NotFound);
}

fn below_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    all_fail(fs, "file/x", ErrorKind::NotADirectory);
    all_fail(fs, "file/x/y/z", ErrorKind::NotADirectory);
    mkdir(fs, "dir");
    put(fs, "dir/file", "contents");
    all_fail(fs, "dir/file/x", ErrorKind::NotADirectory);
}

fn below_a_symlink(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/x", "contents");
    symlink(fs, "dir", "link");
    all_fail(fs, "link/x", ErrorKind::SymlinkInPath);
    mkdir(fs, "dir/sub");
    symlink(fs, "../dir", "dir/sub/link");
    all_fail(fs, "dir/sub/link/x", ErrorKind::SymlinkInPath);
    assert_eq!(get(fs, "dir/x"), b"contents");
}

fn a_symlink_comes_before_what_is_behind_it(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    symlink(fs, "file", "link");
    all_fail(fs, "link/x", ErrorKind::SymlinkInPath);
    all_fail(fs, "link/x/y", ErrorKind::SymlinkInPath);
}

fn a_symlink_to_nowhere_is_still_a_symlink(fs: &dyn FileSystem) {
    symlink(fs, "nowhere", "link");
    symlink(fs, "loop", "loop");
    symlink(fs, "/etc", "out");
    for path in ["link/x", "loop/x", "out/passwd"] {
        all_fail(fs, path, ErrorKind::SymlinkInPath);
    }
}

fn below_a_fifo(fs: &dyn FileSystem) {
    create(fs, "fifo", stratafs::NodeKind::Fifo);
    all_fail(fs, "fifo/x", ErrorKind::NotADirectory);
}

fn below_a_whiteout(fs: &dyn FileSystem) {
    create(fs, "gone", stratafs::NodeKind::Whiteout);
    all_fail(fs, "gone/x", ErrorKind::NotADirectory);
}

fn exists_answers_false_below_nothing(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    for path in ["missing", "missing/x", "missing/x/y", "file/x", "file/x/y", "dir/x", "dir/x/y"] {
        assert!(!exists(fs, path), "{path:?} exists");
    }
    for path in ["", "file", "dir"] {
        assert!(exists(fs, path), "{path:?} does not exist");
    }
}

fn exists_stops_at_a_symlink(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/x", "contents");
    symlink(fs, "dir", "link");
    symlink(fs, "nowhere", "dangling");
    let exists = |path| fs.exists(VfsPath::new(path).unwrap());
    fails(exists(b"link/x"), ErrorKind::SymlinkInPath);
    fails(exists(b"link/missing"), ErrorKind::SymlinkInPath);
    fails(exists(b"dangling/x"), ErrorKind::SymlinkInPath);
    assert!(exists(b"link").unwrap(), "the link itself");
    assert!(exists(b"dangling").unwrap(), "the link itself");
}

fn a_whiteout_exists(fs: &dyn FileSystem) {
    create(fs, "gone", stratafs::NodeKind::Whiteout);
    assert!(exists(fs, "gone"), "a whiteout is something");
}
