//! `FileSystem::rename`, replacing.

use stratafs::{ErrorKind, FileSystem, FileType, NodeKind, RenameMode};

use super::cases;
use crate::tools::*;

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
    a_file_onto_a_directory,
    a_directory_onto_a_file,
    a_directory_onto_a_full_directory,
    a_symlink_is_a_file_here: SYMLINKS,
    a_node_replaces_and_is_replaced: SPECIAL_NODES,
    a_long_chain,
    a_prefix_is_not_below,
    attributes_go_along: XATTRS,
];

#[track_caller]
fn refused(fs: &dyn FileSystem, from: &str, to: &str, expected: ErrorKind) {
    let result = fs.rename(p(from), p(to), RenameMode::Replace);
    match result {
        Ok(()) => panic!("rename {from:?} {to:?} worked, expected {expected:?}"),
        Err(error) => assert_eq!(error.kind(), expected, "rename {from:?} {to:?}"),
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
    refused(fs, "missing", "new", ErrorKind::NotFound);
    put(fs, "file", "contents");
    refused(fs, "missing", "file", ErrorKind::NotFound);
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_missing_source_comes_before_all_else(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "");
    refused(fs, "missing", "dir", ErrorKind::NotFound);
    refused(fs, "missing", "missing", ErrorKind::NotFound);
    refused(fs, "missing", "missing/below", ErrorKind::NotFound);
    refused(fs, "dir/missing", "dir", ErrorKind::NotFound);
}

fn the_root_is_busy(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "file", "");
    refused(fs, "", "new", ErrorKind::Busy);
    refused(fs, "", "dir/new", ErrorKind::Busy);
    refused(fs, "dir", "", ErrorKind::Busy);
    refused(fs, "file", "", ErrorKind::Busy);
    refused(fs, "", "", ErrorKind::Busy);
    // Before a missing source.
    refused(fs, "missing", "", ErrorKind::Busy);
}

fn below_itself(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    mkdir(fs, "a/b/c");
    put(fs, "a/b/file", "");
    refused(fs, "a", "a/new", ErrorKind::InvalidArgument);
    refused(fs, "a", "a/b/new", ErrorKind::InvalidArgument);
    refused(fs, "a", "a/b", ErrorKind::InvalidArgument);
    refused(fs, "a", "a/b/c", ErrorKind::InvalidArgument);
    refused(fs, "a/b", "a/b/new", ErrorKind::InvalidArgument);
    // Before whatever is wrong with the destination.
    refused(fs, "a", "a/b/file", ErrorKind::InvalidArgument);
    assert_eq!(names(fs, "a"), ["b"]);
    assert_eq!(names(fs, "a/b"), ["c", "file"]);
}

fn onto_a_directory_above(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    mkdir(fs, "a/b/c");
    put(fs, "a/b/file", "");
    refused(fs, "a/b", "a", ErrorKind::DirectoryNotEmpty);
    refused(fs, "a/b/c", "a", ErrorKind::DirectoryNotEmpty);
    refused(fs, "a/b/c", "a/b", ErrorKind::DirectoryNotEmpty);
    refused(fs, "a/b/file", "a/b", ErrorKind::IsADirectory);
    refused(fs, "a/b/file", "a", ErrorKind::IsADirectory);
    assert_eq!(names(fs, "a/b"), ["c", "file"]);
}

fn a_file_onto_a_directory(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "empty");
    mkdir(fs, "full");
    put(fs, "full/inner", "");
    refused(fs, "file", "empty", ErrorKind::IsADirectory);
    refused(fs, "file", "full", ErrorKind::IsADirectory);
    assert_eq!(names(fs, ""), ["empty", "file", "full"]);
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_directory_onto_a_file(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/inner", "");
    put(fs, "file", "contents");
    refused(fs, "dir", "file", ErrorKind::NotADirectory);
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(names(fs, "dir"), ["inner"]);
}

fn a_directory_onto_a_full_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    mkdir(fs, "full");
    put(fs, "full/inner", "contents");
    refused(fs, "dir", "full", ErrorKind::DirectoryNotEmpty);
    assert_eq!(get(fs, "full/inner"), b"contents");
    assert_eq!(names(fs, ""), ["dir", "full"]);
}

fn a_symlink_is_a_file_here(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    symlink(fs, "dir", "link");
    put(fs, "file", "contents");
    refused(fs, "link", "dir", ErrorKind::IsADirectory);
    refused(fs, "dir", "link", ErrorKind::NotADirectory);
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
