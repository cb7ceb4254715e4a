//! What the native backend keeps of its directories never shows: neither its own changes nor,
//! once the host has reported them, those of others.
#![cfg(target_os = "linux")]

use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stratafs::archive::{PackOptions, pack_to_vec};
use stratafs::{
    ArchiveFs, Capabilities, Detail, ErrorKind, FileSystem, MemoryFs, MountOptions, NativeFs,
    NativeOptions, NewNode, NodeKind, OpenOptions, RenameMode, Vfs, VfsPath,
};
use tempfile::TempDir;

fn new(options: NativeOptions) -> (TempDir, NativeFs) {
    let dir = tempfile::tempdir().unwrap();
    let fs = NativeFs::with_options(dir.path(), options).unwrap();
    (dir, fs)
}

fn every_way() -> [NativeOptions; 4] {
    let options = NativeOptions::new();
    [
        options,
        options.cache_negative(true),
        options.cache_directories(false).cache_negative(true),
        options.cache_directories(false),
    ]
}

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

/// Asks often enough that everything that can be kept is.
fn warm(fs: &NativeFs, names: &[&str]) {
    for _ in 0..4 {
        for name in names {
            let _ = fs.exists(path(name));
        }
    }
}

/// Waits for something another process's change must lead to, far longer than it may take.
fn eventually(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never came about");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read(fs: &NativeFs, name: &str) -> Option<Vec<u8>> {
    let file = fs.open(path(name), &OpenOptions::reading()).ok()?.file;
    let mut data = vec![0; 100];
    let len = file.read_at(&mut data, 0).unwrap();
    data.truncate(len);
    Some(data)
}

fn list(fs: &NativeFs, name: &str) -> Vec<String> {
    let mut names = Vec::new();
    fs.read_dir(path(name), Detail::Names, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

#[test]
fn own_changes_show_at_once() {
    for options in every_way() {
        let (dir, fs) = new(options);
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        std::fs::write(dir.path().join("a/b/c/f"), b"old").unwrap();
        let names = ["a/b/c/f", "a/b/c/none", "a/b/none/x", "none/x/y", "none", "z/b/c/f"];
        warm(&fs, &names);
        // A directory that moves takes its paths with it.
        fs.rename(path("a"), path("z"), RenameMode::Replace).unwrap();
        assert_eq!(fs.metadata(path("a/b/c/f")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(read(&fs, "z/b/c/f").unwrap(), b"old");
        warm(&fs, &names);
        // Another one in the same place is another one.
        fs.create(path("a"), &NewNode::directory()).unwrap();
        fs.create(path("a/b"), &NewNode::directory()).unwrap();
        fs.create(path("a/b/c"), &NewNode::directory()).unwrap();
        let file = fs.open(path("a/b/c/f"), &OpenOptions::writing()).unwrap().file;
        file.write_at(b"new", 0).unwrap();
        assert_eq!(read(&fs, "a/b/c/f").unwrap(), b"new");
        warm(&fs, &names);
        fs.rename(path("a/b"), path("z/b"), RenameMode::Exchange).unwrap();
        assert_eq!(read(&fs, "a/b/c/f").unwrap(), b"old");
        assert_eq!(read(&fs, "z/b/c/f").unwrap(), b"new");
        warm(&fs, &names);
        // Removed and made again.
        fs.remove_file(path("a/b/c/f")).unwrap();
        fs.remove_dir(path("a/b/c")).unwrap();
        assert!(!fs.exists(path("a/b/c/f")).unwrap());
        fs.create(path("a/b/c"), &NewNode::directory()).unwrap();
        assert_eq!(list(&fs, "a/b/c"), [""; 0]);
        drop(fs.open(path("a/b/c/f"), &OpenOptions::writing()).unwrap().file);
        assert_eq!(read(&fs, "a/b/c/f").unwrap(), b"");
        // Every way to make a name.
        warm(&fs, &["a/b/c/1", "a/b/c/2", "a/b/c/3", "a/b/c/4", "a/b/c/5"]);
        fs.create(path("a/b/c/1"), &NewNode::symlink(b"x")).unwrap();
        fs.link(path("a/b/c/f"), path("a/b/c/2")).unwrap();
        fs.rename(path("z/b/c/f"), path("a/b/c/3"), RenameMode::NoReplace).unwrap();
        let made: &[&str] = if fs.capabilities().contains(Capabilities::TEMPORARY) {
            let options = OpenOptions::new().write(true).temporary(true);
            let temporary = fs.open(path("a/b"), &options).unwrap().file;
            temporary.link_to(path("a/b/c/4")).unwrap();
            &["1", "2", "3", "4", "f"]
        } else {
            &["1", "2", "3", "f"]
        };
        for name in made {
            assert!(fs.exists(path(&format!("a/b/c/{name}"))).unwrap(), "{name} {options:?}");
        }
        if fs.capabilities().contains(Capabilities::WHITEOUTS) {
            fs.create(path("a/b/c/5"), &NewNode::new(NodeKind::Whiteout)).unwrap();
            assert!(fs.exists(path("a/b/c/5")).unwrap());
            fs.rename(path("a/b/c/5"), path("a/b/c/6"), RenameMode::Whiteout).unwrap();
            assert!(fs.exists(path("a/b/c/5")).unwrap() && fs.exists(path("a/b/c/6")).unwrap());
        }
    }
}

#[test]
fn names_that_others_make_are_seen() {
    for options in every_way() {
        let (dir, fs) = new(options);
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let names = ["f", "a/f", "a/b/f", "new/deep/f", "a/moved"];
        warm(&fs, &names);
        for name in names {
            assert!(!fs.exists(path(name)).unwrap());
            assert!(fs.open(path(name), &OpenOptions::reading()).is_err());
        }
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("f"), b"1").unwrap();
        std::fs::write(at("a/f"), b"2").unwrap();
        std::fs::hard_link(at("f"), at("a/b/f")).unwrap();
        std::fs::create_dir_all(at("new/deep")).unwrap();
        std::fs::write(at("new/deep/f"), b"3").unwrap();
        std::fs::rename(at("f"), at("a/moved")).unwrap();
        std::fs::write(at("f"), b"4").unwrap();
        for name in names {
            eventually(|| read(&fs, name).is_some());
        }
        for name in names {
            std::fs::remove_file(at(name)).unwrap();
            assert!(!fs.exists(path(name)).unwrap(), "a removal needs no report");
        }
    }
}

#[test]
fn directories_that_others_move_are_seen() {
    for options in every_way() {
        let (dir, fs) = new(options);
        let at = |name: &str| dir.path().join(name);
        let build = |top: &str| {
            std::fs::create_dir_all(at(top).join("b/c")).unwrap();
            std::fs::write(at(top).join("b/c/f"), top).unwrap();
        };
        build("a");
        build("other");
        warm(&fs, &["a/b/c/f", "other/b/c/f"]);
        // Moved away with nothing in its place; moved into the place of another.
        std::fs::rename(at("a"), at("away")).unwrap();
        eventually(|| !fs.exists(path("a/b/c/f")).unwrap());
        eventually(|| read(&fs, "away/b/c/f").as_deref() == Some(b"a"));
        std::fs::rename(at("other"), at("a")).unwrap();
        eventually(|| read(&fs, "a/b/c/f").as_deref() == Some(b"other"));
        warm(&fs, &["a/b/c/f", "a/b/c/none"]);
        // Removed and made again, in the middle.
        std::fs::remove_dir_all(at("a/b")).unwrap();
        build("a");
        eventually(|| read(&fs, "a/b/c/f").as_deref() == Some(b"a"));
        warm(&fs, &["a/b/c/f", "a/b/c/none"]);
        // An empty directory replaced by a rename over it.
        std::fs::remove_file(at("a/b/c/f")).unwrap();
        warm(&fs, &["a/b/c/f"]);
        std::fs::create_dir(at("full")).unwrap();
        std::fs::write(at("full/f"), b"full").unwrap();
        std::fs::rename(at("full"), at("a/b/c")).unwrap();
        eventually(|| read(&fs, "a/b/c/f").as_deref() == Some(b"full"));
        warm(&fs, &["a/b/c/f"]);
        // A symbolic link in the place of a directory.
        std::fs::rename(at("a/b"), at("away2")).unwrap();
        symlink(at("away2"), at("a/b")).unwrap();
        eventually(|| {
            fs.metadata(path("a/b/c/f")).err().map(|error| error.kind())
                == Some(ErrorKind::SymlinkInPath)
        });
    }
}

#[test]
fn more_directories_than_are_kept() {
    let options = NativeOptions::new().cache_negative(true).max_directories(8);
    for options in [options, options.cache_negative(false)] {
        let (dir, fs) = new(options);
        let names: Vec<String> = (0..40).map(|i| format!("d{}/e{}/f", i % 10, i)).collect();
        for name in &names {
            std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        for round in 0..40 {
            for name in &names {
                assert_eq!(read(&fs, name).unwrap(), name.as_bytes(), "{round}");
                assert!(!fs.exists(path(&format!("{name}x"))).unwrap());
            }
        }
        assert!(fs.exists(path("d1/e1/f")).unwrap());
        let deep = "x/".repeat(20) + "f";
        std::fs::create_dir_all(dir.path().join(&deep).parent().unwrap()).unwrap();
        std::fs::write(dir.path().join(&deep), b"deep").unwrap();
        for _ in 0..40 {
            eventually(|| read(&fs, &deep).is_some());
        }
    }
}

#[test]
fn a_directory_with_many_new_names_is_learnt_again() {
    let (dir, fs) = new(NativeOptions::new().cache_negative(true));
    warm(&fs, &["none"]);
    for i in 0..2000 {
        let name = format!("f{i}");
        assert!(!fs.exists(path(&name)).unwrap());
        drop(fs.open(path(&name), &OpenOptions::writing()).unwrap().file);
        assert!(fs.exists(path(&name)).unwrap());
    }
    assert!(!fs.exists(path("none")).unwrap());
    for i in 0..2000 {
        std::fs::write(dir.path().join(format!("g{i}")), b"").unwrap();
    }
    for i in 0..2000 {
        eventually(|| fs.exists(path(&format!("g{i}"))).unwrap());
    }
}

#[test]
fn nothing_leads_outside_while_directories_are_swapped() {
    for options in every_way() {
        let (dir, fs) = new(options);
        let outside = tempfile::tempdir().unwrap();
        for (base, text) in [(dir.path().join("a/b"), "inside"), (outside.path().join("b"), "out")]
        {
            std::fs::create_dir_all(&base).unwrap();
            std::fs::write(base.join("f"), text).unwrap();
        }
        symlink(outside.path(), dir.path().join("link")).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let at = |name: &str| dir.path().join(name);
                for _ in 0..2000 {
                    std::fs::rename(at("a"), at("away")).unwrap();
                    std::fs::rename(at("link"), at("a")).unwrap();
                    std::fs::rename(at("a"), at("link")).unwrap();
                    std::fs::rename(at("away"), at("a")).unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(data) = read(&fs, "a/b/f") {
                            assert_eq!(data, b"inside");
                        }
                        if let Ok(metadata) = fs.metadata(path("a/b/f")) {
                            assert_eq!(metadata.len, 6);
                        }
                        let options = OpenOptions::new().append(true).create(true);
                        let _ = fs.open(path("a/b/new"), &options);
                    }
                });
            }
        });
        assert!(!outside.path().join("b/new").exists(), "made a file outside");
        eventually(|| read(&fs, "a/b/f").as_deref() == Some(b"inside"));
    }
}

#[test]
fn threads_learn_make_and_move_together() {
    for options in every_way() {
        let (_dir, fs) = new(options.max_directories(16));
        for top in 0..4 {
            fs.create(path(&format!("t{top}")), &NewNode::directory()).unwrap();
        }
        std::thread::scope(|scope| {
            for id in 0..4 {
                let fs = &fs;
                scope.spawn(move || {
                    for i in 0..150 {
                        let dir = format!("t{}/{id}-{i}", i % 4);
                        let (file, moved) = (format!("{dir}/f"), format!("t{id}/m{id}-{i}"));
                        assert!(!fs.exists(path(&file)).unwrap());
                        fs.create(path(&dir), &NewNode::directory()).unwrap();
                        for _ in 0..3 {
                            assert!(!fs.exists(path(&file)).unwrap());
                        }
                        drop(fs.open(path(&file), &OpenOptions::writing()).unwrap().file);
                        for _ in 0..3 {
                            assert!(fs.exists(path(&file)).unwrap());
                        }
                        fs.rename(path(&dir), path(&moved), RenameMode::NoReplace).unwrap();
                        assert!(!fs.exists(path(&file)).unwrap());
                        assert!(fs.exists(path(&format!("{moved}/f"))).unwrap());
                        fs.remove_file(path(&format!("{moved}/f"))).unwrap();
                        fs.remove_dir(path(&moved)).unwrap();
                        assert!(!fs.exists(path(&moved)).unwrap());
                    }
                });
            }
        });
    }
}

/// An empty directory that overrides an archive: its "not here" is kept, and given up at once
/// when somebody drops a file into it.
#[test]
fn a_file_dropped_into_an_override_is_seen() {
    let shipped = Vfs::with_root(MemoryFs::new());
    shipped.create_dir("scripts").unwrap();
    shipped.write("scripts/main", "shipped").unwrap();
    let (bytes, _) = pack_to_vec(&*shipped.tree(), &PackOptions::default()).unwrap();
    let (dir, fs) = new(NativeOptions::new().cache_negative(true));
    std::fs::create_dir(dir.path().join("scripts")).unwrap();
    let tree = Vfs::new();
    let archive = Arc::new(ArchiveFs::from_bytes(bytes).unwrap());
    tree.mount("", archive, MountOptions::new()).unwrap();
    tree.mount("", Arc::new(fs), MountOptions::new().priority(1)).unwrap();
    for round in 0..20 {
        for _ in 0..3 {
            assert_eq!(tree.read("scripts/main").unwrap(), b"shipped");
            assert!(!tree.exists("scripts/new").unwrap());
        }
        let own = format!("own {round}");
        std::fs::write(dir.path().join("scripts/main"), &own).unwrap();
        std::fs::write(dir.path().join("scripts/new"), &own).unwrap();
        eventually(|| tree.read("scripts/main").unwrap() == own.as_bytes());
        eventually(|| tree.exists("scripts/new").unwrap());
        std::fs::remove_file(dir.path().join("scripts/main")).unwrap();
        std::fs::remove_file(dir.path().join("scripts/new")).unwrap();
    }
}
