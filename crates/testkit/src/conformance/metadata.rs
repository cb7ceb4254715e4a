//! `FileSystem::metadata` and `statfs`.

use stratafs::{
    Capabilities, ErrorKind, FileSystem, FileType, MetadataChange, OpenOptions, RenameMode,
    TimeChange, Timestamp,
};

use super::cases;
use crate::tools::*;

cases![
    a_missing_name,
    the_root_is_a_directory,
    of_a_file,
    of_a_directory,
    of_a_symlink_itself: SYMLINKS,
    a_handle_answers_as_the_path,
    ids_tell_files_apart,
    an_id_survives_a_rename,
    hard_links_share_an_id: HARD_LINKS,
    links_are_counted: HARD_LINKS,
    links_of_a_directory,
    allocated_follows_contents,
    times_are_set_when_made,
    writing_moves_modified,
    cutting_moves_modified,
    reading_does_not_move_modified,
    a_directory_moves_with_its_entries,
    a_rename_moves_both_directories,
    a_rename_keeps_modified,
    statfs_is_plausible,
];

/// A time no clock shows again: what moves away from it was moved by the backend.
const OLD: Timestamp = Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };

#[track_caller]
fn age(fs: &dyn FileSystem, path: &str) {
    fs.set_metadata(p(path), &MetadataChange::new().modified(TimeChange::At(OLD))).unwrap();
    assert_eq!(stat(fs, path).modified, OLD, "of {path:?}");
}

#[track_caller]
fn has_moved(fs: &dyn FileSystem, path: &str) {
    assert!(stat(fs, path).modified > OLD, "modified of {path:?} did not move");
}

fn a_missing_name(fs: &dyn FileSystem) {
    fails(fs.metadata(p("missing")), ErrorKind::NotFound);
    mkdir(fs, "dir");
    fails(fs.metadata(p("dir/missing")), ErrorKind::NotFound);
}

fn the_root_is_a_directory(fs: &dyn FileSystem) {
    assert_eq!(type_of(fs, ""), FileType::Directory);
    assert!(exists(fs, ""));
    assert!(names(fs, "").is_empty());
}

fn of_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let known = stat(fs, "file");
    assert_eq!((known.file_type, known.len, known.links), (FileType::File, 8, 1));
    assert!(known.mode <= 0o7777, "mode {:o} has more than permission bits", known.mode);
}

fn of_a_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let known = stat(fs, "dir");
    assert_eq!(known.file_type, FileType::Directory);
    assert!(known.links >= 1);
    assert!(known.mode <= 0o7777, "mode {:o} has more than permission bits", known.mode);
}

fn of_a_symlink_itself(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    symlink(fs, "some/where", "link");
    let known = stat(fs, "link");
    assert_eq!((known.file_type, known.len), (FileType::Symlink, 10));
}

fn a_handle_answers_as_the_path(fs: &dyn FileSystem) {
    let file = open(fs, "file", OpenOptions::writing().mode(0o640));
    write_all(&*file, b"contents", 0);
    age(fs, "file");
    let (by_handle, by_path) = (file.metadata().unwrap(), stat(fs, "file"));
    assert_eq!(by_handle, by_path);
}

fn ids_tell_files_apart(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for path in ["a", "b", "dir/a", "dir/b"] {
        put(fs, path, "same");
    }
    let mut ids: Vec<_> =
        ["", "dir", "a", "b", "dir/a", "dir/b"].map(|path| stat(fs, path).id).into();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

fn an_id_survives_a_rename(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    put(fs, "dir/inner", "contents");
    let before = ["file", "dir", "dir/inner"].map(|path| stat(fs, path).id);
    rename(fs, "dir", "moved");
    rename(fs, "file", "moved/file");
    assert_eq!(["moved/file", "moved", "moved/inner"].map(|path| stat(fs, path).id), before);
}

fn hard_links_share_an_id(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    put(fs, "copy", "contents");
    mkdir(fs, "dir");
    link(fs, "file", "dir/other");
    assert_eq!(stat(fs, "file").id, stat(fs, "dir/other").id);
    assert_ne!(stat(fs, "file").id, stat(fs, "copy").id);
}

fn links_are_counted(fs: &dyn FileSystem) {
    put(fs, "a", "contents");
    assert_eq!(stat(fs, "a").links, 1);
    link(fs, "a", "b");
    link(fs, "b", "c");
    assert_eq!(["a", "b", "c"].map(|path| stat(fs, path).links), [3, 3, 3]);
    unlink(fs, "a");
    assert_eq!(stat(fs, "b").links, 2);
    put(fs, "new", "new");
    rename(fs, "new", "b");
    assert_eq!(stat(fs, "c").links, 1);
    assert_eq!(stat(fs, "b").links, 1);
}

fn links_of_a_directory(fs: &dyn FileSystem) {
    #[track_caller]
    fn has(fs: &dyn FileSystem, path: &str, directories: u32) {
        let links = stat(fs, path).links;
        assert!(links == 1 || links == 2 + directories, "{path:?} has {links} links");
    }
    mkdir(fs, "dir");
    has(fs, "dir", 0);
    mkdir(fs, "dir/one");
    mkdir(fs, "dir/two");
    put(fs, "dir/file", "");
    has(fs, "dir", 2);
    has(fs, "", 1);
    rename(fs, "dir/one", "one");
    has(fs, "dir", 1);
    has(fs, "", 2);
    fs.remove_dir(p("dir/two")).unwrap();
    has(fs, "dir", 0);
    rename(fs, "dir", "one/dir");
    has(fs, "one", 1);
}

fn allocated_follows_contents(fs: &dyn FileSystem) {
    put(fs, "file", noise(1, 1 << 20));
    let file = open(fs, "file", OpenOptions::new().write(true));
    // A host may allocate only when it must.
    file.sync(stratafs::SyncScope::All).unwrap();
    let allocated = stat(fs, "file").allocated;
    assert!(allocated > 0 && allocated.is_multiple_of(512), "{allocated}");
    if fs.capabilities().contains(Capabilities::SPARSE) {
        assert!(allocated >= 1 << 20, "noise takes its whole length, not {allocated}");
    }
    file.set_len(0).unwrap();
    assert!(stat(fs, "file").allocated < allocated);
}

fn times_are_set_when_made(fs: &dyn FileSystem) {
    // Hosts stamp files by a clock that ticks some milliseconds behind.
    let before = Timestamp::now().seconds - 1;
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    let after = Timestamp::now().seconds + 1;
    for path in ["file", "dir"] {
        let known = stat(fs, path);
        let mut times = vec![known.modified, known.changed, known.accessed];
        times.extend(known.created);
        for time in times {
            assert!((before..=after).contains(&time.seconds), "{path:?}: {time:?}");
            assert!(time.nanoseconds < 1_000_000_000);
        }
    }
}

fn writing_moves_modified(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    write_all(&*file, b"contents", 0);
    age(fs, "file");
    write_all(&*file, b"C", 0);
    has_moved(fs, "file");
    let appender = open(fs, "file", OpenOptions::new().append(true));
    age(fs, "file");
    write_all(&*appender, b"!", 0);
    has_moved(fs, "file");
}

fn cutting_moves_modified(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    write_all(&*file, b"contents", 0);
    for len in [4, 100] {
        age(fs, "file");
        file.set_len(len).unwrap();
        has_moved(fs, "file");
    }
    age(fs, "file");
    open(fs, "file", OpenOptions::writing());
    has_moved(fs, "file");
}

fn reading_does_not_move_modified(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    mkdir(fs, "dir");
    put(fs, "dir/x", "x");
    for path in ["file", "dir", ""] {
        age(fs, path);
    }
    get(fs, "file");
    names(fs, "dir");
    names(fs, "");
    open(fs, "file", OpenOptions::new().read(true).write(true));
    open(fs, "dir/x", OpenOptions::new().append(true));
    for path in ["file", "dir", ""] {
        assert_eq!(stat(fs, path).modified, OLD, "of {path:?}");
    }
}

fn a_directory_moves_with_its_entries(fs: &dyn FileSystem) {
    mkdir(fs, "d");
    for dir in ["", "d"] {
        let below = |name: &str| if dir.is_empty() { name.to_owned() } else { format!("d/{name}") };
        age(fs, dir);
        put(fs, &below("file"), "");
        has_moved(fs, dir);
        age(fs, dir);
        mkdir(fs, &below("sub"));
        has_moved(fs, dir);
        age(fs, dir);
        unlink(fs, &below("file"));
        has_moved(fs, dir);
        age(fs, dir);
        fs.remove_dir(p(&below("sub"))).unwrap();
        has_moved(fs, dir);
    }
}

fn a_rename_moves_both_directories(fs: &dyn FileSystem) {
    mkdir(fs, "a");
    mkdir(fs, "b");
    put(fs, "a/file", "");
    age(fs, "a");
    age(fs, "b");
    fs.rename(p("a/file"), p("b/file"), RenameMode::NoReplace).unwrap();
    has_moved(fs, "a");
    has_moved(fs, "b");
}

fn a_rename_keeps_modified(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    age(fs, "file");
    age(fs, "dir");
    rename(fs, "file", "other");
    rename(fs, "dir", "moved");
    assert_eq!(stat(fs, "other").modified, OLD);
    assert_eq!(stat(fs, "moved").modified, OLD);
}

fn statfs_is_plausible(fs: &dyn FileSystem) {
    let room = fs.statfs().unwrap();
    assert!(room.free <= room.total, "{room:?}");
    assert!(room.available <= room.free, "{room:?}");
    assert!(room.files_free <= room.files, "{room:?}");
    assert!(room.block_size.is_power_of_two(), "{room:?}");
}
