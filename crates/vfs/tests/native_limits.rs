//! The native backend in a process without free descriptors: true answers or an error that says
//! so. One test, since it takes all the process has.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stratafs::{
    BackendResult, Capabilities, Detail, ErrorKind, FileSystem, MetadataChange, NativeFs, NewNode,
    OpenOptions, RenameMode, VfsPath, WatchEvent,
};

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

/// The answer, unless it is the one that may come now.
#[track_caller]
fn unless_out<T>(answer: BackendResult<T>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TooManyOpenFiles, "{error}");
            None
        }
    }
}

#[test]
fn without_descriptors_no_answer_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
    std::fs::write(dir.path().join("a/b/c/file"), "text").unwrap();
    std::fs::write(dir.path().join("a/other"), "other").unwrap();
    let fs = NativeFs::new(dir.path()).unwrap();
    let held = fs.open(path("a/b/c/file"), &OpenOptions::reading()).unwrap().file;

    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    let mut opened = Vec::new();
    while let Some(file) = unless_out(fs.open(path("a/other"), &OpenOptions::reading())) {
        opened.push(file);
    }
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    for _ in 0..3 {
        let deep = unless_out(fs.metadata(path("a/b/c/file")));
        assert!(deep.is_none_or(|known| known.len == 4));
        assert!(unless_out(fs.exists(path("a/b/c/file"))).unwrap_or(true));
        assert!(!unless_out(fs.exists(path("a/b/c/none"))).unwrap_or(false));
        match fs.metadata(path("a/b/none")) {
            Ok(_) => panic!("nothing is there"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            answer => drop(unless_out(answer)),
        }
        let mut listed = 0;
        let answer = fs.read_dir(path("a"), Detail::Names, &mut |_| {
            listed += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(unless_out(answer).map_or(0, |()| 2), listed);
        unless_out(fs.read_dir(path("a/b/c"), Detail::Names, &mut |_| ControlFlow::Continue(())));
        let mode = MetadataChange::new().mode(0o600);
        unless_out(fs.set_metadata(path("a/other"), &mode));
        unless_out(fs.xattrs(path("a/other")));
        let options = OpenOptions::new().write(true).create_new(true);
        assert!(
            unless_out(fs.open(path("a/b/c/new"), &options)).is_none(),
            "no descriptor is left"
        );
        if fs.capabilities().contains(Capabilities::WATCH) {
            let watch = fs.watch(path(""), Arc::new(|_: WatchEvent| {}));
            assert!(unless_out(watch).is_none(), "no descriptor is left");
        }
        let mut text = [0; 4];
        assert_eq!(held.read_at(&mut text, 0).unwrap(), 4);
        assert_eq!(&text, b"text");
    }
    // What takes no descriptor once the directory is known may work: then it is done.
    let made = unless_out(fs.create(path("a/made"), &NewNode::directory())).is_some();
    let moved = unless_out(fs.rename(path("a/other"), path("a/moved"), RenameMode::Replace));

    drop((taken, opened));
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(!dir.path().join("a/b/c/new").exists());
    assert_eq!(dir.path().join("a/made").exists(), made);
    let now = if moved.is_some() { "a/moved" } else { "a/other" };
    assert_eq!(std::fs::read_to_string(dir.path().join(now)).unwrap(), "other");
    assert_eq!(fs.metadata(path(now)).unwrap().len, 5);
    fs.open(path("a/b/c/new"), &OpenOptions::new().write(true).create_new(true)).unwrap();
    assert!(fs.exists(path("a/b/c/new")).unwrap());
}
