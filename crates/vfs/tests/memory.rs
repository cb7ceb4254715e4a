//! What is particular to the memory backend: its bounds, its storage, its watches.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use stratafs::{
    Allocation, Detail, ErrorKind, FileSystem, MemoryFs, MemoryOptions, NewNode, OpenOptions,
    RenameMode, Seek, VfsPath, WatchEvent, WatchKind, XattrMode,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const PAGE: u64 = 4 * KIB;

fn p(path: &str) -> &VfsPath {
    VfsPath::new(path.as_bytes()).unwrap()
}

const READ_WRITE: OpenOptions = OpenOptions::new().read(true).write(true).create(true);

#[track_caller]
fn fails<T>(result: Result<T, stratafs::BackendError>, kind: ErrorKind) {
    assert_eq!(result.err().expect("an error").kind(), kind);
}

fn used(fs: &MemoryFs) -> u64 {
    let room = fs.statfs().unwrap();
    room.total - room.free
}

fn with_quota(bytes: u64) -> MemoryFs {
    MemoryFs::with_options(MemoryOptions::new().quota_bytes(bytes))
}

#[test]
fn a_full_file_system_refuses_and_changes_nothing() {
    let fs = with_quota(MIB);
    let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
    file.write_at(&vec![1; MIB as usize], 0).unwrap();
    assert_eq!(fs.statfs().unwrap().free, 0);
    let before = file.metadata().unwrap();
    fails(file.write_at(b"x", MIB), ErrorKind::NoSpace);
    fails(fs.open(p("g"), &READ_WRITE).unwrap().file.write_at(b"x", 0), ErrorKind::NoSpace);
    fails(file.allocate(Allocation::Reserve, MIB..2 * MIB), ErrorKind::NoSpace);
    fails(fs.create(p("l"), &NewNode::symlink(b"target")), ErrorKind::NoSpace);
    fails(fs.set_xattr(p("f"), b"user.a", b"x", XattrMode::Set), ErrorKind::NoSpace);
    assert_eq!(file.metadata().unwrap(), before);
    assert!(!fs.exists(p("l")).unwrap());
    // What is there can be overwritten, and holes cost nothing.
    file.write_at(&vec![2; MIB as usize], 0).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(file.metadata().unwrap().allocated, MIB);
}

#[test]
fn everything_charged_comes_back() {
    let fs = with_quota(64 * MIB);
    let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
    for len in [1, 511, 512, 4096, 16 * KIB, 16 * KIB + 1, 100 * KIB, 3 * MIB, 7 * MIB] {
        file.set_len(0).unwrap();
        assert_eq!(used(&fs), 0);
        file.write_at(&vec![1; len as usize], 0).unwrap();
        let unit = if len <= 16 * KIB { 512 } else { PAGE };
        assert_eq!(used(&fs), len.next_multiple_of(unit));
        assert_eq!(file.metadata().unwrap().allocated, used(&fs));
    }
    file.set_len(MIB).unwrap();
    assert_eq!(used(&fs), MIB);
    file.allocate(Allocation::PunchHole, 0..512 * KIB).unwrap();
    assert_eq!(used(&fs), 512 * KIB);
    file.allocate(Allocation::ReserveKeepLen, 0..2 * MIB).unwrap();
    assert_eq!((used(&fs), file.metadata().unwrap().len), (2 * MIB, MIB));
    fs.set_xattr(p("f"), b"user.a", &[1; 1000], XattrMode::Set).unwrap();
    fs.set_xattr(p("f"), b"user.a", &[1; 10], XattrMode::Set).unwrap();
    fs.set_xattr(p("f"), b"user.b", &[1; 10], XattrMode::Set).unwrap();
    assert_eq!(used(&fs), 2 * MIB + 32);
    fs.remove_xattr(p("f"), b"user.b").unwrap();
    assert_eq!(used(&fs), 2 * MIB + 16);
    fs.create(p("l"), &NewNode::symlink(b"target")).unwrap();
    fs.rename(p("l"), p("m"), RenameMode::Whiteout).unwrap();
    fs.rename(p("m"), p("f"), RenameMode::Replace).unwrap();
    drop(file);
    assert_eq!(used(&fs), 512);
    fs.remove_file(p("f")).unwrap();
    fs.remove_file(p("l")).unwrap();
    let room = fs.statfs().unwrap();
    assert_eq!((room.free, room.files), (room.total, u64::MAX));
}

#[test]
fn files_are_counted_too() {
    let fs = MemoryFs::with_options(MemoryOptions::new().quota_files(3));
    fs.create(p("d"), &NewNode::directory()).unwrap();
    fs.open(p("d/f"), &READ_WRITE).unwrap();
    fs.link(p("d/f"), p("d/g")).unwrap();
    let temporary = OpenOptions::new().write(true).temporary(true);
    let held = fs.open(p("d"), &temporary).unwrap().file;
    assert_eq!(fs.statfs().unwrap().files_free, 0);
    fails(fs.open(p("d/h"), &READ_WRITE), ErrorKind::NoSpace);
    fails(fs.create(p("e"), &NewNode::directory()), ErrorKind::NoSpace);
    fails(fs.rename(p("d/f"), p("f"), RenameMode::Whiteout), ErrorKind::NoSpace);
    assert!(fs.exists(p("d/f")).unwrap() && !fs.exists(p("f")).unwrap());
    drop(held);
    fs.remove_file(p("d/f")).unwrap();
    fs.remove_file(p("d/g")).unwrap();
    fs.remove_dir(p("d")).unwrap();
    assert_eq!(fs.statfs().unwrap().files_free, 3);
}

#[test]
fn a_removed_file_lives_until_its_last_handle() {
    let fs = with_quota(4 * MIB);
    for len in [100, 3 * MIB as usize] {
        let first = fs.open(p("f"), &READ_WRITE).unwrap().file;
        let second = fs.open(p("f"), &OpenOptions::reading()).unwrap().file;
        first.write_at(&vec![7; len], 0).unwrap();
        fs.remove_file(p("f")).unwrap();
        assert_eq!(second.metadata().unwrap().links, 0);
        fs.open(p("f"), &READ_WRITE).unwrap().file.write_at(b"other", 0).unwrap();
        drop(first);
        let mut all = vec![0; len];
        assert_eq!(second.read_at(&mut all, 0).unwrap(), len);
        assert!(all.iter().all(|&byte| byte == 7));
        fs.remove_file(p("f")).unwrap();
        assert!(used(&fs) >= len as u64);
        drop(second);
        assert_eq!(used(&fs), 0);
    }
}

#[test]
fn handles_keep_the_file_system() {
    let fs = MemoryFs::new();
    let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
    file.write_at(b"still here", 0).unwrap();
    drop(fs);
    let bytes = file.bytes_at(0..100).unwrap().unwrap();
    assert_eq!(bytes, "still here");
    drop(file);
    assert_eq!(bytes, "still here");
}

#[test]
fn shared_bytes_stay_as_they_were() {
    let fs = MemoryFs::new();
    let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
    file.write_at(b"first state", 0).unwrap();
    let kept = file.bytes_at(0..5).unwrap().unwrap();
    file.write_at(b"other", 0).unwrap();
    file.set_len(2).unwrap();
    assert_eq!(kept, "first");
    assert_eq!(file.bytes_at(1..100).unwrap().unwrap(), "t");
    assert_eq!(file.bytes_at(50..100).unwrap().unwrap(), "");
    file.set_len(MIB).unwrap();
    assert!(file.bytes_at(0..5).unwrap().is_none());
}

#[test]
fn holes_are_exact_to_a_page() {
    let fs = MemoryFs::new();
    let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
    file.write_at(&[1; 16 * KIB as usize], 0).unwrap();
    file.allocate(Allocation::PunchHole, PAGE + 1..3 * PAGE).unwrap();
    assert_eq!(file.seek(0, Seek::Hole).unwrap(), 2 * PAGE);
    assert_eq!(file.seek(2 * PAGE, Seek::Data).unwrap(), 3 * PAGE);
    assert_eq!(file.seek(3 * PAGE, Seek::Hole).unwrap(), 4 * PAGE);
    fails(file.seek(4 * PAGE, Seek::Hole), ErrorKind::NoSuchOffset);
    let mut all = [9; 16 * KIB as usize];
    file.read_at(&mut all, 0).unwrap();
    let expected = |at: u64| u8::from(at <= PAGE || at >= 3 * PAGE);
    assert!((0..).zip(all).all(|(at, byte)| byte == expected(at)));

    file.set_len(0).unwrap();
    file.set_len(10 * MIB).unwrap();
    fails(file.seek(0, Seek::Data), ErrorKind::NoSuchOffset);
    assert_eq!(file.metadata().unwrap().allocated, 0);
    file.allocate(Allocation::Zero, 9 * MIB..11 * MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len, 11 * MIB);
    file.write_at(b"x", i64::MAX as u64 - 1).unwrap();
    fails(file.write_at(b"xy", i64::MAX as u64 - 1), ErrorKind::FileTooLarge);
    fails(file.set_len(1 << 63), ErrorKind::FileTooLarge);
    assert_eq!(file.metadata().unwrap().allocated, PAGE);
}

#[test]
fn a_reservation_without_a_quota_is_bounded() {
    let fs = MemoryFs::new();
    let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
    fails(file.allocate(Allocation::Reserve, 0..1 << 50), ErrorKind::NoSpace);
    assert_eq!(file.metadata().unwrap().len, 0);
    file.allocate(Allocation::Reserve, 0..8 * MIB).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.len, metadata.allocated), (8 * MIB, 8 * MIB));
    fails(file.allocate(Allocation::Reserve, 0..1 << 50), ErrorKind::NoSpace);
}

#[test]
fn listings_are_in_the_order_of_making_and_can_break_off() {
    let fs = MemoryFs::new();
    for name in ["c", "a", "b"] {
        fs.open(p(name), &READ_WRITE).unwrap();
    }
    let mut seen = Vec::new();
    fs.read_dir(VfsPath::root(), Detail::Names, &mut |entry| {
        seen.push(entry.name.to_vec());
        if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, [b"c", b"a"]);
}

type Reports = Arc<Mutex<Vec<(WatchKind, String)>>>;

/// All reports so far.
fn watch(fs: &MemoryFs, path: &str) -> (Reports, stratafs::WatchGuard) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = Arc::clone(&seen);
        Arc::new(move |event: WatchEvent| {
            let path = String::from_utf8(event.path.into_bytes()).unwrap();
            seen.lock().unwrap().push((event.kind, path));
        })
    };
    let guard = fs.watch(p(path), sink).unwrap();
    (seen, guard)
}

#[test]
fn changes_below_a_watched_path_are_reported() {
    use WatchKind::{Created, Metadata, Modified, Removed};
    let fs = MemoryFs::new();
    fs.create(p("d"), &NewNode::directory()).unwrap();
    let (seen, guard) = watch(&fs, "d");
    let expect = |expected: &[(WatchKind, &str)]| {
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let seen: Vec<_> = seen.iter().map(|(kind, path)| (*kind, path.as_str())).collect();
        assert_eq!(seen, expected);
    };
    fs.open(p("other"), &READ_WRITE).unwrap().file.write_at(b"x", 0).unwrap();
    expect(&[]);
    let file = fs.open(p("d/f"), &READ_WRITE).unwrap().file;
    file.write_at(b"x", 0).unwrap();
    expect(&[(Created, "d/f"), (Modified, "d/f")]);
    // A handle's change is reported under the name that the file has now.
    fs.rename(p("d/f"), p("d/g"), RenameMode::Replace).unwrap();
    file.set_len(0).unwrap();
    expect(&[(Removed, "d/f"), (Created, "d/g"), (Modified, "d/g")]);
    fs.link(p("d/g"), p("d/h")).unwrap();
    fs.remove_file(p("d/h")).unwrap();
    file.write_at(b"y", 0).unwrap();
    expect(&[(Created, "d/h"), (Removed, "d/h"), (Modified, "d/g")]);
    fs.set_xattr(p("d/g"), b"user.a", b"1", XattrMode::Set).unwrap();
    fs.set_metadata(p("d/g"), &stratafs::MetadataChange::new().mode(0o600)).unwrap();
    expect(&[(Metadata, "d/g"), (Metadata, "d/g")]);
    fs.remove_file(p("d/g")).unwrap();
    file.write_at(b"z", 0).unwrap();
    expect(&[(Removed, "d/g")]);
    drop(guard);
    fs.create(p("d/e"), &NewNode::directory()).unwrap();
    expect(&[]);
}

#[test]
fn a_watch_may_be_ended_by_its_own_report() {
    let fs = MemoryFs::new();
    let slot = Arc::new(Mutex::new(None));
    let sink = {
        let slot = Arc::clone(&slot);
        Arc::new(move |_: WatchEvent| drop(slot.lock().unwrap().take()))
    };
    *slot.lock().unwrap() = Some(fs.watch(VfsPath::root(), sink).unwrap());
    fs.open(p("f"), &READ_WRITE).unwrap();
    assert!(slot.lock().unwrap().is_none());
}
