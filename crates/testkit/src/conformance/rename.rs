//! `FileSystem::rename`, replacing.

use stratafs::{ErrorKind, FileSystem, FileType, NodeKind, RenameMode};

use super::cases;
use crate::tools::*;

use RenameMode::Replace;

cases![
    a_file_to_a_new_name,
    a_directory_with_all_below,
    a_directory_into_another,
    into_the_root_and_back,
    onto_a_file,
    onto_an_empty_directory,
    onto_itself,
    a_directory_onto_itself,
    onto_a_hard_link_of_itself: HARD_LINKS,
    a_missing_source,
    a_missing_source_comes_before_all_else,
    the_root_is_busy,
    below_itself,
    onto_a_directory_above,
    what_does_not_fit,
    a_symlink_is_a_file_here: SYMLINKS,
    a_node_replaces_and_is_replaced: SPECIAL_NODES,
    a_long_chain,
    a_prefix_is_not_below,
    attributes_go_along: XATTRS,
];

/// Asserts that a rename answers an error of this kind.
#[track_caller]
pub(super) fn refused(
    fs: &dyn FileSystem,
    from: &str,
    to: &str,
    mode: RenameMode,
    expected: ErrorKind,
) {
    match fs.rename(p(from), p(to), mode) {
        Ok(_) => panic!("rename {from:?} {to:?} {mode:?} worked, expected {expected:?}"),
        Err(error) => assert_eq!(error.kind(), expected, "rename {from:?} {to:?} {mode:?}"),
    }
}

fn a_file_to_a_new_name(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    rename(fs, "a", "b");
    assert_eq!(get(fs, "b"), b"contents");
    assert_eq!(names(fs, ""), ["b"]);
    fails(fs.metadata(p("a")), ErrorKind::NotFound);
}

fn a_directory_with_all_below(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    put(fs, "a/file", "1");
    put(fs, "a/b/file", "2");
    rename(fs, "a", "moved");
    assert_eq!(names(fs, ""), ["moved"]);
    assert_eq!(names(fs, "moved"), ["b", "file"]);
    assert_eq!(get(fs, "moved/file"), b"1");
    assert_eq!(get(fs, "moved/b/file"), b"2");
    for path in ["a", "a/file", "a/b", "a/b/file"] {
        assert!(!exists(fs, path), "{path:?} is still there");
    }
    // The old name is free, and the new place is an ordinary one.
    mkdir(fs, "a");
    assert!(names(fs, "a").is_empty());
    put(fs, "moved/b/new", "3");
    assert_eq!(names(fs, "moved/b"), ["file", "new"]);
}

fn a_directory_into_another(fs: &dyn FileSystem) {
    for dir in ["a", "a/sub", "b", "b/sub"] {
        mkdir(fs, dir);
    }
    put(fs, "a/sub/file", "contents");
    rename(fs, "a/sub", "b/sub/moved");
    assert_eq!(get(fs, "b/sub/moved/file"), b"contents");
    assert!(names(fs, "a").is_empty());
    assert_eq!(names(fs, "b/sub"), ["moved"]);
}

fn into_the_root_and_back(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "contents");
    rename(fs, "dir/file", "file");
    assert!(names(fs, "dir").is_empty());
    rename(fs, "file", "dir/file");
    assert_eq!(get(fs, "dir/file"), b"contents");
    assert_eq!(names(fs, ""), ["dir"]);
}

fn onto_a_file(fs: &dyn FileSystem) {
    put(fs, "new", "new");
    put(fs, "old", noise(1, 100_000));
    let id = stat(fs, "new").id;
    rename(fs, "new", "old");
    assert_eq!(get(fs, "old"), b"new");
    assert_eq!(stat(fs, "old").id, id);
    assert_eq!(names(fs, ""), ["old"]);
}

fn onto_an_empty_directory(fs: &dyn FileSystem) {
    mkdir(fs, "new");
    put(fs, "new/file", "contents");
    mkdir(fs, "old");
    rename(fs, "new", "old");
    assert_eq!(names(fs, ""), ["old"]);
    assert_eq!(get(fs, "old/file"), b"contents");
}

fn onto_itself(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    rename(fs, "file", "file");
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(names(fs, ""), ["file"]);
}

fn a_directory_onto_itself(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "contents");
    rename(fs, "dir", "dir");
    assert_eq!(get(fs, "dir/file"), b"contents");
}

fn onto_a_hard_link_of_itself(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    link(fs, "a", "b");
    rename(fs, "a", "b");
    // Nothing happens: both names stay.
    assert_eq!(names(fs, ""), ["a", "b"]);
    assert_eq!(stat(fs, "a").links, 2);
}

fn a_missing_source(fs: &dyn FileSystem) {
    needs_a_source(fs, Replace);
}

pub(super) fn needs_a_source(fs: &dyn FileSystem, mode: RenameMode) {
    refused(fs, "missing", "new", mode, ErrorKind::NotFound);
    put(fs, "file", "contents");
    refused(fs, "missing", "file", mode, ErrorKind::NotFound);
    refused(fs, "missing", "missing", mode, ErrorKind::NotFound);
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_missing_source_comes_before_all_else(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "");
    refused(fs, "missing", "dir", Replace, ErrorKind::NotFound);
    refused(fs, "missing", "missing", Replace, ErrorKind::NotFound);
    refused(fs, "missing", "missing/below", Replace, ErrorKind::NotFound);
    refused(fs, "dir/missing", "dir", Replace, ErrorKind::NotFound);
}

fn the_root_is_busy(fs: &dyn FileSystem) {
    spares_the_root(fs, Replace);
}

pub(super) fn spares_the_root(fs: &dyn FileSystem, mode: RenameMode) {
    mkdir(fs, "dir");
    put(fs, "file", "");
    for (from, to) in
        [("", "new"), ("", "dir/new"), ("", "file"), ("dir", ""), ("file", ""), ("", "")]
    {
        refused(fs, from, to, mode, ErrorKind::Busy);
    }
    // Before a missing source.
    refused(fs, "missing", "", mode, ErrorKind::Busy);
}

fn below_itself(fs: &dyn FileSystem) {
    makes_no_loop(fs, Replace);
}

pub(super) fn makes_no_loop(fs: &dyn FileSystem, mode: RenameMode) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    mkdir(fs, "a/b/c");
    put(fs, "a/b/file", "");
    // The last three before whatever is wrong with the destination.
    for to in ["a/new", "a/b/new", "a/b", "a/b/c", "a/b/file"] {
        refused(fs, "a", to, mode, ErrorKind::InvalidArgument);
    }
    refused(fs, "a/b", "a/b/new", mode, ErrorKind::InvalidArgument);
    assert_eq!(names(fs, "a"), ["b"]);
    assert_eq!(names(fs, "a/b"), ["c", "file"]);
}

fn onto_a_directory_above(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    mkdir(fs, "a/b/c");
    put(fs, "a/b/file", "");
    refused(fs, "a/b", "a", Replace, ErrorKind::DirectoryNotEmpty);
    refused(fs, "a/b/c", "a", Replace, ErrorKind::DirectoryNotEmpty);
    refused(fs, "a/b/c", "a/b", Replace, ErrorKind::DirectoryNotEmpty);
    refused(fs, "a/b/file", "a/b", Replace, ErrorKind::IsADirectory);
    refused(fs, "a/b/file", "a", Replace, ErrorKind::IsADirectory);
    assert_eq!(names(fs, "a/b"), ["c", "file"]);
}

fn what_does_not_fit(fs: &dyn FileSystem) {
    replaces_only_what_fits(fs, Replace);
}

pub(super) fn replaces_only_what_fits(fs: &dyn FileSystem, mode: RenameMode) {
    put(fs, "file", "contents");
    mkdir(fs, "empty");
    mkdir(fs, "full");
    put(fs, "full/inner", "inner");
    refused(fs, "file", "empty", mode, ErrorKind::IsADirectory);
    refused(fs, "file", "full", mode, ErrorKind::IsADirectory);
    refused(fs, "empty", "file", mode, ErrorKind::NotADirectory);
    refused(fs, "full", "file", mode, ErrorKind::NotADirectory);
    refused(fs, "empty", "full", mode, ErrorKind::DirectoryNotEmpty);
    assert_eq!(names(fs, ""), ["empty", "file", "full"]);
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(get(fs, "full/inner"), b"inner");
}

fn a_symlink_is_a_file_here(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    symlink(fs, "dir", "link");
    put(fs, "file", "contents");
    refused(fs, "link", "dir", Replace, ErrorKind::IsADirectory);
    refused(fs, "dir", "link", Replace, ErrorKind::NotADirectory);
    rename(fs, "link", "file");
    assert_eq!(fs.read_link(p("file")).unwrap(), b"dir");
    assert_eq!(names(fs, ""), ["dir", "file"]);
}

fn a_node_replaces_and_is_replaced(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    put(fs, "file", "contents");
    rename(fs, "fifo", "file");
    assert_eq!(type_of(fs, "file"), FileType::Fifo);
    put(fs, "new", "new");
    rename(fs, "new", "file");
    assert_eq!(get(fs, "file"), b"new");
}

fn a_long_chain(fs: &dyn FileSystem) {
    mkdir(fs, "d0");
    put(fs, "d0/f0", "contents");
    for i in 0..50 {
        rename(fs, &format!("d{i}"), &format!("d{}", i + 1));
        rename(fs, &format!("d{}/f{i}", i + 1), &format!("d{}/f{}", i + 1, i + 1));
    }
    assert_eq!(names(fs, ""), ["d50"]);
    assert_eq!(get(fs, "d50/f50"), b"contents");
}

fn a_prefix_is_not_below(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    put(fs, "a/x", "1");
    mkdir(fs, "ab");
    put(fs, "ab/y", "2");
    // "ab/..." starts with the bytes of "a", but is not below it.
    rename(fs, "a", "ab/a");
    assert_eq!(get(fs, "ab/a/x"), b"1");
    rename(fs, "ab", "abc");
    assert_eq!(get(fs, "abc/a/x"), b"1");
    assert_eq!(get(fs, "abc/y"), b"2");
    assert_eq!(names(fs, ""), ["abc"]);
}

fn attributes_go_along(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fs.set_xattr(p("file"), b"user.note", b"kept", Default::default()).unwrap();
    rename(fs, "file", "other");
    assert_eq!(fs.xattr(p("other"), b"user.note").unwrap(), b"kept");
    put(fs, "file", "");
    fails(fs.xattr(p("file"), b"user.note"), ErrorKind::NoAttribute);
    rename(fs, "file", "other");
    fails(fs.xattr(p("other"), b"user.note"), ErrorKind::NoAttribute);
}
