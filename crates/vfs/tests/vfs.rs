//! The tree: mounting, resolution, and the calls of `std::fs` on it.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use stratafs::{
    ErrorKind, FileSystem, FileType, MemoryFs, MetadataChange, MountOptions, OpenOptions,
    RenameMode, Vfs, VfsPath, WatchEvent, WatchKind,
};

fn memory() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFs::new())
}

fn tree() -> Vfs {
    Vfs::with_root(MemoryFs::new())
}

fn names(vfs: &Vfs, path: &str) -> Vec<String> {
    let list = vfs.read_dir(path).unwrap().sorted();
    list.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect()
}

#[track_caller]
fn fails<T: std::fmt::Debug>(answer: stratafs::Result<T>, kind: ErrorKind) {
    assert_eq!(answer.unwrap_err().kind(), kind);
}

#[test]
fn an_empty_tree_is_an_empty_directory() {
    let vfs = Vfs::new();
    assert!(vfs.metadata("").unwrap().is_dir());
    assert!(vfs.read_dir("/").unwrap().is_empty());
    fails(vfs.open("a"), ErrorKind::NotFound);
    fails(vfs.write("a", "x"), ErrorKind::ReadOnly);
    fails(vfs.write("a/b", "x"), ErrorKind::NotFound);
    assert!(!vfs.exists("a").unwrap());
}

#[test]
fn a_mount_shadows_and_uncovers() {
    let vfs = tree();
    vfs.create_dir("data").unwrap();
    vfs.write("data/below", "1").unwrap();
    let id = vfs.mount("data", memory(), MountOptions::new()).unwrap();
    assert!(!vfs.exists("data/below").unwrap());
    vfs.write("data/above", "2").unwrap();
    assert_eq!(names(&vfs, "data"), ["above"]);
    vfs.unmount(id).unwrap();
    assert_eq!(names(&vfs, "data"), ["below"]);
    fails(vfs.unmount(id), ErrorKind::NotFound);
}

#[test]
fn mount_points_show_in_listings_unless_hidden() {
    let vfs = tree();
    vfs.write("file", "").unwrap();
    vfs.mount("a/b/c", memory(), MountOptions::new()).unwrap();
    vfs.mount("secret/x", memory(), MountOptions::new().hidden(true)).unwrap();
    assert_eq!(names(&vfs, ""), ["a", "file"]);
    assert_eq!(names(&vfs, "a"), ["b"]);
    assert_eq!(names(&vfs, "a/b"), ["c"]);
    assert!(vfs.metadata("a/b").unwrap().is_dir());
    assert!(vfs.metadata("secret/x").unwrap().is_dir());
    vfs.write("secret/x/y", "found").unwrap();
    assert_eq!(vfs.read("secret/x/y").unwrap(), b"found");
    fails(vfs.open("a/b"), ErrorKind::IsADirectory);
    fails(vfs.read_dir("a/z"), ErrorKind::NotFound);
}

#[test]
fn directories_that_lead_to_a_mount_become_real_when_used() {
    let vfs = tree();
    let id = vfs.mount("a/b/c", memory(), MountOptions::new()).unwrap();
    fails(vfs.create_dir("a"), ErrorKind::AlreadyExists);
    vfs.write("a/b/file", "1").unwrap();
    vfs.create_dir_all("a/b/c/d").unwrap();
    assert_eq!(names(&vfs, "a/b"), ["c", "file"]);
    vfs.unmount(id).unwrap();
    assert_eq!(names(&vfs, "a/b"), ["file"]);
}

#[test]
fn mount_points_are_pinned() {
    let vfs = tree();
    vfs.mount("a/b", memory(), MountOptions::new()).unwrap();
    vfs.create_dir("x").unwrap();
    for pinned in ["a", "a/b"] {
        fails(vfs.remove_dir(pinned), ErrorKind::Busy);
        fails(vfs.rename(pinned, "elsewhere"), ErrorKind::Busy);
        fails(vfs.rename("x", pinned), ErrorKind::Busy);
        fails(vfs.remove_file(pinned), ErrorKind::IsADirectory);
    }
    fails(vfs.remove_dir_all("a"), ErrorKind::Busy);
    vfs.write("a/b/f", "").unwrap();
    fails(vfs.rename("a/b/f", "f"), ErrorKind::CrossesMounts);
    fails(vfs.hard_link("a/b/f", "f"), ErrorKind::CrossesMounts);
    fails(vfs.rename("a/b/missing", "f"), ErrorKind::NotFound);
}

#[test]
fn unrelated_and_nested_mounts_are_told_apart() {
    let vfs = tree();
    for at in ["ab", "a", "a/bc", "a/b", "a/b/c/d"] {
        vfs.mount(at, memory(), MountOptions::new()).unwrap();
        vfs.write(format!("{at}/here"), at).unwrap();
    }
    for at in ["ab", "a", "a/bc", "a/b", "a/b/c/d"] {
        assert_eq!(vfs.read_to_string(format!("/{at}//here")).unwrap(), at);
    }
    // Ids of files in different mounts never meet.
    let mut ids: Vec<_> = ["ab", "a", "a/bc", "a/b", "a/b/c/d"]
        .map(|at| vfs.metadata(format!("{at}/here")).unwrap().id)
        .into();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    let file = vfs.open("a/b/here").unwrap();
    assert_eq!(file.metadata().unwrap().id, vfs.metadata("a/b/here").unwrap().id);
    let door: &dyn FileSystem = &*vfs.tree();
    let path = VfsPath::new(b"a/b/here").unwrap();
    let bare = door.open(path, &OpenOptions::reading()).unwrap().file;
    assert_eq!(bare.metadata().unwrap().id, file.metadata().unwrap().id);
}

#[test]
fn stacks_follow_priority_and_have_one_write_target() {
    let vfs = Vfs::new();
    let (low, high, top) = (memory(), memory(), memory());
    for (fs, text) in [(&low, "low"), (&high, "high")] {
        let filler = Vfs::new();
        filler.mount("", Arc::clone(fs), MountOptions::new()).unwrap();
        filler.write("both", text).unwrap();
        filler.write(text, text).unwrap();
    }
    let high_id = vfs.mount("s", Arc::clone(&high), MountOptions::new().priority(5)).unwrap();
    vfs.mount("s", low, MountOptions::new()).unwrap();
    assert_eq!(vfs.read_to_string("s/both").unwrap(), "high");
    assert_eq!(names(&vfs, "s"), ["both", "high", "low"]);
    fails(vfs.write("s/new", ""), ErrorKind::ReadOnly);

    let below = MountOptions::new().write_target(true);
    fails(vfs.mount("s", Arc::clone(&top), below), ErrorKind::InvalidArgument);
    vfs.mount("s", Arc::clone(&top), below.priority(9)).unwrap();
    fails(vfs.mount("s", memory(), below.priority(10)), ErrorKind::InvalidArgument);
    vfs.write("s/both", "written").unwrap();
    vfs.remove_file("s/low").unwrap();
    assert_eq!(vfs.read_to_string("s/both").unwrap(), "written");
    assert_eq!(names(&vfs, "s"), ["both", "high"]);

    vfs.unmount(high_id).unwrap();
    assert_eq!(names(&vfs, "s"), ["both"]);
    let path = VfsPath::new(b"both").unwrap();
    assert!(top.exists(path).unwrap() && high.exists(path).unwrap());
}

#[test]
fn mount_options_apply() {
    let vfs = Vfs::new();
    let fs = memory();
    vfs.mount("rw", Arc::clone(&fs), MountOptions::new()).unwrap();
    vfs.mount("ro", Arc::clone(&fs), MountOptions::new().read_only(true)).unwrap();
    vfs.mount("ci", fs, MountOptions::new().case_insensitive(true)).unwrap();
    vfs.write("rw/ReadMe", "text").unwrap();
    assert_eq!(vfs.read("ro/ReadMe").unwrap(), b"text");
    assert_eq!(vfs.read("ci/readme").unwrap(), b"text");
    fails(vfs.read("ro/readme"), ErrorKind::NotFound);
    fails(vfs.write("ro/ReadMe", ""), ErrorKind::ReadOnly);
    fails(vfs.remove_file("ro/ReadMe"), ErrorKind::ReadOnly);
}

#[test]
fn handles_outlive_unmount_and_removal() {
    let vfs = Vfs::new();
    let id = vfs.mount("m", memory(), MountOptions::new()).unwrap();
    vfs.write("m/f", "kept").unwrap();
    let file = vfs.open("m/f").unwrap();
    vfs.remove_file("m/f").unwrap();
    vfs.unmount(id).unwrap();
    vfs.mount("m", memory(), MountOptions::new()).unwrap();
    let mut text = String::new();
    file.stream().read_to_string(&mut text).unwrap();
    assert_eq!(text, "kept");
    assert_eq!(file.metadata().unwrap().links, 0);
}

#[test]
fn links_are_followed_across_mounts() {
    let vfs = tree();
    vfs.mount("m/n", memory(), MountOptions::new()).unwrap();
    vfs.create_dir_all("m/n/d").unwrap();
    vfs.write("m/n/d/f", "deep").unwrap();
    vfs.symlink("/m/n/d", "absolute").unwrap();
    vfs.symlink("../../absolute/f", "m/n/back").unwrap();
    vfs.symlink("m/n", "relative").unwrap();
    assert_eq!(vfs.read("absolute/f").unwrap(), b"deep");
    assert_eq!(vfs.read("m/n/back").unwrap(), b"deep");
    assert_eq!(vfs.read("relative/back").unwrap(), b"deep");
    assert_eq!(names(&vfs, "absolute"), ["f"]);
    assert!(vfs.metadata("absolute").unwrap().is_dir());
    assert!(vfs.symlink_metadata("absolute").unwrap().is_symlink());
    assert_eq!(vfs.read_link("relative").unwrap(), b"m/n");
    vfs.rename("relative/d/f", "absolute/g").unwrap();
    assert_eq!(vfs.read("m/n/d/g").unwrap(), b"deep");
    // A file made through a dangling link is the link's target.
    vfs.symlink("made", "dangling").unwrap();
    vfs.write("dangling", "x").unwrap();
    assert_eq!(vfs.read("made").unwrap(), b"x");
    vfs.remove_file("dangling").unwrap();
    assert!(vfs.exists("made").unwrap());
}

#[test]
fn loops_and_escapes_are_refused() {
    let vfs = tree();
    vfs.symlink("b", "a").unwrap();
    vfs.symlink("a", "b").unwrap();
    vfs.symlink("../../etc/passwd", "out").unwrap();
    vfs.symlink("/etc/passwd", "host").unwrap();
    fails(vfs.open("a"), ErrorKind::SymlinkLoop);
    fails(vfs.metadata("a/x"), ErrorKind::SymlinkLoop);
    fails(vfs.open("out"), ErrorKind::Escapes);
    fails(vfs.open("host"), ErrorKind::NotFound);
    fails(vfs.open("../x"), ErrorKind::InvalidPath);
    let error = vfs.open("no/such").unwrap_err();
    assert_eq!(error.to_string(), "open /no/such: no such file or directory");
}

#[test]
fn streams_read_write_and_seek() {
    let vfs = tree();
    let mut stream = vfs.open_with("f", &OpenOptions::writing().read(true)).unwrap().into_stream();
    stream.write_all(b"0123456789").unwrap();
    stream.seek(SeekFrom::Start(3)).unwrap();
    stream.write_all(b"xy").unwrap();
    assert_eq!(stream.seek(SeekFrom::End(-2)).unwrap(), 8);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "89");
    assert!(stream.seek(SeekFrom::Current(-11)).is_err());
    assert_eq!(vfs.read("f").unwrap(), b"012xy56789");

    let mut log =
        vfs.open_with("f", &OpenOptions::new().read(true).append(true)).unwrap().into_stream();
    log.write_all(b"end").unwrap();
    assert_eq!(log.stream_position().unwrap(), 13);
    let mut exact = [0; 4];
    fails(log.file().read_exact_at(&mut exact, 11), ErrorKind::NoSuchOffset);
    log.file().read_exact_at(&mut exact, 9).unwrap();
    assert_eq!(&exact, b"9end");
}

#[test]
fn walk_glob_and_copy() {
    let vfs = tree();
    vfs.mount("mods/big", memory(), MountOptions::new()).unwrap();
    for path in ["a/one.lua", "a/b/two.lua", "a/b/three.txt", "mods/big/four.lua"] {
        vfs.create_dir_all(VfsPath::new(path.as_bytes()).unwrap().parent().unwrap()).unwrap();
        vfs.write(path, path).unwrap();
    }
    let walked: Vec<String> =
        vfs.walk("").unwrap().map(|entry| entry.unwrap().path.display().to_string()).collect();
    assert_eq!(
        walked,
        [
            "/",
            "/a",
            "/a/b",
            "/a/b/three.txt",
            "/a/b/two.lua",
            "/a/one.lua",
            "/mods",
            "/mods/big",
            "/mods/big/four.lua"
        ]
    );
    let found = |pattern: &str| -> Vec<String> {
        vfs.glob(pattern).unwrap().map(|path| path.unwrap().display().to_string()).collect()
    };
    assert_eq!(found("**/*.lua"), ["/a/b/two.lua", "/a/one.lua", "/mods/big/four.lua"]);
    assert_eq!(found("a/*.lua"), ["/a/one.lua"]);
    assert_eq!(found("a/b/*.{txt,lua}"), ["/a/b/three.txt", "/a/b/two.lua"]);
    for nothing in ["missing/*", "../a/*", "a//b/*", "a/./b/*"] {
        assert!(found(nothing).is_empty(), "{nothing}");
    }
    vfs.symlink("b", "a/to-b").unwrap();
    assert!(found("a/to-b/*").is_empty());
    assert_eq!(found("a/to-*"), ["/a/to-b"]);
    vfs.remove_file("a/to-b").unwrap();
    fails(vfs.glob("[").map(drop), ErrorKind::InvalidArgument);

    let private = MetadataChange::new().mode(0o600);
    vfs.set_metadata("a/one.lua", &private).unwrap();
    vfs.symlink("one.lua", "a/link").unwrap();
    vfs.copy_all("a", "mods/big/a").unwrap();
    assert_eq!(vfs.read("mods/big/a/b/two.lua").unwrap(), b"a/b/two.lua");
    assert_eq!(vfs.metadata("mods/big/a/one.lua").unwrap().mode, 0o600);
    assert_eq!(vfs.read_link("mods/big/a/link").unwrap(), b"one.lua");
    assert_eq!(
        vfs.metadata("mods/big/a/b").unwrap().modified,
        vfs.metadata("a/b").unwrap().modified
    );
    fails(vfs.copy("a/one.lua", "a/one.lua"), ErrorKind::InvalidArgument);
    assert_eq!(vfs.read("a/one.lua").unwrap(), b"a/one.lua");
    fails(vfs.copy_all("a", "a/b/again"), ErrorKind::InvalidArgument);
    vfs.remove_dir_all("a").unwrap();
    assert!(!vfs.exists("a").unwrap());
}

#[test]
fn renames_in_each_mode() {
    let vfs = tree();
    vfs.write("a", "a").unwrap();
    vfs.write("b", "b").unwrap();
    fails(vfs.rename_with("a", "b", RenameMode::NoReplace), ErrorKind::AlreadyExists);
    vfs.rename_with("a", "b", RenameMode::Exchange).unwrap();
    assert_eq!(vfs.read("a").unwrap(), b"b");
    vfs.rename("a", "b").unwrap();
    assert_eq!(names(&vfs, ""), ["b"]);
}

#[test]
fn watches_cover_the_mounts_below() {
    let vfs = tree();
    vfs.mount("m", memory(), MountOptions::new()).unwrap();
    vfs.create_dir("other").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = Arc::clone(&seen);
        move |event: WatchEvent| seen.lock().unwrap().push((event.kind, event.path))
    };
    let guard = vfs.watch("", sink).unwrap();
    vfs.write("m/f", "x").unwrap();
    vfs.remove_file("m/f").unwrap();
    vfs.write("other/g", "x").unwrap();
    let path = |text: &str| VfsPath::new(text.as_bytes()).unwrap().to_owned();
    {
        let seen = seen.lock().unwrap();
        for expected in [
            (WatchKind::Created, path("m/f")),
            (WatchKind::Removed, path("m/f")),
            (WatchKind::Created, path("other/g")),
        ] {
            assert!(seen.contains(&expected), "{expected:?} in {seen:?}");
        }
    }
    seen.lock().unwrap().clear();
    let id = vfs.mount("n", memory(), MountOptions::new()).unwrap();
    vfs.unmount(id).unwrap();
    assert_eq!(*seen.lock().unwrap(), vec![(WatchKind::Overflow, path("")); 2]);
    drop(guard);
    seen.lock().unwrap().clear();
    vfs.write("m/f", "x").unwrap();
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn lists_carry_types() {
    let vfs = tree();
    vfs.create_dir("d").unwrap();
    vfs.write("f", "").unwrap();
    vfs.symlink("f", "l").unwrap();
    let list = vfs.read_dir("").unwrap().sorted();
    let types: Vec<FileType> = list.iter().map(|entry| entry.file_type).collect();
    assert_eq!(types, [FileType::Directory, FileType::File, FileType::Symlink]);
}

#[test]
fn a_mount_counts_as_a_directory_among_links() {
    let root = Arc::new(MemoryFs::new());
    let vfs = Vfs::new();
    vfs.mount("", root, MountOptions::new()).unwrap();
    vfs.create_dir_all("a/real").unwrap();
    let links = |path: &str| vfs.metadata(path).unwrap().links;
    assert_eq!((links(""), links("a")), (3, 3));
    for at in ["a/real", "a/mounted", "b/c/d", "b/e"] {
        vfs.mount(at, Arc::new(MemoryFs::new()), MountOptions::new()).unwrap();
    }
    vfs.mount("a/unseen", Arc::new(MemoryFs::new()), MountOptions::new().hidden(true)).unwrap();
    assert_eq!((links(""), links("a"), links("b"), links("b/c")), (4, 4, 4, 3));
    vfs.create_dir("b/c/d/below").unwrap();
    assert_eq!((links("b/c"), links("b/c/d")), (3, 3));
}
