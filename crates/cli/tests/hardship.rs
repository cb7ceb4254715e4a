//! A mount whose process runs out of something, or is killed.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use support::{Mountpoint, ends_with, is_mounted, skipped, strata};

/// A process that serves a mount, ended with the test.
struct Server(Child);

impl Server {
    /// Starts `strata mount` in the foreground and waits until it serves.
    fn start(mut command: Command) -> Server {
        let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        Server(server)
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn native(directory: &Path) -> String {
    format!("native:{}", directory.display())
}

/// Every name below, with contents.
fn contents(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
            )),
        }
    }
    found.sort();
    found
}

#[test]
fn a_killed_server_loses_nothing_and_its_mount_is_removed() {
    if skipped() {
        return;
    }
    let (place, at) = (tempfile::tempdir().unwrap(), Mountpoint::new());
    let layer = native(place.path());
    let arguments = ["mount", "--foreground", "--layer", &layer, at.text()];
    let mut server = Server::start(strata(place.path(), &arguments));
    fs::write(at.path().join("file"), "written").unwrap();
    let open = File::open(at.path().join("file")).unwrap();
    server.signal(Signal::KILL);
    assert!(is_mounted(at.path()));
    let error = fs::read_dir(at.path()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    drop(open);
    ends_with(0, strata(place.path(), &["umount", at.text()]));
    assert!(!is_mounted(at.path()));
    assert_eq!(contents(place.path()), [("file".to_owned(), "written".to_owned())]);
}

/// A file that is open through a mount is open in the serving process. One that cannot be
/// opened any more is refused by that very error, and nothing else is harmed.
#[test]
fn a_server_without_descriptors_says_so_and_goes_on() {
    if skipped() {
        return;
    }
    let (lower, upper) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = Mountpoint::new();
    for name in ["one", "other"] {
        fs::create_dir(lower.path().join(name)).unwrap();
        fs::write(lower.path().join(name).join(format!("in-{name}")), name).unwrap();
    }
    let before = contents(lower.path());
    let mut command = Command::new("prlimit");
    command.args(["--nofile=64:64", env!("CARGO_BIN_EXE_strata"), "mount", "--foreground"]);
    command.args(["--layer", &native(lower.path()), "--layer", &native(upper.path())]);
    command.arg(at.path()).stdin(Stdio::null());
    let mut server = Server::start(command);

    fs::write(at.path().join("held"), "held").unwrap();
    let mut open = Vec::new();
    let refused = loop {
        match File::open(at.path().join("held")) {
            Ok(file) => open.push(file),
            Err(error) => break error,
        }
        assert!(open.len() < 64, "more files are open than the process may have");
    };
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    // Making, copying up and listing take descriptors as well, and so may asking.
    let failures = [
        fs::write(at.path().join("new"), "x"),
        fs::write(at.path().join("one/in-one"), "changed"),
        fs::read_dir(at.path().join("one")).and_then(|mut list| list.next().unwrap().map(drop)),
    ];
    for failure in failures {
        assert_eq!(failure.unwrap_err().raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
    assert!(at.path().join("one").is_dir() && !at.path().join("missing").exists());
    if let Err(error) = fs::metadata(at.path().join("other/in-other")) {
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
    for file in &open {
        assert_eq!(std::io::read_to_string(file).unwrap(), "held");
    }

    drop(open);
    assert_eq!(fs::read_to_string(at.path().join("one/in-one")).unwrap(), "one");
    fs::write(at.path().join("one/in-one"), "changed").unwrap();
    fs::write(at.path().join("new"), "x").unwrap();
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 4);
    assert!(server.signal(Signal::TERM).success());
    assert_eq!(contents(lower.path()), before);
    let kept: Vec<_> = contents(upper.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, ["held", "in-one", "new"]);
}

/// Without inotify watches nothing is kept, everything is right, and what others change shows
/// within a second as on any tree that does not report.
#[test]
fn a_server_without_watches_serves_all_the_same() {
    if skipped() {
        return;
    }
    let (place, at) = (tempfile::tempdir().unwrap(), Mountpoint::new());
    fs::create_dir_all(place.path().join("a/b/c")).unwrap();
    fs::write(place.path().join("a/b/c/file"), "old\n").unwrap();
    // In a user namespace of its own the limit is its own.
    let script = r#"
        set -e
        echo 2 > /proc/sys/user/max_inotify_watches
        "$STRATA" mount --layer "native:$PLACE" "$AT"
        trap '"$STRATA" umount --lazy "$AT"' EXIT
        cat "$AT/a/b/c/file"
        test ! -e "$AT/a/b/c/new"
        echo changed > "$PLACE/a/b/c/file"
        echo new > "$PLACE/a/b/c/new"
        mv "$PLACE/a/b/c" "$PLACE/a/moved"
        sleep 1.1
        cat "$AT/a/moved/file" "$AT/a/moved/new"
        test ! -e "$AT/a/b/c"
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    shell.env("STRATA", env!("CARGO_BIN_EXE_strata"));
    shell.env("PLACE", place.path()).env("AT", at.path()).stdin(Stdio::null());
    let (said, _) = ends_with(0, shell);
    assert_eq!(said, "old\nchanged\nnew\n");
}
