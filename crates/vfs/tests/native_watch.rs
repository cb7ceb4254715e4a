//! The native backend reports what others change.
#![cfg(all(target_os = "linux", feature = "watch"))]

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stratafs::{
    Capabilities, ErrorKind, FileSystem, NativeFs, VfsPath, WatchEvent, WatchGuard, WatchKind,
};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn watch(fs: &NativeFs, at: &str) -> (WatchGuard, Receiver<WatchEvent>) {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let sink = move |event| {
        // The test may be over.
        let _ = sender.lock().unwrap().send(event);
    };
    (fs.watch(path(at), Arc::new(sink)).unwrap(), receiver)
}

/// Takes reports until this one.
fn wait_for(reports: &Receiver<WatchEvent>, kind: WatchKind, at: &str) {
    loop {
        let report = reports.recv_timeout(Duration::from_secs(20)).expect("a report");
        if report.kind == kind && *report.path == *path(at) {
            return;
        }
    }
}

#[test]
fn changes_below_are_reported_with_paths_of_the_backend() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("a/b")).unwrap();
    std::fs::write(at("f"), b"").unwrap();
    std::os::unix::fs::symlink("/usr", at("a/link")).unwrap();
    let fs = NativeFs::new(dir.path()).unwrap();
    if !fs.capabilities().contains(Capabilities::WATCH) {
        return;
    }
    let (all, of_all) = watch(&fs, "");
    let (_part, of_part) = watch(&fs, "a");
    let (_file, of_file) = watch(&fs, "f");
    std::fs::write(at("a/b/new"), b"x").unwrap();
    for reports in [&of_all, &of_part] {
        wait_for(reports, WatchKind::Created, "a/b/new");
        wait_for(reports, WatchKind::Modified, "a/b/new");
    }
    std::fs::rename(at("a/b/new"), at("a/moved")).unwrap();
    wait_for(&of_part, WatchKind::Removed, "a/b/new");
    wait_for(&of_part, WatchKind::Created, "a/moved");
    std::fs::write(at("f"), b"x").unwrap();
    wait_for(&of_file, WatchKind::Modified, "f");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(at("f"), executable).unwrap();
    wait_for(&of_all, WatchKind::Metadata, "f");
    std::fs::create_dir(at("a/dir")).unwrap();
    wait_for(&of_all, WatchKind::Created, "a/dir");
    wait_for(&of_all, WatchKind::Overflow, "a/dir");
    std::fs::rename(at("a/dir"), at("a/again")).unwrap();
    wait_for(&of_all, WatchKind::Created, "a/again");
    wait_for(&of_all, WatchKind::Overflow, "a/again");
    // A write through a mapping is reported when the file is closed.
    std::fs::write(at("a/mapped"), b"old").unwrap();
    wait_for(&of_all, WatchKind::Modified, "a/mapped");
    let file = std::fs::File::options().read(true).write(true).open(at("a/mapped")).unwrap();
    while of_all.recv_timeout(Duration::from_millis(100)).is_ok() {}
    drop(file);
    wait_for(&of_all, WatchKind::Modified, "a/mapped");
    std::fs::remove_dir_all(at("a/b")).unwrap();
    wait_for(&of_all, WatchKind::Removed, "a/b");
    drop(all);
    while of_all.try_recv().is_ok() {}
    std::fs::write(at("after"), b"").unwrap();
    std::fs::write(at("a/last"), b"").unwrap();
    wait_for(&of_part, WatchKind::Created, "a/last");
    assert!(of_all.try_recv().is_err(), "reports after the end");
}

#[test]
fn what_is_missing_cannot_be_watched() {
    let dir = tempfile::tempdir().unwrap();
    let fs = NativeFs::new(dir.path()).unwrap();
    if fs.capabilities().contains(Capabilities::WATCH) {
        let error = fs.watch(path("none"), Arc::new(|_: WatchEvent| {})).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn who_looks_into_a_new_directory_when_told_to_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fs = NativeFs::new(dir.path()).unwrap();
    if !fs.capabilities().contains(Capabilities::WATCH) {
        return;
    }
    let (sender, reports) = channel();
    let sender = Mutex::new(sender);
    let inner = dir.path().join("new/inner");
    // Made as soon as the directory has been looked into.
    let sink = move |event: WatchEvent| {
        if event.kind == WatchKind::Overflow {
            std::fs::write(&inner, b"").unwrap();
        }
        let _ = sender.lock().unwrap().send(event);
    };
    let _guard = fs.watch(path(""), Arc::new(sink)).unwrap();
    std::fs::create_dir(dir.path().join("new")).unwrap();
    wait_for(&reports, WatchKind::Created, "new/inner");
}

#[test]
fn more_reports_than_the_host_keeps_are_an_overflow() {
    let dir = tempfile::tempdir().unwrap();
    let fs = NativeFs::new(dir.path()).unwrap();
    if !fs.capabilities().contains(Capabilities::WATCH) {
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    // The first report is not taken before all changes are made, so that the host must keep them.
    let (changed, wait) = channel::<()>();
    let (sender, reports) = channel();
    let shared = Mutex::new((wait, sender));
    let sink = move |event| {
        let (wait, sender) = &*shared.lock().unwrap();
        let _ = wait.recv(); // an error once all is changed
        let _ = sender.send(event);
    };
    let _guard = fs.watch(path(""), Arc::new(sink)).unwrap();
    // The watcher may have taken a buffer full before it waits.
    for _ in 0..limit / 2 + 2000 {
        let made = std::fs::create_dir(dir.path().join("made"));
        made.and_then(|()| std::fs::remove_dir(dir.path().join("made"))).unwrap();
    }
    drop(changed);
    wait_for(&reports, WatchKind::Overflow, "");
}
