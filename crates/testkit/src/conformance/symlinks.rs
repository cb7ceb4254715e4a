//! Symbolic links: made, read, never followed.

use stratafs::{ErrorKind, FileSystem, FileType, NewNode, NodeKind};

use super::cases;
use crate::tools::*;

cases![
    a_missing_link,
    a_file_or_directory_is_no_link,
    a_node_is_no_link: SPECIAL_NODES,
    targets_are_kept_byte_for_byte: SYMLINKS,
    a_long_target: SYMLINKS,
    a_taken_name_is_refused: SYMLINKS,
    removing_a_link_leaves_its_target: SYMLINKS,
    renaming_a_link_moves_the_link: SYMLINKS,
    a_link_to_a_directory_is_not_the_directory: SYMLINKS,
];

fn a_missing_link(fs: &dyn FileSystem) {
    fails(fs.read_link(p("missing")), ErrorKind::NotFound);
}

fn a_file_or_directory_is_no_link(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    for path in ["file", "dir", ""] {
        fails(fs.read_link(p(path)), ErrorKind::InvalidArgument);
    }
}

fn a_node_is_no_link(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    fails(fs.read_link(p("fifo")), ErrorKind::InvalidArgument);
}

fn targets_are_kept_byte_for_byte(fs: &dyn FileSystem) {
    let targets: [&[u8]; 10] = [
        b"file",
        b"/absolute/path",
        b"../../..",
        b".",
        b"a//b/./c/",
        b"trailing ",
        b"\xff\xfe not utf-8",
        "\u{e9}\u{65e5}".as_bytes(),
        b"new\nline",
        b"back\\slash",
    ];
    for (i, target) in targets.iter().enumerate() {
        let path = format!("link{i}");
        let known = fs.create(p(&path), &NewNode::symlink(target)).unwrap();
        assert_eq!(fs.read_link(p(&path)).unwrap(), *target);
        assert_eq!((known.file_type, known.len), (FileType::Symlink, target.len() as u64));
        // Reading the link may have moved the time of the last read.
        let accessed = known.accessed;
        assert_eq!(stratafs::Metadata { accessed, ..stat(fs, &path) }, known);
    }
}

fn a_long_target(fs: &dyn FileSystem) {
    for len in [59, 60, 255, 1000, 4095] {
        let target = "t/".repeat(len).into_bytes()[..len].to_vec();
        let path = format!("link{len}");
        fs.create(p(&path), &NewNode::symlink(&target)).unwrap();
        assert!(fs.read_link(p(&path)).unwrap() == target, "{len} bytes");
        assert_eq!(stat(fs, &path).len, len as u64);
    }
}

fn a_taken_name_is_refused(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    symlink(fs, "old", "link");
    for path in ["file", "dir", "link", ""] {
        fails(fs.create(p(path), &NewNode::symlink(b"new")), ErrorKind::AlreadyExists);
    }
    assert_eq!(fs.read_link(p("link")).unwrap(), b"old");
}

fn removing_a_link_leaves_its_target(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    symlink(fs, "file", "to-file");
    symlink(fs, "dir", "to-dir");
    fails(fs.remove_dir(p("to-dir")), ErrorKind::NotADirectory);
    unlink(fs, "to-file");
    unlink(fs, "to-dir");
    assert_eq!(names(fs, ""), ["dir", "file"]);
}

fn renaming_a_link_moves_the_link(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    symlink(fs, "file", "link");
    rename(fs, "link", "moved");
    assert_eq!(fs.read_link(p("moved")).unwrap(), b"file");
    assert!(!exists(fs, "link"));
    // Onto a link: the link goes, not what it points at.
    put(fs, "new", "new");
    rename(fs, "new", "moved");
    assert_eq!(get(fs, "moved"), b"new");
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_link_to_a_directory_is_not_the_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    symlink(fs, "dir", "link");
    put(fs, "file", "");
    // A file may replace the link, a directory may not.
    mkdir(fs, "other");
    fails(
        fs.rename(p("other"), p("link"), stratafs::RenameMode::Replace),
        ErrorKind::NotADirectory,
    );
    rename(fs, "file", "link");
    assert_eq!(type_of(fs, "link"), FileType::File);
    assert_eq!(type_of(fs, "dir"), FileType::Directory);
}
