//! Hostile archives: whatever the bytes, an error or a tree, never a panic.
#![cfg(feature = "archive")]

use std::ops::ControlFlow;

use stratafs::archive::{ArchiveOptions, Compression, Key, PackOptions, Rule, pack_to_vec};
use stratafs::{
    ArchiveFs, ErrorKind, FileSystem, MemoryFs, NewNode, OpenOptions, Vfs, VfsPath, VfsPathBuf,
};

/// The archive that version 1 of the format is: it must be read for ever.
const GOLDEN: &[u8] = include_bytes!("golden/v1.vfs");

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn sample(key: Option<Key>) -> Vec<u8> {
    let tree = MemoryFs::new();
    let create = |text: &str, node| {
        tree.create(path(text), &node).unwrap();
    };
    create("a", NewNode::directory());
    create("a/b", NewNode::directory());
    create("link", NewNode::symlink(b"a/text"));
    for (name, text) in [
        ("a/text", "some words, some words, some words\n".repeat(200)),
        ("a/b/stored", "stored".to_owned()),
    ] {
        let file = tree.open(path(name), &OpenOptions::writing()).unwrap();
        assert_eq!(file.write_at(text.as_bytes(), 0).unwrap(), text.len());
    }
    tree.link(path("a/text"), path("again")).unwrap();
    let mut options = PackOptions::new()
        .block_size(4096)
        .jobs(1)
        .rule(Rule::Compress("a/text".into(), Compression::Lz4));
    if let Some(key) = key {
        options = options.rule(Rule::Encrypt("*".into())).key(key).salt([9; 32]);
    }
    pack_to_vec(&tree, &options).unwrap().0
}

/// Makes the header's own checksum good again, so that what is behind it is reached.
fn fix_header(bytes: &mut [u8]) {
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..248]);
    bytes[248..256].copy_from_slice(&sum.to_le_bytes());
}

/// Does everything that can be done with an archive; how it ends is all the same, as long as it
/// does, and within bounds.
fn exercise(archive: &ArchiveFs) {
    let mut next: Vec<VfsPathBuf> = vec![VfsPath::root().to_owned()];
    let mut budget = 500;
    while let Some(path) = next.pop() {
        budget -= 1;
        if budget == 0 {
            break;
        }
        let Ok(metadata) = archive.metadata(&path) else { continue };
        let _ = archive.read_link(&path);
        for name in archive.xattrs(&path).unwrap_or_default() {
            let _ = archive.xattr(&path, &name);
        }
        if metadata.is_dir() {
            let _ = archive.read_dir(&path, &mut |entry| {
                next.extend(path.join_name(entry.name));
                ControlFlow::Continue(())
            });
            continue;
        }
        let Ok(file) = archive.open(&path, &OpenOptions::reading()) else { continue };
        let mut buf = vec![0; 10_000];
        for offset in [0, 1, 4095, 5000, metadata.len.saturating_sub(3), u64::MAX - 5] {
            if let Ok(n) = file.read_at(&mut buf, offset) {
                assert!(n <= buf.len());
            }
            let _ = file.bytes_at(offset..offset.saturating_add(100));
        }
    }
    let _ = archive.verify(1, None);
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
fn changed_bytes_never_panic() {
    let keys = [None, Some(Key::raw([1; 32])), Some(Key::xor("key").unwrap())];
    for key in keys {
        let good = sample(key.clone());
        let index = u64::from_le_bytes(good[24..32].try_into().unwrap()) as usize;
        let options = ArchiveOptions { key, ..ArchiveOptions::default() };
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % bound as u64) as usize
        };
        for _ in 0..1_000 {
            let mut bytes = good.clone();
            for _ in 0..1 + random(4) {
                let at = match random(4) {
                    0 => random(bytes.len()),
                    1 => random(256),
                    _ => index + random(bytes.len() - index),
                };
                match random(3) {
                    0 => bytes[at] ^= 1 << random(8),
                    1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)],
                    _ => {
                        let end = bytes.len().min(at + 4);
                        bytes[at..end].fill([0, 0xff][random(2)]);
                    }
                }
            }
            if random(8) == 0 {
                bytes.truncate(random(good.len()));
            }
            if bytes.len() >= 256 {
                fix_header(&mut bytes);
            }
            if let Ok(archive) = ArchiveFs::from_bytes_with(bytes, &options) {
                exercise(&archive);
            }
        }
    }
}

#[test]
fn truncated_archives_are_refused() {
    let good = sample(None);
    for len in 0..good.len() {
        let error = ArchiveFs::from_bytes(good[..len].to_vec()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownFormat), "{len}");
    }
}

#[test]
fn other_versions_are_refused() {
    let mut bytes = sample(None);
    bytes[8] = 2;
    fix_header(&mut bytes);
    let error = ArchiveFs::from_bytes(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn absurd_counts_take_no_memory() {
    for (at, value) in [(40, u32::MAX - 1), (44, u32::MAX), (52, u32::MAX), (72, u32::MAX)] {
        let mut bytes = sample(None);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        fix_header(&mut bytes);
        let error = ArchiveFs::from_bytes(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}
