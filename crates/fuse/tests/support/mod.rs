//! A mount for a test: unmounted when the test ends, however it ends.

#![allow(dead_code)] // each test file uses its part

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs, OverlayFs};
use stratafs_fuse::{Mount, MountOptions};

/// Set to `1` on a machine that cannot mount: the tests then say so and pass.
const SKIP: &str = "STRATA_SKIP_MOUNT_TESTS";

pub struct Mounted {
    // Dropped in this order: a directory with a mount on it cannot be removed.
    mount: Mount,
    directory: tempfile::TempDir,
}

impl Mounted {
    /// Mounts, or explains what is missing; `None` only where skipping was asked for.
    pub fn new(fs: Arc<dyn FileSystem>, options: &MountOptions) -> Option<Mounted> {
        if std::env::var_os(SKIP).is_some_and(|value| value == "1") {
            eprintln!("SKIPPED: {SKIP}=1, so nothing was mounted and nothing was tested");
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        match Mount::new(fs, directory.path(), options) {
            Ok(mount) => Some(Mounted { mount, directory }),
            Err(error) => panic!(
                "this test mounts a real file system and could not: {error}\n\
                 Give it /dev/fuse and the right to mount (root, or fusermount3), or set \
                 {SKIP}=1 to leave such tests out."
            ),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn mount(&mut self) -> &mut Mount {
        &mut self.mount
    }
}

/// A memory layer over a directory of this machine.
pub fn memory_over(directory: &Path) -> Arc<dyn FileSystem> {
    let overlay = OverlayFs::builder()
        .upper(Arc::new(MemoryFs::new()))
        .lower(Arc::new(NativeFs::new(directory).unwrap()))
        .build()
        .unwrap();
    Arc::new(overlay)
}

/// Runs a test through mounts of memory, of a directory, and of memory over a directory.
pub fn on_each_tree(test: impl Fn(&Path)) {
    let (alone, lower) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trees: [(&str, Arc<dyn FileSystem>); 3] = [
        ("memory", Arc::new(MemoryFs::new())),
        ("native", Arc::new(NativeFs::new(alone.path()).unwrap())),
        ("memory over native", memory_over(lower.path())),
    ];
    for (name, fs) in trees {
        let Some(mounted) = Mounted::new(fs, &like_a_disk()) else { return };
        // Shown when the test fails.
        println!("on {name}:");
        test(mounted.path());
    }
}

/// What the machine's own users get: everybody in, everything honoured.
pub fn like_a_disk() -> MountOptions {
    let mut options = MountOptions::new().allow_other(true);
    options.set_user_id = true;
    options.devices = true;
    options
}

/// A test program: from `STRATA_TOOLS` (a directory) or `PATH`.
pub fn tool(name: &str) -> PathBuf {
    let places = std::env::var_os("STRATA_TOOLS")
        .into_iter()
        .map(PathBuf::from)
        .chain(std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect::<Vec<_>>());
    for place in places {
        let program = place.join(name);
        if program.is_file() {
            return program;
        }
    }
    panic!("the test program `{name}` is missing: `cargo xtask setup` installs it");
}

/// Runs a program and gives its output; panics with all of it when it fails.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed ({}):\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
