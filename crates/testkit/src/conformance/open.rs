//! `FileSystem::open`.

use stratafs::{ErrorKind, FileSystem, NodeKind, OpenOptions, Owner};

use super::cases;
use crate::tools::*;

cases![
    options_that_contradict_themselves,
    contradictions_come_before_the_path,
    a_missing_file_is_not_found,
    create_makes_an_empty_file,
    create_keeps_what_is_there,
    create_new_makes_and_refuses_a_file,
    create_new_refuses_a_directory,
    create_new_refuses_a_symlink: SYMLINKS,
    create_new_refuses_a_fifo: SPECIAL_NODES,
    create_new_refuses_the_root,
    a_directory_is_refused,
    the_root_is_refused,
    a_symlink_is_refused: SYMLINKS,
    a_symlink_is_refused_to_create: SYMLINKS,
    a_fifo_is_refused: SPECIAL_NODES,
    a_socket_or_device_is_refused: SPECIAL_NODES,
    truncate_cuts,
    truncate_needs_no_create,
    write_does_not_truncate,
    mode_is_taken_as_it_is: MODES,
    mode_is_for_new_files_only: MODES,
    mode_does_not_bind_the_handle_that_makes_it: MODES,
    owner_is_taken: OWNERS,
    a_failed_open_leaves_nothing,
    many_handles_at_once,
];

fn options_that_contradict_themselves(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    for options in [
        OpenOptions::new(),
        OpenOptions::new().create(true),
        OpenOptions::new().truncate(true),
        OpenOptions::new().read(true).truncate(true),
        OpenOptions::new().read(true).create(true),
        OpenOptions::new().read(true).create_new(true),
        OpenOptions::new().read(true).temporary(true),
        OpenOptions::new().append(true).temporary(true),
    ] {
        for path in ["file", "missing", ""] {
            fails(fs.open(p(path), &options), ErrorKind::InvalidArgument);
        }
    }
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(names(fs, ""), ["file"]);
}

fn contradictions_come_before_the_path(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let nothing_allowed = OpenOptions::new();
    fails(fs.open(p("missing/x"), &nothing_allowed), ErrorKind::InvalidArgument);
    fails(fs.open(p("file/x"), &nothing_allowed), ErrorKind::InvalidArgument);
}

fn a_missing_file_is_not_found(fs: &dyn FileSystem) {
    for options in [
        OpenOptions::reading(),
        OpenOptions::new().write(true),
        OpenOptions::new().append(true),
        OpenOptions::new().write(true).truncate(true),
    ] {
        fails(fs.open(p("missing"), &options), ErrorKind::NotFound);
    }
    assert!(names(fs, "").is_empty());
}

fn create_makes_an_empty_file(fs: &dyn FileSystem) {
    for (path, options) in [
        ("a", OpenOptions::new().write(true).create(true)),
        ("b", OpenOptions::new().append(true).create(true)),
        ("c", OpenOptions::new().read(true).write(true).create(true)),
        ("d", OpenOptions::writing()),
    ] {
        open(fs, path, options);
        assert_eq!(stat(fs, path).len, 0);
        assert!(stat(fs, path).is_file());
    }
    assert_eq!(names(fs, ""), ["a", "b", "c", "d"]);
}

fn create_keeps_what_is_there(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = edit(fs, "file");
    assert_eq!(contents(&*file), b"contents");
}

fn create_new_makes_and_refuses_a_file(fs: &dyn FileSystem) {
    let new = OpenOptions::new().write(true).create_new(true);
    write_all(&*open(fs, "file", new), b"contents", 0);
    fails(fs.open(p("file"), &new), ErrorKind::AlreadyExists);
    fails(fs.open(p("file"), &new.truncate(true)), ErrorKind::AlreadyExists);
    fails(fs.open(p("file"), &new.create(true)), ErrorKind::AlreadyExists);
    assert_eq!(get(fs, "file"), b"contents");
}

fn create_new_refuses_a_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let new = OpenOptions::new().write(true).create_new(true);
    fails(fs.open(p("dir"), &new), ErrorKind::AlreadyExists);
}

fn create_new_refuses_a_symlink(fs: &dyn FileSystem) {
    symlink(fs, "nowhere", "link");
    let new = OpenOptions::new().write(true).create_new(true);
    fails(fs.open(p("link"), &new), ErrorKind::AlreadyExists);
    assert_eq!(names(fs, ""), ["link"]);
}

fn create_new_refuses_a_fifo(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    let new = OpenOptions::new().write(true).create_new(true);
    fails(fs.open(p("fifo"), &new), ErrorKind::AlreadyExists);
}

fn create_new_refuses_the_root(fs: &dyn FileSystem) {
    let new = OpenOptions::new().write(true).create_new(true);
    fails(fs.open(p(""), &new), ErrorKind::AlreadyExists);
}

fn every_way() -> [OpenOptions; 6] {
    [
        OpenOptions::reading(),
        OpenOptions::new().write(true),
        OpenOptions::new().append(true),
        OpenOptions::new().read(true).write(true).create(true),
        OpenOptions::new().write(true).truncate(true),
        OpenOptions::writing(),
    ]
}

fn a_directory_is_refused(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for options in every_way() {
        fails(fs.open(p("dir"), &options), ErrorKind::IsADirectory);
    }
}

fn the_root_is_refused(fs: &dyn FileSystem) {
    for options in every_way() {
        fails(fs.open(p(""), &options), ErrorKind::IsADirectory);
    }
}

fn a_symlink_is_refused(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    symlink(fs, "file", "link");
    symlink(fs, "nowhere", "dangling");
    for options in every_way() {
        fails(fs.open(p("link"), &options), ErrorKind::SymlinkInPath);
        fails(fs.open(p("dangling"), &options), ErrorKind::SymlinkInPath);
    }
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_symlink_is_refused_to_create(fs: &dyn FileSystem) {
    symlink(fs, "new", "link");
    fails(fs.open(p("link"), &OpenOptions::writing()), ErrorKind::SymlinkInPath);
    assert_eq!(names(fs, ""), ["link"]);
}

fn a_fifo_is_refused(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    for options in every_way() {
        fails(fs.open(p("fifo"), &options), ErrorKind::InvalidArgument);
    }
}

fn a_socket_or_device_is_refused(fs: &dyn FileSystem) {
    create(fs, "socket", NodeKind::Socket);
    create(fs, "char", NodeKind::CharDevice(ODD_DEVICE));
    create(fs, "block", NodeKind::BlockDevice(ODD_DEVICE));
    for path in ["socket", "char", "block"] {
        for options in every_way() {
            fails(fs.open(p(path), &options), ErrorKind::InvalidArgument);
        }
    }
}

fn truncate_cuts(fs: &dyn FileSystem) {
    for (path, options) in [
        ("a", OpenOptions::new().write(true).truncate(true)),
        ("b", OpenOptions::new().append(true).truncate(true)),
        ("c", OpenOptions::writing()),
        ("d", OpenOptions::writing().read(true)),
    ] {
        put(fs, path, "contents");
        let file = open(fs, path, options);
        assert_eq!(file.metadata().unwrap().len, 0);
        assert_eq!(stat(fs, path).len, 0);
        write_all(&*file, b"new", 0);
        assert_eq!(get(fs, path), b"new");
    }
}

fn truncate_needs_no_create(fs: &dyn FileSystem) {
    let options = OpenOptions::new().write(true).truncate(true);
    fails(fs.open(p("missing"), &options), ErrorKind::NotFound);
    assert!(!exists(fs, "missing"));
}

fn write_does_not_truncate(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = open(fs, "file", OpenOptions::new().read(true).write(true));
    write_all(&*file, b"XY", 2);
    assert_eq!(get(fs, "file"), b"coXYents");
}

fn mode_is_taken_as_it_is(fs: &dyn FileSystem) {
    for (path, mode) in [("a", 0o777), ("b", 0o666), ("c", 0o600), ("d", 0o4755), ("e", 0)] {
        open(fs, path, OpenOptions::writing().mode(mode));
        assert_eq!(stat(fs, path).mode, mode, "mode {mode:o}");
    }
}

fn mode_is_for_new_files_only(fs: &dyn FileSystem) {
    open(fs, "file", OpenOptions::writing().mode(0o640));
    open(fs, "file", OpenOptions::writing().mode(0o777));
    assert_eq!(stat(fs, "file").mode, 0o640);
}

fn mode_does_not_bind_the_handle_that_makes_it(fs: &dyn FileSystem) {
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o400);
    let file = open(fs, "file", options);
    write_all(&*file, b"contents", 0);
    assert_eq!(contents(&*file), b"contents");
}

fn owner_is_taken(fs: &dyn FileSystem) {
    let owner = Owner { user: 1234, group: 5678 };
    open(fs, "file", OpenOptions::writing().owner(owner));
    assert_eq!(stat(fs, "file").owner, owner);
    // Not for a file that is there.
    open(fs, "file", OpenOptions::writing().owner(Owner { user: 1, group: 1 }));
    assert_eq!(stat(fs, "file").owner, owner);
}

fn a_failed_open_leaves_nothing(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    for path in ["file/x", "missing/x"] {
        assert!(fs.open(p(path), &OpenOptions::writing()).is_err());
    }
    assert_eq!(names(fs, ""), ["dir", "file"]);
    assert_eq!(get(fs, "file"), b"contents");
}

fn many_handles_at_once(fs: &dyn FileSystem) {
    let files: Vec<_> = (0..64).map(|i| edit(fs, &format!("file{}", i % 8))).collect();
    for (i, file) in files.iter().enumerate() {
        write_all(&**file, &[i as u8], (i / 8) as u64);
    }
    for (i, file) in files.iter().enumerate() {
        let expected: Vec<u8> = (0..8).map(|row| (row * 8 + i % 8) as u8).collect();
        assert_eq!(contents(&**file), expected);
    }
}
