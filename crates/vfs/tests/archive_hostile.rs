//! Hostile archives: lies that must be found. Mutations at random are in `crates/fuzz`.
#![cfg(feature = "archive")]

use std::ops::ControlFlow;

use stratafs::archive::{Compression, PackOptions, Rule, pack_to_vec};
use stratafs::{
    ArchiveFs, Detail, ErrorKind, FileSystem, MemoryFs, NewNode, OpenOptions, Vfs, VfsPath,
};

/// The archive that version 1 of the format is: it must be read for ever.
const GOLDEN: &[u8] = include_bytes!("golden/v1.vfs");

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

/// Entries: 0 the root, 1 `a`, 2 `again`, 3 `link`, 4 `long`, 5 `a/b`, 6 `a/text`, 7 `a/b/stored`.
fn sample() -> Vec<u8> {
    let tree = MemoryFs::new();
    let create = |text: &str, node| {
        tree.create(path(text), &node).unwrap();
    };
    create("a", NewNode::directory());
    create("a/b", NewNode::directory());
    create("link", NewNode::symlink(b"a/text"));
    create("long", NewNode::symlink(&[b'x'; 4000]));
    for (name, text) in [
        ("a/text", "some words, some words, some words\n".repeat(200)),
        ("a/b/stored", "stored".to_owned()),
    ] {
        let file = tree.open(path(name), &OpenOptions::writing()).unwrap().file;
        assert_eq!(file.write_at(text.as_bytes(), 0).unwrap(), text.len());
    }
    tree.link(path("a/text"), path("again")).unwrap();
    let options = PackOptions::new()
        .block_size(4096)
        .jobs(1)
        .rule(Rule::Compress("a/text".into(), Compression::Lz4));
    pack_to_vec(&tree, &options).unwrap().0
}

/// The bytes of an entry.
fn entry(bytes: &mut [u8], number: usize) -> &mut [u8] {
    let index = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
    let entries = index + (8 << bytes[48]);
    &mut bytes[entries.next_multiple_of(64) + 64 * number..][..64]
}

/// Makes the header's own checksum good again, so that what is behind it is reached.
fn fix_header(bytes: &mut [u8]) {
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..248]);
    bytes[248..256].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn the_golden_archive_is_read() {
    let archive = ArchiveFs::from_static(GOLDEN).unwrap();
    assert_eq!(archive.verify(1, None).problems, []);
    let tree = Vfs::with_root(archive);
    assert_eq!(tree.read_to_string("a/b/stored").unwrap(), "stored");
    assert_eq!(
        tree.read("link").unwrap(),
        "some words, some words, some words\n".repeat(200).into_bytes()
    );
    assert_eq!(tree.metadata("again").unwrap().links, 2);
}

#[test]
fn truncated_archives_are_refused() {
    let good = sample();
    for len in 0..good.len() {
        let error = ArchiveFs::from_bytes(good[..len].to_vec()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownFormat), "{len}");
    }
}

#[test]
fn other_versions_are_refused() {
    let mut bytes = sample();
    bytes[8] = 2;
    fix_header(&mut bytes);
    let error = ArchiveFs::from_bytes(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn absurd_counts_take_no_memory() {
    for (at, value) in [(40, u32::MAX - 1), (44, u32::MAX), (52, u32::MAX), (72, u32::MAX)] {
        let mut bytes = sample();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        fix_header(&mut bytes);
        let error = ArchiveFs::from_bytes(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn a_name_is_listed_once() {
    let mut bytes = sample();
    let name = entry(&mut bytes, 1)[20..28].to_vec();
    entry(&mut bytes, 2)[20..28].copy_from_slice(&name);
    let archive = ArchiveFs::from_bytes(bytes).unwrap();
    let mut names = Vec::new();
    let listed = archive.read_dir(VfsPath::root(), Detail::Names, &mut |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(names, [b"a"]);
}

#[test]
fn a_path_beyond_the_limit_is_refused() {
    let mut bytes = sample();
    // From the first path on into the target of `long`.
    entry(&mut bytes, 1)[24..26].copy_from_slice(&4097_u16.to_le_bytes());
    let archive = ArchiveFs::from_bytes(bytes).unwrap();
    assert_eq!(archive.metadata(path("a")).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_hard_link_is_verified_to_be_the_same_file() {
    // First block, flags and block size.
    for at in [16, 29, 30] {
        let mut bytes = sample();
        entry(&mut bytes, 6)[at] ^= 3;
        let report = ArchiveFs::from_bytes(bytes).unwrap().verify(1, None);
        assert!(report.problems.iter().any(|problem| problem.entry == "/a/text"), "{report:?}");
    }
}
