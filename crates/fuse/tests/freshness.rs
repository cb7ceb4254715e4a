//! A tree that others change: the kernel keeps what it has learnt, and is told of each change.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stratafs::{
    FileSystem, MemoryFs, MetadataChange, NativeFs, OverlayFs, RenameMode, TracedFs, Vfs,
};
use stratafs_fuse::Freshness;
use support::{Mounted, like_a_disk};

/// Longer than the kernel keeps anything of a tree without reports, and much shorter than it
/// keeps what it may rely on.
const PATIENCE: Duration = Duration::from_secs(20);

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A backend as a tree of its own.
fn whole(backend: Arc<dyn FileSystem>) -> Vfs {
    let tree = Vfs::new();
    tree.mount("", backend, stratafs::MountOptions::new()).unwrap();
    tree
}

struct Tree {
    mounted: Mounted,
    traced: Arc<TracedFs>,
    /// What is changed behind the mount's back.
    outside: Vfs,
}

impl Tree {
    /// `shown` through a mount; `outside` is it, or a layer of it.
    fn new(shown: Arc<dyn FileSystem>, outside: Arc<dyn FileSystem>) -> Option<Tree> {
        let tree = whole(outside);
        tree.create_dir("dir").unwrap();
        for name in ["changed", "gone", "replaced", "dir/below", "closed"] {
            tree.write(name, "old").unwrap();
        }
        let traced = Arc::new(TracedFs::new(shown));
        let options = like_a_disk().freshness(Freshness::Shared);
        let mounted = Mounted::new(traced.clone(), &options)?;
        Some(Tree { mounted, traced, outside: tree })
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.mounted.path().join(path)
    }

    fn look(&self) {
        for name in ["changed", "gone", "replaced", "dir/below", "closed"] {
            assert_eq!(fs::read_to_string(self.at(name)).unwrap(), "old", "{name}");
        }
        for name in ["new", "new-dir", "dir/new"] {
            assert!(!self.at(name).exists(), "{name}");
        }
    }

    fn questions(&self) -> u64 {
        let trace = self.traced.snapshot();
        trace
            .rows
            .iter()
            .filter(|row| row.operation.ends_with("metadata"))
            .map(|row| row.calls)
            .sum()
    }

    /// Looks until the kernel answers by itself for longer than it would without reports.
    fn wait_until_kept(&self) {
        wait_until("kept by the kernel", || {
            self.look();
            let before = self.questions();
            std::thread::sleep(Duration::from_millis(1200));
            self.look();
            self.questions() == before
        });
    }
}

fn others_change(tree: &Tree) {
    tree.wait_until_kept();
    let open = File::open(tree.at("changed")).unwrap();
    let outside = &tree.outside;
    let reads =
        |name: &str, text: &str| fs::read_to_string(tree.at(name)).is_ok_and(|found| found == text);

    outside.write("changed", "and longer").unwrap();
    wait_until("new contents", || reads("changed", "and longer"));
    wait_until("new length of an open file", || open.metadata().unwrap().len() == 10);
    outside.write("new", "made").unwrap();
    wait_until("a name that was known to be missing", || reads("new", "made"));
    outside.write("dir/new", "made").unwrap();
    wait_until("the same in a directory", || reads("dir/new", "made"));
    outside.remove_file("gone").unwrap();
    wait_until("a removal", || !tree.at("gone").exists());
    outside.write("spare", "replacement").unwrap();
    outside.rename_with("spare", "replaced", RenameMode::Replace).unwrap();
    wait_until("a replacement", || reads("replaced", "replacement"));
    outside.set_metadata("closed", &MetadataChange::new().mode(0o600)).unwrap();
    wait_until("a mode", || tree.at("closed").metadata().unwrap().mode() & 0o777 == 0o600);
    outside.create_dir("new-dir").unwrap();
    outside.write("new-dir/file", "made").unwrap();
    wait_until("a directory with contents", || reads("new-dir/file", "made"));
    outside.rename("dir", "moved").unwrap();
    wait_until("a renamed directory", || !tree.at("dir").exists() && reads("moved/below", "old"));
}

/// What is done through the mount itself needs no report to be right, and late reports of it do
/// no harm.
fn own_changes_stand(root: &Path) {
    let at = |name: &str| root.join("own").join(name);
    fs::create_dir(at("")).unwrap();
    for round in 0..100 {
        let text = format!("{round}");
        fs::write(at("file"), &text).unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), text);
        fs::rename(at("file"), at("other")).unwrap();
        assert!(!at("file").exists());
        fs::set_permissions(at("other"), fs::Permissions::from_mode(0o600 | (round & 7))).unwrap();
        assert_eq!(at("other").metadata().unwrap().mode() & 7, round & 7);
        fs::create_dir(at("sub")).unwrap();
        assert!(!at("sub/missing").exists());
        fs::write(at("sub/missing"), "").unwrap();
        assert!(at("sub/missing").exists());
        fs::remove_dir_all(at("sub")).unwrap();
    }
    // A new directory that somebody works in keeps its path.
    let script = "for i in $(seq 50); do mkdir d$i; cd d$i; mkdir x; /bin/pwd; cd ..; done";
    let mut shell = std::process::Command::new("sh");
    let said = support::run(shell.args(["-e", "-c", script]).current_dir(at("")));
    assert_eq!(said.lines().count(), 50);
}

#[test]
fn changes_of_a_memory_tree_are_seen() {
    let memory = Arc::new(MemoryFs::new());
    let Some(tree) = Tree::new(memory.clone(), memory) else { return };
    others_change(&tree);
}

#[test]
fn changes_of_a_directory_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(NativeFs::new(directory.path()).unwrap());
    let Some(tree) = Tree::new(open(), open()) else { return };
    others_change(&tree);
    own_changes_stand(tree.mounted.path());
}

#[test]
fn changes_of_a_lower_layer_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(NativeFs::new(directory.path()).unwrap());
    let overlay =
        OverlayFs::builder().upper(Arc::new(MemoryFs::new())).lower(open()).build().unwrap();
    let Some(tree) = Tree::new(Arc::new(overlay), open()) else { return };
    others_change(&tree);
}

/// Each of two mounts hears of what came through the other.
#[test]
fn two_mounts_of_one_tree_agree() {
    let memory = Arc::new(MemoryFs::new());
    let Some(tree) = Tree::new(memory.clone(), memory.clone()) else { return };
    let options = like_a_disk().freshness(Freshness::Shared);
    let Some(other) = Mounted::new(memory, &options) else { return };
    tree.wait_until_kept();
    fs::write(other.path().join("changed"), "there").unwrap();
    fs::write(other.path().join("new"), "").unwrap();
    let seen =
        || fs::read_to_string(tree.at("changed")).unwrap() == "there" && tree.at("new").exists();
    wait_until("what the other mount wrote", seen);
}

/// A backend that is mounted while the kernel looks on shows, and is listened to.
#[test]
fn a_later_mount_is_seen() {
    let memory: Arc<dyn FileSystem> = Arc::new(MemoryFs::new());
    let (shown, late) = (Arc::new(Vfs::new()), Arc::new(MemoryFs::new()));
    shown.mount("", memory.clone(), stratafs::MountOptions::new()).unwrap();
    let Some(tree) = Tree::new(shown.tree(), memory) else { return };
    tree.wait_until_kept();
    assert!(!tree.at("late").exists());
    let id = shown.mount("late", late.clone(), stratafs::MountOptions::new()).unwrap();
    wait_until("the mount", || tree.at("late").is_dir());
    tree.wait_until_kept();
    assert!(!tree.at("late/new").exists());
    whole(late).write("new", "").unwrap();
    wait_until("a file of the mount", || tree.at("late/new").exists());
    shown.unmount(id).unwrap();
    wait_until("the end of the mount", || !tree.at("late").exists());
}

/// Writes by one of a file's names are not reported for its others: asked for each second.
#[test]
fn a_file_of_several_names_is_not_kept_long() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("tree")).unwrap();
    fs::write(directory.path().join("outside"), "old").unwrap();
    fs::hard_link(directory.path().join("outside"), directory.path().join("tree/inside")).unwrap();
    let native = Arc::new(NativeFs::new(directory.path().join("tree")).unwrap());
    let options = like_a_disk().freshness(Freshness::Shared);
    let Some(mounted) = Mounted::new(native, &options) else { return };
    let inside = mounted.path().join("inside");
    assert_eq!(fs::read_to_string(&inside).unwrap(), "old");
    fs::write(directory.path().join("outside"), "and longer").unwrap();
    wait_until("new contents", || fs::read_to_string(&inside).unwrap() == "and longer");
}
