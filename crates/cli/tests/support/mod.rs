//! The program, run for a test.

#![allow(dead_code)] // each test file uses its part

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Whether mounting tests were asked to be left out; says so.
pub fn skipped() -> bool {
    let skip = std::env::var_os("STRATA_SKIP_MOUNT_TESTS").is_some_and(|value| value == "1");
    if skip {
        eprintln!("SKIPPED: STRATA_SKIP_MOUNT_TESTS=1, so nothing was mounted or tested");
    }
    skip
}

/// Waits until something is so, at most half a minute.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 30 seconds: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `strata` with these arguments, in this directory, without a terminal.
pub fn strata(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command.args(arguments).current_dir(directory).stdin(std::process::Stdio::null());
    command
}

/// `strata` as a user without privileges, in a directory that everybody may change from now on.
/// Arguments are still to be given.
pub fn as_user(directory: &Path) -> Command {
    assert!(rustix::process::geteuid().is_root(), "this test becomes another user: run as root");
    std::fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    // Where the program was built, others may have no access.
    let program = directory.join("strata");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_strata"), &program).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command.current_dir(directory).stdin(std::process::Stdio::null());
    command
}

/// The objects of `--json`.
pub fn lines_of_json(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Runs it and gives what it said; panics with all of it unless it ended with `code`.
#[track_caller]
pub fn ends_with(code: i32, mut command: Command) -> (String, String) {
    let output: Output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}:\n{text}\n{errors}\n(A test that mounts needs /dev/fuse and root or \
         fusermount3; STRATA_SKIP_MOUNT_TESTS=1 leaves such tests out.)"
    );
    (text, errors)
}

/// Whether something is mounted at the path, as this process sees it.
pub fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

/// A directory that is unmounted when the test ends, however it ends.
pub struct Mountpoint(tempfile::TempDir);

impl Mountpoint {
    pub fn new() -> Self {
        Mountpoint(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn text(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

impl Drop for Mountpoint {
    fn drop(&mut self) {
        if is_mounted(self.path()) {
            // The test has failed already, and its own message is the one to see.
            let _ = stratafs_fuse::unmount(self.path(), true);
        }
    }
}
