//! Extended attributes. Names are in `user.`, which hosts give to everybody.

use stratafs::{Capabilities, ErrorKind, FileSystem, XattrMode};

use super::cases;
use crate::tools::*;

cases![
    set_get_list_remove: XATTRS,
    a_missing_file: XATTRS,
    a_missing_attribute: XATTRS,
    create_refuses_a_taken_name: XATTRS,
    replace_refuses_a_missing_name: XATTRS,
    values_are_bytes: XATTRS,
    an_empty_value: XATTRS,
    a_large_value: XATTRS,
    too_long_a_value: XATTRS,
    a_long_name: XATTRS,
    too_long_a_name: XATTRS,
    of_directories_and_the_root: XATTRS,
    many: XATTRS,
    hard_links_share_them: XATTRS | HARD_LINKS,
    a_new_file_has_none: XATTRS,
    of_a_symlink_itself: XATTRS | SYMLINKS,
    reading_without_the_capability,
];

#[track_caller]
fn set(fs: &dyn FileSystem, path: &str, name: &str, value: &[u8]) {
    fs.set_xattr(p(path), name.as_bytes(), value, XattrMode::Set)
        .unwrap_or_else(|error| panic!("set_xattr {path:?} {name:?}: {error}"));
}

/// Those in `user.`: a host may show more (`security.selinux`).
fn list(fs: &dyn FileSystem, path: &str) -> Vec<String> {
    let mut names: Vec<_> = fs
        .xattrs(p(path))
        .unwrap()
        .into_iter()
        .map(|name| String::from_utf8(name).unwrap())
        .filter(|name| name.starts_with("user."))
        .collect();
    names.sort();
    names
}

fn set_get_list_remove(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    assert!(list(fs, "file").is_empty());
    set(fs, "file", "user.a", b"1");
    set(fs, "file", "user.b", b"2");
    assert_eq!(fs.xattr(p("file"), b"user.a").unwrap(), b"1");
    assert_eq!(list(fs, "file"), ["user.a", "user.b"]);
    set(fs, "file", "user.a", b"longer than before");
    assert_eq!(fs.xattr(p("file"), b"user.a").unwrap(), b"longer than before");
    fs.remove_xattr(p("file"), b"user.a").unwrap();
    assert_eq!(list(fs, "file"), ["user.b"]);
    fails(fs.xattr(p("file"), b"user.a"), ErrorKind::NoAttribute);
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_missing_file(fs: &dyn FileSystem) {
    fails(fs.xattr(p("missing"), b"user.a"), ErrorKind::NotFound);
    fails(fs.xattrs(p("missing")), ErrorKind::NotFound);
    fails(fs.remove_xattr(p("missing"), b"user.a"), ErrorKind::NotFound);
    for mode in [XattrMode::Set, XattrMode::Create, XattrMode::Replace] {
        fails(fs.set_xattr(p("missing"), b"user.a", b"1", mode), ErrorKind::NotFound);
    }
}

fn a_missing_attribute(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(fs.xattr(p("file"), b"user.a"), ErrorKind::NoAttribute);
    fails(fs.remove_xattr(p("file"), b"user.a"), ErrorKind::NoAttribute);
    set(fs, "file", "user.ab", b"1");
    fails(fs.xattr(p("file"), b"user.a"), ErrorKind::NoAttribute);
    fails(fs.remove_xattr(p("file"), b"user.a"), ErrorKind::NoAttribute);
}

fn create_refuses_a_taken_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fs.set_xattr(p("file"), b"user.a", b"1", XattrMode::Create).unwrap();
    fails(fs.set_xattr(p("file"), b"user.a", b"2", XattrMode::Create), ErrorKind::AlreadyExists);
    assert_eq!(fs.xattr(p("file"), b"user.a").unwrap(), b"1");
}

fn replace_refuses_a_missing_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(fs.set_xattr(p("file"), b"user.a", b"1", XattrMode::Replace), ErrorKind::NoAttribute);
    assert!(list(fs, "file").is_empty());
    set(fs, "file", "user.a", b"1");
    fs.set_xattr(p("file"), b"user.a", b"2", XattrMode::Replace).unwrap();
    assert_eq!(fs.xattr(p("file"), b"user.a").unwrap(), b"2");
}

fn values_are_bytes(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let value: Vec<u8> = (0..=255).collect();
    set(fs, "file", "user.bytes", &value);
    assert_eq!(fs.xattr(p("file"), b"user.bytes").unwrap(), value);
}

fn an_empty_value(fs: &dyn FileSystem) {
    put(fs, "file", "");
    set(fs, "file", "user.empty", b"");
    assert_eq!(fs.xattr(p("file"), b"user.empty").unwrap(), b"");
    assert_eq!(list(fs, "file"), ["user.empty"]);
}

fn a_large_value(fs: &dyn FileSystem) {
    put(fs, "file", "");
    set(fs, "file", "user.page", &noise(1, 1500));
    assert_eq!(fs.xattr(p("file"), b"user.page").unwrap(), noise(1, 1500));
    // The largest one; hosts may have room for less.
    let largest = noise(2, 65_536);
    match fs.set_xattr(p("file"), b"user.large", &largest, XattrMode::Set) {
        Ok(()) => assert!(fs.xattr(p("file"), b"user.large").unwrap() == largest),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            fails(fs.xattr(p("file"), b"user.large"), ErrorKind::NoAttribute);
        }
    }
}

fn too_long_a_value(fs: &dyn FileSystem) {
    put(fs, "file", "");
    fails(
        fs.set_xattr(p("file"), b"user.large", &[0; 65_537], XattrMode::Set),
        ErrorKind::TooLarge,
    );
    assert!(list(fs, "file").is_empty());
}

fn a_long_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let name = format!("user.{}", "n".repeat(250));
    set(fs, "file", &name, b"1");
    assert_eq!(fs.xattr(p("file"), name.as_bytes()).unwrap(), b"1");
    assert_eq!(list(fs, "file"), [name]);
}

fn too_long_a_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let name = format!("user.{}", "n".repeat(251));
    fails(fs.set_xattr(p("file"), name.as_bytes(), b"1", XattrMode::Set), ErrorKind::TooLarge);
    assert!(list(fs, "file").is_empty());
}

fn of_directories_and_the_root(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for path in ["dir", ""] {
        set(fs, path, "user.a", b"1");
        assert_eq!(fs.xattr(p(path), b"user.a").unwrap(), b"1");
        assert_eq!(list(fs, path), ["user.a"]);
        fs.remove_xattr(p(path), b"user.a").unwrap();
        assert!(list(fs, path).is_empty());
    }
}

fn many(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let mut expected = Vec::new();
    for i in 0..40 {
        let name = format!("user.name{i:02}");
        set(fs, "file", &name, format!("value{i}").as_bytes());
        expected.push(name);
    }
    assert_eq!(list(fs, "file"), expected);
    for i in 0..40 {
        let value = fs.xattr(p("file"), format!("user.name{i:02}").as_bytes()).unwrap();
        assert_eq!(value, format!("value{i}").as_bytes());
    }
}

fn hard_links_share_them(fs: &dyn FileSystem) {
    put(fs, "a", "");
    link(fs, "a", "b");
    set(fs, "a", "user.a", b"1");
    assert_eq!(fs.xattr(p("b"), b"user.a").unwrap(), b"1");
}

fn a_new_file_has_none(fs: &dyn FileSystem) {
    put(fs, "file", "");
    set(fs, "file", "user.a", b"1");
    put(fs, "file", "the same file, cut");
    assert_eq!(list(fs, "file"), ["user.a"]);
    unlink(fs, "file");
    put(fs, "file", "another");
    assert!(list(fs, "file").is_empty());
}

fn of_a_symlink_itself(fs: &dyn FileSystem) {
    put(fs, "file", "");
    symlink(fs, "file", "link");
    // Linux keeps no `user.` attributes on symbolic links.
    match fs.set_xattr(p("link"), b"user.a", b"1", XattrMode::Set) {
        Ok(()) => assert_eq!(fs.xattr(p("link"), b"user.a").unwrap(), b"1"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::OperationNotPermitted),
    }
    assert!(list(fs, "file").is_empty());
}

fn reading_without_the_capability(fs: &dyn FileSystem) {
    if fs.capabilities().contains(Capabilities::XATTRS) {
        return;
    }
    put(fs, "file", "");
    fails(fs.xattr(p("file"), b"user.a"), ErrorKind::NoAttribute);
    fails(fs.xattr(p("missing"), b"user.a"), ErrorKind::NotFound);
    assert!(list(fs, "file").is_empty());
}
