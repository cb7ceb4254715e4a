//! Handles opened to append.

use stratafs::{ErrorKind, FileSystem, OpenOptions};

use super::cases;
use crate::tools::*;

cases![
    writes_go_to_the_end,
    the_offset_is_ignored,
    appenders_take_turns,
    the_end_is_where_it_is_now,
    reading_beside_appending,
    truncating_first,
    write_and_append_appends,
    an_append_is_whole,
];

fn appending() -> OpenOptions {
    OpenOptions::new().append(true).create(true)
}

fn writes_go_to_the_end(fs: &dyn FileSystem) {
    let log = open(fs, "log", appending());
    for line in ["one\n", "two\n", "three\n"] {
        assert_eq!(log.write_at(line.as_bytes(), 0).unwrap(), line.len());
    }
    assert_eq!(get(fs, "log"), b"one\ntwo\nthree\n");
    drop(log);
    open(fs, "log", appending()).write_at(b"four\n", 0).unwrap();
    assert_eq!(get(fs, "log"), b"one\ntwo\nthree\nfour\n");
}

fn the_offset_is_ignored(fs: &dyn FileSystem) {
    put(fs, "log", "start,");
    let log = open(fs, "log", appending());
    for offset in [0, 3, 1000, 1 << 40, u64::MAX] {
        assert_eq!(log.write_at(b"x", offset).unwrap(), 1, "offset {offset:#x}");
    }
    assert_eq!(get(fs, "log"), b"start,xxxxx");
}

fn appenders_take_turns(fs: &dyn FileSystem) {
    let (a, b) = (open(fs, "log", appending()), open(fs, "log", appending()));
    for _ in 0..3 {
        a.write_at(b"a", 0).unwrap();
        b.write_at(b"bb", 0).unwrap();
    }
    assert_eq!(get(fs, "log"), b"abbabbabb");
}

fn the_end_is_where_it_is_now(fs: &dyn FileSystem) {
    let log = open(fs, "log", appending());
    log.write_at(b"0123456789", 0).unwrap();
    let writer = edit(fs, "log");
    writer.set_len(4).unwrap();
    log.write_at(b"x", 0).unwrap();
    assert_eq!(get(fs, "log"), b"0123x");
    write_all(&*writer, b"y", 7);
    log.write_at(b"z", 0).unwrap();
    assert_eq!(get(fs, "log"), b"0123x\0\0yz");
}

fn reading_beside_appending(fs: &dyn FileSystem) {
    put(fs, "log", "start");
    let log = open(fs, "log", appending().read(true));
    log.write_at(b",end", 0).unwrap();
    assert_eq!(contents(&*log), b"start,end");
    assert_eq!(read(&*log, 6, 3), b"end");
    let only = open(fs, "log", appending());
    fails(only.read_at(&mut [0; 1], 0), ErrorKind::BadHandle);
}

fn truncating_first(fs: &dyn FileSystem) {
    put(fs, "log", "old");
    let log = open(fs, "log", appending().truncate(true));
    log.write_at(b"new", 0).unwrap();
    log.write_at(b"er", 0).unwrap();
    assert_eq!(get(fs, "log"), b"newer");
}

fn write_and_append_appends(fs: &dyn FileSystem) {
    put(fs, "log", "start");
    let log = open(fs, "log", appending().write(true));
    log.write_at(b"X", 0).unwrap();
    assert_eq!(get(fs, "log"), b"startX");
}

fn an_append_is_whole(fs: &dyn FileSystem) {
    let bytes = noise(1, 3_000_000);
    let log = open(fs, "log", appending());
    assert_eq!(log.write_at(&bytes, 0).unwrap(), bytes.len());
    assert_eq!(log.write_at(b"end", 0).unwrap(), 3);
    let mut expected = bytes;
    expected.extend_from_slice(b"end");
    assert!(get(fs, "log") == expected);
}
