//! Many threads at once: what must hold at every moment, and who wins.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use stratafs::{BackendResult, ErrorKind, FileSystem, NewNode, OpenOptions, RenameMode};

use super::cases;
use crate::tools::*;

cases![
    one_handle_reads_and_writes_at_offsets,
    appends_of_many_handles_are_whole,
    appends_through_one_handle_are_whole,
    a_replaced_name_is_always_there,
    exchanged_names_are_always_there: EXCHANGE,
    one_makes_a_file,
    one_makes_a_directory,
    one_takes_a_name,
    one_removes_a_file,
    directories_never_end_up_in_themselves,
    a_listing_shows_what_stays,
    links_are_counted: HARD_LINKS,
    removed_files_stay_whole,
];

const THREADS: usize = 4;
const ROUNDS: usize = 40;

fn one_handle_reads_and_writes_at_offsets(fs: &dyn FileSystem) {
    const PIECE: usize = 3000;
    let file = edit(fs, "file");
    let at = |thread: usize, round: usize| ((round * THREADS + thread) * PIECE) as u64;
    let bytes = |thread, round| noise(at(thread, round), PIECE);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &*file;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    write_all(file, &bytes(thread, round), at(thread, round));
                    let earlier = round / 2;
                    let seen = read(file, at(thread, earlier), PIECE);
                    assert!(seen == bytes(thread, earlier), "thread {thread}, piece {earlier}");
                }
            });
        }
    });
    let all = contents(&*file);
    assert_eq!(all.len(), THREADS * ROUNDS * PIECE);
    for thread in 0..THREADS {
        for round in 0..ROUNDS {
            let start = at(thread, round) as usize;
            assert!(all[start..start + PIECE] == bytes(thread, round), "{thread} {round}");
        }
    }
}

/// Lines of many lengths, each the thread's own and numbered.
fn line(thread: usize, round: usize) -> Vec<u8> {
    format!("{thread} {round:04} {}\n", "x".repeat(round * 37 % 500)).into_bytes()
}

#[track_caller]
fn lines_are_whole(log: &[u8]) {
    let mut next = [0; THREADS];
    for found in log.split_inclusive(|&byte| byte == b'\n') {
        let thread = usize::from(found[0] - b'0');
        assert!(found == line(thread, next[thread]), "{:?}", found.escape_ascii().to_string());
        next[thread] += 1;
    }
    assert_eq!(next, [ROUNDS; THREADS], "lines were lost");
}

fn appends_of_many_handles_are_whole(fs: &dyn FileSystem) {
    let options = OpenOptions::new().append(true).create(true);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let log = open(fs, "log", options);
                for round in 0..ROUNDS {
                    let line = line(thread, round);
                    assert_eq!(log.write_at(&line, 0).unwrap(), line.len());
                }
            });
        }
    });
    lines_are_whole(&get(fs, "log"));
}

fn appends_through_one_handle_are_whole(fs: &dyn FileSystem) {
    let log = open(fs, "log", OpenOptions::new().append(true).create(true));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let line = line(thread, round);
                    assert_eq!(log.write_at(&line, 0).unwrap(), line.len());
                }
            });
        }
    });
    lines_are_whole(&get(fs, "log"));
}

/// Runs `change` for every round on one thread, and `look` again and again on others until it
/// has ended.
fn while_changing(change: impl Fn(usize) + Sync, look: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    look();
                }
            });
        }
        // Also when a round panics, or the scope would wait for ever.
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _ends = Ends(&done);
        (0..ROUNDS).for_each(&change);
    });
}

fn a_replaced_name_is_always_there(fs: &dyn FileSystem) {
    put(fs, "name", [b'0'; 5000]);
    while_changing(
        |round| {
            put(fs, "new", [b'0' + (round % 10) as u8; 5000]);
            rename(fs, "new", "name");
        },
        || {
            assert!(exists(fs, "name"));
            assert_eq!(stat(fs, "name").len, 5000);
            let bytes = get(fs, "name");
            assert!(bytes.len() == 5000 && bytes.iter().all(|&byte| byte == bytes[0]));
        },
    );
}

fn exchanged_names_are_always_there(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    put(fs, "a", "from a");
    put(fs, "dir/b", "was in dir");
    while_changing(
        |_| {
            fs.rename(p("a"), p("dir/b"), RenameMode::Exchange).unwrap();
        },
        || {
            for path in ["a", "dir/b"] {
                assert!(exists(fs, path));
                let bytes = get(fs, path);
                assert!(bytes == b"from a" || bytes == b"was in dir", "{bytes:?}");
            }
            assert_eq!(names(fs, ""), ["a", "dir"]);
        },
    );
    assert_eq!(get(fs, "a"), b"from a", "an even number of exchanges");
}

/// All threads try at once, each round a new name: exactly one succeeds, the others answer
/// `refused`.
fn one_wins(refused: ErrorKind, attempt: impl Fn(usize, &str) -> BackendResult<()> + Sync) {
    let start = Barrier::new(THREADS);
    let won = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (start, attempt) = (&start, &attempt);
                scope.spawn(move || {
                    let mut won = vec![false; ROUNDS];
                    for (round, won) in won.iter_mut().enumerate() {
                        start.wait();
                        // No panic between waits: the others would wait for ever.
                        *won = match attempt(thread, &format!("name-{round}")) {
                            Ok(()) => true,
                            Err(error) if error.kind() == refused => false,
                            Err(error) => return Err(format!("round {round}: {error}")),
                        };
                    }
                    Ok(won)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let won: Result<Vec<_>, _> = won.into_iter().collect();
    let won = won.unwrap();
    for round in 0..ROUNDS {
        let winners = won.iter().filter(|won| won[round]).count();
        assert_eq!(winners, 1, "round {round}");
    }
}

fn one_makes_a_file(fs: &dyn FileSystem) {
    let options = OpenOptions::new().write(true).create_new(true);
    one_wins(ErrorKind::AlreadyExists, |_, name| fs.open(p(name), &options).map(drop));
    assert_eq!(names(fs, "").len(), ROUNDS);
}

fn one_makes_a_directory(fs: &dyn FileSystem) {
    one_wins(ErrorKind::AlreadyExists, |_, name| {
        fs.create(p(name), &NewNode::directory()).map(drop)
    });
    assert_eq!(names(fs, "").len(), ROUNDS);
}

fn one_takes_a_name(fs: &dyn FileSystem) {
    for dir in ["own", "taken"] {
        mkdir(fs, dir);
    }
    for thread in 0..THREADS {
        for round in 0..ROUNDS {
            put(fs, &format!("own/{thread}-name-{round}"), thread.to_string());
        }
    }
    one_wins(ErrorKind::AlreadyExists, |thread, name| {
        let (from, to) = (format!("own/{thread}-{name}"), format!("taken/{name}"));
        fs.rename(p(&from), p(&to), RenameMode::NoReplace).map(drop)
    });
    assert_eq!(names(fs, "taken").len(), ROUNDS);
    assert_eq!(names(fs, "own").len(), (THREADS - 1) * ROUNDS, "losers keep theirs");
}

fn one_removes_a_file(fs: &dyn FileSystem) {
    for round in 0..ROUNDS {
        put(fs, &format!("name-{round}"), "contents");
    }
    one_wins(ErrorKind::NotFound, |_, name| fs.remove_file(p(name)));
    assert!(names(fs, "").is_empty());
}

fn directories_never_end_up_in_themselves(fs: &dyn FileSystem) {
    for (dir, mark) in [("a", "a/mark-a"), ("b", "b/mark-b")] {
        mkdir(fs, dir);
        put(fs, mark, "");
    }
    let move_about = |own: &str, other: &str| {
        let inner = format!("{other}/{own}");
        for _ in 0..ROUNDS {
            for (from, to) in [(own, &*inner), (&*inner, own)] {
                match fs.rename(p(from), p(to), RenameMode::NoReplace) {
                    Ok(_) => {}
                    Err(error) => assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::NotFound
                                | ErrorKind::InvalidArgument
                                | ErrorKind::AlreadyExists
                        ),
                        "{from} {to}: {error}"
                    ),
                }
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| move_about("a", "b"));
        scope.spawn(|| move_about("b", "a"));
    });
    // Both are there still, wherever they are.
    let mut marks = 0;
    let mut pending = vec![p("").to_owned()];
    while let Some(dir) = pending.pop() {
        for (name, file_type) in entries(fs, &dir) {
            match file_type.is_dir() {
                true => pending.push(dir.join_name(&name).unwrap()),
                false => marks += 1,
            }
        }
    }
    assert_eq!(marks, 2);
}

fn a_listing_shows_what_stays(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for i in 0..100 {
        put(fs, &format!("dir/stays-{i}"), "");
    }
    while_changing(
        |round| {
            let (made, moved) = (format!("dir/goes-{round}"), format!("dir/moved-{round}"));
            put(fs, &made, "");
            rename(fs, &made, &moved);
            if round % 2 == 0 {
                unlink(fs, &moved);
            }
        },
        || {
            let stay = names(fs, "dir").into_iter().filter(|name| name.starts_with("stays-"));
            assert_eq!(stay.count(), 100);
        },
    );
    assert_eq!(names(fs, "dir").len(), 100 + ROUNDS / 2);
}

fn links_are_counted(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let name = format!("link-{thread}-{round}");
                    link(fs, "file", &name);
                    if round % 2 == 0 {
                        unlink(fs, &name);
                    }
                }
            });
        }
    });
    assert_eq!(stat(fs, "file").links as usize, 1 + THREADS * ROUNDS / 2);
}

fn removed_files_stay_whole(fs: &dyn FileSystem) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // Everybody under the same names, so that storage changes hands.
                    let name = format!("name-{}", round % 3);
                    let bytes = noise((thread * ROUNDS + round) as u64, 20_000);
                    let options = OpenOptions::new().read(true).write(true).create_new(true);
                    let Ok(file) = fs.open(p(&name), &options) else { continue };
                    write_all(&*file.file, &bytes, 0);
                    unlink(fs, &name);
                    assert!(contents(&*file.file) == bytes);
                }
            });
        }
    });
    assert!(names(fs, "").is_empty());
}
