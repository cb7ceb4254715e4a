//! `FileSystem::rename` without replacing, exchanging, and leaving a whiteout.

use stratafs::{ErrorKind, FileSystem, FileType, NodeKind, RenameMode};

use super::cases;
use super::rename::{
    makes_no_loop, needs_a_source, refused, replaces_only_what_fits, spares_the_root,
};
use crate::tools::*;

cases![
    no_replace_moves,
    no_replace_refuses_a_taken_name,
    no_replace_onto_itself_is_taken,
    no_replace_onto_a_directory_above,
    no_replace_a_missing_source,
    no_replace_below_itself,
    no_replace_the_root_is_busy,
    exchange_files: EXCHANGE,
    exchange_a_file_and_a_directory: EXCHANGE,
    exchange_full_directories: EXCHANGE,
    exchange_across_directories: EXCHANGE,
    exchange_symlinks: EXCHANGE | SYMLINKS,
    exchange_with_itself: EXCHANGE,
    exchange_needs_both: EXCHANGE,
    exchange_refuses_what_lies_below: EXCHANGE,
    exchange_the_root_is_busy: EXCHANGE,
    exchange_keeps_handles: EXCHANGE,
    exchange_with_a_whiteout: EXCHANGE | WHITEOUTS,
    whiteout_is_left_behind: WHITEOUTS,
    whiteout_replaces: WHITEOUTS,
    whiteout_of_a_directory: WHITEOUTS,
    whiteout_onto_itself: WHITEOUTS,
    whiteout_a_missing_source: WHITEOUTS,
    whiteout_below_itself: WHITEOUTS,
    whiteout_the_root_is_busy: WHITEOUTS,
    whiteout_onto_what_does_not_fit: WHITEOUTS,
];

use RenameMode::{Exchange, NoReplace, Whiteout};

fn no_replace_moves(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    mkdir(fs, "dir");
    put(fs, "dir/inner", "");
    fs.rename(p("a"), p("b"), NoReplace).unwrap();
    fs.rename(p("dir"), p("moved"), NoReplace).unwrap();
    assert_eq!(names(fs, ""), ["b", "moved"]);
    assert_eq!(get(fs, "b"), b"contents");
    assert_eq!(names(fs, "moved"), ["inner"]);
}

fn no_replace_refuses_a_taken_name(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    put(fs, "other", "other");
    mkdir(fs, "dir");
    mkdir(fs, "empty");
    for (from, to) in [("file", "other"), ("file", "dir"), ("dir", "file"), ("dir", "empty")] {
        refused(fs, from, to, NoReplace, ErrorKind::AlreadyExists);
    }
    assert_eq!(get(fs, "other"), b"other");
    assert_eq!(names(fs, ""), ["dir", "empty", "file", "other"]);
}

fn no_replace_onto_itself_is_taken(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    refused(fs, "file", "file", NoReplace, ErrorKind::AlreadyExists);
    refused(fs, "dir", "dir", NoReplace, ErrorKind::AlreadyExists);
}

fn no_replace_onto_a_directory_above(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    refused(fs, "a/b", "a", NoReplace, ErrorKind::AlreadyExists);
}

fn no_replace_a_missing_source(fs: &dyn FileSystem) {
    needs_a_source(fs, NoReplace);
}

fn no_replace_below_itself(fs: &dyn FileSystem) {
    makes_no_loop(fs, NoReplace);
}

fn no_replace_the_root_is_busy(fs: &dyn FileSystem) {
    spares_the_root(fs, NoReplace);
}

fn exchange_files(fs: &dyn FileSystem) {
    put(fs, "a", "1");
    put(fs, "b", "22");
    let ids = [stat(fs, "a").id, stat(fs, "b").id];
    fs.rename(p("a"), p("b"), Exchange).unwrap();
    assert_eq!((get(fs, "a"), get(fs, "b")), (b"22".to_vec(), b"1".to_vec()));
    assert_eq!([stat(fs, "b").id, stat(fs, "a").id], ids);
    assert_eq!(names(fs, ""), ["a", "b"]);
}

fn exchange_a_file_and_a_directory(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    mkdir(fs, "b");
    put(fs, "b/inner", "inner");
    fs.rename(p("a"), p("b"), Exchange).unwrap();
    assert_eq!(get(fs, "b"), b"contents");
    assert_eq!(get(fs, "a/inner"), b"inner");
    fs.rename(p("a"), p("b"), Exchange).unwrap();
    assert_eq!(get(fs, "a"), b"contents");
    assert_eq!(get(fs, "b/inner"), b"inner");
}

fn exchange_full_directories(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    put(fs, "a/one", "1");
    mkdir(fs, "b");
    put(fs, "b/two", "2");
    fs.rename(p("a"), p("b"), Exchange).unwrap();
    assert_eq!(names(fs, "a"), ["two"]);
    assert_eq!(names(fs, "b"), ["one"]);
    assert_eq!(get(fs, "b/one"), b"1");
}

fn exchange_across_directories(fs: &dyn FileSystem) {
    mkdir(fs, "x");
    mkdir(fs, "y");
    put(fs, "x/file", "file");
    mkdir(fs, "y/dir");
    put(fs, "y/dir/inner", "inner");
    fs.rename(p("x/file"), p("y/dir"), Exchange).unwrap();
    assert_eq!(get(fs, "y/dir"), b"file");
    assert_eq!(get(fs, "x/file/inner"), b"inner");
    put(fs, "x/file/more", "");
    fs.remove_dir(p("x")).expect_err("x is not empty");
}

fn exchange_symlinks(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    symlink(fs, "target", "link");
    fs.rename(p("file"), p("link"), Exchange).unwrap();
    assert_eq!(get(fs, "link"), b"contents");
    assert_eq!(fs.read_link(p("file")).unwrap(), b"target");
}

fn exchange_with_itself(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    fs.rename(p("file"), p("file"), Exchange).unwrap();
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(names(fs, ""), ["file"]);
}

fn exchange_needs_both(fs: &dyn FileSystem) {
    needs_a_source(fs, Exchange);
    mkdir(fs, "dir");
    refused(fs, "file", "missing", Exchange, ErrorKind::NotFound);
    refused(fs, "dir", "dir/missing", Exchange, ErrorKind::NotFound);
    assert_eq!(names(fs, ""), ["dir", "file"]);
}

fn exchange_refuses_what_lies_below(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "a/b");
    put(fs, "a/b/file", "");
    for below in ["a/b", "a/b/file"] {
        refused(fs, "a", below, Exchange, ErrorKind::InvalidArgument);
        refused(fs, below, "a", Exchange, ErrorKind::InvalidArgument);
    }
    assert!(exists(fs, "a/b/file"));
}

fn exchange_the_root_is_busy(fs: &dyn FileSystem) {
    spares_the_root(fs, Exchange);
}

fn exchange_keeps_handles(fs: &dyn FileSystem) {
    let (a, b) = (edit(fs, "a"), edit(fs, "b"));
    fs.rename(p("a"), p("b"), Exchange).unwrap();
    write_all(&*a, b"from a", 0);
    write_all(&*b, b"from b", 0);
    assert_eq!(get(fs, "b"), b"from a");
    assert_eq!(get(fs, "a"), b"from b");
}

fn exchange_with_a_whiteout(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/inner", "");
    create(fs, "gone", NodeKind::Whiteout);
    fs.rename(p("dir"), p("gone"), Exchange).unwrap();
    assert_eq!(type_of(fs, "dir"), FileType::Whiteout);
    assert_eq!(names(fs, "gone"), ["inner"]);
}

fn whiteout_is_left_behind(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    fs.rename(p("a"), p("b"), Whiteout).unwrap();
    assert_eq!(get(fs, "b"), b"contents");
    assert_eq!(type_of(fs, "a"), FileType::Whiteout);
    assert_eq!(names(fs, ""), ["a", "b"]);
}

fn whiteout_replaces(fs: &dyn FileSystem) {
    put(fs, "a", "new");
    put(fs, "b", "old");
    fs.rename(p("a"), p("b"), Whiteout).unwrap();
    assert_eq!(get(fs, "b"), b"new");
    assert_eq!(type_of(fs, "a"), FileType::Whiteout);
    put(fs, "c", "newer");
    fs.rename(p("c"), p("a"), Whiteout).unwrap();
    assert_eq!(get(fs, "a"), b"newer");
    assert_eq!(type_of(fs, "c"), FileType::Whiteout);
}

fn whiteout_of_a_directory(fs: &dyn FileSystem) {
    mkdir(fs, "x");
    mkdir(fs, "x/a");
    put(fs, "x/a/inner", "inner");
    mkdir(fs, "y");
    fs.rename(p("x/a"), p("y/b"), Whiteout).unwrap();
    assert_eq!(get(fs, "y/b/inner"), b"inner");
    assert_eq!(entries(fs, p("x")), [(b"a".to_vec(), FileType::Whiteout)]);
    fails(fs.metadata(p("x/a/inner")), ErrorKind::NotADirectory);
}

fn whiteout_onto_itself(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    fs.rename(p("file"), p("file"), Whiteout).unwrap();
    assert_eq!(get(fs, "file"), b"contents");
    assert_eq!(names(fs, ""), ["file"]);
}

fn whiteout_a_missing_source(fs: &dyn FileSystem) {
    needs_a_source(fs, Whiteout);
}

fn whiteout_below_itself(fs: &dyn FileSystem) {
    makes_no_loop(fs, Whiteout);
}

fn whiteout_the_root_is_busy(fs: &dyn FileSystem) {
    spares_the_root(fs, Whiteout);
}

fn whiteout_onto_what_does_not_fit(fs: &dyn FileSystem) {
    replaces_only_what_fits(fs, Whiteout);
}
