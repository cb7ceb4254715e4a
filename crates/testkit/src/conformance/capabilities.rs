//! What a backend answers when it lacks a capability.

use std::sync::Arc;

use stratafs::{
    Capabilities, ErrorKind, FileSystem, MetadataChange, NewNode, NodeKind, OpenOptions, Owner,
    RenameMode, Seek, WatchEvent, XattrMode,
};

use super::cases;
use crate::tools::*;

cases![
    they_stay_the_same,
    a_writable_backend_is_not_immutable,
    without_hard_links,
    without_symlinks,
    without_special_nodes,
    without_whiteouts,
    without_exchange,
    without_temporary_files,
    without_xattrs,
    without_watch,
    without_modes_or_owners,
    without_holes,
];

fn has(fs: &dyn FileSystem, capability: Capabilities) -> bool {
    fs.capabilities().contains(capability)
}

fn they_stay_the_same(fs: &dyn FileSystem) {
    let before = fs.capabilities();
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    assert_eq!(fs.capabilities(), before);
}

fn a_writable_backend_is_not_immutable(fs: &dyn FileSystem) {
    assert!(!has(fs, Capabilities::IMMUTABLE));
}

fn without_hard_links(fs: &dyn FileSystem) {
    if has(fs, Capabilities::HARD_LINKS) {
        return;
    }
    put(fs, "file", "");
    fails(fs.link(p("file"), p("new")), ErrorKind::Unsupported);
    fails(fs.link(p("missing"), p("file")), ErrorKind::Unsupported);
    assert_eq!(names(fs, ""), ["file"]);
}

fn without_symlinks(fs: &dyn FileSystem) {
    if has(fs, Capabilities::SYMLINKS) {
        return;
    }
    put(fs, "file", "");
    for path in ["new", "file"] {
        fails(fs.create(p(path), &NewNode::symlink(b"target")), ErrorKind::Unsupported);
    }
    assert_eq!(names(fs, ""), ["file"]);
}

fn without_special_nodes(fs: &dyn FileSystem) {
    if has(fs, Capabilities::SPECIAL_NODES) {
        return;
    }
    for kind in [
        NodeKind::Fifo,
        NodeKind::Socket,
        NodeKind::CharDevice(ODD_DEVICE),
        NodeKind::BlockDevice(ODD_DEVICE),
    ] {
        fails(fs.create(p("new"), &NewNode::new(kind)), ErrorKind::Unsupported);
    }
    assert!(names(fs, "").is_empty());
}

fn without_whiteouts(fs: &dyn FileSystem) {
    if has(fs, Capabilities::WHITEOUTS) {
        return;
    }
    put(fs, "file", "contents");
    for path in ["new", "file"] {
        fails(fs.create(p(path), &NewNode::new(NodeKind::Whiteout)), ErrorKind::Unsupported);
    }
    fails(fs.rename(p("file"), p("new"), RenameMode::Whiteout), ErrorKind::Unsupported);
    fails(fs.rename(p("missing"), p("new"), RenameMode::Whiteout), ErrorKind::Unsupported);
    assert_eq!(get(fs, "file"), b"contents");
}

fn without_exchange(fs: &dyn FileSystem) {
    if has(fs, Capabilities::EXCHANGE) {
        return;
    }
    put(fs, "a", "a");
    put(fs, "b", "b");
    fails(fs.rename(p("a"), p("b"), RenameMode::Exchange), ErrorKind::Unsupported);
    fails(fs.rename(p("a"), p("missing"), RenameMode::Exchange), ErrorKind::Unsupported);
    assert_eq!(get(fs, "a"), b"a");
}

fn without_temporary_files(fs: &dyn FileSystem) {
    if !has(fs, Capabilities::TEMPORARY) {
        let options = OpenOptions::new().write(true).temporary(true);
        fails(fs.open(p(""), &options), ErrorKind::Unsupported);
    }
    // A file that has a name is not temporary, whatever the backend can.
    let file = edit(fs, "file");
    fails(file.link_to(p("new")), ErrorKind::Unsupported);
    assert_eq!(names(fs, ""), ["file"]);
}

fn without_xattrs(fs: &dyn FileSystem) {
    if has(fs, Capabilities::XATTRS) {
        return;
    }
    put(fs, "file", "");
    for path in ["file", "missing"] {
        fails(fs.set_xattr(p(path), b"user.a", b"1", XattrMode::Set), ErrorKind::Unsupported);
        fails(fs.remove_xattr(p(path), b"user.a"), ErrorKind::Unsupported);
    }
}

fn without_watch(fs: &dyn FileSystem) {
    if has(fs, Capabilities::WATCH) {
        return;
    }
    for path in ["", "missing"] {
        fails(fs.watch(p(path), Arc::new(|_: WatchEvent| {})), ErrorKind::Unsupported);
    }
}

fn without_modes_or_owners(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let before = stat(fs, "file");
    if !has(fs, Capabilities::MODES) {
        fs.set_metadata(p("file"), &MetadataChange::new().mode(0o600)).unwrap();
        assert_eq!(stat(fs, "file").mode, before.mode);
    }
    if !has(fs, Capabilities::OWNERS) {
        let owner = Owner { user: 1, group: 2 };
        fs.set_metadata(p("file"), &MetadataChange::new().owner(owner)).unwrap();
        assert_eq!(stat(fs, "file").owner, before.owner);
    }
}

fn without_holes(fs: &dyn FileSystem) {
    if has(fs, Capabilities::SPARSE) {
        return;
    }
    let file = edit(fs, "file");
    write_all(&*file, b"x", 1 << 20);
    assert_eq!(file.seek(0, Seek::Data).unwrap(), 0);
    assert_eq!(file.seek(5, Seek::Data).unwrap(), 5);
    assert_eq!(file.seek(0, Seek::Hole).unwrap(), (1 << 20) + 1);
    fails(file.seek((1 << 20) + 1, Seek::Data), ErrorKind::NoSuchOffset);
}
