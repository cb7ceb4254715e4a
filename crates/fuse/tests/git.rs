//! git agrees with itself: the same commands give the same objects and the same answers on a
//! mount and on tmpfs.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs};
use support::{Mounted, like_a_disk, memory_over, run};

const SCRIPT: &str = r#"
set -e
mkdir repository && cd repository
git init -q -b main .
for i in $(seq 100); do mkdir -p d$((i % 7)); echo "file $i" > d$((i % 7))/f$i; done
chmod +x d1/f1
ln -s d1/f1 link
git add -A
git commit -qm one
git checkout -q -b other
for i in $(seq 1 3 100); do echo more >> d$((i % 7))/f$i; done
git mv d2/f2 d3/moved
git rm -q d5/f5
git commit -qam two
git gc -q
git checkout -q main
git merge -q other
git fsck --strict
git status --porcelain
git log --format='%H %s'
git ls-files -s
git checkout -q HEAD~1
git status --porcelain
git clean -fdx
git reset -q --hard main
git status --porcelain
find . -path ./.git -prune -o -printf '%p %y %m %l\n' | sort
"#;

fn transcript(directory: &Path) -> String {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(SCRIPT).current_dir(directory);
    for (name, value) in [
        ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
        ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("LC_ALL", "C"),
    ] {
        shell.env(name, value);
    }
    run(&mut shell)
}

fn compare(fs: Arc<dyn FileSystem>) {
    let Some(mounted) = Mounted::new(fs, &like_a_disk()) else { return };
    let reference = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    let expected = transcript(reference.path());
    assert!(expected.contains(" two\n"));
    assert_eq!(transcript(mounted.path()), expected);
}

#[test]
fn memory() {
    compare(Arc::new(MemoryFs::new()));
}

#[test]
fn native() {
    let directory = tempfile::tempdir().unwrap();
    compare(Arc::new(NativeFs::new(directory.path()).unwrap()));
}

#[test]
fn memory_over_native() {
    let directory = tempfile::tempdir().unwrap();
    compare(memory_over(directory.path()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
