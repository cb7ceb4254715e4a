//! Files without a name, and giving them one.

use stratafs::{ErrorKind, File, FileSystem, MetadataChange, OpenOptions, Owner};

use super::cases;
use crate::tools::*;

cases![
    it_has_no_name: TEMPORARY,
    it_is_a_file_like_any_other: TEMPORARY,
    it_goes_with_its_handle: TEMPORARY,
    it_is_given_a_name: TEMPORARY,
    in_another_directory: TEMPORARY,
    its_directory_may_go: TEMPORARY,
    a_taken_name: TEMPORARY,
    a_parent_that_is_none: TEMPORARY,
    a_symlink_in_the_way: TEMPORARY | SYMLINKS,
    opened_where_no_directory_is: TEMPORARY,
    mode_and_owner: TEMPORARY | MODES | OWNERS,
    two_are_two_files: TEMPORARY,
    named_and_removed: TEMPORARY,
];

const OPTIONS: OpenOptions = OpenOptions::new().read(true).write(true).temporary(true);

fn temporary(fs: &dyn FileSystem, dir: &str, bytes: &[u8]) -> Box<dyn File> {
    let file = open(fs, dir, OPTIONS);
    write_all(&*file, bytes, 0);
    file
}

fn it_has_no_name(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let files = [temporary(fs, "", b"one"), temporary(fs, "dir", b"two")];
    assert_eq!(names(fs, ""), ["dir"]);
    assert!(names(fs, "dir").is_empty());
    for file in &files {
        let known = file.metadata().unwrap();
        assert!(known.is_file());
        assert_eq!((known.links, known.len), (0, 3));
    }
}

fn it_is_a_file_like_any_other(fs: &dyn FileSystem) {
    let bytes = noise(1, 200_000);
    let file = temporary(fs, "", &bytes);
    assert!(contents(&*file) == bytes);
    file.set_len(10).unwrap();
    write_all(&*file, b"x", 12);
    assert_eq!(contents(&*file), [&bytes[..10], b"\0\0x"].concat());
    file.set_metadata(&MetadataChange::new().mode(0o600)).unwrap();
    file.sync(stratafs::SyncScope::All).unwrap();
}

fn it_goes_with_its_handle(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for i in 0..50 {
        drop(temporary(fs, "dir", &noise(i, 10_000)));
    }
    assert!(names(fs, "dir").is_empty());
    let open = temporary(fs, "dir", b"still open");
    fs.remove_dir(p("dir")).expect("the directory is empty");
    assert_eq!(contents(&*open), b"still open");
}

fn it_is_given_a_name(fs: &dyn FileSystem) {
    let file = temporary(fs, "", b"contents");
    let id = file.metadata().unwrap().id;
    file.link_to(p("name")).unwrap();
    assert_eq!(names(fs, ""), ["name"]);
    assert_eq!(get(fs, "name"), b"contents");
    let known = stat(fs, "name");
    assert_eq!((known.id, known.links), (id, 1));
    assert_eq!(file.metadata().unwrap(), known);
    write_all(&*file, b"C", 0);
    assert_eq!(get(fs, "name"), b"Contents");
    drop(file);
    assert_eq!(get(fs, "name"), b"Contents");
}

fn in_another_directory(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "b");
    let file = temporary(fs, "a", b"contents");
    rename(fs, "a", "moved");
    file.link_to(p("b/name")).unwrap();
    assert!(names(fs, "moved").is_empty());
    assert_eq!(get(fs, "b/name"), b"contents");
}

fn its_directory_may_go(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let file = temporary(fs, "dir", b"contents");
    fs.remove_dir(p("dir")).unwrap();
    fails(file.link_to(p("dir/name")), ErrorKind::NotFound);
    file.link_to(p("name")).unwrap();
    assert_eq!(get(fs, "name"), b"contents");
}

fn a_taken_name(fs: &dyn FileSystem) {
    put(fs, "file", "other");
    mkdir(fs, "dir");
    let file = temporary(fs, "", b"contents");
    for taken in ["file", "dir", ""] {
        fails(file.link_to(p(taken)), ErrorKind::AlreadyExists);
    }
    assert_eq!(get(fs, "file"), b"other");
    // Nothing has happened to it.
    file.link_to(p("dir/free")).unwrap();
    assert_eq!(get(fs, "dir/free"), b"contents");
}

fn a_parent_that_is_none(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let file = temporary(fs, "", b"contents");
    fails(file.link_to(p("missing/name")), ErrorKind::NotFound);
    fails(file.link_to(p("file/name")), ErrorKind::NotADirectory);
    assert_eq!(file.metadata().unwrap().links, 0);
}

fn a_symlink_in_the_way(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    symlink(fs, "dir", "link");
    let file = temporary(fs, "", b"contents");
    fails(file.link_to(p("link/name")), ErrorKind::SymlinkInPath);
    fails(file.link_to(p("link")), ErrorKind::AlreadyExists);
    symlink(fs, "nowhere", "dir/inner");
    for path in ["link", "dir/inner", "link/inner"] {
        fails(fs.open(p(path), &OPTIONS), ErrorKind::SymlinkInPath);
    }
    assert_eq!(names(fs, "dir"), ["inner"]);
}

fn opened_where_no_directory_is(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(fs.open(p("missing"), &OPTIONS), ErrorKind::NotFound);
    fails(fs.open(p("file"), &OPTIONS), ErrorKind::NotADirectory);
    fails(fs.open(p("file/below"), &OPTIONS), ErrorKind::NotADirectory);
}

fn mode_and_owner(fs: &dyn FileSystem) {
    let owner = Owner { user: 1001, group: 1002 };
    let file = open(fs, "", OPTIONS.mode(0o4751).owner(owner));
    let known = file.metadata().unwrap();
    assert_eq!((known.mode, known.owner), (0o4751, owner));
    file.link_to(p("name")).unwrap();
    let known = stat(fs, "name");
    assert_eq!((known.mode, known.owner), (0o4751, owner));
}

fn two_are_two_files(fs: &dyn FileSystem) {
    let (one, two) = (temporary(fs, "", b"one"), temporary(fs, "", b"second"));
    assert_ne!(one.metadata().unwrap().id, two.metadata().unwrap().id);
    two.link_to(p("two")).unwrap();
    one.link_to(p("one")).unwrap();
    assert_eq!((get(fs, "one"), get(fs, "two")), (b"one".to_vec(), b"second".to_vec()));
}

fn named_and_removed(fs: &dyn FileSystem) {
    let file = temporary(fs, "", b"contents");
    file.link_to(p("name")).unwrap();
    unlink(fs, "name");
    assert_eq!(contents(&*file), b"contents");
    assert_eq!(file.metadata().unwrap().links, 0);
    assert!(names(fs, "").is_empty());
}
