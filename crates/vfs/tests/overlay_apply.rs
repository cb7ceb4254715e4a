//! Reports of changes, and applying them: renamed directories, further names, the root.

use std::sync::Arc;

use stratafs::{
    Change, ChangeKind, ErrorKind, FileSystem, MemoryFs, MetadataChange, MountOptions, OverlayFs,
    TracedFs, Vfs, VfsPath, XattrMode,
};

struct Stack {
    lower: Arc<MemoryFs>,
    upper: Arc<MemoryFs>,
    overlay: Arc<OverlayFs>,
    view: Vfs,
}

/// An empty upper layer over one that holds these files, each with its own name as contents.
fn stack(files: &[&str]) -> Stack {
    let lower = Arc::new(MemoryFs::new());
    let filler = mounted(lower.clone());
    for file in files {
        filler.create_dir_all(path(file).parent().unwrap()).unwrap();
        filler.write(file, file).unwrap();
    }
    over(Arc::new(MemoryFs::new()), lower)
}

fn over(upper: Arc<MemoryFs>, lower: Arc<MemoryFs>) -> Stack {
    let overlay = OverlayFs::builder().upper(upper.clone()).lower(lower.clone()).build().unwrap();
    let overlay = Arc::new(overlay);
    Stack { lower, upper, view: mounted(overlay.clone()), overlay }
}

fn mounted(fs: Arc<dyn FileSystem>) -> Vfs {
    let vfs = Vfs::new();
    vfs.mount("", fs, MountOptions::new()).unwrap();
    vfs
}

fn path(text: &str) -> &VfsPath {
    VfsPath::new(text.as_bytes()).unwrap()
}

fn report(overlay: &OverlayFs) -> Vec<String> {
    let line = |change: &Change| {
        let mark = match &change.kind {
            ChangeKind::Added => "+".to_owned(),
            ChangeKind::Modified => "~".to_owned(),
            ChangeKind::Deleted => "-".to_owned(),
            ChangeKind::Renamed { from } => format!("{} >", from.display()),
        };
        format!("{mark} {}", change.path.display())
    };
    overlay.changes().unwrap().iter().map(line).collect()
}

#[test]
fn a_renamed_directory_is_moved_where_the_lower_layer_is_the_target() {
    let files = ["old/deep/er/file", "old/edit", "old/gone", "old/out", "taken/x"];
    for direct in [true, false] {
        let s = stack(&files);
        let id = |name: &str| s.lower.metadata(path(name)).unwrap().id;
        let before = id("old/deep/er/file");
        s.view.rename("old/deep", "deep").unwrap();
        s.view.remove_dir_all("taken").unwrap();
        s.view.rename("old", "taken").unwrap();
        s.view.write("taken/edit", "edited").unwrap();
        s.view.remove_file("taken/gone").unwrap();
        s.view.rename("taken/out", "out").unwrap();
        s.view.create_dir("old").unwrap();
        s.view.write("old/edit", "old/edit").unwrap();
        match direct {
            true => s.overlay.apply(&*s.lower).unwrap(),
            // Another object, so nobody knows that it is the same file system.
            false => s.overlay.apply(&TracedFs::new(s.lower.clone())).unwrap(),
        }
        let lower = mounted(s.lower.clone());
        let found: Vec<_> = lower
            .walk("")
            .unwrap()
            .map(|entry| entry.unwrap().path.display().to_string())
            .collect();
        let expected = [
            "/",
            "/deep",
            "/deep/er",
            "/deep/er/file",
            "/old",
            "/old/edit",
            "/out",
            "/taken",
            "/taken/edit",
        ];
        assert_eq!(found, expected);
        assert_eq!(lower.read_to_string("taken/edit").unwrap(), "edited");
        assert_eq!(lower.read_to_string("old/edit").unwrap(), "old/edit");
        assert_eq!(id("deep/er/file") == before, direct, "moved, or copied");
    }
}

#[test]
fn a_second_name_of_a_file_is_no_rename_and_stays_one_file() {
    let s = stack(&["dir/f", "g"]);
    s.view.hard_link("dir/f", "twin").unwrap();
    s.view.hard_link("g", "h").unwrap();
    s.view.rename("g", "i").unwrap();
    assert_eq!(report(&s.overlay), ["~ /dir/f", "/g > /h", "+ /i", "+ /twin"]);
    s.overlay.apply(&*s.lower).unwrap();
    let known = |name: &str| s.lower.metadata(path(name)).unwrap();
    assert_eq!((known("dir/f").id, known("dir/f").links), (known("twin").id, 2));
    assert_eq!((known("h").id, known("h").links), (known("i").id, 2));
    assert!(!s.lower.exists(path("g")).unwrap());
}

#[test]
fn what_moved_out_of_a_directory_hides_no_other_deletion() {
    let s = stack(&["one/same/f", "two/same/f"]);
    s.view.rename("two/same", "out").unwrap();
    s.view.rename("two", "three").unwrap();
    s.view.rename("one", "two").unwrap();
    s.view.remove_dir_all("two/same").unwrap();
    assert_eq!(
        report(&s.overlay),
        ["/two/same > /out", "/two > /three", "/one > /two", "- /two/same"]
    );
    s.overlay.apply(&*s.lower).unwrap();
    let lower = mounted(s.lower.clone());
    assert_eq!(lower.read_to_string("out/f").unwrap(), "two/same/f");
    assert!(!lower.exists("two/same").unwrap() && lower.exists("three").unwrap());
}

#[test]
fn a_change_of_the_root_itself_is_reported_and_applied() {
    let mode = |mode| MetadataChange::new().mode(mode);
    let s = stack(&["f"]);
    s.upper.set_metadata(VfsPath::root(), &mode(0o700)).unwrap();
    assert_eq!(report(&s.overlay), [""; 0], "nobody changed it through the overlay");
    s.view.set_metadata("", &mode(0o750)).unwrap();
    let root = VfsPath::root();
    s.overlay.set_xattr(root, b"user.note", b"mine", XattrMode::Set).unwrap();
    assert_eq!(report(&s.overlay), ["~ /"]);
    let kept = Arc::new(MemoryFs::new());
    s.overlay.keep(&*kept).unwrap();
    assert_eq!(report(&over(kept, s.lower.clone()).overlay), ["~ /"]);
    s.overlay.apply(&*s.lower).unwrap();
    assert_eq!(s.lower.metadata(VfsPath::root()).unwrap().mode, 0o750);
    assert_eq!(s.lower.xattrs(VfsPath::root()).unwrap(), [b"user.note"]);
    assert_eq!(report(&s.overlay), [""; 0]);
}

/// Each line: what the overlay's user does, what others do beneath it, and the conflicts.
#[test]
fn what_others_changed_meanwhile_is_not_overwritten() {
    type Do = fn(&Vfs) -> stratafs::Result<()>;
    let cases: [(&str, Do, Do, &[&str]); 14] = [
        ("both edit", |v| v.write("f", "in"), |v| v.write("f", "out"), &["changed   f"]),
        ("edit, removed", |v| v.write("f", "in"), |v| v.remove_file("f"), &["vanished  f"]),
        ("removed, edit", |v| v.remove_file("f"), |v| v.write("f", "out"), &["changed   f"]),
        ("both remove", |v| v.remove_file("f"), |v| v.remove_file("f"), &[]),
        ("renamed, edit", |v| v.rename("f", "g"), |v| v.write("f", "out"), &["changed   f"]),
        ("renamed, removed", |v| v.rename("f", "g"), |v| v.remove_file("f"), &["vanished  f"]),
        ("both make", |v| v.write("g", "in"), |v| v.write("g", "out"), &["appeared  g"]),
        (
            "tree gone, new",
            |v| v.remove_dir_all("d"),
            |v| v.write("d/new", ""),
            &["appeared  d/new"],
        ),
        (
            "tree gone, deep",
            |v| v.remove_dir_all("d"),
            |v| v.write("d/sub/new", ""),
            &["appeared  d/sub/new"],
        ),
        (
            "made anew, new",
            |v| v.remove_dir_all("d").and_then(|()| v.create_dir("d")),
            |v| v.write("d/new", ""),
            &["appeared  d/new"],
        ),
        ("replaced", |v| v.rename("f", "d/a"), |v| v.write("d/a", "out"), &["changed   d/a"]),
        ("moved tree, new", |v| v.rename("d", "e"), |v| v.write("d/new", ""), &[]),
        ("moved onto new", |v| v.rename("d", "e"), |v| v.create_dir("e"), &["appeared  e"]),
        ("side by side", |v| v.write("d/mine", ""), |v| v.write("d/theirs", ""), &[]),
    ];
    for (name, mine, theirs, expected) in cases {
        let s = stack(&["f", "d/a", "d/sub/b"]);
        let lower = mounted(s.lower.clone());
        mine(&s.view).unwrap();
        theirs(&lower).unwrap();
        let conflicts = s.overlay.conflicts().unwrap();
        let told: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{name}");
        let names = || -> Vec<_> {
            let walk = lower.walk("").unwrap().map(|entry| entry.unwrap().path);
            walk.filter(|path| !path.is_root()).map(|path| (lower.read(&path).ok(), path)).collect()
        };
        let before = names();
        let applied = s.overlay.apply(&*s.lower);
        if !expected.is_empty() {
            let error = applied.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{name}");
            assert!(error.to_string().contains(expected[0]), "{name}: {error}");
            assert_eq!(names(), before, "{name}: something was applied");
            s.overlay.apply_over(&*s.lower, &|_| ()).unwrap();
        } else {
            applied.unwrap();
        }
        assert_eq!(s.overlay.conflicts().unwrap(), [], "{name}: applied by now");
    }
}

#[test]
fn others_metadata_and_what_was_seen_before_count() {
    let s = stack(&["f", "d/a"]);
    let lower = mounted(s.lower.clone());
    lower.write("f", "seen").unwrap();
    s.view.write("f", "edited").unwrap();
    s.view.write("d/a", "edited").unwrap();
    assert_eq!(s.overlay.conflicts().unwrap(), [], "changed before it was copied up");
    for path in ["", "d"] {
        lower.set_metadata(path, &MetadataChange::new().mode(0o711)).unwrap();
    }
    let told: Vec<_> = s.overlay.conflicts().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["changed   ./", "changed   d"]);
}
