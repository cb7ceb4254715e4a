//! Zstandard in archives. The workspace's tests have the feature, as the program brings it.
#![cfg(feature = "zstd")]

use stratafs::archive::{
    ArchiveFs, ArchiveOptions, Compression, Key, PackOptions, Rule, pack_to_vec,
};
use stratafs::{ErrorKind, FileSystem, MemoryFs, Vfs, VfsPath};

fn text(len: usize) -> Vec<u8> {
    (0u64..).flat_map(|n| format!("{} {}\n", n % 251, n / 7).into_bytes()).take(len).collect()
}

fn sample() -> Vfs {
    let tree = Vfs::with_root(MemoryFs::new());
    for (name, len) in [("empty", 0), ("one", 1), ("block", 4096), ("more", 4097), ("big", 120_000)]
    {
        tree.write(name, text(len)).unwrap();
    }
    tree
}

fn options(level: i32) -> PackOptions<'static> {
    PackOptions::new().block_size(4096).rule(Rule::Compress("*".into(), Compression::Zstd(level)))
}

fn allocated(archive: &ArchiveFs, name: &str) -> u64 {
    archive.metadata(VfsPath::new(name.as_bytes()).unwrap()).unwrap().allocated
}

#[test]
fn every_level_gives_the_contents_back() {
    let mut sizes = Vec::new();
    for level in [1, 3, 22] {
        let tree = sample();
        let (bytes, _) = pack_to_vec(&*tree.tree(), &options(level)).unwrap();
        assert!(pack_to_vec(&*tree.tree(), &options(level).jobs(3)).unwrap().0 == bytes, "{level}");
        let archive = ArchiveFs::from_bytes(bytes).unwrap();
        assert_eq!(archive.verify(2, None).problems, []);
        sizes.push(allocated(&archive, "big"));
        let tree = Vfs::with_root(archive);
        for (name, len) in [("empty", 0), ("one", 1), ("block", 4096), ("more", 4097)] {
            assert!(tree.read(name).unwrap() == text(len), "{name} at level {level}");
        }
        // Anywhere, and across blocks.
        let (file, all) = (tree.open("big").unwrap(), text(120_000));
        for at in [0, 4095, 4096, 63_456, 115_000, 119_999] {
            let mut part = vec![0; 5000.min(all.len() - at)];
            file.read_exact_at(&mut part, at as u64).unwrap();
            assert!(part == all[at..at + part.len()], "at {at}");
        }
    }
    assert!(sizes[0] < 60_000 && sizes[2] <= sizes[0], "{sizes:?}");
}

#[test]
fn it_goes_with_encryption() {
    let key = Key::raw([5; 32]);
    let options = options(3).rule(Rule::Encrypt("*".into())).key(key.clone());
    let (bytes, _) = pack_to_vec(&*sample().tree(), &options).unwrap();
    let open = ArchiveOptions::new().key(key);
    let tree = Vfs::with_root(ArchiveFs::from_bytes_with(bytes, &open).unwrap());
    assert!(tree.read("big").unwrap() == text(120_000));
}

#[test]
fn damaged_blocks_and_odd_levels_are_errors() {
    for level in [0, 23, -1] {
        let error = pack_to_vec(&*sample().tree(), &options(level)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let (tree, contents) = (Vfs::with_root(MemoryFs::new()), text(100_000));
    tree.write("file", &contents).unwrap();
    let (good, _) = pack_to_vec(&*tree.tree(), &options(3)).unwrap();
    let index = u64::from_le_bytes(good[24..32].try_into().unwrap()) as usize;
    let (mut found, mut padding) = (0, 0);
    for at in (256..index).step_by(97) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        match Vfs::with_root(ArchiveFs::from_bytes(bad).unwrap()).read("file") {
            Ok(bytes) => {
                assert!(bytes == contents, "byte {at}");
                padding += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                found += 1;
            }
        }
    }
    assert!(found > 50 && padding < 50, "{found} found, {padding} bytes of padding");
}
