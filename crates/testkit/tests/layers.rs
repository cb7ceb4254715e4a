//! The small layers: they keep the contract, and each does its one thing.

use std::sync::Arc;

use stratafs::{
    CaseFoldFs, ErrorKind, FileSystem, MemoryFs, NewNode, OpenOptions, OverlayFs, ReadOnlyFs,
    RenameMode, SubdirFs, TracedFs,
};
use stratafs_testkit::tools::*;
use stratafs_testkit::{Subject, conformance, conformance_tests, fixture};

fn memory() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFs::new())
}

fn case_fold() -> Subject {
    Subject::new(Arc::new(CaseFoldFs::new(memory())))
}

fn traced() -> Subject {
    Subject::new(Arc::new(TracedFs::new(memory())))
}

fn subdir() -> Subject {
    let fs = memory();
    mkdir(&*fs, "below");
    mkdir(&*fs, "below/here");
    Subject::new(Arc::new(SubdirFs::new(fs, p("below/here").to_owned()).expect("a directory")))
}

// What the layer is for is to break these promises, or they use names that differ in case only.
conformance_tests!(
    case_folding,
    case_fold,
    ["names::case_tells_names_apart", "names::every_byte_is_a_name"]
);
conformance_tests!(tracing, traced);
conformance_tests!(below_a_directory, subdir);

#[test]
fn a_read_only_layer() {
    let fs = memory();
    let tree = fixture::populate(&*fs);
    conformance::read_only("read-only", &ReadOnlyFs::new(fs), &tree);
}

#[test]
fn an_overlay_without_an_upper() {
    let fs = memory();
    let tree = fixture::populate(&*fs);
    let overlay = OverlayFs::builder().lower(memory()).lower(fs).build().unwrap();
    conformance::read_only("overlay", &overlay, &tree);
}

#[test]
fn the_case_of_a_name_does_not_matter() {
    let fs = CaseFoldFs::new(memory());
    mkdir(&fs, "Assets");
    mkdir(&fs, "Assets/Sound");
    put(&fs, "assets/SOUND/Boom.wav", "boom");
    assert_eq!(names(&fs, "ASSETS/sound"), ["Boom.wav"]);
    assert_eq!(get(&fs, "assets/sound/boom.WAV"), b"boom");
    assert!(exists(&fs, "aSSETS"));
    assert!(!exists(&fs, "assets/sounds"));
    put(&fs, "assets/sound/BOOM.wav", "replaced");
    assert_eq!(names(&fs, "Assets/Sound"), ["Boom.wav"]);
    put(&fs, "\u{c9}T\u{c9}", "summer");
    assert_eq!(get(&fs, "\u{e9}t\u{e9}"), b"summer");
    unlink(&fs, "ASSETS/SOUND/BOOM.WAV");
    assert!(names(&fs, "Assets/Sound").is_empty());
}

#[test]
fn names_that_differ_in_case_collide() {
    let fs = CaseFoldFs::new(memory());
    put(&fs, "Name", "contents");
    fails(fs.create(p("NAME"), &NewNode::directory()), ErrorKind::AlreadyExists);
    let new = OpenOptions::new().write(true).create_new(true);
    fails(fs.open(p("name"), &new), ErrorKind::AlreadyExists);
    fails(fs.link(p("NAME"), p("name")), ErrorKind::AlreadyExists);
    put(&fs, "other", "");
    fails(fs.rename(p("other"), p("NAME"), RenameMode::NoReplace), ErrorKind::AlreadyExists);
    rename(&fs, "other", "NAME");
    assert_eq!(names(&fs, ""), ["Name"]);
}

#[test]
fn a_rename_changes_the_case_of_a_name() {
    let fs = CaseFoldFs::new(memory());
    mkdir(&fs, "Dir");
    put(&fs, "Dir/name", "contents");
    rename(&fs, "dir/NAME", "DIR/Name");
    assert_eq!(names(&fs, "dir"), ["Name"]);
    fs.rename(p("dir"), p("DIR"), RenameMode::NoReplace).unwrap();
    assert_eq!(names(&fs, ""), ["DIR"]);
    assert_eq!(get(&fs, "dir/name"), b"contents");
}

#[test]
fn the_exact_case_comes_first() {
    let below = memory();
    for name in ["NAME", "Name", "name"] {
        put(&*below, name, name);
    }
    let fs = CaseFoldFs::new(below);
    assert_eq!(get(&fs, "name"), b"name");
    assert_eq!(get(&fs, "Name"), b"Name");
    assert_eq!(get(&fs, "nAME"), b"NAME", "of several, the first by bytes");
}

#[test]
fn changes_beneath_show_in_any_case() {
    let below = memory();
    let fs = CaseFoldFs::new(Arc::clone(&below));
    assert!(!exists(&fs, "NEW"));
    put(&*below, "new", "");
    assert!(exists(&fs, "NEW"));
    rename(&*below, "new", "other");
    assert!(!exists(&fs, "NEW"));
    assert!(exists(&fs, "OTHER"));
}

#[test]
fn one_of_two_cases_is_made() {
    for _ in 0..50 {
        let fs = CaseFoldFs::new(memory());
        let new = OpenOptions::new().write(true).create_new(true);
        let made = std::thread::scope(|scope| {
            let threads = ["name", "NAME", "Name", "nAme"]
                .map(|name| scope.spawn(|| fs.open(p(name), &new).is_ok()));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(made.into_iter().filter(|made| *made).count(), 1);
        assert_eq!(names(&fs, "").len(), 1);
    }
}

#[test]
fn a_trace_counts_calls_and_errors() {
    let fs = TracedFs::new(memory());
    assert!(fs.snapshot().rows.is_empty());
    put(&fs, "file", "contents");
    for _ in 0..10 {
        stat(&fs, "file");
    }
    fails(fs.metadata(p("missing")), ErrorKind::NotFound);
    let trace = fs.snapshot();
    let row = |name| trace.rows.iter().find(|row| row.operation == name).expect("a row");
    assert_eq!((row("metadata").calls, row("metadata").errors), (11, 1));
    assert_eq!((row("open").calls, row("open").errors), (1, 0));
    assert_eq!(row("file.write_at").calls, 1);
    assert!(row("metadata").p50 <= row("metadata").p99);
    assert!(!row("metadata").total.is_zero());
    let table = trace.to_string();
    assert!(table.contains("metadata") && table.contains("file.write_at"), "{table}");
}

#[test]
fn a_trace_counts_every_thread() {
    let fs = TracedFs::new(memory());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..1000).for_each(|_| assert!(!exists(&fs, "missing"))));
        }
    });
    let trace = fs.snapshot();
    assert_eq!(trace.rows.iter().find(|row| row.operation == "exists").unwrap().calls, 8000);
}
