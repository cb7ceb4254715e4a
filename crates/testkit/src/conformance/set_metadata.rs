//! `set_metadata`, by path and by handle.

use stratafs::{
    ErrorKind, FileSystem, MetadataChange, NodeKind, OpenOptions, Owner, TimeChange, Timestamp,
};

use super::cases;
use crate::tools::*;

cases![
    a_missing_file,
    nothing_changes_nothing,
    mode_of_a_file: MODES,
    mode_of_a_directory_and_the_root: MODES,
    mode_of_a_node: MODES | SPECIAL_NODES,
    every_mode: MODES,
    owner_of_a_file: OWNERS,
    user_and_group_apart: OWNERS,
    owner_of_a_symlink_itself: OWNERS | SYMLINKS,
    times_of_a_file,
    times_before_1970,
    one_time_leaves_the_other,
    times_of_a_directory,
    times_of_a_symlink_itself: SYMLINKS,
    now_is_now,
    changed_moves: MODES,
    several_at_once: MODES | OWNERS,
    by_a_handle: MODES,
    by_a_handle_for_reading: MODES,
];

fn at(seconds: i64, nanoseconds: u32) -> TimeChange {
    TimeChange::At(Timestamp { seconds, nanoseconds })
}

#[track_caller]
fn change(fs: &dyn FileSystem, path: &str, change: MetadataChange) {
    fs.set_metadata(p(path), &change)
        .unwrap_or_else(|error| panic!("{path:?} {change:?}: {error}"));
}

fn a_missing_file(fs: &dyn FileSystem) {
    for change in [MetadataChange::new(), MetadataChange::new().mode(0o600)] {
        fails(fs.set_metadata(p("missing"), &change), ErrorKind::NotFound);
    }
}

fn nothing_changes_nothing(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let before = stat(fs, "file");
    change(fs, "file", MetadataChange::new());
    let after = stat(fs, "file");
    assert_eq!((after.mode, after.owner, after.len), (before.mode, before.owner, before.len));
    assert_eq!(after.modified, before.modified);
}

fn mode_of_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let before = stat(fs, "file");
    change(fs, "file", MetadataChange::new().mode(0o751));
    let after = stat(fs, "file");
    assert_eq!(after.mode, 0o751);
    assert_eq!((after.len, after.owner, after.modified), (8, before.owner, before.modified));
    assert_eq!(get(fs, "file"), b"contents");
}

fn mode_of_a_directory_and_the_root(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for path in ["dir", ""] {
        change(fs, path, MetadataChange::new().mode(0o1770));
        assert_eq!(stat(fs, path).mode, 0o1770);
        change(fs, path, MetadataChange::new().mode(0o755));
        assert_eq!(stat(fs, path).mode, 0o755);
    }
}

fn mode_of_a_node(fs: &dyn FileSystem) {
    create(fs, "fifo", NodeKind::Fifo);
    create(fs, "socket", NodeKind::Socket);
    for path in ["fifo", "socket"] {
        change(fs, path, MetadataChange::new().mode(0o602));
        assert_eq!(stat(fs, path).mode, 0o602);
    }
}

fn every_mode(fs: &dyn FileSystem) {
    put(fs, "file", "");
    for mode in [0, 0o7, 0o70, 0o700, 0o777, 0o1000, 0o4755, 0o7777, 0o644] {
        change(fs, "file", MetadataChange::new().mode(mode));
        assert_eq!(stat(fs, "file").mode, mode);
    }
}

fn owner_of_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    let owner = Owner { user: 1001, group: 1002 };
    for path in ["file", "dir"] {
        change(fs, path, MetadataChange::new().owner(owner));
        assert_eq!(stat(fs, path).owner, owner);
    }
}

fn user_and_group_apart(fs: &dyn FileSystem) {
    put(fs, "file", "");
    change(fs, "file", MetadataChange::new().owner(Owner { user: 1, group: 2 }));
    change(fs, "file", MetadataChange { user: Some(3), ..MetadataChange::new() });
    assert_eq!(stat(fs, "file").owner, Owner { user: 3, group: 2 });
    change(fs, "file", MetadataChange { group: Some(4), ..MetadataChange::new() });
    assert_eq!(stat(fs, "file").owner, Owner { user: 3, group: 4 });
}

fn owner_of_a_symlink_itself(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let before = stat(fs, "file").owner;
    symlink(fs, "file", "link");
    let owner = Owner { user: 1001, group: 1002 };
    change(fs, "link", MetadataChange::new().owner(owner));
    assert_eq!(stat(fs, "link").owner, owner);
    assert_eq!(stat(fs, "file").owner, before);
}

fn times_of_a_file(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    change(
        fs,
        "file",
        MetadataChange::new()
            .accessed(at(1_000_000_001, 1))
            .modified(at(2_000_000_002, 999_999_999)),
    );
    let known = stat(fs, "file");
    assert_eq!(known.accessed, Timestamp { seconds: 1_000_000_001, nanoseconds: 1 });
    assert_eq!(known.modified, Timestamp { seconds: 2_000_000_002, nanoseconds: 999_999_999 });
}

fn times_before_1970(fs: &dyn FileSystem) {
    put(fs, "file", "");
    for (seconds, nanoseconds) in [(0, 0), (-1, 500_000_000), (-1_000_000_000, 7)] {
        change(fs, "file", MetadataChange::new().modified(at(seconds, nanoseconds)));
        assert_eq!(stat(fs, "file").modified, Timestamp { seconds, nanoseconds });
    }
}

fn one_time_leaves_the_other(fs: &dyn FileSystem) {
    put(fs, "file", "");
    change(fs, "file", MetadataChange::new().accessed(at(1_000, 1)).modified(at(2_000, 2)));
    change(fs, "file", MetadataChange::new().accessed(at(3_000, 3)));
    assert_eq!(stat(fs, "file").modified, Timestamp { seconds: 2_000, nanoseconds: 2 });
    change(fs, "file", MetadataChange::new().modified(at(4_000, 4)));
    assert_eq!(stat(fs, "file").accessed, Timestamp { seconds: 3_000, nanoseconds: 3 });
}

fn times_of_a_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for path in ["dir", ""] {
        change(fs, path, MetadataChange::new().modified(at(1_234_567, 89)));
        assert_eq!(stat(fs, path).modified, Timestamp { seconds: 1_234_567, nanoseconds: 89 });
    }
}

fn times_of_a_symlink_itself(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let before = stat(fs, "file").modified;
    symlink(fs, "file", "link");
    symlink(fs, "nowhere", "dangling");
    for path in ["link", "dangling"] {
        change(fs, path, MetadataChange::new().modified(at(1_234_567, 89)));
        assert_eq!(stat(fs, path).modified, Timestamp { seconds: 1_234_567, nanoseconds: 89 });
    }
    assert_eq!(stat(fs, "file").modified, before);
}

fn now_is_now(fs: &dyn FileSystem) {
    put(fs, "file", "");
    change(fs, "file", MetadataChange::new().accessed(at(1_000, 0)).modified(at(1_000, 0)));
    let before = Timestamp::now().seconds - 1;
    change(fs, "file", MetadataChange::new().accessed(TimeChange::Now).modified(TimeChange::Now));
    let after = Timestamp::now().seconds + 1;
    let known = stat(fs, "file");
    assert!((before..=after).contains(&known.accessed.seconds), "{known:?}");
    assert!((before..=after).contains(&known.modified.seconds), "{known:?}");
}

fn changed_moves(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let before = stat(fs, "file").changed;
    // Longer than the tick of the clock that hosts stamp files by.
    std::thread::sleep(std::time::Duration::from_millis(25));
    change(fs, "file", MetadataChange::new().mode(0o600));
    assert!(stat(fs, "file").changed > before);
}

fn several_at_once(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let owner = Owner { user: 5, group: 6 };
    change(fs, "file", MetadataChange::new().mode(0o4711).owner(owner).modified(at(7, 8)));
    let known = stat(fs, "file");
    assert_eq!((known.mode, known.owner), (0o4711, owner), "a change of owner clears no bits");
    assert_eq!(known.modified, Timestamp { seconds: 7, nanoseconds: 8 });
}

fn by_a_handle(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    file.set_metadata(&MetadataChange::new().mode(0o620).modified(at(9, 10))).unwrap();
    let known = stat(fs, "file");
    assert_eq!(known.mode, 0o620);
    assert_eq!(known.modified, Timestamp { seconds: 9, nanoseconds: 10 });
    assert_eq!(file.metadata().unwrap(), known);
}

fn by_a_handle_for_reading(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let file = open(fs, "file", OpenOptions::reading());
    file.set_metadata(&MetadataChange::new().mode(0o620)).unwrap();
    assert_eq!(stat(fs, "file").mode, 0o620);
}
