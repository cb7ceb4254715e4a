//! Normalisation of paths, and what can be asked of a path, against a naive model.

use std::borrow::Cow;

use stratafs::path::{MAX_NAME_LEN, MAX_PATH_LEN, normalize};
use stratafs::{ErrorKind, VfsPath};
use stratafs_testkit::tools::Random;

use crate::{Target, mutate};

/// The target: the whole input is a path.
pub const TARGET: Target = Target { name: "path", seeds, run, mutate: mutate_path };

fn seeds() -> Vec<Vec<u8>> {
    let long = [b"0123456789abcde/".repeat(20), vec![b'n'; 255], b"/x".repeat(1700)].concat();
    let texts = ["", "/", "a", "/a/b", "a//b/", "./a/./b/.", "a/../b", "a/b/../..", "..", ".a/..b"];
    let texts = texts.into_iter().map(|text| text.as_bytes().to_vec());
    texts.chain([b"not/utf-8\xff".to_vec(), b"nul\0".to_vec(), long]).collect()
}

fn mutate_path(input: &mut Vec<u8>, random: &mut Random) {
    let long = [b'l'; 250];
    let words: &[&[u8]] = &[b"/", b"//", b".", b"..", b"/../", b"/./", b"name", b"\0", &long];
    mutate::words(input, random, words);
}

/// The names that a path means, by the rules as they are written down.
fn model(bytes: &[u8]) -> Result<Vec<&[u8]>, ErrorKind> {
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    if bytes.len() > MAX_PATH_LEN {
        return Err(ErrorKind::NameTooLong);
    }
    if bytes.contains(&0) {
        return Err(ErrorKind::InvalidPath);
    }
    if bytes.split(|&byte| byte == b'/').any(|name| name.len() > MAX_NAME_LEN) {
        return Err(ErrorKind::NameTooLong);
    }
    let mut names = Vec::new();
    for name in bytes.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop().ok_or(ErrorKind::InvalidPath)?),
            name => names.push(name),
        }
    }
    Ok(names)
}

fn run(input: &[u8]) {
    let names = match (normalize(input), model(input)) {
        (Err(error), Err(kind)) => {
            assert_eq!(error.kind(), kind);
            assert!(VfsPath::new(input).is_err());
            return;
        }
        (Ok(path), Ok(names)) => {
            let expected = names.join(&b'/');
            assert_eq!(path.as_bytes(), expected);
            let relative = input.strip_prefix(b"/").unwrap_or(input);
            assert_eq!(matches!(path, Cow::Borrowed(_)), relative == expected);
            assert_eq!(VfsPath::new(input).is_ok(), input == expected);
            names
        }
        (real, model) => panic!("{real:?}, and by the model {model:?}"),
    };
    let bytes = names.join(&b'/');
    let path = VfsPath::new(&bytes).expect("a normal path");
    check_parts(path, &names);
    check_building(path, &names);
}

fn check_parts(path: &VfsPath, names: &[&[u8]]) {
    assert!(path.components().eq(names.iter().copied()));
    assert!(path.components().rev().eq(names.iter().rev().copied()));
    assert_eq!(path.is_root(), names.is_empty());
    assert_eq!(path.file_name(), names.last().copied());
    assert_eq!(path.parent().is_some(), !names.is_empty());
    assert_eq!(path.split_first().map(|(first, _)| first), names.first().copied());
    assert_eq!(path.ancestors().count(), names.len());
    // Some of them: each is compared name by name.
    for (depth, ancestor) in path.ancestors().enumerate().step_by(1 + names.len() / 8) {
        assert!(ancestor.components().eq(names[..depth].iter().copied()));
        let rest = path.strip_prefix(ancestor).expect("it lies below its ancestor");
        assert!(rest.components().eq(names[depth..].iter().copied()));
        assert_eq!(*ancestor.join(rest), *path);
    }
}

fn check_building(path: &VfsPath, names: &[&[u8]]) {
    let mut built = VfsPath::root().to_owned();
    for name in names {
        built.push(name).expect("a name of a normal path");
    }
    assert_eq!(*built, *path);
    // A sibling whose name goes on is not below.
    if let Some((parent, name)) = path.split_last()
        && name.len() < MAX_NAME_LEN
    {
        let sibling = parent.join_name(&[name, b"x"].concat()).expect("one byte more");
        assert!(!sibling.starts_with(path) && sibling.starts_with(parent));
    }
    for _ in names {
        assert!(built.pop());
    }
    assert!(!built.pop() && built.is_root());
}
