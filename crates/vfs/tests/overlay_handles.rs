//! Handles that were open when their file was copied up, moved or removed, and what threads
//! see of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stratafs::{
    Allocation, ErrorKind, File, FileSystem, MemoryFs, MetadataChange, MountOptions, NativeFs,
    NewNode, OpenOptions, OverlayFs, RenameMode, TimeChange, Timestamp, Vfs, VfsPath, WatchEvent,
    WatchKind,
};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn mounted(fs: Arc<dyn FileSystem>) -> Vfs {
    let vfs = Vfs::new();
    vfs.mount("", fs, MountOptions::new()).unwrap();
    vfs
}

struct Stack {
    upper: Arc<MemoryFs>,
    lower: Arc<dyn FileSystem>,
    overlay: Arc<OverlayFs>,
    vfs: Vfs,
}

fn over(lower: Arc<dyn FileSystem>) -> Stack {
    let upper = Arc::new(MemoryFs::new());
    let overlay = OverlayFs::builder().upper(upper.clone()).lower(lower.clone()).build().unwrap();
    let overlay = Arc::new(overlay);
    let vfs = mounted(overlay.clone());
    Stack { upper, lower, overlay, vfs }
}

fn stack(files: &[&str]) -> Stack {
    let lower: Arc<dyn FileSystem> = Arc::new(MemoryFs::new());
    let filler = mounted(lower.clone());
    for file in files {
        filler.create_dir_all(path(file).parent().unwrap()).unwrap();
        filler.write(path(file), file).unwrap();
    }
    over(lower)
}

fn open(stack: &Stack, name: &str, options: OpenOptions) -> Box<dyn File> {
    stack.overlay.open(path(name), &options).unwrap().file
}

fn contents(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let count = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(count);
    bytes
}

const READ_WRITE: OpenOptions = OpenOptions::new().read(true).write(true);

#[test]
fn a_write_follows_its_file_into_a_renamed_directory() {
    let s = stack(&["d/sub/f"]);
    let writer = open(&s, "d/sub/f", READ_WRITE);
    let reader = open(&s, "d/sub/f", OpenOptions::reading());
    s.vfs.rename("d", "e").unwrap();
    s.vfs.rename("e/sub", "moved").unwrap();
    writer.write_at(b"D", 0).unwrap();
    assert_eq!(s.vfs.read("moved/f").unwrap(), b"D/sub/f");
    assert_eq!(contents(&*reader), b"D/sub/f");
    assert_eq!(writer.metadata().unwrap(), s.vfs.metadata("moved/f").unwrap());
}

#[test]
fn a_handle_for_reading_can_change_metadata() {
    let s = stack(&["f"]);
    let reader = open(&s, "f", OpenOptions::reading());
    reader.set_metadata(&MetadataChange::new().mode(0o600)).unwrap();
    assert_eq!(s.vfs.metadata("f").unwrap().mode, 0o600);
    assert_eq!(reader.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::BadHandle);
    assert_eq!(contents(&*reader), b"f");
}

#[test]
fn an_unlinked_lower_file_lives_on_for_all_its_handles() {
    let s = stack(&["d/f"]);
    let (one, other) = (open(&s, "d/f", READ_WRITE), open(&s, "d/f", READ_WRITE));
    let id = one.metadata().unwrap().id;
    s.vfs.remove_file("d/f").unwrap();
    assert_eq!((one.metadata().unwrap().links, one.metadata().unwrap().id), (0, id));
    s.vfs.write("d/f", "another").unwrap();
    one.write_at(b"X", 0).unwrap();
    assert_eq!(contents(&*other), b"X/f");
    other.set_len(1).unwrap();
    assert_eq!(contents(&*one), b"X");
    assert_eq!((other.metadata().unwrap().links, other.metadata().unwrap().id), (0, id));
    assert_eq!(s.vfs.read("d/f").unwrap(), b"another");
}

#[test]
fn a_replaced_lower_file_lives_on() {
    let s = stack(&["f", "g"]);
    let handle = open(&s, "f", READ_WRITE);
    s.vfs.rename("g", "f").unwrap();
    assert_eq!(handle.metadata().unwrap().links, 0);
    handle.write_at(b"F", 0).unwrap();
    assert_eq!(contents(&*handle), b"F");
    assert_eq!(s.vfs.read("f").unwrap(), b"g");
}

#[test]
fn every_real_change_copies_and_nothing_else_does() {
    type Change = fn(&dyn File);
    let change: [(&str, Change); 4] = [
        ("write", |file| assert_eq!(file.write_at(b"x", 0).unwrap(), 1)),
        ("len", |file| file.set_len(0).unwrap()),
        ("allocate", |file| file.allocate(Allocation::Reserve, 0..10).unwrap()),
        ("mode", |file| {
            file.set_metadata(&MetadataChange::new().mode(0o600)).unwrap();
        }),
    ];
    for (name, change) in change {
        let s = stack(&["f"]);
        let handle = open(&s, "f", READ_WRITE.append(name == "write"));
        assert_eq!(handle.write_at(b"", 0).unwrap(), 0);
        handle.set_metadata(&MetadataChange::new()).unwrap();
        handle.sync(stratafs::SyncScope::All).unwrap();
        assert!(handle.allocate(Allocation::Reserve, 5..5).is_err());
        s.vfs.set_metadata("f", &MetadataChange::new()).unwrap();
        assert!(!s.upper.exists(path("f")).unwrap(), "{name}");
        change(&*handle);
        assert!(s.upper.exists(path("f")).unwrap(), "{name}");
    }
}

#[test]
fn names_of_one_lower_file_part_at_the_copy() {
    let lower: Arc<dyn FileSystem> = Arc::new(MemoryFs::new());
    let below = mounted(lower.clone());
    below.write("a", "shared").unwrap();
    below.hard_link("a", "b").unwrap();
    let s = over(lower);
    assert_eq!(s.vfs.metadata("a").unwrap().id, s.vfs.metadata("b").unwrap().id);
    let (reader_a, reader_b) =
        (open(&s, "a", OpenOptions::reading()), open(&s, "b", OpenOptions::reading()));
    open(&s, "b", READ_WRITE).write_at(b"S", 0).unwrap();
    assert_eq!(contents(&*reader_a), b"shared");
    assert_eq!(contents(&*reader_b), b"Shared");
    // They are two files, and must not look like one.
    assert_ne!(s.vfs.metadata("a").unwrap().id, s.vfs.metadata("b").unwrap().id);
    s.vfs.hard_link("a", "c").unwrap();
    assert_eq!(s.vfs.metadata("a").unwrap().id, s.vfs.metadata("c").unwrap().id);
    assert_eq!(s.vfs.metadata("c").unwrap().links, 2);
}

#[test]
fn a_renamed_upper_directory_needs_no_mark() {
    let s = stack(&["x"]);
    s.vfs.create_dir_all("d/e").unwrap();
    s.vfs.rename("d", "f").unwrap();
    assert!(s.upper.xattrs(path("f")).unwrap().is_empty());
    assert!(s.upper.xattrs(VfsPath::root()).unwrap().is_empty());
    assert!(!s.upper.exists(path("d")).unwrap());
}

#[test]
fn a_directory_back_at_its_own_name_merges_again() {
    let s = stack(&["d/f"]);
    s.vfs.rename("d", "e").unwrap();
    assert_eq!(s.upper.xattrs(path("e")).unwrap(), [b"user.overlay.redirect".to_vec()]);
    s.vfs.rename("e", "d").unwrap();
    assert!(s.upper.xattrs(path("d")).unwrap().is_empty());
    assert_eq!(s.vfs.read("d/f").unwrap(), b"d/f");
    assert!(!s.upper.exists(path("e")).unwrap());
}

#[test]
fn a_copy_keeps_the_times_of_its_directories() {
    let s = stack(&["d/e/f"]);
    let old = TimeChange::At(Timestamp { seconds: 7, nanoseconds: 5 });
    let below = mounted(s.lower.clone());
    for name in ["d/e/f", "d/e", "d"] {
        below.set_metadata(name, &MetadataChange::new().modified(old).accessed(old)).unwrap();
    }
    let root = s.vfs.metadata("").unwrap().modified;
    s.vfs.set_metadata("d/e/f", &MetadataChange::new().mode(0o600)).unwrap();
    for name in ["d/e/f", "d/e", "d"] {
        let at = s.vfs.metadata(name).unwrap();
        assert_eq!((at.modified.seconds, at.modified.nanoseconds), (7, 5), "{name}");
    }
    assert_eq!(s.vfs.metadata("").unwrap().modified, root);
}

#[test]
fn a_new_read_only_file_over_a_whiteout_can_be_written_by_its_handle() {
    let (lower, upper) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(lower.path().join("f"), "old").unwrap();
    let overlay = OverlayFs::builder()
        .upper(Arc::new(NativeFs::new(upper.path()).unwrap()))
        .lower(Arc::new(NativeFs::new(lower.path()).unwrap()))
        .build()
        .unwrap();
    overlay.remove_file(path("f")).unwrap();
    let options = OpenOptions::new().write(true).create_new(true).mode(0o444);
    let file = overlay.open(path("f"), &options).unwrap().file;
    file.write_at(b"new", 0).unwrap();
    assert_eq!(std::fs::read(upper.path().join("f")).unwrap(), b"new");
    assert_eq!(overlay.metadata(path("f")).unwrap().mode, 0o444);
}

#[test]
fn reports_name_what_users_did() {
    let s = stack(&["d/f", "d/g"]);
    let (sender, events) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let sink = Arc::new(move |event: WatchEvent| sender.lock().unwrap().send(event).unwrap());
    let guard = s.overlay.watch(path("d"), sink).unwrap();
    let writer = open(&s, "d/f", READ_WRITE);
    writer.write_at(b"x", 0).unwrap();
    s.vfs.remove_file("d/g").unwrap();
    s.vfs.rename("d/f", "d/h").unwrap();
    s.vfs.write("elsewhere", "").unwrap();
    mounted(s.lower.clone()).write("d/below", "").unwrap();
    mounted(s.lower.clone()).write("d/g", "hidden").unwrap();
    drop(guard);
    s.vfs.write("d/later", "").unwrap();
    let seen: Vec<_> = events.try_iter().map(|e| (e.kind, e.path.display().to_string())).collect();
    let expected = [
        (WatchKind::Modified, "/d/f"),
        (WatchKind::Removed, "/d/g"),
        (WatchKind::Removed, "/d/f"),
        (WatchKind::Created, "/d/h"),
        (WatchKind::Created, "/d/below"),
    ];
    let expected: Vec<_> = expected.map(|(kind, path)| (kind, path.to_owned())).into();
    assert_eq!(seen, expected);
}

#[test]
fn reports_of_lower_layers_go_by_the_name_that_shows() {
    let s = stack(&["a/f", "b/g", "b/c/h"]);
    s.vfs.rename("a", "moved").unwrap();
    let (sender, events) = std::sync::mpsc::channel();
    let sink = Arc::new(move |event: WatchEvent| drop(sender.send(event)));
    let _guard = s.overlay.watch(path(""), sink).unwrap();
    s.vfs.rename("b", "moved/b").unwrap();
    let seen = || -> Vec<_> {
        events.try_iter().map(|event| (event.kind, event.path.display().to_string())).collect()
    };
    assert_eq!(seen().len(), 2);
    let below = mounted(s.lower.clone());
    below.write("a/new", "").unwrap();
    below.create_dir("b/c/d").unwrap();
    below.remove_file("b/g").unwrap();
    let expected = [
        (WatchKind::Created, "/moved/new"),
        (WatchKind::Created, "/moved/b/c/d"),
        (WatchKind::Removed, "/moved/b/g"),
    ];
    assert_eq!(seen(), expected.map(|(kind, path)| (kind, path.to_owned())));
    s.vfs.remove_dir_all("moved/b/c").unwrap();
    assert_eq!(seen().len(), 3);
    below.write("b/c/h", "hidden").unwrap();
    assert_eq!(seen(), []);
}

/// Readers open lower files while writers copy them up: whoever reads after a write has
/// returned sees it.
#[test]
fn readers_never_miss_a_write_that_returned() {
    const FILES: usize = 200;
    let names: Vec<String> = (0..FILES).map(|n| format!("d{}/f{n}", n % 7)).collect();
    let s = stack(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let written: Vec<AtomicBool> = (0..FILES).map(|_| AtomicBool::new(false)).collect();
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (s, names, written) = (&s, &names, &written);
            scope.spawn(move || {
                for n in (0..FILES).cycle().skip(reader * 67).take(FILES * 3) {
                    let handle = open(s, &names[n], OpenOptions::reading());
                    for _ in 0..3 {
                        let done = written[n].load(Ordering::SeqCst);
                        let first = contents(&*handle)[0];
                        assert!(!done || first == b'X', "{} read {first}", names[n]);
                    }
                    assert_eq!(
                        handle.metadata().unwrap().id,
                        s.vfs.metadata(&names[n]).unwrap().id
                    );
                }
            });
        }
        for writer in 0..2 {
            let (s, names, written) = (&s, &names, &written);
            scope.spawn(move || {
                for n in (0..FILES).skip(writer).step_by(2) {
                    open(s, &names[n], READ_WRITE).write_at(b"X", 0).unwrap();
                    written[n].store(true, Ordering::SeqCst);
                }
            });
        }
    });
}

/// A lower directory moves to and fro: each file shows in exactly one of the two places, never
/// what a whiteout or an opaque directory hides, and nothing blocks for good.
#[test]
fn lookups_hold_while_directories_move() {
    let s = stack(&["a/x/f", "b/hidden"]);
    s.vfs.remove_dir_all("b").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    assert!(!s.vfs.exists("b/hidden").unwrap());
                    for name in ["a/x/f", "b/x/f"] {
                        match s.vfs.read(name) {
                            Ok(bytes) => assert_eq!(bytes, b"a/x/f"),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                        }
                    }
                    if let Ok(list) = s.vfs.read_dir("b") {
                        assert!(list.iter().all(|entry| entry.name == b"x"));
                    }
                }
            });
        }
        for _ in 0..300 {
            s.vfs.rename("a", "b").unwrap();
            s.overlay.create(path("a"), &NewNode::directory()).unwrap();
            assert!(s.vfs.read_dir("a").unwrap().iter().next().is_none());
            s.vfs.rename_with("a", "b", RenameMode::Exchange).unwrap();
            s.vfs.remove_dir("b").unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(s.vfs.read("a/x/f").unwrap(), b"a/x/f");
}
