//! `FileSystem::remove_file` and `remove_dir`.

use stratafs::{ErrorKind, FileSystem};

use super::cases;
use crate::tools::*;

cases![
    a_file,
    a_missing_file,
    remove_file_refuses_a_directory,
    remove_file_refuses_the_root,
    an_empty_directory,
    a_missing_directory,
    remove_dir_refuses_a_file,
    remove_dir_refuses_a_symlink: SYMLINKS,
    remove_dir_refuses_a_full_directory,
    remove_dir_refuses_the_root,
    a_removed_name_is_free,
    a_deep_tree,
    below_a_removed_directory,
];

fn a_file(fs: &dyn FileSystem) {
    put(fs, "a", "a");
    put(fs, "b", "b");
    unlink(fs, "a");
    assert!(!exists(fs, "a"));
    fails(fs.metadata(p("a")), ErrorKind::NotFound);
    assert_eq!(names(fs, ""), ["b"]);
}

fn a_missing_file(fs: &dyn FileSystem) {
    fails(fs.remove_file(p("missing")), ErrorKind::NotFound);
    put(fs, "file", "");
    unlink(fs, "file");
    fails(fs.remove_file(p("file")), ErrorKind::NotFound);
}

fn remove_file_refuses_a_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    fails(fs.remove_file(p("dir")), ErrorKind::IsADirectory);
    assert!(exists(fs, "dir"));
}

fn remove_file_refuses_the_root(fs: &dyn FileSystem) {
    fails(fs.remove_file(p("")), ErrorKind::IsADirectory);
}

fn an_empty_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    fs.remove_dir(p("dir")).unwrap();
    assert!(!exists(fs, "dir"));
    assert!(names(fs, "").is_empty());
}

fn a_missing_directory(fs: &dyn FileSystem) {
    fails(fs.remove_dir(p("missing")), ErrorKind::NotFound);
}

fn remove_dir_refuses_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    fails(fs.remove_dir(p("file")), ErrorKind::NotADirectory);
    assert_eq!(get(fs, "file"), b"contents");
}

fn remove_dir_refuses_a_symlink(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    symlink(fs, "dir", "link");
    fails(fs.remove_dir(p("link")), ErrorKind::NotADirectory);
    assert_eq!(names(fs, ""), ["dir", "link"]);
}

fn remove_dir_refuses_a_full_directory(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    put(fs, "a/file", "");
    mkdir(fs, "b");
    mkdir(fs, "b/dir");
    fails(fs.remove_dir(p("a")), ErrorKind::DirectoryNotEmpty);
    fails(fs.remove_dir(p("b")), ErrorKind::DirectoryNotEmpty);
    assert!(exists(fs, "a/file") && exists(fs, "b/dir"));
}

fn remove_dir_refuses_the_root(fs: &dyn FileSystem) {
    fails(fs.remove_dir(p("")), ErrorKind::Busy);
    put(fs, "file", "");
    fails(fs.remove_dir(p("")), ErrorKind::Busy);
}

fn a_removed_name_is_free(fs: &dyn FileSystem) {
    for _ in 0..3 {
        put(fs, "name", "contents");
        assert_eq!(get(fs, "name"), b"contents");
        unlink(fs, "name");
        mkdir(fs, "name");
        assert!(names(fs, "name").is_empty());
        put(fs, "name/inner", "");
        unlink(fs, "name/inner");
        fs.remove_dir(p("name")).unwrap();
    }
    assert!(names(fs, "").is_empty());
}

fn a_deep_tree(fs: &dyn FileSystem) {
    let mut path = String::from("top");
    mkdir(fs, &path);
    for depth in 0..20 {
        put(fs, &format!("{path}/file"), "");
        path = format!("{path}/{depth}");
        mkdir(fs, &path);
    }
    remove_all(fs, p("top"));
    assert!(names(fs, "").is_empty());
}

fn below_a_removed_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "old");
    unlink(fs, "dir/file");
    fs.remove_dir(p("dir")).unwrap();
    fails(fs.metadata(p("dir/file")), ErrorKind::NotFound);
    fails(fs.open(p("dir/file"), &stratafs::OpenOptions::writing()), ErrorKind::NotFound);
    mkdir(fs, "dir");
    assert!(names(fs, "dir").is_empty(), "what was in the removed directory shows in the new one");
}
