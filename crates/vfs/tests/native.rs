//! The native backend: what is particular to a directory of the host.
#![cfg(target_os = "linux")]

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use stratafs::{
    Allocation, BackendResult, Capabilities, Detail, ErrorKind, File, FileSystem, FileType,
    MetadataChange, NativeFs, NewNode, NodeKind, OpenOptions, Opened, Owner, RenameMode, SyncScope,
    TimeChange, Timestamp, VfsPath, XattrMode,
};
use tempfile::TempDir;

fn new() -> (TempDir, NativeFs) {
    let dir = tempfile::tempdir().unwrap();
    let fs = NativeFs::new(dir.path()).unwrap();
    (dir, fs)
}

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn kind<T>(answer: BackendResult<T>) -> ErrorKind {
    answer.err().expect("an error").kind()
}

fn read_all(file: &dyn File) -> Vec<u8> {
    let mut data = vec![0; file.metadata().unwrap().len as usize];
    assert_eq!(file.read_at(&mut data, 0).unwrap(), data.len());
    data
}

fn names(fs: &NativeFs, at: &str) -> Vec<(Vec<u8>, FileType)> {
    let mut names = Vec::new();
    fs.read_dir(path(at), Detail::Names, &mut |entry| {
        names.push((entry.name.to_vec(), entry.file_type));
        ControlFlow::Continue(())
    })
    .unwrap();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    names
}

#[test]
fn files_are_made_read_and_changed() {
    let (dir, fs) = new();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = fs.open(path("a"), &options).unwrap().file;
    assert_eq!(file.write_at(b"hello", 2).unwrap(), 5);
    assert_eq!(read_all(&*file), b"\0\0hello");
    assert_eq!(std::fs::read(dir.path().join("a")).unwrap(), b"\0\0hello");
    file.set_len(3).unwrap();
    assert_eq!(file.read_at(&mut [0; 8], 1).unwrap(), 2);
    assert_eq!(file.read_at(&mut [0; 8], 3).unwrap(), 0);
    assert_eq!(file.read_at(&mut [0; 8], u64::MAX).unwrap(), 0);
    assert_eq!(kind(file.write_at(b"x", u64::MAX)), ErrorKind::FileTooLarge);
    assert_eq!(kind(file.set_len(u64::MAX)), ErrorKind::FileTooLarge);
    file.sync(SyncScope::Data).unwrap();
    file.sync(SyncScope::All).unwrap();
    assert!(file.backing().is_some());
    assert!(file.bytes_at(0..3).unwrap().is_none());
    // Opening to read and write in place keeps the contents; to write anew cuts them.
    drop(fs.open(path("a"), &options).unwrap().file);
    assert_eq!(fs.metadata(path("a")).unwrap().len, 3);
    drop(fs.open(path("a"), &OpenOptions::writing()).unwrap().file);
    assert_eq!(fs.metadata(path("a")).unwrap().len, 0);
    fs.sync().unwrap();
}

#[test]
fn handles_do_only_what_they_were_opened_for() {
    let (dir, fs) = new();
    std::fs::write(dir.path().join("a"), b"abc").unwrap();
    let reader = fs.open(path("a"), &OpenOptions::reading()).unwrap().file;
    assert_eq!(kind(reader.write_at(b"x", 0)), ErrorKind::BadHandle);
    assert_eq!(kind(reader.set_len(0)), ErrorKind::BadHandle);
    assert_eq!(kind(reader.allocate(Allocation::Reserve, 0..1)), ErrorKind::BadHandle);
    assert_eq!(kind(reader.link_to(path("b"))), ErrorKind::Unsupported);
    let writer = fs.open(path("a"), &OpenOptions::new().write(true)).unwrap().file;
    assert_eq!(kind(writer.read_at(&mut [0], 0)), ErrorKind::BadHandle);
    assert_eq!(kind(fs.open(path("a"), &OpenOptions::new())), ErrorKind::InvalidArgument);
}

#[test]
fn what_is_no_regular_file_does_not_open() {
    let (dir, fs) = new();
    for (name, node) in [("fifo", NodeKind::Fifo), ("socket", NodeKind::Socket)] {
        fs.create(path(name), &NewNode::new(node)).unwrap();
    }
    assert!(std::fs::metadata(dir.path().join("fifo")).unwrap().file_type().is_fifo());
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    symlink("dir", dir.path().join("link")).unwrap();
    let ways = [
        OpenOptions::reading(),
        OpenOptions::writing(),
        OpenOptions::new().read(true).write(true),
        OpenOptions::new().append(true),
    ];
    for options in ways {
        assert_eq!(kind(fs.open(path("fifo"), &options)), ErrorKind::InvalidArgument);
        assert_eq!(kind(fs.open(path("socket"), &options)), ErrorKind::InvalidArgument);
        assert_eq!(kind(fs.open(path("dir"), &options)), ErrorKind::IsADirectory);
        assert_eq!(kind(fs.open(path(""), &options)), ErrorKind::IsADirectory);
        assert_eq!(kind(fs.open(path("link"), &options)), ErrorKind::SymlinkInPath);
        let new = options.write(true).create_new(true);
        for name in ["fifo", "dir", "link", ""] {
            assert_eq!(kind(fs.open(path(name), &new)), ErrorKind::AlreadyExists, "{name}");
        }
    }
}

#[test]
fn a_fifo_with_data_gives_none_of_it() {
    use std::io::{Read, Write};
    let (dir, fs) = new();
    fs.create(path("fifo"), &NewNode::new(NodeKind::Fifo)).unwrap();
    let mut ends = std::fs::File::options();
    let mut pipe = ends.read(true).write(true).open(dir.path().join("fifo")).unwrap();
    pipe.write_all(b"data").unwrap();
    let read = |opened: Opened| opened.file.read_at(&mut [0; 4], 0);
    let answer = fs.open(path("fifo"), &OpenOptions::reading()).and_then(read);
    assert_eq!(kind(answer), ErrorKind::InvalidArgument);
    let mut data = [0; 4];
    pipe.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"data");
}

#[test]
fn devices_do_not_open() {
    let (_dir, fs) = new();
    for minor in [3, 5, 8, 9] {
        // The null, zero and random devices: only the super-user makes them.
        let node = NodeKind::CharDevice(stratafs::Device { major: 1, minor });
        if fs.create(path("device"), &NewNode::new(node).mode(0o666)).is_err() {
            return;
        }
        let made = fs.metadata(path("device")).unwrap();
        assert_eq!(made.device, stratafs::Device { major: 1, minor });
        let way = OpenOptions::reading();
        for options in [way, way.write(true), way.append(true)] {
            let answer = kind(fs.open(path("device"), &options));
            let refusals = [ErrorKind::InvalidArgument, ErrorKind::PermissionDenied];
            assert!(refusals.contains(&answer), "{answer:?}");
        }
        fs.remove_file(path("device")).unwrap();
    }
}

#[test]
fn modes_are_exact_and_existing_files_keep_theirs() {
    let (dir, fs) = new();
    for mode in [0o000, 0o666, 0o777, 0o4755, 0o1777] {
        let name = format!("f{mode:o}");
        let options = OpenOptions::writing().mode(mode);
        drop(fs.open(path(&name), &options).unwrap().file);
        assert_eq!(fs.metadata(path(&name)).unwrap().mode, mode, "file {mode:o}");
        drop(fs.open(path(&name), &options.mode(0o600)).unwrap().file);
        assert_eq!(fs.metadata(path(&name)).unwrap().mode, mode, "again {mode:o}");
        let name = format!("d{mode:o}");
        let made = fs.create(path(&name), &NewNode::directory().mode(mode)).unwrap();
        assert_eq!(made.mode, mode, "directory {mode:o}");
        let name = format!("p{mode:o}");
        let made = fs.create(path(&name), &NewNode::new(NodeKind::Fifo).mode(mode)).unwrap();
        assert_eq!(made.mode, mode, "fifo {mode:o}");
        let host = std::fs::metadata(dir.path().join(&name)).unwrap();
        assert_eq!(host.permissions().mode() & 0o7777, mode);
    }
}

#[test]
fn owners_are_set_when_made_and_changed_later() {
    let (dir, fs) = new();
    if std::fs::metadata(dir.path()).unwrap().uid() != 0 {
        return; // only the super-user gives files away
    }
    let owner = Owner { user: 12, group: 34 };
    let options = OpenOptions::writing().owner(owner).mode(0o4711);
    let file = fs.open(path("f"), &options).unwrap().file;
    assert_eq!((file.metadata().unwrap().owner, file.metadata().unwrap().mode), (owner, 0o4711));
    let made = fs.create(path("d"), &NewNode::directory().owner(owner)).unwrap();
    assert_eq!(made.owner, owner);
    let made = fs.create(path("l"), &NewNode::symlink(b"x").owner(owner)).unwrap();
    assert_eq!(made.owner, owner);
    let other = Owner { user: 56, group: 78 };
    for name in ["f", "d", "l"] {
        fs.set_metadata(path(name), &MetadataChange::new().owner(other)).unwrap();
        assert_eq!(fs.metadata(path(name)).unwrap().owner, other, "{name}");
    }
    fs.set_metadata(path("f"), &MetadataChange { user: Some(1), ..Default::default() }).unwrap();
    assert_eq!(fs.metadata(path("f")).unwrap().owner, Owner { user: 1, group: 78 });
}

#[test]
fn metadata_is_changed_of_the_entry_itself() {
    let (dir, fs) = new();
    std::fs::write(dir.path().join("f"), b"x").unwrap();
    symlink("f", dir.path().join("l")).unwrap();
    let time = |seconds| TimeChange::At(Timestamp { seconds, nanoseconds: 123_456_789 });
    let target = fs.metadata(path("f")).unwrap();
    let change = MetadataChange::new().modified(time(-5)).mode(0o600);
    fs.set_metadata(path("l"), &change).unwrap();
    assert_eq!(fs.metadata(path("l")).unwrap().modified.seconds, -5);
    assert_eq!(fs.metadata(path("f")).unwrap(), target);
    for name in ["f", ""] {
        let change = MetadataChange::new().accessed(time(7)).modified(time(9)).mode(0o710);
        fs.set_metadata(path(name), &change).unwrap();
        let seen = fs.metadata(path(name)).unwrap();
        assert_eq!(seen.accessed, Timestamp { seconds: 7, nanoseconds: 123_456_789 });
        assert_eq!(seen.modified, Timestamp { seconds: 9, nanoseconds: 123_456_789 });
        assert_eq!(seen.mode, 0o710);
    }
    let file = fs.open(path("f"), &OpenOptions::reading()).unwrap().file;
    fs.remove_file(path("f")).unwrap();
    file.set_metadata(&change.mode(0o640)).unwrap();
    let seen = file.metadata().unwrap();
    assert_eq!((seen.mode, seen.links, seen.modified.seconds), (0o640, 0, -5));
    assert_eq!(kind(fs.set_metadata(path("f"), &change)), ErrorKind::NotFound);
}

#[test]
fn device_0_0_is_a_whiteout() {
    let (_dir, fs) = new();
    if !fs.capabilities().contains(Capabilities::WHITEOUTS) {
        return;
    }
    // The host knows the two as one.
    let device = NewNode::new(NodeKind::CharDevice(Default::default()));
    assert_eq!(fs.create(path("device"), &device).unwrap().file_type, FileType::Whiteout);
    assert_eq!(kind(fs.create(path("device"), &device)), ErrorKind::AlreadyExists);
}

#[test]
fn links_and_removals() {
    let (dir, fs) = new();
    std::fs::write(dir.path().join("f"), b"x").unwrap();
    std::fs::create_dir_all(dir.path().join("d/e")).unwrap();
    symlink("nowhere", dir.path().join("l")).unwrap();
    fs.link(path("f"), path("g")).unwrap();
    fs.link(path("l"), path("l2")).unwrap();
    assert!(fs.metadata(path("l2")).unwrap().is_symlink());
    assert_eq!(fs.metadata(path("f")).unwrap().id, fs.metadata(path("g")).unwrap().id);
    assert_eq!(kind(fs.link(path("none"), path("g"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.link(path("d"), path("new"))), ErrorKind::OperationNotPermitted);
    assert_eq!(kind(fs.link(path("d"), path("g"))), ErrorKind::OperationNotPermitted);
    assert_eq!(kind(fs.link(path("f"), path("g"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.link(path("f"), path(""))), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.link(path(""), path("new"))), ErrorKind::OperationNotPermitted);
    assert_eq!(kind(fs.remove_file(path("d"))), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.remove_file(path(""))), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.remove_file(path("none"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.remove_dir(path("d"))), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(fs.remove_dir(path("f"))), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.remove_dir(path("l"))), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.remove_dir(path(""))), ErrorKind::Busy);
    assert_eq!(kind(fs.remove_dir(path("none"))), ErrorKind::NotFound);
    fs.remove_dir(path("d/e")).unwrap();
    fs.remove_file(path("l")).unwrap();
    assert_eq!(fs.read_link(path("l2")).unwrap(), b"nowhere");
    assert_eq!(kind(fs.read_link(path("f"))), ErrorKind::InvalidArgument);
    assert_eq!(kind(fs.read_link(path(""))), ErrorKind::InvalidArgument);
    assert_eq!(kind(fs.read_link(path("l"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.create(path("e"), &NewNode::symlink(b""))), ErrorKind::InvalidArgument);
    let long = vec![b'x'; 4000];
    let made = fs.create(path("long"), &NewNode::symlink(&long)).unwrap();
    assert_eq!(made.len, 4000);
    assert_eq!(fs.read_link(path("long")).unwrap(), long);
}

#[test]
fn the_first_bad_component_decides() {
    let (dir, fs) = new();
    std::fs::create_dir_all(dir.path().join("d/e")).unwrap();
    std::fs::write(dir.path().join("f"), b"x").unwrap();
    symlink("d", dir.path().join("l")).unwrap();
    type Call<'a> = (&'a str, Box<dyn Fn(&VfsPath) -> ErrorKind + 'a>);
    let calls: [Call<'_>; 9] = [
        ("metadata", Box::new(|p| kind(fs.metadata(p)))),
        ("open", Box::new(|p| kind(fs.open(p, &OpenOptions::reading())))),
        ("write", Box::new(|p| kind(fs.open(p, &OpenOptions::writing())))),
        (
            "read_dir",
            Box::new(|p| kind(fs.read_dir(p, Detail::Names, &mut |_| ControlFlow::Continue(())))),
        ),
        ("create", Box::new(|p| kind(fs.create(p, &NewNode::directory())))),
        ("rename", Box::new(|p| kind(fs.rename(p, path("new"), RenameMode::Replace)))),
        ("remove", Box::new(|p| kind(fs.remove_dir(p)))),
        ("xattr", Box::new(|p| kind(fs.xattr(p, b"user.x")))),
        ("change", Box::new(|p| kind(fs.set_metadata(p, &MetadataChange::new())))),
    ];
    for (name, call) in &calls {
        for _ in 0..3 {
            assert_eq!(call(path("l/e/x")), ErrorKind::SymlinkInPath, "{name}");
            assert_eq!(call(path("l/e")), ErrorKind::SymlinkInPath, "{name}");
            assert_eq!(call(path("f/x")), ErrorKind::NotADirectory, "{name}");
            assert_eq!(call(path("f/x/y")), ErrorKind::NotADirectory, "{name}");
            assert_eq!(call(path("none/x")), ErrorKind::NotFound, "{name}");
            assert_eq!(call(path("d/none/x")), ErrorKind::NotFound, "{name}");
        }
    }
    assert_eq!(
        kind(fs.read_dir(path("l"), Detail::Names, &mut |_| ControlFlow::Continue(()))),
        ErrorKind::NotADirectory
    );
    assert_eq!(kind(fs.exists(path("l/e"))), ErrorKind::SymlinkInPath);
    for (name, there) in
        [("", true), ("d/e", true), ("l", true), ("f/x", false), ("d/x/y", false), ("x", false)]
    {
        assert_eq!(fs.exists(path(name)).unwrap(), there, "{name}");
    }
}

#[test]
fn names_are_bytes() {
    let (dir, fs) = new();
    let odd = b"\xff\xfe \n\\x".to_vec();
    let long = vec![b'n'; 255];
    for name in [&odd, &long] {
        let at = VfsPath::new(name).unwrap();
        drop(fs.open(at, &OpenOptions::writing()).unwrap().file);
        assert!(fs.exists(at).unwrap());
        assert!(dir.path().join(Path::new(std::ffi::OsStr::from_bytes(name))).exists());
        fs.set_xattr(at, b"user.k", b"v", XattrMode::Set).unwrap();
        assert_eq!(fs.xattr(at, b"user.k").unwrap(), b"v");
    }
    let mut expected = vec![long, odd];
    expected.sort();
    let seen: Vec<_> = names(&fs, "").into_iter().map(|(name, _)| name).collect();
    assert_eq!(seen, expected);
}

#[test]
fn attributes_of_the_entry_itself() {
    let (dir, fs) = new();
    if !fs.capabilities().contains(Capabilities::XATTRS) {
        return;
    }
    std::fs::write(dir.path().join("f"), b"x").unwrap();
    symlink("f", dir.path().join("l")).unwrap();
    for name in ["f", ""] {
        let at = path(name);
        let set = |key: &[u8], value: &[u8], mode| fs.set_xattr(at, key, value, mode);
        assert_eq!(kind(set(b"user.a", b"", XattrMode::Replace)), ErrorKind::NoAttribute);
        set(b"user.a", b"1", XattrMode::Create).unwrap();
        assert_eq!(kind(set(b"user.a", b"2", XattrMode::Create)), ErrorKind::AlreadyExists);
        set(b"user.a", &[3; 2000], XattrMode::Replace).unwrap();
        set(b"user.b", b"", XattrMode::Set).unwrap();
        assert_eq!(fs.xattr(at, b"user.a").unwrap(), [3; 2000]);
        assert_eq!(fs.xattr(at, b"user.b").unwrap(), b"");
        let mut all = fs.xattrs(at).unwrap();
        all.retain(|name| name.starts_with(b"user."));
        all.sort();
        assert_eq!(all, [b"user.a", b"user.b"]);
        fs.remove_xattr(at, b"user.a").unwrap();
        assert_eq!(kind(fs.remove_xattr(at, b"user.a")), ErrorKind::NoAttribute);
        assert_eq!(kind(fs.xattr(at, b"user.a")), ErrorKind::NoAttribute);
        assert_eq!(kind(set(&[b'n'; 256], b"", XattrMode::Set)), ErrorKind::TooLarge);
        assert_eq!(kind(set(b"user.big", &[0; 65_537], XattrMode::Set)), ErrorKind::TooLarge);
    }
    assert_eq!(kind(fs.xattr(path("l"), b"user.b")), ErrorKind::NoAttribute);
    assert_eq!(kind(fs.xattr(path("none"), b"user.b")), ErrorKind::NotFound);
    assert_eq!(
        kind(fs.set_xattr(path("none"), b"user.b", b"", XattrMode::Set)),
        ErrorKind::NotFound
    );
}

#[test]
fn room_is_told() {
    let (_dir, fs) = new();
    let room = fs.statfs().unwrap();
    assert!(room.total >= room.free && room.free >= room.available && room.block_size >= 512);
}

#[test]
fn the_root_is_opened_once() {
    let (dir, _) = new();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("f"), b"x").unwrap();
    let fs = NativeFs::new(&root).unwrap();
    std::fs::rename(&root, dir.path().join("elsewhere")).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert!(fs.exists(path("f")).unwrap());
    assert_eq!(kind(NativeFs::new(dir.path().join("elsewhere/f"))), ErrorKind::NotADirectory);
    assert_eq!(kind(NativeFs::new(dir.path().join("none"))), ErrorKind::NotFound);
    let fd = std::fs::File::open(dir.path().join("elsewhere")).unwrap();
    assert!(NativeFs::from_fd(fd.into()).unwrap().exists(path("f")).unwrap());
}
