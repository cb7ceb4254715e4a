//! `strata run` carries real work and leaves the directory alone until told otherwise.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use support::{ends_with, is_mounted, skipped, strata};

/// A directory with a few files.
fn workplace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("edit"), "one\n").unwrap();
    fs::write(root.join("gone"), "gone\n").unwrap();
    fs::create_dir(root.join("old")).unwrap();
    fs::write(root.join("old/file"), "moved\n").unwrap();
    directory
}

fn sh(directory: &Path, flags: &[&str], script: &str) -> Command {
    let mut arguments = vec!["run"];
    arguments.extend(flags);
    arguments.extend(["--", "sh", "-ec", script]);
    strata(directory, &arguments)
}

const CHANGES: &str = "echo more >> edit; rm gone; mv old new; mkdir made; echo x > made/x";

#[test]
fn a_discarded_run_changes_nothing_and_says_what_it_did() {
    if skipped() {
        return;
    }
    let place = workplace();
    let script = format!("{CHANGES}; pwd; cat edit; ls");
    let (seen, said) = ends_with(0, sh(place.path(), &["--discard"], &script));
    let path = place.path().display();
    assert_eq!(seen, format!("{path}\none\nmore\nedit\nmade\nnew\n"));
    for line in [
        "modified  edit  9 B, was 4 B",
        "deleted   gone",
        "renamed   old/ -> new/",
        "made/  1 file",
    ] {
        assert!(said.contains(line), "{line} is missing in:\n{said}");
    }
    assert_eq!(fs::read_to_string(place.path().join("edit")).unwrap(), "one\n");
    assert!(place.path().join("gone").exists() && place.path().join("old/file").exists());
    assert!(!place.path().join("made").exists() && !is_mounted(place.path()));
}

#[test]
fn applied_changes_are_in_the_directory() {
    if skipped() {
        return;
    }
    let place = workplace();
    let script = format!("{CHANGES}; chmod 600 edit; ln -s edit link; ln edit twin");
    ends_with(0, sh(place.path(), &["--apply"], &script));
    let root = place.path();
    let edit = root.join("edit").metadata().unwrap();
    assert_eq!((edit.mode() & 0o777, edit.nlink()), (0o600, 2));
    assert_eq!(fs::read_to_string(root.join("twin")).unwrap(), "one\nmore\n");
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("edit"));
    assert_eq!(fs::read_to_string(root.join("new/file")).unwrap(), "moved\n");
    assert_eq!(fs::read_to_string(root.join("made/x")).unwrap(), "x\n");
    assert!(!root.join("gone").exists() && !root.join("old").exists());
    let left = fs::read_dir(root).unwrap().count();
    assert_eq!(left, 5, "nothing else is left behind");
}

#[test]
fn kept_changes_can_be_mounted_over_the_directory() {
    if skipped() {
        return;
    }
    let (place, other) = (workplace(), tempfile::tempdir().unwrap());
    let kept = other.path().join("kept");
    ends_with(0, sh(place.path(), &["--keep", kept.to_str().unwrap()], CHANGES));
    assert!(place.path().join("gone").exists());
    let at = support::Mountpoint::new();
    let layers = [place.path(), &kept].map(stratafs_cli::stack::native_spec);
    let arguments = ["mount", "--layer", &layers[0], "--layer", &layers[1], at.text()];
    ends_with(0, strata(other.path(), &arguments));
    assert_eq!(fs::read_to_string(at.path().join("edit")).unwrap(), "one\nmore\n");
    assert_eq!(fs::read_to_string(at.path().join("new/file")).unwrap(), "moved\n");
    assert!(!at.path().join("gone").exists() && !at.path().join("old").exists());
    ends_with(0, strata(other.path(), &["umount", at.text()]));
}

#[test]
fn without_a_decision_and_a_terminal_nothing_is_lost() {
    if skipped() {
        return;
    }
    let (place, temporary) = (workplace(), tempfile::tempdir().unwrap());
    let mut command = sh(place.path(), &[], "echo new > file");
    command.env("TMPDIR", temporary.path());
    let (_, said) = ends_with(0, command);
    let kept = fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap().path();
    assert!(said.contains(kept.to_str().unwrap()), "{said}");
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "new\n");
}

#[test]
fn changes_as_json() {
    if skipped() {
        return;
    }
    let place = workplace();
    let script = "printf 123 > new; mv edit moved; rm -r old; printf x > \"$(printf 'b\\377')\"";
    let (text, _) = ends_with(0, sh(place.path(), &["--json", "--discard"], script));
    assert_eq!(
        text,
        "{\"change\":\"added\",\"path\":\"b\u{fffd}\",\"path_hex\":\"62ff\",\"type\":\"file\",\
         \"size\":1}\n\
         {\"change\":\"renamed\",\"path\":\"moved\",\"from\":\"edit\",\"type\":\"file\",\
         \"old_size\":4,\"size\":4}\n\
         {\"change\":\"added\",\"path\":\"new\",\"type\":\"file\",\"size\":3}\n\
         {\"change\":\"deleted\",\"path\":\"old\",\"type\":\"directory\"}\n"
    );
}

#[test]
fn the_exit_code_is_the_commands() {
    if skipped() {
        return;
    }
    let place = workplace();
    ends_with(7, sh(place.path(), &["--discard"], "exit 7"));
    ends_with(143, sh(place.path(), &["--discard"], "kill -TERM $$"));
    ends_with(127, strata(place.path(), &["run", "--", "no-such-command"]));
    ends_with(126, strata(place.path(), &["run", "--", "./edit"]));
    let (_, said) = ends_with(125, strata(Path::new("/"), &["run", "--", "true"]));
    assert!(said.contains("root directory"), "{said}");
    ends_with(2, strata(place.path(), &["run", "--apply", "--discard", "--", "true"]));
}

#[test]
fn a_termination_is_passed_on() {
    if skipped() {
        return;
    }
    use std::io::Read;
    let place = workplace();
    let script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = sh(place.path(), &["--discard"], script)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 6]).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("caught\n", Some(5)));
}

#[test]
fn processes_left_in_the_background_are_cut_off() {
    if skipped() {
        return;
    }
    let place = workplace();
    let script = "exec 3> late; (sleep 60 <&- >/dev/null 2>&1 &) ; echo early > early";
    let (_, said) = ends_with(0, sh(place.path(), &["--apply"], script));
    assert!(said.contains("in the background"), "{said}");
    assert_eq!(fs::read_to_string(place.path().join("early")).unwrap(), "early\n");
}

#[test]
fn git_tar_sed_and_atomic_saves_work() {
    if skipped() {
        return;
    }
    let place = workplace();
    let script = r#"
        export GIT_CONFIG_GLOBAL=/dev/null
        git init -q -b main . && git add -A
        git -c user.name=A -c user.email=a@example.org commit -qm one
        sed -i s/one/two/ edit
        test "$(git status --porcelain)" = " M edit"
        git -c user.name=A -c user.email=a@example.org commit -qam two
        git gc -q && git fsck
        tar cf all.tar edit old && mkdir out && tar xf all.tar -C out
        cmp out/old/file old/file
        printf saved > .edit.swp && mv .edit.swp edit
    "#;
    ends_with(0, sh(place.path(), &["--apply"], script));
    assert_eq!(fs::read_to_string(place.path().join("edit")).unwrap(), "saved");
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "log", "--format=%s"]).current_dir(place.path());
    assert_eq!(ends_with(0, git).0, "two\none\n");
}

/// The whole of this: shared memory, byte-range locks, renamed and removed journals.
#[test]
fn a_database_with_a_write_ahead_log_works() {
    if skipped() {
        return;
    }
    if Command::new("python3").args(["-c", "import sqlite3"]).status().is_err() {
        panic!("this test needs python3 with its sqlite3 module");
    }
    let script = r#"
import sqlite3, threading
main = sqlite3.connect("data.db")
assert main.execute("pragma journal_mode=wal").fetchone() == ("wal",)
main.execute("create table t (thread, i)"); main.commit()
def work(thread):
    own = sqlite3.connect("data.db", timeout=60)
    for i in range(25):
        own.execute("insert into t values (?, ?)", (thread, i)); own.commit()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert main.execute("select count(*) from t").fetchone() == (100,)
assert main.execute("pragma integrity_check").fetchone() == ("ok",)
"#;
    let place = workplace();
    let arguments = ["run", "--apply", "--", "python3", "-c", script];
    ends_with(0, strata(place.path(), &arguments));
    assert!(place.path().join("data.db").metadata().unwrap().len() > 0);
}

/// To the whole group, as a terminal does it.
#[test]
fn an_interrupt_ends_the_command_and_loses_nothing() {
    if skipped() {
        return;
    }
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;
    for (script, code, applied) in [
        ("trap 'echo more > more; exit 0' INT; ", 0, true),
        ("trap 'echo more > more; exit 7' INT; ", 7, false),
        ("", 130, false),
    ] {
        let (place, temporary) = (workplace(), tempfile::tempdir().unwrap());
        let script = format!("{script}echo new > new; echo ready; while :; do sleep 0.05; done");
        let mut command = sh(place.path(), &["--apply"], &script);
        command.env("TMPDIR", temporary.path()).process_group(0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(place.path().join("new").exists(), applied, "{said}");
        let kept = fs::read_dir(temporary.path()).unwrap().count();
        assert_eq!(kept, usize::from(!applied), "{said}");
    }
}

#[test]
fn what_a_failed_command_did_is_kept_and_not_applied() {
    if skipped() {
        return;
    }
    let (place, temporary) = (workplace(), tempfile::tempdir().unwrap());
    let mut command = sh(place.path(), &["--apply"], "echo half > half; exit 3");
    command.env("TMPDIR", temporary.path());
    let (_, said) = ends_with(3, command);
    assert!(said.contains("not applied") && said.contains("kept in"), "{said}");
    assert!(!place.path().join("half").exists());
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
}

#[test]
fn changed_attributes_are_told_from_contents() {
    if skipped() {
        return;
    }
    let place = workplace();
    let script = "chmod 600 edit; echo GONE > gone; chmod 700 old; mv old new";
    let (_, said) = ends_with(0, sh(place.path(), &["--discard"], script));
    for line in
        ["modified  edit  attributes\n", "modified  gone  5 B\n", "old/ -> new/  attributes\n"]
    {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }
}
