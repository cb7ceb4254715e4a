//! POSIX conformance: what `pjdfstest` passes on tmpfs, it passes through a mount.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs};
use support::{Mounted, like_a_disk, memory_over, tool};

const CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Test names and whether each passed; those that were skipped are left out.
fn pjdfstest(directory: &Path) -> BTreeMap<String, bool> {
    let configuration = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(configuration.path(), CONFIGURATION).unwrap();
    let output = Command::new(tool("pjdfstest"))
        .arg("-c")
        .arg(configuration.path())
        .arg("-p")
        .arg(directory)
        .current_dir("/")
        .output()
        .expect("pjdfstest runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let results: BTreeMap<String, bool> = text
        .lines()
        .filter_map(|line| {
            let (name, result) = line.split_once(char::is_whitespace)?;
            match result.trim() {
                "ok" => Some((name.to_owned(), true)),
                "FAILED" => Some((name.to_owned(), false)),
                _ => None,
            }
        })
        .collect();
    assert!(results.len() > 300, "pjdfstest ran only {} tests:\n{text}", results.len());
    results
}

/// A directory on tmpfs, for comparison.
fn on_tmpfs() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm to compare with")
}

fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn compare(fs: Arc<dyn FileSystem>) {
    let Some(mounted) = Mounted::new(fs, &like_a_disk()) else { return };
    assert!(rustix::process::geteuid().is_root(), "pjdfstest changes users: run it as root");
    let reference = on_tmpfs();
    open_to_all(reference.path());
    open_to_all(mounted.path());
    let expected = pjdfstest(reference.path());
    let found = pjdfstest(mounted.path());
    let worse: Vec<&String> = expected
        .iter()
        .filter(|(name, passed)| **passed && found.get(*name) != Some(&true))
        .map(|(name, _)| name)
        .collect();
    assert!(worse.is_empty(), "pass on tmpfs and not here: {worse:#?}");
}

#[test]
fn memory_passes_what_tmpfs_passes() {
    compare(Arc::new(MemoryFs::new()));
}

#[test]
fn native_passes_what_tmpfs_passes() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    compare(Arc::new(NativeFs::new(directory.path()).unwrap()));
}

#[test]
fn memory_over_native_passes_what_tmpfs_passes() {
    let directory = tempfile::tempdir().unwrap();
    compare(memory_over(directory.path()));
}
