//! `FileSystem::create`.

use stratafs::{
    Capabilities, Detail, Device, ErrorKind, FileSystem, FileType, NewNode, NodeKind, Owner,
};

use super::cases;
use crate::tools::*;

cases![
    a_directory,
    a_directory_in_a_directory,
    a_taken_name_is_refused,
    a_name_taken_by_a_symlink_is_refused: SYMLINKS,
    the_root_is_taken,
    modes_are_taken_as_they_are: MODES,
    modes_of_nodes: MODES | SPECIAL_NODES,
    owners_are_taken: OWNERS,
    fifos_and_sockets: SPECIAL_NODES,
    devices_keep_their_numbers: SPECIAL_NODES,
    nodes_are_no_directories: SPECIAL_NODES,
    a_whiteout: WHITEOUTS,
    a_whiteout_takes_the_place_of_a_file: WHITEOUTS,
    a_whiteout_takes_the_place_of_an_empty_directory: WHITEOUTS,
    a_whiteout_spares_a_full_directory: WHITEOUTS,
    a_whiteout_spares_the_root: WHITEOUTS,
    a_whiteout_over_a_whiteout: WHITEOUTS,
    a_whiteout_is_a_taken_name: WHITEOUTS,
    a_whiteout_can_be_removed: WHITEOUTS,
    a_whiteout_can_be_replaced: WHITEOUTS,
];

fn a_directory(fs: &dyn FileSystem) {
    let made = fs.create(p("dir"), &NewNode::directory()).unwrap();
    assert_eq!(made.file_type, FileType::Directory);
    assert_eq!(made, stat(fs, "dir"));
    assert!(names(fs, "dir").is_empty());
}

fn a_directory_in_a_directory(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    mkdir(fs, "a/b/c");
    put(fs, "a/b/c/file", "deep");
    assert_eq!(get(fs, "a/b/c/file"), b"deep");
}

/// Every kind of node but a whiteout that the backend can make.
fn kinds(fs: &dyn FileSystem) -> Vec<NodeKind<'static>> {
    let mut kinds = vec![NodeKind::Directory];
    if fs.capabilities().contains(Capabilities::SYMLINKS) {
        kinds.push(NodeKind::Symlink(b"target"));
    }
    if fs.capabilities().contains(Capabilities::SPECIAL_NODES) {
        kinds.extend([
            NodeKind::Fifo,
            NodeKind::Socket,
            NodeKind::CharDevice(ODD_DEVICE),
            NodeKind::BlockDevice(ODD_DEVICE),
        ]);
    }
    kinds
}

fn a_taken_name_is_refused(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    put(fs, "dir/file", "contents");
    for kind in kinds(fs) {
        for path in ["file", "dir", "dir/file"] {
            fails(fs.create(p(path), &NewNode::new(kind)), ErrorKind::AlreadyExists);
        }
    }
    assert_eq!(get(fs, "dir/file"), b"contents");
}

fn a_name_taken_by_a_symlink_is_refused(fs: &dyn FileSystem) {
    symlink(fs, "nowhere", "link");
    for kind in kinds(fs) {
        fails(fs.create(p("link"), &NewNode::new(kind)), ErrorKind::AlreadyExists);
    }
    assert_eq!(names(fs, ""), ["link"]);
}

fn the_root_is_taken(fs: &dyn FileSystem) {
    for kind in kinds(fs) {
        fails(fs.create(p(""), &NewNode::new(kind)), ErrorKind::AlreadyExists);
    }
}

fn modes_are_taken_as_they_are(fs: &dyn FileSystem) {
    for (path, mode) in [("a", 0o777), ("b", 0o700), ("c", 0o1777), ("d", 0), ("e", 0o2755)] {
        let made = fs.create(p(path), &NewNode::directory().mode(mode)).unwrap();
        assert_eq!((made.mode, stat(fs, path).mode), (mode, mode));
    }
}

fn modes_of_nodes(fs: &dyn FileSystem) {
    for (path, kind, mode) in [
        ("fifo", NodeKind::Fifo, 0o666),
        ("socket", NodeKind::Socket, 0o777),
        ("char", NodeKind::CharDevice(ODD_DEVICE), 0o622),
    ] {
        fs.create(p(path), &NewNode::new(kind).mode(mode)).unwrap();
        assert_eq!(stat(fs, path).mode, mode, "{path}");
    }
}

fn owners_are_taken(fs: &dyn FileSystem) {
    let owner = Owner { user: 1234, group: 5678 };
    for (i, kind) in kinds(fs).into_iter().enumerate() {
        let path = format!("node{i}");
        let made = fs.create(p(&path), &NewNode::new(kind).owner(owner)).unwrap();
        assert_eq!((made.owner, stat(fs, &path).owner), (owner, owner), "{kind:?}");
    }
}

fn fifos_and_sockets(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    create(fs, "socket", NodeKind::Socket);
    assert_eq!(type_of(fs, "fifo"), FileType::Fifo);
    assert_eq!(type_of(fs, "socket"), FileType::Socket);
    rename(fs, "fifo", "pipe");
    assert_eq!(type_of(fs, "pipe"), FileType::Fifo);
    unlink(fs, "pipe");
    unlink(fs, "socket");
    assert!(names(fs, "").is_empty());
}

fn devices_keep_their_numbers(fs: &dyn FileSystem) {
    let odd = Device { major: 250, minor: 3000 };
    for (path, kind) in
        [("char", NodeKind::CharDevice(odd)), ("block", NodeKind::BlockDevice(ODD_DEVICE))]
    {
        let made = fs.create(p(path), &NewNode::new(kind)).unwrap();
        assert_eq!(stat(fs, path), made);
    }
    assert_eq!(stat(fs, "char").device, odd);
    assert_eq!(stat(fs, "block").device, ODD_DEVICE);
    assert_eq!(type_of(fs, "char"), FileType::CharDevice);
    assert_eq!(type_of(fs, "block"), FileType::BlockDevice);
}

fn nodes_are_no_directories(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    fails(fs.remove_dir(p("fifo")), ErrorKind::NotADirectory);
    fails(
        fs.read_dir(p("fifo"), Detail::Names, &mut |_| std::ops::ControlFlow::Continue(())),
        ErrorKind::NotADirectory,
    );
}

fn a_whiteout(fs: &dyn FileSystem) {
    create(fs, "gone", NodeKind::Whiteout);
    assert_eq!(type_of(fs, "gone"), FileType::Whiteout);
    assert!(exists(fs, "gone"));
    assert_eq!(entries(fs, p("")), [(b"gone".to_vec(), FileType::Whiteout)]);
    fails(fs.open(p("gone"), &stratafs::OpenOptions::reading()), ErrorKind::InvalidArgument);
    fails(fs.read_link(p("gone")), ErrorKind::InvalidArgument);
    fails(fs.remove_dir(p("gone")), ErrorKind::NotADirectory);
}

fn a_whiteout_takes_the_place_of_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let held = open(fs, "file", stratafs::OpenOptions::reading());
    create(fs, "file", NodeKind::Whiteout);
    assert_eq!(type_of(fs, "file"), FileType::Whiteout);
    assert_eq!(contents(&*held), b"contents");
    assert_eq!(names(fs, ""), ["file"]);
    if fs.capabilities().contains(Capabilities::SYMLINKS) {
        symlink(fs, "target", "link");
        create(fs, "link", NodeKind::Whiteout);
        assert_eq!(type_of(fs, "link"), FileType::Whiteout);
    }
}

fn a_whiteout_takes_the_place_of_an_empty_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    create(fs, "dir", NodeKind::Whiteout);
    assert_eq!(type_of(fs, "dir"), FileType::Whiteout);
    assert_eq!(names(fs, ""), ["dir"]);
}

fn a_whiteout_spares_a_full_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "contents");
    fails(fs.create(p("dir"), &NewNode::new(NodeKind::Whiteout)), ErrorKind::DirectoryNotEmpty);
    assert_eq!(get(fs, "dir/file"), b"contents");
    assert_eq!(names(fs, ""), ["dir"]);
}

fn a_whiteout_spares_the_root(fs: &dyn FileSystem) {
    fails(fs.create(p(""), &NewNode::new(NodeKind::Whiteout)), ErrorKind::AlreadyExists);
}

fn a_whiteout_over_a_whiteout(fs: &dyn FileSystem) {
    create(fs, "gone", NodeKind::Whiteout);
    create(fs, "gone", NodeKind::Whiteout);
    assert_eq!(names(fs, ""), ["gone"]);
}

fn a_whiteout_is_a_taken_name(fs: &dyn FileSystem) {
    create(fs, "gone", NodeKind::Whiteout);
    for kind in kinds(fs) {
        fails(fs.create(p("gone"), &NewNode::new(kind)), ErrorKind::AlreadyExists);
    }
    let new = stratafs::OpenOptions::new().write(true).create_new(true);
    fails(fs.open(p("gone"), &new), ErrorKind::AlreadyExists);
    assert_eq!(type_of(fs, "gone"), FileType::Whiteout);
}

fn a_whiteout_can_be_removed(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    create(fs, "dir/gone", NodeKind::Whiteout);
    fails(fs.remove_dir(p("dir")), ErrorKind::DirectoryNotEmpty);
    unlink(fs, "dir/gone");
    fs.remove_dir(p("dir")).unwrap();
    assert!(names(fs, "").is_empty());
}

fn a_whiteout_can_be_replaced(fs: &dyn FileSystem) {
    create(fs, "gone", NodeKind::Whiteout);
    put(fs, "file", "contents");
    rename(fs, "file", "gone");
    assert_eq!(get(fs, "gone"), b"contents");
    assert_eq!(names(fs, ""), ["gone"]);
}
