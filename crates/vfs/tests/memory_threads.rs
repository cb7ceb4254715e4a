//! The memory backend under many threads: what must hold whoever wins a race.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stratafs::{
    Detail, ErrorKind, FileSystem, MemoryFs, MemoryOptions, NewNode, OpenOptions, RenameMode,
    VfsPath,
};

fn p(path: &str) -> &VfsPath {
    VfsPath::new(path.as_bytes()).unwrap()
}

const READ_WRITE: OpenOptions = OpenOptions::new().read(true).write(true).create(true);

/// A stream of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn names(fs: &MemoryFs, path: &VfsPath) -> Vec<String> {
    let mut names = Vec::new();
    fs.read_dir(path, Detail::Names, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

/// Every node below `path`, and that the tree is sound: what is listed is found, and as what it
/// is listed.
fn count(fs: &MemoryFs, path: &str) -> u64 {
    let mut sum = 0;
    for name in names(fs, p(path)) {
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        let metadata = fs.metadata(p(&path)).unwrap();
        sum += 1;
        if metadata.is_dir() {
            sum += count(fs, &path);
        } else {
            assert_eq!(metadata.links, 1);
        }
    }
    sum
}

#[test]
fn a_tree_stays_a_tree() {
    let fs = MemoryFs::with_options(MemoryOptions::new().quota_files(1 << 40).quota_bytes(1 << 40));
    let step = |random: &mut Random| {
        let path = |random: &mut Random| {
            let depth = 1 + random.below(3);
            let names: Vec<_> = (0..depth)
                .map(|_| ["a", "b", "c", "a rather long name of a file"][random.below(4) as usize])
                .collect();
            names.join("/")
        };
        let (first, second) = (path(random), path(random));
        let (first, second) = (p(&first), p(&second));
        let result = match random.below(8) {
            0 | 1 => fs.create(first, &NewNode::directory()).map(drop),
            2 => fs.open(first, &READ_WRITE).and_then(|file| {
                file.file.write_at(first.as_bytes(), 0)?;
                let mut all = [0; 100];
                file.file.read_at(&mut all, 0).map(drop)
            }),
            3 => fs.remove_file(first),
            4 => fs.remove_dir(first),
            5 => fs.rename(first, second, RenameMode::Replace).map(drop),
            6 => fs.rename(first, second, RenameMode::Exchange).map(drop),
            _ => fs.read_dir(first, Detail::Names, &mut |_| ControlFlow::Continue(())),
        };
        if let Err(error) = result {
            use ErrorKind as E;
            let expected = [
                E::NotFound,
                E::AlreadyExists,
                E::NotADirectory,
                E::IsADirectory,
                E::DirectoryNotEmpty,
                E::InvalidArgument,
            ];
            assert!(expected.contains(&error.kind()), "{error}");
        }
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                let mut random = Random(seed);
                (0..10_000).for_each(|_| step(&mut random));
            });
        }
    });
    let room = fs.statfs().unwrap();
    assert_eq!(room.files - room.files_free, count(&fs, ""));
    fn remove(fs: &MemoryFs, path: &str) {
        for name in names(fs, p(path)) {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            if fs.metadata(p(&path)).unwrap().is_dir() {
                remove(fs, &path);
                fs.remove_dir(p(&path)).unwrap();
            } else {
                fs.remove_file(p(&path)).unwrap();
            }
        }
    }
    remove(&fs, "");
    let room = fs.statfs().unwrap();
    assert_eq!((room.files_free, room.free), (room.files, room.total));
}

#[test]
fn what_stays_is_always_found_and_listed_once() {
    let fs = MemoryFs::new();
    fs.create(p("d"), &NewNode::directory()).unwrap();
    let stays: BTreeSet<String> = (0..200).map(|number| format!("stays{number}")).collect();
    for name in &stays {
        fs.open(p(&format!("d/{name}")), &READ_WRITE).unwrap();
    }
    let done = AtomicBool::new(false);
    let (fs, stays, done) = (&fs, &stays, &done);
    thread::scope(|scope| {
        let churners: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    // Many different names, so that the table of names is rebuilt on the way.
                    for number in 0..20_000 {
                        let path = format!("d/goes{thread}-{number}");
                        fs.open(p(&path), &READ_WRITE).unwrap();
                        let moved = format!("d/moved{thread}");
                        fs.rename(p(&path), p(&moved), RenameMode::Replace).unwrap();
                        if number % 2 == 0 {
                            fs.remove_file(p(&moved)).unwrap();
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for name in stays {
                    assert!(fs.exists(p(&format!("d/{name}"))).unwrap());
                }
            }
        });
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let listed = names(fs, p("d"));
                let once: BTreeSet<_> = listed.iter().cloned().collect();
                assert_eq!(once.len(), listed.len());
                assert!(once.is_superset(stays));
            }
        });
        churners.into_iter().for_each(|churner| churner.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_replaced_name_is_never_missing_nor_torn() {
    let fs = MemoryFs::new();
    let write = |path: &str, byte: u8| {
        let file = fs.open(p(path), &OpenOptions::writing()).unwrap().file;
        file.write_at(&[byte; 1000], 0).unwrap();
    };
    write("target", 0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let file = fs.open(p("target"), &OpenOptions::reading()).unwrap().file;
                    let mut all = [0; 1001];
                    assert_eq!(file.read_at(&mut all, 0).unwrap(), 1000);
                    assert!(all[..1000].iter().all(|&byte| byte == all[0]));
                    assert_eq!(fs.metadata(p("target")).unwrap().len, 1000);
                }
            });
        }
        for round in 0..20_000_u32 {
            write("new", round as u8);
            fs.rename(p("new"), p("target"), RenameMode::Replace).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn appends_are_whole_and_none_is_lost() {
    let fs = MemoryFs::new();
    let append = OpenOptions::new().append(true).create(true);
    let fs = &fs;
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                let file = fs.open(p("log"), &append).unwrap().file;
                for number in 0..2_000_u16 {
                    let mut record = [thread; 37];
                    record[1..3].copy_from_slice(&number.to_le_bytes());
                    assert_eq!(file.write_at(&record, 0).unwrap(), record.len());
                }
            });
        }
    });
    let file = fs.open(p("log"), &OpenOptions::reading()).unwrap().file;
    let mut all = vec![0; 4 * 2_000 * 37 + 1];
    assert_eq!(file.read_at(&mut all, 0).unwrap(), all.len() - 1);
    let mut next = [0_u16; 4];
    for record in all[..all.len() - 1].chunks(37) {
        let thread = record[0];
        assert!(record[3..].iter().all(|&byte| byte == thread));
        assert_eq!(u16::from_le_bytes([record[1], record[2]]), next[thread as usize]);
        next[thread as usize] += 1;
    }
    assert_eq!(next, [2_000; 4]);
}

#[test]
fn one_of_many_makes_a_file_and_one_removes_it() {
    let fs = MemoryFs::new();
    let (made, removed) = (AtomicU64::new(0), AtomicU64::new(0));
    let new = OpenOptions::new().write(true).create_new(true);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    match fs.open(p("f"), &new) {
                        Ok(_) => drop(made.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists),
                    }
                    match fs.remove_file(p("f")) {
                        Ok(()) => drop(removed.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    }
                }
            });
        }
    });
    let left = u64::from(fs.exists(p("f")).unwrap());
    assert_eq!(made.into_inner(), removed.into_inner() + left);
    assert!(names(&fs, VfsPath::root()).len() as u64 == left);
}

/// Handles opened on one thread and closed on another, of files that are being removed.
#[test]
fn storage_comes_back_whoever_closes_last() {
    let fs = MemoryFs::with_options(MemoryOptions::new().quota_bytes(1 << 30).quota_files(1 << 20));
    let fs = &fs;
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        for thread in 0..3 {
            let sender = sender.clone();
            scope.spawn(move || {
                for number in 0..3_000 {
                    let path = format!("f{}", number % 7);
                    let path = p(&path);
                    if let Ok(file) = fs.open(path, &READ_WRITE) {
                        file.file.write_at(&vec![thread; 1 + number * 13 % 40_000], 0).unwrap();
                        sender.send(file).unwrap();
                    }
                    match fs.remove_file(path) {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    }
                }
            });
        }
        drop(sender);
        scope.spawn(move || receiver.into_iter().for_each(drop));
    });
    for name in names(fs, VfsPath::root()) {
        fs.remove_file(p(&name)).unwrap();
    }
    let room = fs.statfs().unwrap();
    assert_eq!((room.free, room.files_free), (room.total, room.files));
}

/// Two threads that move directories into one another's trees must not make a circle.
#[test]
fn moves_make_no_circles() {
    let fs = MemoryFs::new();
    for path in ["a", "b"] {
        fs.create(p(path), &NewNode::directory()).unwrap();
    }
    let fs = &fs;
    thread::scope(|scope| {
        for (from, to, back) in [("a", "b/x", "b/x"), ("b", "a/x", "a/x")] {
            scope.spawn(move || {
                for _ in 0..5_000 {
                    if fs.rename(p(from), p(to), RenameMode::Replace).is_ok() {
                        fs.rename(p(back), p(from), RenameMode::Replace).unwrap();
                    }
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..5_000 {
                let _ = fs.rename(p("a"), p("b"), RenameMode::Exchange);
            }
        });
    });
    assert_eq!(count(fs, ""), 2);
}

/// A thread's own variable that outlives what the backend keeps for the thread.
#[test]
fn a_thread_that_ends_may_still_use_and_drop_everything() {
    struct Last(MemoryFs, Option<Box<dyn stratafs::File>>);

    impl Drop for Last {
        fn drop(&mut self) {
            let file = self.1.take().unwrap();
            let mut all = [0; 5];
            assert_eq!(file.read_at(&mut all, 0).unwrap(), 5);
            file.write_at(b"again", 0).unwrap();
            self.0.remove_file(p("f")).unwrap();
            drop(file);
            let room = self.0.statfs().unwrap();
            assert_eq!(room.free, room.total);
            self.0.open(p("g"), &READ_WRITE).unwrap().file.write_at(b"left", 0).unwrap();
        }
    }

    thread_local! {
        static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }

    let thread = thread::spawn(|| {
        // Touched first, so torn down last.
        LAST.with_borrow_mut(|last| {
            let fs = MemoryFs::new();
            let file = fs.open(p("f"), &READ_WRITE).unwrap().file;
            file.write_at(b"first", 0).unwrap();
            *last = Some(Last(fs, Some(file)));
        });
    });
    thread.join().unwrap();
}
