//! `FileSystem::read_dir`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use stratafs::{Capabilities, Detail, ErrorKind, FileSystem, FileType, NodeKind};

use super::cases;
use crate::tools::*;

cases![
    a_missing_directory,
    a_file_is_no_directory,
    a_symlink_is_no_directory: SYMLINKS,
    an_empty_directory,
    only_its_own_entries,
    types_and_ids_are_those_of_metadata,
    every_type: SPECIAL_NODES | SYMLINKS,
    a_whiteout_is_listed: WHITEOUTS,
    hard_links_show_one_id: HARD_LINKS,
    thousands_of_entries,
    it_ends_where_the_visitor_breaks,
    it_follows_changes,
    neighbours_by_name_are_not_below,
];

fn nothing(fs: &dyn FileSystem, path: &str) -> stratafs::BackendResult<()> {
    fs.read_dir(p(path), Detail::Names, &mut |_| ControlFlow::Continue(()))
}

fn a_missing_directory(fs: &dyn FileSystem) {
    fails(nothing(fs, "missing"), ErrorKind::NotFound);
}

fn a_file_is_no_directory(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(nothing(fs, "file"), ErrorKind::NotADirectory);
}

fn a_symlink_is_no_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    symlink(fs, "dir", "link");
    fails(nothing(fs, "link"), ErrorKind::NotADirectory);
}

fn an_empty_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    assert!(names(fs, "dir").is_empty());
    put(fs, "dir/file", "");
    unlink(fs, "dir/file");
    assert!(names(fs, "dir").is_empty());
}

fn only_its_own_entries(fs: &dyn FileSystem) {
    for dir in ["a", "a/b", "a/b/c", "d"] {
        mkdir(fs, dir);
        put(fs, &format!("{dir}/file-{}", dir.len()), "");
    }
    assert_eq!(names(fs, ""), ["a", "d"]);
    assert_eq!(names(fs, "a"), ["b", "file-1"]);
    assert_eq!(names(fs, "a/b"), ["c", "file-3"]);
    assert_eq!(names(fs, "a/b/c"), ["file-5"]);
    assert_eq!(names(fs, "d"), ["file-1"]);
}

#[track_caller]
fn agrees_with_metadata(fs: &dyn FileSystem, dir: &str) {
    let mut seen = Vec::new();
    fs.read_dir(p(dir), Detail::Names, &mut |entry| {
        seen.push((entry.name.to_vec(), entry.file_type, entry.id));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(!seen.is_empty());
    for (name, file_type, id) in seen {
        let known = fs.metadata(&p(dir).join_name(&name).unwrap()).unwrap();
        assert_eq!((file_type, id), (known.file_type, known.id), "{}", name.escape_ascii());
    }
}

fn types_and_ids_are_those_of_metadata(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    mkdir(fs, "dir/sub");
    put(fs, "dir/file", "contents");
    put(fs, "file", "contents");
    if fs.capabilities().contains(Capabilities::SYMLINKS) {
        symlink(fs, "file", "dir/link");
        symlink(fs, "dir", "link");
    }
    agrees_with_metadata(fs, "");
    agrees_with_metadata(fs, "dir");
}

fn every_type(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    symlink(fs, "file", "link");
    create(fs, "fifo", NodeKind::Fifo);
    create(fs, "socket", NodeKind::Socket);
    create(fs, "char", NodeKind::CharDevice(ODD_DEVICE));
    create(fs, "block", NodeKind::BlockDevice(ODD_DEVICE));
    let expected = [
        ("block", FileType::BlockDevice),
        ("char", FileType::CharDevice),
        ("dir", FileType::Directory),
        ("fifo", FileType::Fifo),
        ("file", FileType::File),
        ("link", FileType::Symlink),
        ("socket", FileType::Socket),
    ];
    let seen = entries(fs, p(""));
    let seen: Vec<_> =
        seen.iter().map(|(name, t)| (std::str::from_utf8(name).unwrap(), *t)).collect();
    assert_eq!(seen, expected);
    agrees_with_metadata(fs, "");
}

fn a_whiteout_is_listed(fs: &dyn FileSystem) {
    create(fs, "white", NodeKind::Whiteout);
    assert_eq!(entries(fs, p("")), [(b"white".to_vec(), FileType::Whiteout)]);
    agrees_with_metadata(fs, "");
}

fn hard_links_show_one_id(fs: &dyn FileSystem) {
    put(fs, "a", "");
    link(fs, "a", "b");
    agrees_with_metadata(fs, "");
}

fn thousands_of_entries(fs: &dyn FileSystem) {
    mkdir(fs, "many");
    let mut expected = BTreeSet::new();
    for i in 0..3000 {
        let name = format!("entry-{i:04}-{}", "x".repeat(i % 60));
        put(fs, &format!("many/{name}"), "");
        expected.insert(name);
    }
    assert!(names(fs, "many").into_iter().eq(expected.iter().cloned()));
    for name in expected.iter().step_by(2) {
        unlink(fs, &format!("many/{name}"));
    }
    assert!(names(fs, "many").into_iter().eq(expected.into_iter().skip(1).step_by(2)));
}

fn it_ends_where_the_visitor_breaks(fs: &dyn FileSystem) {
    for i in 0..100 {
        put(fs, &format!("file{i}"), "");
    }
    for stop in [1, 2, 50, 100] {
        let mut visits = 0;
        fs.read_dir(p(""), Detail::Names, &mut |_| {
            visits += 1;
            if visits == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        assert_eq!(visits, stop);
    }
}

fn it_follows_changes(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/a", "");
    put(fs, "dir/b", "");
    rename(fs, "dir/a", "dir/c");
    assert_eq!(names(fs, "dir"), ["b", "c"]);
    rename(fs, "dir/b", "dir/c");
    assert_eq!(names(fs, "dir"), ["c"]);
    rename(fs, "dir/c", "out");
    assert!(names(fs, "dir").is_empty());
    assert_eq!(names(fs, ""), ["dir", "out"]);
    fs.remove_dir(p("dir")).unwrap();
    put(fs, "dir", "a file now");
    fails(nothing(fs, "dir"), ErrorKind::NotADirectory);
}

fn neighbours_by_name_are_not_below(fs: &dyn FileSystem) {
    // Sorted by bytes, these lie between "a" and "a/x", or behind it.
    for name in ["a!", "a-b", "a.b", "a0", "ab", "a b"] {
        mkdir(fs, name);
        put(fs, &format!("{name}/inner"), "");
    }
    mkdir(fs, "a");
    put(fs, "a/x", "");
    assert_eq!(names(fs, "a"), ["x"]);
    rename(fs, "a", "moved");
    assert_eq!(names(fs, ""), ["a b", "a!", "a-b", "a.b", "a0", "ab", "moved"]);
    assert_eq!(names(fs, "a-b"), ["inner"]);
    assert_eq!(names(fs, "moved"), ["x"]);
}
