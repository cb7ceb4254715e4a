//! Mounts come and go cleanly.

mod support;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stratafs::MemoryFs;
use stratafs_fuse::{Mount, MountError, MountOptions};
use support::Mounted;

fn is_listed(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

#[test]
fn dropping_unmounts() {
    let options = MountOptions::new();
    let Some(mounted) = Mounted::new(Arc::new(MemoryFs::new()), &options) else { return };
    let path = mounted.path().to_owned();
    assert!(is_listed(&path));
    drop(mounted);
    assert!(!is_listed(&path) && !path.exists());
}

#[test]
fn a_mount_in_use_is_not_taken_away() {
    let options = MountOptions::new();
    let Some(mut mounted) = Mounted::new(Arc::new(MemoryFs::new()), &options) else { return };
    let file = fs::File::create(mounted.path().join("file")).unwrap();
    let error = mounted.mount().unmount().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(mounted.mount().is_mounted());
    drop(file);
    mounted.mount().unmount().unwrap();
    assert!(!mounted.mount().is_mounted() && !is_listed(mounted.path()));
}

#[test]
fn an_idle_mount_goes_by_itself_but_not_while_a_file_is_open() {
    let options = MountOptions::new().idle_timeout(Some(Duration::from_millis(200)));
    let Some(mut mounted) = Mounted::new(Arc::new(MemoryFs::new()), &options) else { return };
    let file = fs::File::create(mounted.path().join("file")).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    assert!(mounted.mount().is_mounted());
    drop(file);
    let deadline = Instant::now() + Duration::from_secs(30);
    while mounted.mount().is_mounted() {
        assert!(Instant::now() < deadline, "still mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!is_listed(mounted.path()));
}

#[test]
fn a_place_that_cannot_be_mounted_on_is_named() {
    let mount = |path: &Path| Mount::new(Arc::new(MemoryFs::new()), path, &MountOptions::new());
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let error = mount(&missing).unwrap_err();
    assert!(matches!(error, MountError::Mountpoint(..)));
    assert!(error.to_string().contains("missing"), "{error}");
    fs::write(directory.path().join("file"), "").unwrap();
    let error = mount(&directory.path().join("file")).unwrap_err();
    assert!(matches!(error, MountError::Mountpoint(..)), "{error}");
}
