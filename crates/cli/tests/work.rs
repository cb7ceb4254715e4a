//! Real work through `strata run`: the directory stays as it is, the report names exactly what
//! the same work changes when it is done directly, and applied changes give the same tree.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{ends_with, lines_of_json, skipped, strata};

/// A piece of work in a directory.
struct Work {
    /// Makes the directory's contents.
    setup: &'static str,
    /// The work itself.
    script: &'static str,
    /// What differs from one time to the next: only whether it is there is compared.
    varies: &'static [&'static str],
}

/// Everything in a directory: what it is and, where it is no directory, when it was changed.
type Tree = BTreeMap<String, (String, Option<(i64, i64)>)>;

fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let mut time = Some((metadata.mtime(), metadata.mtime_nsec()));
        let mut look = format!("{:o}", metadata.mode());
        if metadata.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            time = None;
        } else if metadata.is_symlink() {
            look.push_str(&format!(" -> {}", fs::read_link(&path).unwrap().display()));
        } else {
            look.push_str(&format!(" {}", fs::read(&path).unwrap().escape_ascii()));
        }
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        tree.insert(name, (look, time));
    }
    tree
}

/// What must be reported when one tree becomes another; what is below a name that is gone goes
/// with it.
fn differences(before: &Tree, after: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, look) in after {
        match before.get(name) {
            None => found.insert(format!("added {name}")),
            Some(old) if old != look => found.insert(format!("modified {name}")),
            Some(_) => false,
        };
    }
    for name in before.keys().filter(|&name| !after.contains_key(name)) {
        let above = Path::new(name).parent().map(|above| above.to_str().unwrap());
        if above.is_none_or(|above| after.contains_key(above)) {
            found.insert(format!("deleted {name}"));
        }
    }
    found
}

fn reported(json: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // The command's own output comes first.
    let lines = json.lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>();
    for record in lines_of_json(&lines.join("\n")) {
        let text = |field: &str| record[field].as_str().unwrap().to_owned();
        match text("change").as_str() {
            "renamed" => {
                found.insert(format!("deleted {}", text("from")));
                found.insert(format!("added {}", text("path")));
            }
            change => drop(found.insert(format!("{change} {}", text("path")))),
        }
    }
    found
}

impl Work {
    fn without_what_varies(&self, mut tree: Tree) -> BTreeMap<String, String> {
        for (name, (look, _)) in &mut tree {
            if self.varies.iter().any(|part| name.contains(part)) {
                look.clear();
            }
        }
        tree.into_iter().map(|(name, (look, _))| (name, look)).collect()
    }

    fn command(&self, directory: &Path, flags: Option<&[&str]>) -> Command {
        let mut command = match flags {
            Some(flags) => {
                let mut arguments = vec!["--json", "run"];
                arguments.extend(flags);
                arguments.extend(["--", "sh", "-ec", self.script]);
                strata(directory, &arguments)
            }
            None => {
                let mut command = Command::new("sh");
                command.args(["-ec", self.script]).current_dir(directory);
                command
            }
        };
        // The same every time, and nothing of the user's.
        for (name, value) in [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "A"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
            ("GIT_AUTHOR_DATE", "1500000000 +0000"),
            ("GIT_COMMITTER_DATE", "1500000000 +0000"),
            ("CARGO_INCREMENTAL", "0"),
            ("CARGO_TARGET_DIR", "target"),
            ("npm_config_update_notifier", "false"),
            ("npm_config_userconfig", "/dev/null"),
        ] {
            command.env(name, value);
        }
        command.env("npm_config_cache", directory.with_file_name("npm-cache"));
        command
    }

    /// Does it in a view, then for good through a view, then directly, at the same path.
    fn check(&self) {
        let place = tempfile::tempdir().unwrap();
        let (at, spare) = (place.path().join("work"), place.path().join("spare"));
        fs::create_dir(&at).unwrap();
        ends_with(0, Work { script: self.setup, ..*self }.command(&at, None));
        let copy = |from: &Path, to: &Path| {
            let _ = fs::remove_dir_all(to);
            let mut command = Command::new("cp");
            command.arg("-a").arg(from).arg(to);
            ends_with(0, command);
        };
        copy(&at, &spare);
        let before = tree(&at);

        let (json, _) = ends_with(0, self.command(&at, Some(&["--discard"])));
        assert_eq!(tree(&at), before, "the directory has changed");
        let seen = reported(&json);

        ends_with(0, self.command(&at, Some(&["--apply"])));
        let applied = tree(&at);

        copy(&spare, &at);
        let before = tree(&at);
        ends_with(0, self.command(&at, None));
        let direct = tree(&at);
        let expected = differences(&before, &direct);
        assert!(!expected.is_empty(), "the work does nothing");
        assert_eq!(seen, expected, "the report");
        assert_eq!(self.without_what_varies(applied), self.without_what_varies(direct));
    }

    /// As [`check`](Self::check), where directories move: their report is a line for each, so
    /// it is not compared.
    fn check_tree_alone(&self) {
        let place = tempfile::tempdir().unwrap();
        let trees = [Some(&["--apply"][..]), None].map(|flags| {
            let at = place.path().join(if flags.is_some() { "viewed" } else { "direct" });
            fs::create_dir(&at).unwrap();
            ends_with(0, Work { script: self.setup, ..*self }.command(&at, None));
            ends_with(0, self.command(&at, flags));
            self.without_what_varies(tree(&at))
        });
        assert_eq!(trees[0], trees[1]);
    }
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: {program} is not installed, so nothing was tested");
    }
    found
}

#[test]
fn sed_in_place() {
    if !skipped() {
        Work {
            setup: "mkdir sub; echo one > a; echo one > sub/b; echo one > c; chmod 640 a",
            script: "sed -i s/one/two/ a sub/b",
            varies: &[],
        }
        .check();
    }
}

#[test]
fn tar_unpacks_over_what_is_there() {
    if !skipped() {
        Work {
            setup: "mkdir -p in/sub new; echo 1 > in/f; echo 2 > in/sub/g; ln -s f in/link; \
                    ln in/f in/twin; chmod 750 in/sub; tar cf all.tar in; rm -r in/sub; \
                    echo old > in/f; ln -s nowhere in/old-link",
            script: "tar xpf all.tar; tar xf all.tar -C new --no-same-permissions",
            varies: &[],
        }
        .check();
    }
}

#[test]
fn editors_save_atomically() {
    if !skipped() {
        Work {
            setup: "echo text > file; chmod 640 file; echo kept > other",
            script: "cp -p file .file.swp; echo more >> .file.swp; sync .file.swp; \
                     mv file file~; mv .file.swp file; rm file~; \
                     test \"$(stat -c %a file)\" = 640",
            varies: &[],
        }
        .check();
    }
}

#[test]
fn directories_move() {
    if !skipped() {
        Work {
            setup: "mkdir -p a/deep/er b; echo 1 > a/deep/er/f; echo 2 > a/g; echo 3 > b/h",
            script: "mv a/deep b/moved; mv b c; rm a/g; mkdir -p a/deep; echo 4 > a/deep/i; \
                     echo more >> c/moved/er/f",
            varies: &[],
        }
        .check_tree_alone();
    }
}

#[test]
fn git_commits() {
    if !skipped() {
        Work {
            setup: "git init -q -b main .; mkdir dir; echo one > dir/file; echo x > gone; \
                    git add -A; git commit -qm one",
            script: "echo two >> dir/file; git rm -q gone; echo new > new; git add -A; \
                     git commit -qm two; test -z \"$(git status --porcelain)\"; git fsck --strict",
            // It holds the numbers and times of files.
            varies: &[".git/index"],
        }
        .check();
    }
}

#[test]
fn npm_installs_a_local_package() {
    if !skipped() && has("npm") {
        Work {
            setup: "mkdir dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json; \
                    echo 'module.exports = 42' > dep/index.js; \
                    echo '{\"name\":\"main\",\"dependencies\":{\"dep\":\"file:./dep\"}}' \
                    > package.json",
            script: "npm install --offline --no-audit --no-fund > /dev/null; \
                     node -e 'process.exit(require(\"dep\") == 42 ? 0 : 1)'",
            varies: &[],
        }
        .check();
    }
}

#[test]
fn cargo_builds() {
    if !skipped() {
        Work {
            setup: "mkdir src; echo 'fn main() { println!(\"built\"); }' > src/main.rs; \
                    printf '[package]\\nname = \"made\"\\nedition = \"2024\"\\n[workspace]\\n' \
                    > Cargo.toml",
            script: "\"${CARGO:-cargo}\" build --quiet --offline; test \"$(target/debug/made)\" = built",
            varies: &["target/"],
        }
        .check();
    }
}

/// Two processes write one database with a write-ahead log: shared memory, byte-range locks.
#[test]
fn sqlite_with_two_writers() {
    if skipped() || !has("sqlite3") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = r#"
        sqlite3 data.db 'pragma journal_mode=wal; create table t (who, i)' > /dev/null
        write() { for i in $(seq 25); do
            echo "insert into t values ($1, $i);"; done | sqlite3 -cmd '.timeout 60000' data.db; }
        write 1 & one=$!
        write 2 & two=$!
        wait $one; wait $two
        sqlite3 data.db 'pragma integrity_check; select count(*), count(distinct who) from t'
    "#;
    let arguments = ["--json", "run", "--apply", "--", "sh", "-ec", script];
    let (seen, _) = ends_with(0, strata(place.path(), &arguments));
    assert!(seen.starts_with("ok\n50|2\n"), "{seen}");
    assert_eq!(reported(&seen), BTreeSet::from(["added data.db".to_owned()]));
    let mut check = Command::new("sqlite3");
    check.args(["data.db", "select count(*) from t"]).current_dir(place.path());
    assert_eq!(ends_with(0, check).0, "50\n");
    assert_eq!(names(place.path()), ["data.db"]);
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_run_within_a_run() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "0").unwrap();
    let script = r#"
        echo outer > outer
        "$0" run --apply -- sh -ec 'test -e outer; echo inner > inner; rm file'
        test -e inner; test ! -e file
        "$0" run --discard -- sh -ec 'rm -r ./*; echo x > nothing'
        test -e outer; test ! -e nothing
    "#;
    let program = env!("CARGO_BIN_EXE_strata");
    let arguments = ["run", "--apply", "--", "sh", "-ec", script, program];
    ends_with(0, strata(place.path(), &arguments));
    assert_eq!(names(place.path()), ["inner", "outer"]);
}

#[test]
fn directories_go_away_under_the_command() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("sub/deep")).unwrap();
    let script = "cd sub/deep; rm -r ../../sub; ls; cd ../.. 2> /dev/null || true; \
                  cd \"$STRATA_RUN\"; echo last > last";
    ends_with(0, strata(place.path(), &["run", "--apply", "--", "sh", "-ec", script]));
    assert_eq!(names(place.path()), ["last"]);

    let gone = place.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "rmdir ../gone; exec \"$0\" run -- true", env!("CARGO_BIN_EXE_strata")]);
    command.current_dir(&gone);
    let (_, said) = ends_with(125, command);
    assert!(said.contains("the current directory"), "{said}");
}

/// A directory cannot be renamed out of another file system: it is copied.
#[test]
fn a_directory_moves_between_file_systems() {
    if skipped() {
        return;
    }
    assert!(rustix::process::geteuid().is_root(), "this test mounts: run as root");
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("other")).unwrap();
    let script = r#"
        mount --make-rprivate /
        mount -t tmpfs none other
        mkdir -p other/dir/sub plain; echo 1 > other/dir/sub/file; echo 2 > plain/file
        "$0" run --apply -- sh -c 'mv other/dir moved; mv plain renamed'
        cat moved/sub/file renamed/file; ls other
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, env!("CARGO_BIN_EXE_strata")]);
    command.current_dir(place.path());
    let (seen, said) = ends_with(0, command);
    assert_eq!(seen, "1\n2\n", "{said}");
}

fn mode(path: PathBuf) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_directory_itself_may_change() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["run", "--apply", "--", "chmod", "700", "."];
    let (_, said) = ends_with(0, strata(place.path(), &arguments));
    assert!(said.contains("modified  ./"), "{said}");
    assert_eq!(mode(place.path().to_owned()), 0o700);
}
