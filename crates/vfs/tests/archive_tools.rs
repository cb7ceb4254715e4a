//! Verifying, extracting and comparing archives.
#![cfg(feature = "archive")]

use std::ops::ControlFlow;

use stratafs::archive::{
    ArchiveFs, ArchiveOptions, Change, Compression, Differences, ExtractOptions, Key, PackOptions,
    Rule, diff, extract, pack_to_vec,
};
use stratafs::{
    ErrorKind, FileSystem, MemoryFs, MetadataChange, NewNode, NodeKind, TimeChange, Timestamp, Vfs,
    VfsPath,
};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn text(len: usize) -> Vec<u8> {
    (0u64..)
        .flat_map(|i| format!("line {} of {}\n", i % 97, i / 31).into_bytes())
        .take(len)
        .collect()
}

fn sample() -> Vfs {
    let tree = Vfs::with_root(MemoryFs::new());
    tree.create_dir_all("a/b").unwrap();
    tree.write("a/stored", text(20_000)).unwrap();
    tree.write("a/b/packed.txt", text(30_000)).unwrap();
    tree.write("z", b"z").unwrap();
    tree.hard_link("z", "z2").unwrap();
    tree.symlink("a/stored", "link").unwrap();
    tree.create_node("pipe", &NewNode::new(NodeKind::Fifo)).unwrap();
    let time = TimeChange::At(Timestamp { seconds: 1_000, nanoseconds: 5 });
    for dir in ["a", "a/b"] {
        let change = MetadataChange::new().mode(0o555).modified(time);
        tree.set_metadata(dir, &change).unwrap();
    }
    tree.set_metadata("z", &MetadataChange::new().mode(0o4711).modified(time)).unwrap();
    tree
}

fn options() -> PackOptions<'static> {
    PackOptions::new()
        .block_size(4096)
        .jobs(1)
        .rule(Rule::Compress("*.txt".into(), Compression::Lz4))
}

fn packed(tree: &Vfs) -> Vec<u8> {
    pack_to_vec(&*tree.tree(), &options()).unwrap().0
}

#[test]
fn good_archives_verify() {
    let tree = sample();
    let report = ArchiveFs::from_bytes(packed(&tree)).unwrap().verify(0, None);
    assert_eq!(report.problems, []);
    assert_eq!((report.entries, report.bytes), (9, 50_001));
    for key in [Key::raw([3; 32]), Key::passphrase("open sesame"), Key::xor("k").unwrap()] {
        let options = options().rule(Rule::Encrypt("a/*".into())).key(key.clone());
        let (bytes, _) = pack_to_vec(&*tree.tree(), &options).unwrap();
        let locked = ArchiveFs::from_bytes(bytes.clone()).unwrap().verify(2, None);
        assert_eq!(locked.problems, []);
        assert_eq!(locked.locked, 2);
        let open = ArchiveOptions::new().key(key);
        let report = ArchiveFs::from_bytes_with(bytes, &open).unwrap().verify(2, None);
        assert_eq!(report.problems, []);
        assert_eq!(report.locked, 0);
    }
}

/// Every byte of an archive is covered by something: no flipped bit goes unseen.
#[test]
fn every_flipped_bit_is_found() {
    let good = packed(&sample());
    let index_offset = u64::from_le_bytes(good[24..32].try_into().unwrap()) as usize;
    let mut bad = good.clone();
    let mut padding = 0;
    for at in 0..good.len() {
        // All of the index and header, samples of the data.
        if (256..index_offset).contains(&at) && at % 7 != 0 {
            continue;
        }
        bad[at] ^= 1 << (at % 8);
        let found = match ArchiveFs::from_bytes(bad.clone()) {
            Err(_) => true,
            Ok(archive) => !archive.verify(1, None).is_good(),
        };
        // Between the last file and the index, and before aligned files, nothing lies.
        if !found {
            assert!((256..index_offset).contains(&at), "byte {at}");
            padding += 1;
        }
        bad[at] = good[at];
    }
    assert!(padding < 600, "{padding} bytes are covered by nothing");
}

#[test]
fn verify_names_the_damaged_file() {
    let mut bytes = packed(&sample());
    let needle = b"line 3 of 0";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 1;
    let archive = ArchiveFs::from_bytes(bytes).unwrap();
    let problems = archive.verify(2, None).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].entry.starts_with("/a/"), "{problems:?}");
    assert!(problems[0].reason.contains("block 0: wrong checksum"), "{problems:?}");
}

#[test]
fn extraction_gives_the_tree_back() {
    let tree = sample();
    let archive = ArchiveFs::from_bytes(packed(&tree)).unwrap();
    let target = MemoryFs::new();
    let report = extract(&archive, &target, &ExtractOptions::default()).unwrap();
    assert_eq!((report.files, report.symlinks, report.bytes), (4, 1, 50_001));
    let warned: Vec<_> = report.warnings.iter().map(|warning| warning.path.as_bytes()).collect();
    assert_eq!(warned, [&b"pipe"[..], b"z"]);
    let metadata = |name| target.metadata(path(name)).unwrap();
    assert_eq!(metadata("a").mode, 0o555);
    assert_eq!(metadata("a").modified, Timestamp { seconds: 1_000, nanoseconds: 5 });
    assert_eq!(metadata("z").mode, 0o711);
    assert_eq!(metadata("z").links, 2);
    assert_eq!(target.read_link(path("link")).unwrap(), b"a/stored");
    let again = extract(&archive, &target, &ExtractOptions::default()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let overwrite = ExtractOptions { overwrite: true, special: true, ..Default::default() };
    let report = extract(&archive, &target, &overwrite).unwrap();
    assert_eq!(report.warnings.len(), 1);
    assert_eq!(Vfs::with_root(target).read("a/b/packed.txt").unwrap(), text(30_000));
}

#[test]
fn a_part_can_be_extracted() {
    let archive = ArchiveFs::from_bytes(packed(&sample())).unwrap();
    let target = MemoryFs::new();
    let options = ExtractOptions { paths: vec![path("a/b").to_owned()], ..Default::default() };
    extract(&archive, &target, &options).unwrap();
    assert!(target.exists(path("a/b/packed.txt")).unwrap());
    assert!(!target.exists(path("a/stored")).unwrap());
    assert_eq!(target.metadata(path("a")).unwrap().mode, 0o555);
    let options = ExtractOptions { paths: vec![path("no").to_owned()], ..Default::default() };
    let error = extract(&archive, &target, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn nothing_is_written_through_a_link_of_the_target() {
    let archive = ArchiveFs::from_bytes(packed(&sample())).unwrap();
    let target = MemoryFs::new();
    target.create(path("elsewhere"), &NewNode::directory()).unwrap();
    target.create(path("a"), &NewNode::symlink(b"elsewhere")).unwrap();
    let options = ExtractOptions { overwrite: true, ..Default::default() };
    let error = extract(&archive, &target, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SymlinkInPath);
    assert!(!target.exists(path("elsewhere/stored")).unwrap());
}

#[test]
fn differences_are_told() {
    let tree = sample();
    let old = ArchiveFs::from_bytes(packed(&tree)).unwrap();
    tree.write("a/stored", text(19_999)).unwrap();
    tree.remove_file("link").unwrap();
    tree.write("new", b"new").unwrap();
    tree.set_metadata("z", &MetadataChange::new().mode(0o600)).unwrap();
    let plain = packed(&tree);
    let key = Key::raw([1; 32]);
    let secret = options().rule(Rule::Encrypt("*".into())).key(key.clone());
    let (secret, _) = pack_to_vec(&*tree.tree(), &secret).unwrap();
    for new in [
        ArchiveFs::from_bytes(plain).unwrap(),
        ArchiveFs::from_bytes_with(secret, &ArchiveOptions::new().key(key)).unwrap(),
    ] {
        let mut found = Vec::new();
        diff(&old, &new, &mut |path, change| {
            let what = match change {
                Change::Added(_) => "added".to_owned(),
                Change::Removed(_) => "removed".to_owned(),
                Change::Modified { differences, .. } => {
                    let differences = differences - Differences::TIME;
                    if differences.is_empty() {
                        return ControlFlow::Continue(());
                    }
                    format!("{differences:?}")
                }
            };
            found.push(format!("{} {what}", path.display()));
            ControlFlow::Continue(())
        })
        .unwrap();
        let expect = [
            "/a/stored Differences(CONTENTS)",
            "/link removed",
            "/new added",
            "/z Differences(MODE)",
            "/z2 Differences(MODE)",
        ];
        assert_eq!(found, expect);
    }
}
