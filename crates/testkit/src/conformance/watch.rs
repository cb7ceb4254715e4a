//! Reports of changes.
//!
//! A backend may report in the thread that makes the change or later, may join reports of one
//! name, and may say `Overflow` of a directory instead; so the cases wait for a report and
//! never count.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stratafs::{
    ErrorKind, FileSystem, MetadataChange, OpenOptions, RenameMode, WatchEvent, WatchGuard,
    WatchKind,
};

use super::cases;
use crate::tools::*;

use WatchKind::{Created, Metadata, Modified, Overflow, Removed};

cases![
    a_new_name: WATCH,
    every_kind_of_new_name: WATCH | SYMLINKS | HARD_LINKS | SPECIAL_NODES,
    new_contents: WATCH,
    new_metadata: WATCH | MODES,
    a_removed_name: WATCH,
    a_rename_is_a_removal_and_a_creation: WATCH,
    a_renamed_directory: WATCH,
    a_rename_across_the_border: WATCH,
    an_exchange: WATCH | EXCHANGE,
    a_handle_reports_no_former_name: WATCH,
    a_temporary_file_gets_a_name: WATCH | TEMPORARY,
    only_what_is_at_and_below: WATCH,
    one_file_alone: WATCH,
    what_is_made_below_something_new: WATCH,
    failures_are_not_reported: WATCH,
    many_watches: WATCH,
    nothing_after_the_end: WATCH,
    a_missing_path: WATCH,
];

struct Watch {
    guard: WatchGuard,
    events: Receiver<WatchEvent>,
}

fn watch(fs: &dyn FileSystem, path: &str) -> Watch {
    let (sender, events) = channel();
    let sender = Mutex::new(sender);
    // The case may be over when a late report comes.
    let sink = move |event| drop(sender.lock().unwrap().send(event));
    let guard = fs.watch(p(path), Arc::new(sink)).expect("watch");
    Watch { guard, events }
}

impl Watch {
    /// Takes reports up to this one, and gives those before it.
    #[track_caller]
    fn take(&self, kind: WatchKind, path: &str) -> Vec<WatchEvent> {
        let mut before = Vec::new();
        loop {
            let Ok(event) = self.events.recv_timeout(Duration::from_secs(30)) else {
                panic!("no report of {kind:?} {path:?}, but {before:?}");
            };
            if event.kind == kind && *event.path == *p(path) {
                return before;
            }
            before.push(event);
        }
    }

    /// Takes reports until they tell of this change of each path, by itself or by an overflow.
    #[track_caller]
    fn take_told(&self, kind: WatchKind, paths: &[&str]) {
        let mut seen = Vec::new();
        while let Some(path) = paths.iter().find(|path| !told(&seen, kind, path)) {
            let Ok(event) = self.events.recv_timeout(Duration::from_secs(30)) else {
                panic!("no report of {kind:?} {path:?}, but {seen:?}");
            };
            seen.push(event);
        }
    }

    /// Reports that were made before something that a report is waited for.
    #[track_caller]
    fn until_marked(&self, fs: &dyn FileSystem, mark: &str) -> Vec<WatchEvent> {
        put(fs, mark, "");
        let mut before = self.take(Created, mark);
        before.retain(|event| *event.path != *p(mark));
        before
    }
}

/// Whether the reports tell of this change, by itself or by an overflow.
fn told(reports: &[WatchEvent], kind: WatchKind, path: &str) -> bool {
    reports.iter().any(|event| match event.kind {
        Overflow => p(path).starts_with(&event.path),
        other => other == kind && *event.path == *p(path),
    })
}

fn a_new_name(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let watch = watch(fs, "");
    put(fs, "file", "");
    watch.take(Created, "file");
    put(fs, "dir/file", "");
    watch.take(Created, "dir/file");
    mkdir(fs, "dir/sub");
    watch.take(Created, "dir/sub");
}

fn every_kind_of_new_name(fs: &dyn FileSystem) {
    put(fs, "file", "");
    let watch = watch(fs, "");
    symlink(fs, "file", "symlink");
    watch.take(Created, "symlink");
    link(fs, "file", "hard");
    watch.take(Created, "hard");
    create(fs, "fifo", stratafs::NodeKind::Fifo);
    watch.take(Created, "fifo");
}

fn new_contents(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = edit(fs, "file");
    let watch = watch(fs, "");
    write_all(&*file, b"C", 0);
    watch.take(Modified, "file");
    // Marks keep one report from standing for the change before.
    watch.until_marked(fs, "1");
    file.set_len(3).unwrap();
    watch.take(Modified, "file");
    watch.until_marked(fs, "2");
    open(fs, "file", OpenOptions::new().append(true)).write_at(b"more", 0).unwrap();
    watch.take(Modified, "file");
    watch.until_marked(fs, "3");
    open(fs, "file", OpenOptions::writing());
    watch.take(Modified, "file");
}

fn new_metadata(fs: &dyn FileSystem) {
    put(fs, "file", "");
    mkdir(fs, "dir");
    let watch = watch(fs, "");
    for path in ["file", "dir"] {
        fs.set_metadata(p(path), &MetadataChange::new().mode(0o700)).unwrap();
        watch.take(Metadata, path);
    }
}

fn a_removed_name(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "");
    let watch = watch(fs, "");
    unlink(fs, "dir/file");
    watch.take(Removed, "dir/file");
    fs.remove_dir(p("dir")).unwrap();
    watch.take(Removed, "dir");
}

fn a_rename_is_a_removal_and_a_creation(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "a", "");
    put(fs, "old", "");
    let watch = watch(fs, "");
    rename(fs, "a", "dir/b");
    watch.take(Removed, "a");
    watch.take(Created, "dir/b");
    rename(fs, "dir/b", "old");
    watch.take(Removed, "dir/b");
    watch.take(Created, "old");
}

fn a_renamed_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "");
    let watch = watch(fs, "");
    rename(fs, "dir", "moved");
    watch.take(Removed, "dir");
    watch.take(Created, "moved");
}

fn a_rename_across_the_border(fs: &dyn FileSystem) {
    mkdir(fs, "in");
    mkdir(fs, "out");
    put(fs, "out/a", "");
    let watch = watch(fs, "in");
    rename(fs, "out/a", "in/a");
    assert!(watch.take(Created, "in/a").is_empty());
    rename(fs, "in/a", "out/b");
    watch.take(Removed, "in/a");
    assert!(watch.until_marked(fs, "in/mark").is_empty());
}

fn an_exchange(fs: &dyn FileSystem) {
    put(fs, "a", "1");
    put(fs, "b", "2");
    let watch = watch(fs, "");
    fs.rename(p("a"), p("b"), RenameMode::Exchange).unwrap();
    let mut seen = watch.until_marked(fs, "mark");
    seen.retain(|event| matches!(event.kind, Created | Removed));
    for path in ["a", "b"] {
        for kind in [Created, Removed] {
            let found = seen.iter().any(|event| event.kind == kind && *event.path == *p(path));
            assert!(found, "no {kind:?} {path:?} in {seen:?}");
        }
    }
}

fn a_handle_reports_no_former_name(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let file = edit(fs, "dir/file");
    rename(fs, "dir/file", "dir/renamed");
    put(fs, "dir/file", "another");
    let watch = watch(fs, "dir");
    write_all(&*file, b"contents", 0);
    let seen = watch.until_marked(fs, "dir/mark");
    assert!(told(&seen, Modified, "dir/renamed"), "{seen:?}");
    assert!(seen.iter().all(|event| *event.path != *p("dir/file")), "{seen:?}");
}

fn a_temporary_file_gets_a_name(fs: &dyn FileSystem) {
    let watch = watch(fs, "");
    let file = open(fs, "", OpenOptions::new().write(true).temporary(true));
    write_all(&*file, b"contents", 0);
    // Perhaps that something has happened in the directory, but no name.
    let before = watch.until_marked(fs, "mark");
    assert!(before.iter().all(|event| event.path.is_root()), "{before:?}");
    file.link_to(p("name")).unwrap();
    watch.take(Created, "name");
    write_all(&*file, b"C", 0);
    watch.take_told(Modified, &["name"]);
}

fn only_what_is_at_and_below(fs: &dyn FileSystem) {
    for dir in ["dir", "dir-not", "di"] {
        mkdir(fs, dir);
    }
    let watch = watch(fs, "dir");
    for path in ["file", "dir-not/file", "di/file"] {
        put(fs, path, "contents");
    }
    let seen = watch.until_marked(fs, "dir/mark");
    assert!(seen.is_empty(), "{seen:?}");
}

fn one_file_alone(fs: &dyn FileSystem) {
    put(fs, "file", "");
    put(fs, "file2", "");
    let watch = watch(fs, "file");
    put(fs, "file2", "contents");
    let file = open(fs, "file", OpenOptions::new().write(true));
    write_all(&*file, b"contents", 0);
    let before = watch.take(Modified, "file");
    assert!(before.iter().all(|event| *event.path == *p("file")), "{before:?}");
}

fn what_is_made_below_something_new(fs: &dyn FileSystem) {
    let watch = watch(fs, "");
    mkdir(fs, "dir");
    mkdir(fs, "dir/sub");
    put(fs, "dir/sub/file", "");
    watch.take_told(Created, &["dir", "dir/sub", "dir/sub/file"]);
}

fn failures_are_not_reported(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "dir/file", "");
    let watch = watch(fs, "");
    fs.remove_dir(p("dir")).unwrap_err();
    fs.remove_file(p("missing")).unwrap_err();
    fs.rename(p("missing"), p("new"), RenameMode::Replace).unwrap_err();
    fs.open(p("dir/file"), &OpenOptions::new().write(true).create_new(true)).unwrap_err();
    let seen = watch.until_marked(fs, "mark");
    assert!(seen.is_empty(), "{seen:?}");
}

fn many_watches(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let watches: Vec<_> = (0..5).map(|i| watch(fs, ["", "dir"][i % 2])).collect();
    put(fs, "dir/file", "");
    for watch in &watches {
        watch.take(Created, "dir/file");
    }
}

fn nothing_after_the_end(fs: &dyn FileSystem) {
    let (ended, other) = (watch(fs, ""), watch(fs, ""));
    put(fs, "before", "");
    ended.take(Created, "before");
    let Watch { guard, events } = ended;
    drop(guard);
    while events.try_recv().is_ok() {}
    put(fs, "after", "");
    other.take(Created, "after");
    assert!(events.try_recv().is_err(), "a report after the end");
}

fn a_missing_path(fs: &dyn FileSystem) {
    fails(fs.watch(p("missing"), Arc::new(|_: WatchEvent| {})), ErrorKind::NotFound);
}
