//! Archives: what goes in comes out, whatever the options.
#![cfg(feature = "archive")]

use stratafs::archive::{
    ArchiveFs, ArchiveOptions, ArchiveSource, Compression, Key, OpenCheck, PackOptions, Rule, pack,
    pack_to_vec,
};
use stratafs::{
    Detail, ErrorKind, FileSystem, FileType, MemoryFs, MetadataChange, NewNode, NodeKind,
    OpenOptions, Owner, TimeChange, Timestamp, Vfs, VfsPath, XattrMode,
};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

/// Bytes that no codec shrinks.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Bytes that every codec shrinks.
fn text(len: usize) -> Vec<u8> {
    (0u64..)
        .flat_map(|i| format!("line {} of {}\n", i % 97, i / 31).into_bytes())
        .take(len)
        .collect()
}

/// A tree with some of everything.
fn sample() -> Vfs {
    let tree = Vfs::with_root(MemoryFs::new());
    for dir in ["scripts", "images", "empty", "deep/er/est"] {
        tree.create_dir_all(dir).unwrap();
    }
    tree.write("scripts/a.lua", text(200_000)).unwrap();
    tree.write("scripts/b.lua", text(65_536)).unwrap();
    tree.write("scripts/mixed.lua", [noise(70_000, 5), text(300_000)].concat()).unwrap();
    tree.write("images/noise.png", noise(1_100_001, 1)).unwrap();
    tree.write("images/small.png", noise(100, 2)).unwrap();
    tree.write("copy.png", noise(1_100_001, 1)).unwrap();
    tree.write("nothing", b"").unwrap();
    tree.write("deep/er/est/file", b"deep").unwrap();
    tree.symlink("../scripts/a.lua", "images/link").unwrap();
    tree.hard_link("nothing", "deep/nothing too").unwrap();
    tree.create_dir("deep/\u{e9}").unwrap();
    let change = MetadataChange::new()
        .mode(0o4750)
        .owner(Owner { user: 7, group: 9 })
        .modified(TimeChange::At(Timestamp { seconds: -5, nanoseconds: 123_456_789 }));
    tree.set_metadata("scripts/b.lua", &change).unwrap();
    tree.set_xattr("scripts/b.lua", b"user.note", b"a value", XattrMode::Set).unwrap();
    tree
}

/// Compares every node of two trees, and reads every file at odd places.
fn assert_same(expected: &Vfs, archive: &ArchiveFs) {
    let mut count = 0;
    for entry in expected.walk("").unwrap() {
        let entry = entry.unwrap();
        count += 1;
        let want = expected.symlink_metadata(&entry.path).unwrap();
        let got = archive.metadata(&entry.path).unwrap();
        assert_eq!(got.file_type, want.file_type, "{:?}", entry.path);
        assert_eq!(got.mode, want.mode, "{:?}", entry.path);
        assert_eq!(got.owner, want.owner, "{:?}", entry.path);
        assert_eq!(got.modified, want.modified, "{:?}", entry.path);
        assert!(archive.exists(&entry.path).unwrap());
        match want.file_type {
            FileType::File => {
                assert_eq!((got.len, got.links), (want.len, want.links), "{:?}", entry.path);
                let data = expected.read(&entry.path).unwrap();
                let file = archive.open(&entry.path, &OpenOptions::reading()).unwrap().file;
                let read = |offset: usize, len: usize| {
                    let mut buf = vec![0; len];
                    let mut done = 0;
                    while done < len {
                        match file.read_at(&mut buf[done..], (offset + done) as u64).unwrap() {
                            0 => break,
                            n => done += n,
                        }
                    }
                    buf.truncate(done);
                    buf
                };
                assert!(read(0, data.len() + 10) == data, "{:?}", entry.path);
                for (offset, len) in [(1, 10), (65_530, 20), (65_536, 4096), (99_999, 200_000)] {
                    let start = offset.min(data.len());
                    let end = (offset + len).min(data.len());
                    assert!(read(offset, len) == data[start..end], "{:?} {offset}", entry.path);
                }
                if let Some(lent) = file.bytes_at(3..data.len() as u64 + 5).unwrap() {
                    assert!(lent == data.get(3..).unwrap_or_default());
                }
            }
            FileType::Symlink => assert_eq!(
                archive.read_link(&entry.path).unwrap(),
                expected.read_link(&entry.path).unwrap()
            ),
            _ => {}
        }
    }
    assert_eq!(archive.info().entries, count);
}

fn rules() -> PackOptions<'static> {
    PackOptions::new()
        .rule(Rule::Compress("*.lua".into(), Compression::Lz4))
        .rule(Rule::Store("scripts/b.lua".into()))
}

#[test]
fn a_tree_survives_in_every_way_of_opening() {
    let tree = sample();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.vfs");
    let report = pack(&*tree.tree(), &file, &rules()).unwrap();
    assert!(report.warnings.is_empty());
    assert_eq!(report.archive_len, std::fs::metadata(&file).unwrap().len());
    for source in [ArchiveSource::Mapped, ArchiveSource::Positional, ArchiveSource::InMemory] {
        for cache in [0, 100_000, 64 << 20] {
            for verify_reads in [false, true] {
                let options = ArchiveOptions::new()
                    .source(source)
                    .block_cache_bytes(cache)
                    .check(OpenCheck::Index)
                    .verify_reads(verify_reads);
                assert_same(&tree, &ArchiveFs::open_with(&file, &options).unwrap());
            }
        }
    }
    let archive = ArchiveFs::open(&file).unwrap();
    assert_eq!(archive.xattrs(path("scripts/b.lua")).unwrap(), [b"user.note"]);
    assert_eq!(archive.xattr(path("scripts/b.lua"), b"user.note").unwrap(), b"a value");
    let error = archive.xattr(path("scripts/b.lua"), b"user.other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAttribute);
}

#[test]
fn encrypted_trees_survive() {
    let tree = sample();
    for key in [Key::raw([7; 32]), Key::xor("an odd key!").unwrap()] {
        let options = rules().rule(Rule::Encrypt("*".into())).key(key.clone());
        let (bytes, _) = pack_to_vec(&*tree.tree(), &options).unwrap();
        for cache in [0, 64 << 20] {
            let open = ArchiveOptions::new().key(key.clone()).block_cache_bytes(cache);
            assert_same(&tree, &ArchiveFs::from_bytes_with(bytes.clone(), &open).unwrap());
        }
    }
}

#[test]
fn misses_say_why() {
    let tree = sample();
    let (bytes, _) = pack_to_vec(&*tree.tree(), &rules()).unwrap();
    let archive = ArchiveFs::from_bytes(bytes).unwrap();
    let kind = |text| archive.metadata(path(text)).unwrap_err().kind();
    assert_eq!(kind("no"), ErrorKind::NotFound);
    assert_eq!(kind("deep/no/such"), ErrorKind::NotFound);
    assert_eq!(kind("nothing/below"), ErrorKind::NotADirectory);
    assert_eq!(kind("nothing/below/more"), ErrorKind::NotADirectory);
    assert_eq!(kind("images/link/x"), ErrorKind::SymlinkInPath);
    assert!(!archive.exists(path("nothing/below")).unwrap());
    assert_eq!(archive.exists(path("images/link/x")).unwrap_err().kind(), ErrorKind::SymlinkInPath);
    let open = |text, options| archive.open(path(text), &options).unwrap_err().kind();
    assert_eq!(open("deep", OpenOptions::reading()), ErrorKind::IsADirectory);
    assert_eq!(open("images/link", OpenOptions::reading()), ErrorKind::SymlinkInPath);
    assert_eq!(open("new", OpenOptions::writing()), ErrorKind::ReadOnly);
    assert_eq!(open("no/new", OpenOptions::writing()), ErrorKind::NotFound);
    assert_eq!(open("new", OpenOptions::new()), ErrorKind::InvalidArgument);
}

#[test]
fn bytes_do_not_depend_on_jobs() {
    let tree = sample();
    for encrypt in [false, true] {
        let with_jobs = |jobs| {
            let mut options = rules().jobs(jobs);
            if encrypt {
                options = options
                    .rule(Rule::Encrypt("*.lua".into()))
                    .key(Key::raw([1; 32]))
                    .salt([2; 32]);
            }
            pack_to_vec(&*tree.tree(), &options).unwrap().0
        };
        let one = with_jobs(1);
        for jobs in [2, 3, 8] {
            assert!(with_jobs(jobs) == one, "{jobs} jobs");
        }
    }
}

#[test]
fn equal_contents_are_stored_once() {
    let tree = sample();
    let (with, _) = pack_to_vec(&*tree.tree(), &PackOptions::new()).unwrap();
    tree.remove_file("copy.png").unwrap();
    let (without, _) = pack_to_vec(&*tree.tree(), &PackOptions::new()).unwrap();
    assert!(with.len() < without.len() + 100_000);
}

#[test]
fn an_archive_is_found_at_an_offset_and_at_the_end() {
    let tree = sample();
    let (bytes, _) = pack_to_vec(&*tree.tree(), &rules()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program");
    let program = noise(5003, 9);
    std::fs::write(&file, [&program[..], &bytes].concat()).unwrap();
    for source in [ArchiveSource::Mapped, ArchiveSource::Positional, ArchiveSource::InMemory] {
        let options = ArchiveOptions::new().source(source);
        assert_same(&tree, &ArchiveFs::open_with(&file, &options).unwrap());
    }
    std::fs::write(&file, [&program[..], &bytes, &program].concat()).unwrap();
    assert_eq!(ArchiveFs::open(&file).unwrap_err().kind(), ErrorKind::UnknownFormat);
    for source in [ArchiveSource::Mapped, ArchiveSource::Positional, ArchiveSource::InMemory] {
        let options = ArchiveOptions::new().source(source).window(5003, bytes.len() as u64);
        assert_same(&tree, &ArchiveFs::open_with(&file, &options).unwrap());
    }
    // An archive within an archive lends its bytes.
    let outer = Vfs::with_root(MemoryFs::new());
    outer.write("inner.vfs", &bytes).unwrap();
    let (outer, _) = pack_to_vec(&*outer.tree(), &PackOptions::new()).unwrap();
    let outer = ArchiveFs::from_bytes(outer).unwrap();
    let file = outer.open(path("inner.vfs"), &OpenOptions::reading()).unwrap().file;
    assert_same(&tree, &ArchiveFs::from_file(file, &ArchiveOptions::new()).unwrap());
}

#[test]
fn keys_are_told_apart_at_open() {
    let tree = sample();
    let options = PackOptions::new().rule(Rule::Encrypt("*.lua".into())).key(Key::raw([7; 32]));
    let (bytes, _) = pack_to_vec(&*tree.tree(), &options).unwrap();
    let open = |key: Key| {
        ArchiveFs::from_bytes_with(bytes.clone(), &ArchiveOptions::new().key(key)).map(drop)
    };
    open(Key::raw([7; 32])).unwrap();
    for wrong in [Key::raw([8; 32]), Key::passphrase("x"), Key::xor("x").unwrap()] {
        assert_eq!(open(wrong).unwrap_err().kind(), ErrorKind::WrongKey);
    }
    let locked = ArchiveFs::from_bytes(bytes.clone()).unwrap();
    assert_eq!(locked.metadata(path("scripts/a.lua")).unwrap().len, 200_000);
    let error = locked.open(path("scripts/a.lua"), &OpenOptions::reading()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKey);
    locked.open(path("images/small.png"), &OpenOptions::reading()).unwrap();
    // A key promises authenticity, which a plain archive put in the place of an encrypted one
    // has not.
    let (plain, _) = pack_to_vec(&*tree.tree(), &PackOptions::new()).unwrap();
    let options = ArchiveOptions::new().key(Key::raw([7; 32]));
    let error = ArchiveFs::from_bytes_with(plain, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKey);
}

#[test]
fn patches_hold_what_changed_and_whiteouts() {
    let tree = sample();
    let (old, _) = pack_to_vec(&*tree.tree(), &rules()).unwrap();
    let old = ArchiveFs::from_bytes(old).unwrap();
    let unchanged = pack_to_vec(&*tree.tree(), &rules().patch_from(&old)).unwrap().1;
    assert_eq!(unchanged.entries, 1);

    tree.write("scripts/a.lua", b"new").unwrap();
    tree.write("added", b"added").unwrap();
    tree.remove_dir_all("deep/er").unwrap();
    tree.remove_file("nothing").unwrap();
    tree.remove_dir("empty").unwrap();
    tree.write("empty", b"now a file").unwrap();
    let (patch, report) = pack_to_vec(&*tree.tree(), &rules().patch_from(&old)).unwrap();
    let patch = ArchiveFs::from_bytes(patch).unwrap();
    assert!(patch.info().is_patch);
    let mut found = Vec::new();
    let mut directories = vec![VfsPath::root().to_owned()];
    while let Some(directory) = directories.pop() {
        patch
            .read_dir(&directory, Detail::Names, &mut |entry| {
                let path = directory.join_name(entry.name).unwrap();
                found.push((String::from_utf8(path.as_bytes().to_vec()).unwrap(), entry.file_type));
                if entry.file_type.is_dir() {
                    directories.push(path);
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let expect = [
        ("added", FileType::File),
        ("deep", FileType::Directory),
        ("deep/er", FileType::Whiteout),
        ("empty", FileType::File),
        ("nothing", FileType::Whiteout),
        ("scripts", FileType::Directory),
        ("scripts/a.lua", FileType::File),
    ];
    let expect: Vec<_> = expect.map(|(path, kind)| (path.to_owned(), kind)).into();
    assert_eq!(found, expect);
    assert_eq!((report.files, report.whiteouts), (3, 2));
    let error = pack_to_vec(&*tree.tree(), &rules().patch_from(&patch)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn special_nodes_and_exclusions() {
    let tree = sample();
    tree.create_node("pipe", &NewNode::new(NodeKind::Fifo)).unwrap();
    let options =
        PackOptions::new().rule(Rule::Exclude("images".into())).rule(Rule::Exclude("*.lua".into()));
    let (bytes, _) = pack_to_vec(&*tree.tree(), &options).unwrap();
    let archive = ArchiveFs::from_bytes(bytes).unwrap();
    assert_eq!(archive.metadata(path("pipe")).unwrap().file_type, FileType::Fifo);
    assert!(!archive.exists(path("images")).unwrap());
    assert!(!archive.exists(path("images/small.png")).unwrap());
    assert!(!archive.exists(path("scripts/a.lua")).unwrap());
    assert!(archive.exists(path("scripts")).unwrap());
}
