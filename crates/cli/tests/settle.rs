//! Whatever fails, the changes of `strata run` are dropped on demand only.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::{Mountpoint, ends_with, skipped, strata, wait_until};

/// A run whose command changes something and then waits for its input to end.
fn paused(directory: &Path, flags: &[&str], temporary: &Path) -> Child {
    let mut arguments = vec!["run"];
    arguments.extend(flags);
    arguments.extend(["--", "sh", "-ec", "echo new > new; echo ready; cat > /dev/null"]);
    let mut child = strata(directory, &arguments)
        .env("TMPDIR", temporary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    child
}

/// The only directory of kept changes in a place.
fn kept_in(place: &Path) -> Option<PathBuf> {
    let mut found = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let kept = found.find(|path| path.file_name().unwrap().to_str().unwrap().contains("kept"));
    kept.filter(|kept| kept.join("new").exists())
}

#[test]
fn changes_that_cannot_be_applied_are_kept() {
    if skipped() {
        return;
    }
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let work = place.path().join("work");
    fs::create_dir(&work).unwrap();
    let child = paused(&work, &["--apply"], temporary.path());
    fs::remove_dir(&work).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    let kept = kept_in(temporary.path()).unwrap();
    assert!(said.contains("not applied") && said.contains(kept.to_str().unwrap()), "{said}");
    assert_eq!(fs::read_to_string(kept.join("new")).unwrap(), "new\n");
}

#[test]
fn where_there_is_no_temporary_directory_another_place_is_found() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut command = strata(place.path(), &["run", "--", "sh", "-c", "echo new > new"]);
    command.env("TMPDIR", place.path().join("missing"));
    let (_, said) = ends_with(0, command);
    let kept = said.split("kept in ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(fs::read_to_string(Path::new(kept).join("new")).unwrap(), "new\n");
    fs::remove_dir_all(kept).unwrap();
}

/// What is kept is not put into the directory that is to stay as it is.
#[test]
fn changes_are_kept_outside_of_the_directory() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("tmp")).unwrap();
    let mut command = strata(place.path(), &["run", "--", "sh", "-c", "echo new > new"]);
    command.env("TMPDIR", place.path().join("tmp"));
    let (_, said) = ends_with(0, command);
    assert_eq!(fs::read_dir(place.path().join("tmp")).unwrap().count(), 0, "{said}");
    let kept = said.split("kept in ").nth(1).unwrap().split(';').next().unwrap();
    fs::remove_dir_all(kept).unwrap();
}

/// Names forge no lines of the report.
#[test]
fn odd_names_are_escaped() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = r#"touch "$(printf 'x\n  deleted   y\033[2J')""#;
    let arguments = ["run", "--discard", "--", "sh", "-c", script];
    let (_, said) = ends_with(0, strata(place.path(), &arguments));
    assert!(said.contains(r"  added     x\n  deleted   y\u{1b}[2J"), "{said}");
}

/// The directory fails altogether, as a network file system may: the changes cannot even be
/// compared with it.
#[test]
fn changes_over_a_directory_that_fails_are_kept() {
    if skipped() {
        return;
    }
    let (base, temporary, at) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Mountpoint::new());
    fs::create_dir(base.path().join("d")).unwrap();
    let layer = stratafs_cli::stack::native_spec(base.path());
    let arguments = ["mount", "--foreground", "--layer", &layer, at.text()];
    let mut server = strata(base.path(), &arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("serving"), "{line}");
    let child = paused(at.path(), &["--apply"], temporary.path());
    server.kill().unwrap();
    server.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(kept_in(temporary.path()).is_some(), "{said}");
    stratafs_fuse::unmount(at.path(), true).unwrap();
}

#[test]
fn nobody_needs_to_listen() {
    if skipped() {
        return;
    }
    for json in [false, true] {
        let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let flags = if json { &["--json", "--apply"][..] } else { &["--apply"] };
        let mut child = paused(place.path(), flags, temporary.path());
        drop((child.stdout.take(), child.stderr.take()));
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(fs::read_to_string(place.path().join("new")).unwrap(), "new\n");
    }
}

#[test]
fn a_parent_that_ignores_its_children_loses_nothing() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_strata"), "run", "--apply", "--"]);
    command.args(["sh", "-c", "echo new > new"]).current_dir(place.path());
    ends_with(0, command);
    assert!(place.path().join("new").exists());
}

#[test]
fn a_full_memory_is_a_full_disk_to_the_command() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = "echo small > small; head -c 3000000 /dev/zero > big || rm big; cat small";
    let arguments = ["run", "--memory", "1M", "--apply", "--", "sh", "-c", script];
    let (seen, said) = ends_with(0, strata(place.path(), &arguments));
    assert_eq!(seen, "small\n");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(place.path().join("small").exists() && !place.path().join("big").exists());
    ends_with(2, strata(place.path(), &["run", "--memory", "much", "--", "true"]));
}

/// Nothing is applied by halves, and what does not fit is kept.
#[test]
fn a_full_disk_leaves_the_directory_as_it_was() {
    if skipped() {
        return;
    }
    assert!(rustix::process::geteuid().is_root(), "this test mounts small disks: run as root");
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = r#"
        mount --make-rprivate /
        mount -t tmpfs -o size=1m none . && cd "$PWD"
        mkdir old; echo 1 > old/f; echo 2 > gone
        "$0" run --apply -- sh -ec 'mv old new; rm gone; head -c 3000000 /dev/zero > new/big' || echo $?
        find . | sort; cat old/f gone
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, env!("CARGO_BIN_EXE_strata")]);
    command.current_dir(place.path()).env("TMPDIR", temporary.path());
    let (seen, said) = ends_with(0, command);
    assert_eq!(seen, "125\n.\n./gone\n./old\n./old/f\n1\n2\n", "{said}");
    let big = place.path().join("new/big");
    assert!(said.contains(&format!("not applied: {}: no space left", big.display())), "{said}");
    let kept = fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(kept.join("new/big").metadata().unwrap().len(), 3_000_000);
}

/// Every place for temporary files is full; then there is room.
#[test]
fn changes_wait_for_room() {
    if skipped() {
        return;
    }
    assert!(rustix::process::geteuid().is_root(), "this test mounts small disks: run as root");
    let script = r#"
        mount --make-rprivate /
        mount -t tmpfs none /mnt
        cp "$1" /mnt/strata
        mkdir /mnt/work && cd /mnt/work
        for place in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o size=16k none $place; done
        unset TMPDIR
        exec /mnt/strata run --no-prompt -- sh -c 'head -c 200000 /dev/zero > new'
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh", env!("CARGO_BIN_EXE_strata")]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("there is room") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the changes are gone");
    }
    let mut more = Command::new("nsenter");
    more.args(["--mount", "--target", &child.id().to_string()]);
    more.args(["mount", "-o", "remount,size=1m", "none", "/var/tmp"]);
    ends_with(0, more);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(125), "{rest}");
    assert!(rest.contains("kept in /var/tmp/"), "{rest}");
}

/// The program at a terminal of its own.
fn at_a_terminal(directory: &Path, temporary: &Path) -> Child {
    let program = env!("CARGO_BIN_EXE_strata");
    let command = format!("exec '{program}' run -- sh -c 'echo new > new'");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(directory);
    script.env("TMPDIR", temporary).env("SHELL", "/bin/sh");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads what the terminal shows until the question is there.
fn read_question(terminal: &mut Child) -> String {
    let (stdout, mut shown) = (terminal.stdout.as_mut().unwrap(), Vec::new());
    while !shown.ends_with(b"[s]how again: ") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_person_at_a_terminal_decides() {
    if skipped() {
        return;
    }
    // What is typed, whether it is applied, and whether it is kept.
    for (typed, applied, kept) in [
        ("what\ns\na\n", true, false),
        ("discard\n", false, false),
        ("k\n", false, true),
        ("\u{3}", false, true),
        ("\u{4}", false, true),
    ] {
        let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut terminal = at_a_terminal(place.path(), temporary.path());
        let shown = read_question(&mut terminal);
        assert!(shown.contains("added     new"), "{shown}");
        terminal.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
        // The other end stays open until the program has ended.
        let mut rest = String::new();
        terminal.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(terminal.wait().unwrap().code(), Some(0), "{rest}");
        assert_eq!(place.path().join("new").exists(), applied, "{typed:?}: {rest}");
        assert_eq!(kept_in(temporary.path()).is_some(), kept, "{typed:?}: {rest}");
    }
}

#[test]
fn a_terminal_that_goes_away_leaves_the_changes_kept() {
    if skipped() {
        return;
    }
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut terminal = at_a_terminal(place.path(), temporary.path());
    read_question(&mut terminal);
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    wait_until("the changes are kept", || kept_in(temporary.path()).is_some());
}

/// Changes on both sides: what the command does, and what others do while it waits.
fn contested(directory: &Path, flags: &[&str], temporary: &Path) -> (Option<i32>, String) {
    fs::write(directory.join("a"), "before\n").unwrap();
    fs::create_dir(directory.join("dir")).unwrap();
    let script = "echo inside > a; echo inside > new; rm -r dir; echo ready; cat > /dev/null";
    let arguments = [&["run"], flags, &["--", "sh", "-ec", script]].concat();
    let mut child = strata(directory, &arguments)
        .env("TMPDIR", temporary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    fs::write(directory.join("a"), "outside\n").unwrap();
    fs::write(directory.join("new"), "outside\n").unwrap();
    fs::write(directory.join("dir/precious"), "outside\n").unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_others_changed_during_a_run_is_overwritten_by_force_only() {
    if skipped() {
        return;
    }
    let contents = |place: &Path, name: &str| fs::read_to_string(place.join(name)).ok();
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (code, said) = contested(place.path(), &["--apply"], temporary.path());
    assert_eq!(code, Some(125), "{said}");
    for line in ["\n  changed   a\n", "\n  appeared  new\n", "\n  appeared  dir/precious\n"] {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }
    for name in ["a", "new", "dir/precious"] {
        assert_eq!(contents(place.path(), name).as_deref(), Some("outside\n"), "{name}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3, "nothing else is left there");
    let kept = kept_in(temporary.path()).unwrap();
    assert_eq!(contents(&kept, "a").as_deref(), Some("inside\n"));

    let place = tempfile::tempdir().unwrap();
    let (code, said) = contested(place.path(), &["--apply", "--force"], temporary.path());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(contents(place.path(), "a").as_deref(), Some("inside\n"));
    assert!(!place.path().join("dir").exists(), "{said}");
}

#[test]
fn files_without_contents_are_bounded_too() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 3000 ] && true > $i; do i=$((i + 1)); done; [ $i -gt 2000 ]";
    let arguments = ["run", "--memory", "1M", "--discard", "--", "sh", "-c", script];
    let (_, said) = ends_with(0, strata(place.path(), &arguments));
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn a_mount_in_the_directory_stops_what_would_meet_it() {
    if skipped() {
        return;
    }
    assert!(rustix::process::geteuid().is_root(), "this test mounts a small disk: run as root");
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(place.path().join("a/t")).unwrap();
    let script = r#"
        mount --make-rprivate /
        mount -t tmpfs none a/t; echo precious > a/t/f
        for change in 'rm -r a' 'mv a b' 'echo x > a/t/g'; do
            "$0" run --apply -- sh -c "$change" || echo $?
            cat a/t/f; ls -A . a/t
        done
        "$0" run --apply -- sh -c 'echo x > a/beside' && cat a/beside
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, env!("CARGO_BIN_EXE_strata")]);
    command.current_dir(place.path()).env("TMPDIR", temporary.path());
    let (seen, said) = ends_with(0, command);
    assert_eq!(seen, format!("{}x\n", "125\nprecious\n.:\na\n\na/t:\nf\n".repeat(3)), "{said}");
    let mount = place.path().join("a/t");
    let told = format!("not applied: {} is another mount", mount.display());
    assert_eq!(said.matches(&told).count(), 3, "{said}");
}

#[test]
fn without_a_namespace_on_demand_the_view_is_at_a_temporary_place() {
    if skipped() {
        return;
    }
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = "pwd; echo $STRATA_RUN; echo new > new";
    let mut command =
        strata(place.path(), &["run", "--no-namespace", "--apply", "--", "sh", "-c", script]);
    command.env("TMPDIR", temporary.path());
    let (seen, said) = ends_with(0, command);
    assert!(seen.starts_with(temporary.path().to_str().unwrap()), "{seen}{said}");
    assert_eq!(fs::read_to_string(place.path().join("new")).unwrap(), "new\n");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
}
