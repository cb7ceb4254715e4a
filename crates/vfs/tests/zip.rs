//! Zip files: what tools write is read, and what is hostile stays harmless.
#![cfg(feature = "zip")]

use std::io::{Cursor, Write};
use std::ops::ControlFlow;

use stratafs::zip::ZipOptions;
use stratafs::{
    Detail, ErrorKind, FileSystem, FileType, MemoryFs, OpenOptions, Timestamp, Vfs, VfsPath, ZipFs,
};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

fn deflated() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)
}

fn text(len: usize) -> Vec<u8> {
    (0u64..)
        .flat_map(|i| format!("line {} of {}\n", i % 97, i / 31).into_bytes())
        .take(len)
        .collect()
}

fn zip_of(fill: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    fill(&mut writer);
    writer.finish().unwrap().into_inner()
}

fn add(writer: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, how: SimpleFileOptions, data: &[u8]) {
    writer.start_file(name, how).unwrap();
    writer.write_all(data).unwrap();
}

fn sample() -> Vec<u8> {
    let time = zip::DateTime::from_date_and_time(2020, 2, 29, 12, 30, 58).unwrap();
    zip_of(|zip| {
        zip.add_directory("dir/", stored().unix_permissions(0o750)).unwrap();
        add(
            zip,
            "dir/stored",
            stored().unix_permissions(0o640).last_modified_time(time),
            &text(70_000),
        );
        add(zip, "dir/deflated", deflated(), &text(300_000));
        add(zip, "implied/deep/file", deflated(), b"x");
        add(zip, "empty", deflated(), b"");
        zip.add_symlink("link", "dir/stored", stored()).unwrap();
    })
}

fn names(fs: &ZipFs, directory: &str) -> Vec<String> {
    let mut names = Vec::new();
    fs.read_dir(path(directory), Detail::Names, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

fn kind_of_read(bytes: Vec<u8>, name: &str) -> ErrorKind {
    let fs = match ZipFs::from_bytes(bytes, &ZipOptions::default()) {
        Ok(fs) => fs,
        Err(error) => return error.kind(),
    };
    let file = match fs.open(path(name), &OpenOptions::reading()) {
        Ok(file) => file,
        Err(error) => return error.kind(),
    };
    let mut buf = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        match file.file.read_at(&mut buf, offset) {
            Ok(0) => panic!("{name} can be read"),
            Ok(n) => offset += n as u64,
            Err(error) => return error.kind(),
        }
    }
}

#[test]
fn entries_are_read_in_every_way_of_opening() {
    let bytes = sample();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.zip");
    std::fs::write(&file, &bytes).unwrap();
    let memory = Vfs::with_root(MemoryFs::new());
    memory.write("a.zip", &bytes).unwrap();
    let mut opened = Vec::new();
    for inflate_cache_bytes in [0, 400_000, 64 << 20] {
        for positional in [false, true] {
            let options = ZipOptions { positional, inflate_cache_bytes };
            opened.push(ZipFs::open_with(&file, &options).unwrap());
            let file = FileSystem::open(&*memory.tree(), path("a.zip"), &OpenOptions::reading())
                .unwrap()
                .file;
            opened.push(ZipFs::from_file(file, &options).unwrap());
        }
    }
    for fs in opened {
        assert!(fs.skipped().is_empty());
        assert_eq!(names(&fs, ""), ["dir", "empty", "implied", "link"]);
        assert_eq!(names(&fs, "implied"), ["deep"]);
        for (name, len) in [("dir/stored", 70_000), ("dir/deflated", 300_000), ("empty", 0)] {
            let data = text(len);
            let file = fs.open(path(name), &OpenOptions::reading()).unwrap().file;
            assert_eq!(file.metadata().unwrap().len, len as u64);
            let mut buf = vec![0; len + 10];
            assert_eq!(file.read_at(&mut buf, 0).unwrap(), len);
            assert!(buf[..len] == data);
            for offset in [60_000, 5, 69_990, 0] {
                let mut buf = [0; 10];
                let n = file.read_at(&mut buf, offset).unwrap();
                assert_eq!(buf[..n], data[len.min(offset as usize)..len.min(offset as usize + 10)]);
            }
        }
        assert_eq!(fs.read_link(path("link")).unwrap(), b"dir/stored");
        let metadata = fs.metadata(path("dir/stored")).unwrap();
        assert_eq!((metadata.mode, metadata.len), (0o640, 70_000));
        assert_eq!(metadata.modified, Timestamp { seconds: 1_582_979_458, nanoseconds: 0 });
        assert_eq!(fs.metadata(path("dir")).unwrap().mode, 0o750);
        assert_eq!(fs.metadata(path("implied")).unwrap().file_type, FileType::Directory);
        assert_eq!(fs.metadata(path("link")).unwrap().file_type, FileType::Symlink);
        let kind = |name| fs.metadata(path(name)).unwrap_err().kind();
        assert_eq!(kind("no"), ErrorKind::NotFound);
        assert_eq!(kind("empty/x"), ErrorKind::NotADirectory);
        assert_eq!(kind("link/x"), ErrorKind::SymlinkInPath);
        let tree = Vfs::with_root(fs);
        assert!(tree.read("link").unwrap() == text(70_000));
        assert_eq!(tree.write("new", b"x").unwrap_err().kind(), ErrorKind::ReadOnly);
    }
}

#[test]
fn hostile_names_stay_inside() {
    let bytes = zip_of(|zip| {
        add(zip, "../../escape", stored(), b"1");
        add(zip, "/absolute", stored(), b"2");
        add(zip, "back\\slash", stored(), b"3");
        add(zip, "a//./b", stored(), b"4");
        add(zip, "file", stored(), b"5");
        add(zip, "file/below", stored(), b"6");
        add(zip, "twice/./x", stored(), b"7");
        add(zip, "twice/x", stored(), b"8");
    });
    let fs = ZipFs::from_bytes(bytes, &ZipOptions::default()).unwrap();
    assert_eq!(names(&fs, ""), ["a", "absolute", "back", "file", "twice"]);
    let skipped: Vec<_> = fs.skipped().iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(skipped, [&b"../../escape"[..], b"file/below"]);
    let tree = Vfs::with_root(fs);
    assert_eq!(tree.read("absolute").unwrap(), b"2");
    assert_eq!(tree.read("back/slash").unwrap(), b"3");
    assert_eq!(tree.read("a/b").unwrap(), b"4");
    assert_eq!(tree.read("file").unwrap(), b"5");
    assert_eq!(tree.read("twice/x").unwrap(), b"8");
}

/// Overwrites a 4-byte field of the central directory's first entry.
fn patch_central(bytes: &mut [u8], field: usize, value: u32) {
    let at = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    bytes[at + field..at + field + 4].copy_from_slice(&value.to_le_bytes());
}

const CRC: usize = 16;
const STORED_LEN: usize = 20;
const LEN: usize = 24;

#[test]
fn lies_about_sizes_and_checksums_are_found() {
    let honest = zip_of(|zip| add(zip, "x", deflated(), &text(50_000)));
    for (field, value) in [
        (LEN, 49_999),
        (LEN, 50_001),
        (LEN, u32::MAX - 1),
        (LEN, 0),
        (CRC, 12_345),
        (STORED_LEN, 10),
        (STORED_LEN, u32::MAX - 1),
    ] {
        let mut bytes = honest.clone();
        patch_central(&mut bytes, field, value);
        if (field, value) == (LEN, 0) {
            // Nothing is read of an empty file; that must not fail, nor give bytes.
            let tree = Vfs::with_root(ZipFs::from_bytes(bytes, &ZipOptions::default()).unwrap());
            assert_eq!(tree.read("x").unwrap(), b"");
            continue;
        }
        assert_eq!(kind_of_read(bytes, "x"), ErrorKind::Corrupt, "{field} {value}");
    }
    let mut bytes = zip_of(|zip| add(zip, "x", stored(), &text(50_000)));
    patch_central(&mut bytes, STORED_LEN, 49_999);
    assert_eq!(kind_of_read(bytes, "x"), ErrorKind::Corrupt);
}

#[test]
fn what_is_no_zip_is_an_error() {
    for bytes in [&b""[..], b"hello", &[0; 5000], b"PK\x03\x04", b"PK\x05\x06"] {
        let error = ZipFs::from_bytes(bytes.to_vec(), &ZipOptions::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownFormat));
    }
    let whole = sample();
    for len in 0..whole.len() {
        let cut = whole[..len].to_vec();
        assert!(ZipFs::from_bytes(cut, &ZipOptions::default()).is_err(), "{len} bytes");
    }
}

/// What Info-ZIP writes, where it is installed.
#[cfg(unix)]
#[test]
fn the_systems_own_zips_are_read() {
    use std::process::Command;
    if Command::new("zip").arg("-v").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("sub/empty")).unwrap();
    std::fs::write(tree.join("sub/text"), text(100_000)).unwrap();
    std::os::unix::fs::symlink("sub/text", tree.join("link")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_001);
    std::fs::File::open(tree.join("sub/text")).unwrap().set_modified(time).unwrap();
    let made = Command::new("zip").args(["-qry", "../a.zip", "."]).current_dir(&tree).status();
    assert!(made.unwrap().success());
    let fs = ZipFs::open(dir.path().join("a.zip")).unwrap();
    assert!(fs.skipped().is_empty());
    assert_eq!(names(&fs, ""), ["link", "sub"]);
    assert_eq!(names(&fs, "sub"), ["empty", "text"]);
    assert_eq!(fs.metadata(path("sub/text")).unwrap().modified.seconds, 1_600_000_001);
    let tree = Vfs::with_root(fs);
    assert!(tree.read("link").unwrap() == text(100_000));
}

#[cfg(feature = "archive")]
#[test]
fn an_archive_is_opened_within_a_zip() {
    use stratafs::archive::{ArchiveOptions, ArchiveSource, PackOptions, pack_to_vec};
    use stratafs::{ArchiveFs, AsPath};
    let tree = Vfs::with_root(MemoryFs::new());
    tree.create_dir("a").unwrap();
    tree.write("a/b", text(100_000)).unwrap();
    let (archive, _) = pack_to_vec(&*tree.tree(), &PackOptions::new()).unwrap();
    let bytes = zip_of(|zip| {
        add(zip, "first", deflated(), b"something before");
        add(zip, "assets/a.vfs", stored(), &archive);
        add(zip, "assets/packed.vfs", deflated(), &archive);
        add(zip, "last", stored(), b"something behind");
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.apk");
    std::fs::write(&file, bytes).unwrap();
    for source in [ArchiveSource::Mapped, ArchiveSource::Positional, ArchiveSource::InMemory] {
        let options = ArchiveOptions::new().source(source);
        let archive = ArchiveFs::within_zip(&file, "assets/a.vfs", &options).unwrap();
        assert!(Vfs::with_root(archive).read("a/b").unwrap() == text(100_000));
    }
    let open = |entry: &dyn AsPath| {
        ArchiveFs::within_zip(&file, entry, &ArchiveOptions::new()).unwrap_err().kind()
    };
    assert_eq!(open(&"assets/packed.vfs"), ErrorKind::Unsupported);
    assert_eq!(open(&"assets"), ErrorKind::IsADirectory);
    assert_eq!(open(&"no"), ErrorKind::NotFound);
    assert_eq!(open(&"last"), ErrorKind::UnknownFormat);
}
