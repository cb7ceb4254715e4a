//! The overlay: what shows, what is copied, what is hidden.

use std::sync::Arc;

use stratafs::{
    Change, ChangeKind, Detail, ErrorKind, FileSystem, FileType, MemoryFs, MetadataChange,
    MountOptions, NativeFs, NewNode, NodeKind, OpenOptions, OverlayFs, RenameMode, Vfs, VfsPath,
    XattrMode,
};

struct Stack {
    upper: Arc<MemoryFs>,
    lower: Arc<MemoryFs>,
    overlay: Arc<OverlayFs>,
    vfs: Vfs,
}

fn mounted(fs: Arc<dyn FileSystem>) -> Vfs {
    let vfs = Vfs::new();
    vfs.mount("", fs, MountOptions::new()).unwrap();
    vfs
}

/// An empty upper over a lower that holds these files, each with its own name as contents.
fn stack(files: &[&str]) -> Stack {
    let (upper, lower) = (Arc::new(MemoryFs::new()), Arc::new(MemoryFs::new()));
    let filler = mounted(lower.clone());
    for file in files {
        let path = VfsPath::new(file.as_bytes()).unwrap();
        filler.create_dir_all(path.parent().unwrap()).unwrap();
        filler.write(path, file).unwrap();
    }
    over(upper, lower)
}

fn over(upper: Arc<MemoryFs>, lower: Arc<MemoryFs>) -> Stack {
    let overlay = OverlayFs::builder().upper(upper.clone()).lower(lower.clone()).build().unwrap();
    let overlay = Arc::new(overlay);
    let vfs = mounted(overlay.clone());
    Stack { upper, lower, overlay, vfs }
}

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn names(vfs: &Vfs, path: &str) -> Vec<String> {
    let list = vfs.read_dir(path).unwrap().sorted();
    list.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect()
}

fn all(fs: &dyn FileSystem) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![VfsPath::root().to_owned()];
    while let Some(directory) = pending.pop() {
        fs.read_dir(&directory, Detail::Names, &mut |entry| {
            let path = directory.join_name(entry.name).unwrap();
            let mark = match entry.file_type {
                FileType::Whiteout => "-",
                FileType::Directory => "d",
                _ => "f",
            };
            found.push(format!("{mark} {}", String::from_utf8_lossy(path.as_bytes())));
            if entry.file_type.is_dir() {
                pending.push(path);
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    }
    found.sort();
    found
}

#[track_caller]
fn fails<T: std::fmt::Debug>(answer: stratafs::Result<T>, kind: ErrorKind) {
    assert_eq!(answer.unwrap_err().kind(), kind);
}

#[test]
fn files_opened_for_write_but_never_written_are_not_copied() {
    let s = stack(&["d/f"]);
    let file = s.vfs.open_with("d/f", &OpenOptions::new().read(true).write(true)).unwrap();
    let mut start = [0; 3];
    file.read_exact_at(&mut start, 0).unwrap();
    drop(file);
    assert!(all(&*s.upper).is_empty());
    s.vfs.open_with("d/f", &OpenOptions::new().write(true)).unwrap().write_at(b"D", 0).unwrap();
    assert_eq!(all(&*s.upper), ["d d", "f d/f"]);
    assert_eq!(s.vfs.read("d/f").unwrap(), b"D/f");
    assert_eq!(mounted(s.lower).read("d/f").unwrap(), b"d/f");
}

#[test]
fn a_copy_keeps_everything_but_what_was_changed() {
    let s = stack(&["d/f"]);
    let lower = mounted(s.lower.clone());
    lower.set_metadata("d/f", &MetadataChange::new().mode(0o4751)).unwrap();
    lower.set_xattr("d/f", "user.note", "kept", XattrMode::Set).unwrap();
    lower.set_metadata("d", &MetadataChange::new().mode(0o1700)).unwrap();
    let (file, directory) = (s.vfs.metadata("d/f").unwrap(), s.vfs.metadata("d").unwrap());
    s.vfs.set_metadata("d/f", &MetadataChange::new().mode(0o640)).unwrap();
    let copy = s.vfs.metadata("d/f").unwrap();
    assert_eq!((copy.id, copy.modified, copy.len), (file.id, file.modified, file.len));
    assert_eq!((copy.mode, file.mode), (0o640, 0o4751));
    assert_eq!(s.vfs.xattr("d/f", "user.note").unwrap(), b"kept");
    let parent = s.vfs.metadata("d").unwrap();
    assert_eq!((parent.id, parent.mode), (directory.id, 0o1700));
    assert_eq!(parent.modified, directory.modified);
    let handle = s.vfs.open("d/f").unwrap();
    assert_eq!(handle.metadata().unwrap().id, file.id);
}

#[test]
fn holes_stay_holes() {
    let s = stack(&[]);
    let lower = mounted(s.lower.clone());
    lower.create("sparse").unwrap().write_at(b"end", 64 << 20).unwrap();
    s.vfs.open_with("sparse", &OpenOptions::new().write(true)).unwrap().write_at(b"x", 0).unwrap();
    let copy = s.vfs.metadata("sparse").unwrap();
    assert_eq!(copy.len, (64 << 20) + 3);
    assert!(copy.allocated < 8 << 20, "{}", copy.allocated);
}

#[test]
fn a_reader_sees_a_later_copy_also_when_the_name_moves_or_goes() {
    for gone in ["stays", "moves", "goes"] {
        let s = stack(&["f"]);
        let reader = s.vfs.open("f").unwrap();
        let writer = s.vfs.open_with("f", &OpenOptions::new().write(true)).unwrap();
        match gone {
            "moves" => s.vfs.rename("f", "g").unwrap(),
            "goes" => s.vfs.remove_file("f").unwrap(),
            _ => {}
        }
        writer.write_at(b"new", 0).unwrap();
        let mut seen = [0; 3];
        reader.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(&seen, b"new", "{gone}");
        assert_eq!(reader.metadata().unwrap().id, writer.metadata().unwrap().id);
        assert_eq!(s.vfs.exists("f").unwrap(), gone == "stays");
        if gone == "moves" {
            assert_eq!(s.vfs.read("g").unwrap(), b"new");
        }
    }
}

#[test]
fn appenders_share_one_end() {
    let s = stack(&["log"]);
    let append = OpenOptions::new().append(true);
    let first = s.vfs.open_with("log", &append).unwrap();
    let second = s.vfs.open_with("log", &append).unwrap();
    first.write_at(b"1", 0).unwrap();
    second.write_at(b"2", 0).unwrap();
    s.vfs.open_with("log", &append).unwrap().write_at(b"3", 0).unwrap();
    first.write_at(b"4", 0).unwrap();
    assert_eq!(s.vfs.read("log").unwrap(), b"log1234");
}

#[test]
fn rmdir_is_not_blocked_by_whiteouts() {
    let s = stack(&["d/a", "d/b"]);
    fails(s.vfs.remove_dir("d"), ErrorKind::DirectoryNotEmpty);
    s.vfs.remove_file("d/a").unwrap();
    s.vfs.remove_file("d/b").unwrap();
    assert_eq!(all(&*s.upper), ["- d/a", "- d/b", "d d"]);
    s.vfs.remove_dir("d").unwrap();
    assert_eq!(all(&*s.upper), ["- d"]);
    fails(s.vfs.metadata("d"), ErrorKind::NotFound);
    fails(s.vfs.metadata("d/a"), ErrorKind::NotFound);
}

#[test]
fn a_root_whiteout_hides_its_own_name_only() {
    let s = stack(&["x", "d/x"]);
    s.vfs.remove_file("x").unwrap();
    assert!(s.vfs.exists("d/x").unwrap());
    assert_eq!(names(&s.vfs, ""), ["d"]);
}

#[test]
fn whatever_is_made_over_a_whiteout_shows() {
    for (index, name) in ["link", "dir", "fifo", "file", "hard"].into_iter().enumerate() {
        let s = stack(&["d/x", "other"]);
        s.vfs.remove_file("d/x").unwrap();
        match index {
            0 => s.vfs.symlink("target", "d/x").unwrap(),
            1 => s.vfs.create_dir("d/x").unwrap(),
            2 => s.vfs.create_node("d/x", &NewNode::new(NodeKind::Fifo)).unwrap(),
            3 => s.vfs.write("d/x", "new").unwrap(),
            _ => s.vfs.hard_link("other", "d/x").unwrap(),
        }
        assert!(s.vfs.symlink_metadata("d/x").is_ok(), "{name}");
        assert_eq!(names(&s.vfs, "d"), ["x"], "{name}");
        match index {
            1 => s.vfs.remove_dir("d/x").unwrap(),
            _ => s.vfs.remove_file("d/x").unwrap(),
        }
        assert!(!s.vfs.exists("d/x").unwrap(), "{name}");
    }
}

#[test]
fn an_opaque_directory_hides_at_every_depth() {
    let s = stack(&["d/sub/deep/f", "d/g"]);
    s.vfs.remove_dir_all("d").unwrap();
    s.vfs.create_dir("d").unwrap();
    s.vfs.create_dir("d/sub").unwrap();
    assert_eq!(names(&s.vfs, "d"), ["sub"]);
    assert!(names(&s.vfs, "d/sub").is_empty());
    fails(s.vfs.metadata("d/sub/deep/f"), ErrorKind::NotFound);
    // Also after the upper layer is opened again.
    let again = over(s.upper, s.lower);
    assert_eq!(names(&again.vfs, "d"), ["sub"]);
    assert!(!again.vfs.exists("d/sub/deep").unwrap());
}

#[test]
fn no_whiteout_without_a_lower_name() {
    let s = stack(&["d/f"]);
    fails(s.vfs.remove_file("d/missing"), ErrorKind::NotFound);
    s.vfs.write("d/new", "").unwrap();
    s.vfs.remove_file("d/new").unwrap();
    s.vfs.create_dir("e").unwrap();
    s.vfs.remove_dir("e").unwrap();
    assert_eq!(all(&*s.upper), ["d d"]);
}

#[test]
fn a_lower_directory_is_renamed_without_copying_what_it_holds() {
    let s = stack(&["a/x/1", "a/2", "b/3"]);
    s.vfs.rename("a", "b/moved").unwrap();
    assert_eq!(all(&*s.upper), ["- a", "d b", "d b/moved"]);
    assert_eq!(s.vfs.read("b/moved/x/1").unwrap(), b"a/x/1");
    assert!(!s.vfs.exists("a/2").unwrap());
    s.vfs.write("b/moved/x/1", "changed").unwrap();
    s.vfs.rename("b/moved/x", "y").unwrap();
    assert_eq!(s.vfs.read("y/1").unwrap(), b"changed");
    assert_eq!(names(&s.vfs, "b/moved"), ["2"]);
    s.vfs.rename("b", "c").unwrap();
    assert_eq!(s.vfs.read("c/moved/2").unwrap(), b"a/2");
    assert_eq!(s.vfs.read("c/3").unwrap(), b"b/3");
    let again = over(s.upper, s.lower);
    assert_eq!(again.vfs.read("c/moved/2").unwrap(), b"a/2");
    assert_eq!(again.vfs.read("y/1").unwrap(), b"changed");
    again.vfs.remove_dir_all("c").unwrap();
    assert_eq!(names(&again.vfs, ""), ["y"]);
}

#[test]
fn renames_back_and_onto_each_other() {
    let s = stack(&["a/1", "b/2", "f", "g"]);
    s.vfs.rename("a", "t").unwrap();
    s.vfs.rename("t", "a").unwrap();
    assert_eq!(names(&s.vfs, "a"), ["1"]);
    s.vfs.rename_with("a", "b", RenameMode::Exchange).unwrap();
    assert_eq!((names(&s.vfs, "a"), names(&s.vfs, "b")), (vec!["2".into()], vec!["1".into()]));
    s.vfs.rename_with("f", "a", RenameMode::Exchange).unwrap();
    assert_eq!(s.vfs.read("a").unwrap(), b"f");
    assert_eq!(s.vfs.read("f/2").unwrap(), b"b/2");
    fails(s.vfs.rename_with("g", "a", RenameMode::NoReplace), ErrorKind::AlreadyExists);
    s.vfs.rename("g", "a").unwrap();
    assert_eq!(s.vfs.read("a").unwrap(), b"g");
    fails(s.vfs.rename("b", "f"), ErrorKind::DirectoryNotEmpty);
    s.vfs.remove_file("f/2").unwrap();
    s.vfs.rename("b", "f").unwrap();
    assert_eq!(names(&s.vfs, "f"), ["1"]);
    assert_eq!(names(&s.vfs, ""), ["a", "f"]);
    fails(s.vfs.rename("f", "f/x"), ErrorKind::InvalidArgument);
}

#[test]
fn reserved_attributes_and_devices_are_out_of_reach() {
    let s = stack(&["d/f"]);
    s.vfs.rename("d", "e").unwrap();
    assert!(s.vfs.xattrs("e").unwrap().is_empty());
    fails(s.vfs.xattr("e", "user.overlay.redirect"), ErrorKind::NoAttribute);
    let set = s.vfs.set_xattr("e/f", "user.overlay.opaque", "y", XattrMode::Set);
    fails(set, ErrorKind::OperationNotPermitted);
    // A memory layer tells this device from a whiteout.
    let device = NewNode::new(NodeKind::CharDevice(Default::default()));
    s.vfs.create_node("d", &device).unwrap();
    assert_eq!(s.vfs.symlink_metadata("d").unwrap().file_type, FileType::CharDevice);
    fails(s.vfs.create_node("w", &NewNode::new(NodeKind::Whiteout)), ErrorKind::Unsupported);
}

#[test]
fn a_file_in_the_way_shadows() {
    let (upper, lower) = (Arc::new(MemoryFs::new()), Arc::new(MemoryFs::new()));
    mounted(upper.clone()).write("x", "file").unwrap();
    let below = mounted(lower.clone());
    below.create_dir("x").unwrap();
    below.write("x/y", "hidden").unwrap();
    let s = over(upper, lower);
    fails(s.vfs.metadata("x/y"), ErrorKind::NotADirectory);
    assert!(!s.vfs.exists("x/y").unwrap());
    fails(s.vfs.write("x/z", ""), ErrorKind::NotADirectory);
    // And a directory over a file.
    let (upper, lower) = (Arc::new(MemoryFs::new()), Arc::new(MemoryFs::new()));
    mounted(upper.clone()).create_dir("x").unwrap();
    mounted(lower.clone()).write("x", "file").unwrap();
    let s = over(upper, lower);
    fails(s.vfs.metadata("x/y"), ErrorKind::NotFound);
    s.vfs.write("x/y", "new").unwrap();
    assert_eq!(names(&s.vfs, "x"), ["y"]);
}

#[test]
fn three_layers_merge_from_the_top() {
    let layers: Vec<Arc<MemoryFs>> = (0..3).map(|_| Arc::new(MemoryFs::new())).collect();
    for (index, layer) in layers.iter().enumerate() {
        let vfs = mounted(layer.clone());
        vfs.create_dir("d").unwrap();
        vfs.write("d/all", index.to_string()).unwrap();
        vfs.write(format!("d/only{index}"), "").unwrap();
    }
    let union = OverlayFs::builder()
        .lower(layers[0].clone())
        .lower(layers[1].clone())
        .lower(layers[2].clone())
        .build()
        .unwrap();
    let vfs = Vfs::with_root(union);
    assert_eq!(names(&vfs, "d"), ["all", "only0", "only1", "only2"]);
    assert_eq!(vfs.read("d/all").unwrap(), b"0");
    fails(vfs.write("d/all", ""), ErrorKind::ReadOnly);
    fails(vfs.remove_file("missing/x"), ErrorKind::NotFound);
}

#[test]
fn unsuitable_layers_are_refused_with_the_reason() {
    let plain = Arc::new(MemoryFs::new());
    let read_only = Arc::new(stratafs::ReadOnlyFs::new(plain.clone()));
    let error = OverlayFs::builder().upper(read_only).lower(plain).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("WRITE"), "{error}");
    assert!(OverlayFs::builder().build().is_err());
}

fn summary(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| {
            let mark = match &change.kind {
                ChangeKind::Added => "+".to_owned(),
                ChangeKind::Modified => "~".to_owned(),
                ChangeKind::Deleted => "-".to_owned(),
                ChangeKind::Renamed { from } => format!("{} >", from.display()),
            };
            format!("{mark} {}", change.path.display())
        })
        .collect()
}

fn changed() -> Stack {
    let s = stack(&["keep/f", "edit", "gone", "dir/a", "dir/b", "old/x", "re/1", "re/2", "mv"]);
    s.vfs.write("edit", "edited").unwrap();
    s.vfs.remove_file("gone").unwrap();
    s.vfs.remove_file("dir/a").unwrap();
    s.vfs.create_dir_all("new/sub").unwrap();
    s.vfs.write("new/sub/file", "fresh").unwrap();
    s.vfs.hard_link("new/sub/file", "new/twin").unwrap();
    s.vfs.rename("old", "renamed").unwrap();
    s.vfs.write("renamed/y", "more").unwrap();
    s.vfs.remove_dir_all("re").unwrap();
    s.vfs.create_dir("re").unwrap();
    s.vfs.write("re/1", "again").unwrap();
    s.vfs.rename("mv", "keep/moved").unwrap();
    s.vfs.symlink("edit", "link").unwrap();
    s
}

#[test]
fn changes_are_reported() {
    let s = changed();
    assert_eq!(
        summary(&s.overlay.changes().unwrap()),
        [
            "- /dir/a",
            "~ /edit",
            "- /gone",
            "/mv > /keep/moved",
            "+ /link",
            "+ /new",
            "+ /new/sub",
            "+ /new/sub/file",
            "+ /new/twin",
            "~ /re",
            "~ /re/1",
            "- /re/2",
            "/old > /renamed",
            "+ /renamed/y",
        ]
    );
}

fn contents(vfs: &Vfs) -> Vec<(String, FileType, u32, Vec<u8>)> {
    vfs.walk("")
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let bytes = match entry.file_type {
                FileType::File => vfs.read(&entry.path).unwrap(),
                FileType::Symlink => vfs.read_link(&entry.path).unwrap(),
                _ => Vec::new(),
            };
            let metadata = vfs.symlink_metadata(&entry.path).unwrap();
            (entry.path.display().to_string(), entry.file_type, metadata.mode, bytes)
        })
        .collect()
}

#[test]
fn applied_changes_make_the_lower_layer_look_the_same() {
    let s = changed();
    let shown = contents(&s.vfs);
    s.overlay.apply(&*s.lower).unwrap();
    let lower = mounted(s.lower);
    assert_eq!(contents(&lower), shown);
    assert_eq!(lower.metadata("new/twin").unwrap().id, lower.metadata("new/sub/file").unwrap().id);
}

#[test]
fn a_kept_upper_layer_serves_again() {
    let s = changed();
    let kept = Arc::new(MemoryFs::new());
    s.overlay.keep(&*kept).unwrap();
    let again = over(kept, s.lower.clone());
    assert_eq!(contents(&again.vfs), contents(&s.vfs));
    assert_eq!(summary(&again.overlay.changes().unwrap()), summary(&s.overlay.changes().unwrap()));
}

#[test]
fn an_unnamed_file_gets_its_name_over_a_whiteout() {
    let s = stack(&["d/f"]);
    s.vfs.remove_file("d/f").unwrap();
    let options = OpenOptions::new().write(true).temporary(true);
    let door: &dyn FileSystem = &*s.overlay;
    let file = door.open(path("d"), &options).unwrap().file;
    file.write_at(b"made", 0).unwrap();
    file.link_to(path("d/f")).unwrap();
    assert_eq!(s.vfs.read("d/f").unwrap(), b"made");
    let file = door.open(path("d"), &options).unwrap().file;
    assert_eq!(file.link_to(path("d/f")).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn copy_ups_and_readers_together() {
    let s = stack(&["d/f0", "d/f1", "d/f2", "d/f3"]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let vfs = &s.vfs;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = format!("d/f{}", (thread + round) % 4);
                    let reader = vfs.open(&name).unwrap();
                    let append = OpenOptions::new().append(true);
                    vfs.open_with(&name, &append).unwrap().write_at(b"x", 0).unwrap();
                    let len = reader.len().unwrap();
                    assert!(len >= 5, "{len}");
                }
            });
        }
    });
    let total: u64 = (0..4).map(|n| s.vfs.metadata(format!("d/f{n}")).unwrap().len).sum();
    assert_eq!(total, 4 * 4 + 4 * 50);
}

/// On a native layer character device 0:0 is a whiteout: one that a user makes, or a lower file
/// that is copied up, must not become one.
#[test]
fn no_device_becomes_a_whiteout() {
    let (dir, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let native = |dir: &tempfile::TempDir| Arc::new(NativeFs::new(dir.path()).unwrap());
    if !rustix::process::geteuid().is_root() {
        return; // only root may make devices
    }
    let device = NewNode::new(NodeKind::CharDevice(Default::default())).mode(0o600);
    let lower = Arc::new(MemoryFs::new());
    lower.create(path("below"), &device).unwrap();
    lower.create(path("hidden"), &device).unwrap();
    let overlay = OverlayFs::builder().upper(native(&dir)).lower(lower).build().unwrap();
    let vfs = mounted(Arc::new(overlay));
    vfs.remove_file("hidden").unwrap();
    for name in ["new", "hidden"] {
        fails(vfs.create_node(name, &device), ErrorKind::OperationNotPermitted);
        assert!(!vfs.exists(name).unwrap());
    }
    let change = MetadataChange::new().mode(0o644);
    fails(vfs.set_metadata("below", &change), ErrorKind::OperationNotPermitted);
    assert_eq!(vfs.metadata("below").unwrap().file_type, FileType::CharDevice);
    assert_eq!(names(&vfs, ""), ["below"]);
    assert_eq!(all(&*native(&dir)), ["- hidden"]);

    let s = stack(&[]);
    s.vfs.create_node("device", &device).unwrap();
    fails(s.overlay.keep(&*native(&target)), ErrorKind::OperationNotPermitted);
    assert!(all(&*native(&target)).is_empty());
}
