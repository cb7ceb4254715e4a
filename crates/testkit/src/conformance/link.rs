//! `FileSystem::link`.

use stratafs::{Capabilities, ErrorKind, FileSystem, MetadataChange, NodeKind};

use super::cases;
use crate::tools::*;

cases![
    two_names_of_one_file: HARD_LINKS,
    a_missing_source: HARD_LINKS,
    a_directory_is_refused: HARD_LINKS,
    the_root_is_refused: HARD_LINKS,
    a_taken_name_is_refused: HARD_LINKS,
    a_missing_source_comes_before_a_taken_name: HARD_LINKS,
    a_directory_comes_before_a_taken_name: HARD_LINKS,
    onto_itself_is_taken: HARD_LINKS,
    a_symlink_itself_is_linked: HARD_LINKS | SYMLINKS,
    a_node_is_linked: HARD_LINKS | SPECIAL_NODES,
    the_file_lives_as_long_as_a_name: HARD_LINKS,
    metadata_is_shared: HARD_LINKS | MODES,
];

fn two_names_of_one_file(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    mkdir(fs, "dir");
    link(fs, "a", "dir/b");
    assert_eq!(get(fs, "dir/b"), b"contents");
    let held = open(fs, "a", stratafs::OpenOptions::new().write(true));
    write_all(&*held, b"C", 0);
    assert_eq!(get(fs, "dir/b"), b"Contents");
    put(fs, "dir/b", "new");
    assert_eq!(get(fs, "a"), b"new");
    assert_eq!(names(fs, ""), ["a", "dir"]);
    assert_eq!(names(fs, "dir"), ["b"]);
}

fn a_missing_source(fs: &dyn FileSystem) {
    fails(fs.link(p("missing"), p("new")), ErrorKind::NotFound);
    assert!(names(fs, "").is_empty());
}

fn a_directory_is_refused(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    fails(fs.link(p("dir"), p("new")), ErrorKind::OperationNotPermitted);
    fails(fs.link(p("dir"), p("dir/inside")), ErrorKind::OperationNotPermitted);
    assert_eq!(names(fs, ""), ["dir"]);
}

fn the_root_is_refused(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(fs.link(p(""), p("new")), ErrorKind::OperationNotPermitted);
    fails(fs.link(p("file"), p("")), ErrorKind::AlreadyExists);
}

fn a_taken_name_is_refused(fs: &dyn FileSystem) {
    put(fs, "a", "a");
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    fails(fs.link(p("a"), p("file")), ErrorKind::AlreadyExists);
    fails(fs.link(p("a"), p("dir")), ErrorKind::AlreadyExists);
    if fs.capabilities().contains(Capabilities::SYMLINKS) {
        symlink(fs, "nowhere", "link");
        fails(fs.link(p("a"), p("link")), ErrorKind::AlreadyExists);
    }
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(stat(fs, "a").links, 1);
}

fn a_missing_source_comes_before_a_taken_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(fs.link(p("missing"), p("file")), ErrorKind::NotFound);
}

fn a_directory_comes_before_a_taken_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    fails(fs.link(p("dir"), p("file")), ErrorKind::OperationNotPermitted);
}

fn onto_itself_is_taken(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    fails(fs.link(p("file"), p("file")), ErrorKind::AlreadyExists);
    assert_eq!(stat(fs, "file").links, 1);
}

fn a_symlink_itself_is_linked(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    symlink(fs, "file", "link");
    link(fs, "link", "other");
    assert_eq!(fs.read_link(p("other")).unwrap(), b"file");
    assert_eq!(stat(fs, "link").links, 2);
    assert_eq!(stat(fs, "file").links, 1);
}

fn a_node_is_linked(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    link(fs, "fifo", "other");
    assert_eq!(stat(fs, "fifo"), stat(fs, "other"));
    assert_eq!(stat(fs, "other").links, 2);
}

fn the_file_lives_as_long_as_a_name(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    link(fs, "a", "b");
    unlink(fs, "a");
    assert_eq!(get(fs, "b"), b"contents");
    put(fs, "a", "new");
    assert_eq!(get(fs, "b"), b"contents");
    link(fs, "b", "c");
    unlink(fs, "b");
    assert_eq!(get(fs, "c"), b"contents");
}

fn metadata_is_shared(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    link(fs, "a", "b");
    fs.set_metadata(p("a"), &MetadataChange::new().mode(0o604)).unwrap();
    assert_eq!(stat(fs, "b").mode, 0o604);
    assert_eq!(stat(fs, "a"), stat(fs, "b"));
}
