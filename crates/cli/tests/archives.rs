//! `strata pack`, `list`, `cat`, `extract`, `verify` and `diff` with real directories.

mod support;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use support::{Mountpoint, ends_with, lines_of_json, skipped, strata};

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

/// A directory `src` with a bit of everything.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let src = place.path().join("src");
    fs::create_dir_all(src.join("scripts/lib")).unwrap();
    fs::create_dir(src.join("empty")).unwrap();
    fs::write(src.join("scripts/main.lua"), "print('hello')\n".repeat(9000)).unwrap();
    fs::write(src.join("scripts/lib/old.lua"), "return nil\n".repeat(500)).unwrap();
    fs::write(src.join("scripts/main.bak"), "backup").unwrap();
    fs::write(src.join("notes.txt"), "notes\n".repeat(200)).unwrap();
    fs::write(src.join("zero"), "").unwrap();
    fs::write(src.join(odd_name()), "odd").unwrap();
    place
}

fn odd_name() -> &'static OsStr {
    OsStr::from_bytes(b"odd\xff\nname")
}

/// `strata` in the place with these words, which must end with this code.
#[track_caller]
fn run(place: &Path, code: i32, words: &str) -> (String, String) {
    ends_with(code, strata(place, &words.split(' ').collect::<Vec<_>>()))
}

/// What `list --json` says of each path.
fn listed(place: &Path, words: &str) -> BTreeMap<String, Value> {
    let (text, _) = run(place, 0, &format!("--json list {words}"));
    let record = |value: Value| (value["path"].as_str().unwrap().to_owned(), value);
    lines_of_json(&text).into_iter().map(record).collect()
}

/// The look of everything in a directory.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut tree = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let content = match metadata.file_type() {
            kind if kind.is_symlink() => format!("-> {:?}", fs::read_link(&path).unwrap()),
            kind if kind.is_dir() => {
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                "directory".to_owned()
            }
            _ => String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
        };
        let mode = metadata.mode();
        let look = format!("{mode:o} {}.{} {content}", metadata.mtime(), metadata.mtime_nsec());
        tree.insert(path.strip_prefix(root).unwrap().to_owned(), look);
    }
    tree
}

/// The same without the directory's own: one that was there keeps its look.
fn below(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut tree = tree(root);
    tree.remove(Path::new(""));
    tree
}

#[test]
fn everything_comes_back() {
    let place = place();
    let src = place.path().join("src");
    symlink("notes.txt", src.join("link")).unwrap();
    symlink("/no/such/place", src.join("dangling")).unwrap();
    fs::hard_link(src.join("notes.txt"), src.join("scripts/twin")).unwrap();
    fs::set_permissions(src.join("scripts/main.lua"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(src.join("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    let attribute = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(src.join("zero"), "user.note", b"mine", attribute).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    for name in ["notes.txt", "scripts"] {
        fs::File::open(src.join(name)).unwrap().set_modified(time).unwrap();
    }

    let (said, quiet) = run(place.path(), 0, "pack src a.vfs --compress *.lua");
    assert!(said.starts_with("a.vfs: 7 files, 141709 bytes in "), "{said}");
    assert_eq!(quiet, "");
    run(place.path(), 0, "verify a.vfs");
    let (said, quiet) = run(place.path(), 0, "extract a.vfs out");
    assert!(said.starts_with("7 files"), "{said}");
    assert_eq!(quiet, "");
    let out = place.path().join("out");
    assert_eq!(tree(&out), tree(&src));
    let twin = out.join("scripts/twin").metadata().unwrap();
    assert_eq!((twin.ino(), twin.nlink()), (out.join("notes.txt").metadata().unwrap().ino(), 2));
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(out.join("zero"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..len], b"mine");

    // What is there stays unless it shall go.
    let (_, said) = run(place.path(), 2, "extract a.vfs out");
    assert!(said.contains("extract") && said.contains("exists"), "{said}");
    run(place.path(), 0, "extract a.vfs out --overwrite");
    assert!(below(&out) == below(&src));
    // A part, with the directories above it.
    run(place.path(), 0, "extract a.vfs part scripts/lib /zero");
    let part: Vec<_> = tree(&place.path().join("part")).into_keys().collect();
    assert_eq!(
        part,
        ["", "scripts", "scripts/lib", "scripts/lib/old.lua", "zero"].map(PathBuf::from)
    );
}

#[test]
fn special_files_and_owners_come_back_on_request() {
    let place = place();
    let (src, all) = (place.path().join("src"), rustix::fs::Mode::from(0o640));
    let pipe = src.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, all, 0).unwrap();
    let privileged = rustix::process::geteuid().is_root();
    if privileged {
        std::os::unix::fs::chown(src.join("notes.txt"), Some(1234), Some(4321)).unwrap();
    }
    fs::set_permissions(src.join("notes.txt"), fs::Permissions::from_mode(0o6755)).unwrap();
    run(place.path(), 0, "pack src a.vfs");
    let (text, said) = run(place.path(), 0, "--json extract a.vfs plain");
    assert_eq!(lines_of_json(&text)[0]["warnings"], 2);
    assert!(said.contains("strata: pipe: ") && said.contains("set-user-id"), "{said}");
    let plain = place.path().join("plain");
    assert!(!plain.join("pipe").exists());
    assert_eq!(plain.join("notes.txt").metadata().unwrap().mode() & 0o7777, 0o755);
    if privileged {
        let (_, said) = run(place.path(), 0, "extract a.vfs whole --special --owners");
        assert_eq!(said, "");
        let notes = place.path().join("whole/notes.txt").metadata().unwrap();
        assert_eq!((notes.uid(), notes.gid(), notes.mode() & 0o7777), (1234, 4321, 0o6755));
        use std::os::unix::fs::FileTypeExt;
        assert!(place.path().join("whole/pipe").metadata().unwrap().file_type().is_fifo());
    }
    // A directory never gives way to a file, nor a file to a directory.
    for (name, part) in [("notes.txt", "/notes.txt: is a directory"), ("empty", "/empty: not a")] {
        let target = tempfile::tempdir().unwrap();
        match name {
            "empty" => fs::write(target.path().join(name), "").unwrap(),
            _ => fs::create_dir(target.path().join(name)).unwrap(),
        }
        let words = format!("extract a.vfs {} --overwrite", target.path().display());
        let (_, said) = run(place.path(), 2, &words);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn rules_decide_for_each_file() {
    let place = place();
    let words = "pack src a.vfs --compress *.lua=zstd:19 --compress *.txt --store scripts/lib/* \
                 --exclude *.bak --block-size 4096";
    run(place.path(), 0, words);
    let listed = listed(place.path(), "a.vfs");
    let sizes = |path: &str| {
        let size = |field: &str| listed[path][field].as_u64().unwrap();
        (size("size"), size("stored_size"))
    };
    let (size, stored) = sizes("scripts/main.lua");
    assert!(size == 135_000 && stored < size / 20, "{stored}");
    assert!(sizes("notes.txt").1 < 600 && sizes("scripts/lib/old.lua").1 >= 5500);
    assert!(!listed.contains_key("scripts/main.bak"));
    let odd = &listed["odd\u{fffd}\nname"];
    assert_eq!(odd["path_hex"], "6f6464ff0a6e616d65");
    let (cat, _) = run(place.path(), 0, "cat a.vfs scripts/main.lua");
    assert_eq!(cat, "print('hello')\n".repeat(9000));

    let (names, _) = run(place.path(), 0, "list a.vfs");
    let expected = "empty\nnotes.txt\nodd\\xff\\nname\nscripts\nscripts/lib\nscripts/lib/old.lua\n\
                    scripts/main.lua\nzero\n";
    assert_eq!(names, expected);
    let (below, _) = run(place.path(), 0, "list a.vfs /scripts/lib --long");
    assert!(below.starts_with("drwx") && below.contains(" 5500 "), "{below}");
    assert_eq!(below.lines().count(), 2);

    // The rules of the last kind win, whatever their order among the others.
    run(place.path(), 0, "pack src b.vfs --compress *=lz4 --compress *.lua=zstd --exclude scripts");
    let (names, _) = run(place.path(), 0, "list b.vfs");
    assert_eq!(names, "empty\nnotes.txt\nodd\\xff\\nname\nzero\n");
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let place = place();
    let pack = |out: &str, more: &str| {
        run(
            place.path(),
            0,
            &format!("pack src {out} --compress *.lua=zstd --compress *.txt{more}"),
        );
        fs::read(place.path().join(out)).unwrap()
    };
    let first = pack("a.vfs", "");
    for (out, jobs) in [("b.vfs", " --jobs 1"), ("c.vfs", " --jobs 7"), ("a.vfs", " --jobs 2")] {
        assert!(pack(out, jobs) == first, "{jobs}");
    }
    let hash = |name: &str| {
        let (text, _) = run(place.path(), 0, &format!("--json pack src {name}"));
        lines_of_json(&text)[0]["root_hash"].clone()
    };
    assert_eq!(hash("d.vfs"), hash("e.vfs"));
    assert_eq!(hash("d.vfs").as_str().unwrap().len(), 64);
}

/// Each time into the directory that is packed.
#[test]
fn an_archive_does_not_hold_itself() {
    let place = place();
    let src = place.path().join("src");
    let first = run(&src, 0, "pack . scripts/all.vfs").0;
    assert_eq!(run(&src, 0, "pack . scripts/all.vfs").0, first);
    run(place.path(), 0, "pack src src/scripts/all.vfs");
    // By a link to it, which stays one.
    let link = place.path().join("link.vfs");
    symlink("src/scripts/all.vfs", &link).unwrap();
    run(place.path(), 0, "pack src link.vfs");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(!run(&src, 0, "list scripts/all.vfs").0.contains("all.vfs"));
    let names = fs::read_dir(src.join("scripts")).unwrap().count();
    assert_eq!(names, 4, "nothing temporary is left");
}

#[test]
fn encrypted_files_need_their_key() {
    let place = place();
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    write("raw.key", &[7; 32]);
    write("hex.key", format!("{KEY}\n").as_bytes());
    write("other.key", &[8; 32]);
    write("short.key", &[7; 31]);
    let with = |code: i32, words: &str, typed: &str| {
        let mut command = strata(place.path(), &words.split(' ').collect::<Vec<_>>());
        command.env("HEX_KEY", KEY).env("WORDS", "open sesame").env("EMPTY", "");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words}: {said:?}");
        said
    };
    for (key, typed) in [
        ("--key-file raw.key", ""),
        ("--key-file hex.key", ""),
        ("--key-env HEX_KEY", ""),
        ("--key-env WORDS", ""),
        ("--passphrase", "open sesame\nrest"),
    ] {
        with(0, &format!("pack src a.vfs --encrypt=*.lua --compress *.lua {key}"), typed);
        let cat = format!("cat a.vfs scripts/lib/old.lua {key}");
        assert_eq!(with(0, &cat, typed).0, "return nil\n".repeat(500), "{key}");
        let bytes = fs::read(place.path().join("a.vfs")).unwrap();
        assert!(!bytes.windows(10).any(|window| window == b"return nil"), "{key}");
        // Names, and what is not encrypted, are open.
        assert!(with(0, "list a.vfs", "").0.contains("old.lua"));
        assert_eq!(with(0, "cat a.vfs notes.txt", "").0, "notes\n".repeat(200));
        let (_, said) = with(2, "cat a.vfs scripts/lib/old.lua", "");
        assert!(said.contains("/scripts/lib/old.lua") && said.contains("key"), "{said}");
        let (_, said) = with(2, "cat a.vfs scripts/lib/old.lua --key-file other.key", "");
        assert!(said.contains("a.vfs") && said.contains("key"), "{said}");
        assert!(with(0, "verify a.vfs", "").0.contains("2 encrypted files not decrypted: no key"));
        let good = with(0, &format!("verify a.vfs {key}"), typed).0;
        assert!(good.contains("good") && !good.contains("no key"), "{good}");
        with(0, &format!("extract a.vfs out --overwrite {key}"), typed);
        assert!(below(&place.path().join("out")) == below(&place.path().join("src")));
    }
    with(0, "pack src x.vfs --xor tiny", "");
    assert_eq!(with(0, "cat x.vfs zero --xor tiny", "").0, "");
    assert_eq!(with(0, "cat x.vfs notes.txt --xor tiny", "").0, "notes\n".repeat(200));
    with(2, "cat x.vfs notes.txt --xor giant", "");

    for (words, typed, part) in [
        ("pack src b.vfs --encrypt", "", "--key-file"),
        ("pack src b.vfs --key-file hex.key", "", "no rule encrypts"),
        ("pack src b.vfs --encrypt --key-file short.key", "", "short.key"),
        ("pack src b.vfs --encrypt --key-file no.key", "", "no.key"),
        ("pack src b.vfs --encrypt --key-env MISSING", "", "MISSING"),
        ("pack src b.vfs --encrypt --key-env EMPTY", "", "EMPTY"),
        ("pack src b.vfs --encrypt --passphrase", "\n", "passphrase is empty"),
        ("pack src b.vfs --xor= --encrypt", "", "key"),
        ("pack src b.vfs --encrypt --xor a --key-file raw.key", "", "cannot be used with"),
    ] {
        let (_, said) = with(2, words, typed);
        assert!(said.contains(part), "{words}: {said}");
    }
    assert!(!place.path().join("b.vfs").exists());
}

/// Only what changed, with whiteouts for what is gone; over the old archive it is the new tree.
#[test]
fn a_patch_makes_the_new_tree_of_the_old_one() {
    let place = place();
    let src = place.path().join("src");
    run(place.path(), 0, "pack src old.vfs");
    fs::write(src.join("notes.txt"), "new notes").unwrap();
    fs::write(src.join("added"), "added").unwrap();
    fs::remove_dir_all(src.join("scripts/lib")).unwrap();
    fs::remove_file(src.join("zero")).unwrap();
    run(place.path(), 0, "pack src new.vfs");
    let (text, _) = run(place.path(), 0, "--json pack src patch.vfs --patch-from old.vfs");
    let record = &lines_of_json(&text)[0];
    assert_eq!((&record["files"], &record["whiteouts"]), (&2.into(), &2.into()));
    let (names, _) = run(place.path(), 0, "list patch.vfs");
    assert_eq!(names, "added\nnotes.txt\nscripts\nscripts/lib\nzero\n");
    assert_eq!(listed(place.path(), "patch.vfs")["zero"]["type"], "whiteout");

    let (changes, _) = run(place.path(), 1, "diff old.vfs new.vfs");
    assert_eq!(
        changes,
        "A /added\nM /notes.txt (contents, time)\nD /scripts/lib\nD /scripts/lib/old.lua\nD /zero\n"
    );
    let (text, _) = run(place.path(), 1, "--json diff old.vfs new.vfs --times");
    let records = lines_of_json(&text);
    let modified = records.iter().find(|record| record["path"] == "notes.txt").unwrap();
    assert_eq!(modified["differences"][0], "contents");
    assert_eq!((&modified["old_size"], &modified["new_size"]), (&1200.into(), &9.into()));
    assert!(records.iter().any(|record| record["path"] == "scripts"), "its time: {text}");
    assert_eq!(run(place.path(), 0, "diff new.vfs new.vfs").0, "");
    let (_, said) = run(place.path(), 2, "pack src again.vfs --patch-from patch.vfs");
    assert!(said.contains("itself no patch"), "{said}");

    if skipped() {
        return;
    }
    let at = Mountpoint::new();
    let words = format!("mount --layer archive:old.vfs --layer archive:patch.vfs {}", at.text());
    run(place.path(), 0, &words);
    let shown = tree(at.path());
    let contents = |tree: BTreeMap<PathBuf, String>| -> Vec<_> {
        tree.into_iter().filter(|(_, look)| !look.contains("directory")).collect()
    };
    assert_eq!(contents(shown), contents(tree(&src)));
    run(place.path(), 0, &format!("umount {}", at.text()));
}

#[test]
fn an_archive_is_read_within_a_zip_file() {
    let place = place();
    run(place.path(), 0, "pack src data.vfs");
    fs::create_dir(place.path().join("assets")).unwrap();
    fs::rename(place.path().join("data.vfs"), place.path().join("assets/data.vfs")).unwrap();
    for (flags, out) in [("-q0r", "app.apk"), ("-q9r", "packed.apk")] {
        let mut zip = Command::new("zip");
        zip.args([flags, out, "assets"]).current_dir(place.path());
        ends_with(0, zip);
    }
    let within = "app.apk --within assets/data.vfs";
    assert!(run(place.path(), 0, &format!("list {within}")).0.contains("scripts/main.lua"));
    assert_eq!(
        run(place.path(), 0, "cat app.apk notes.txt --within assets/data.vfs").0.len(),
        1200
    );
    assert!(run(place.path(), 0, &format!("verify {within}")).0.contains("good"));
    run(place.path(), 0, "extract app.apk out --within assets/data.vfs");
    assert_eq!(tree(&place.path().join("out")), tree(&place.path().join("src")));
    run(place.path(), 0, "diff app.apk app.apk --within assets/data.vfs");
    let (_, said) = run(place.path(), 2, "list packed.apk --within assets/data.vfs");
    assert!(
        said.contains("packed.apk") && said.contains("assets/data.vfs: it is compressed"),
        "{said}"
    );
    let (_, said) = run(place.path(), 2, "list app.apk --within assets/no.vfs");
    assert!(said.contains("app.apk") && said.contains("assets/no.vfs"), "{said}");
}

/// As a user who may not read everything.
#[test]
fn what_cannot_be_read_is_named_and_left_out_on_request() {
    let place = place();
    let src = place.path().join("src");
    for (name, mode) in [("notes.txt", 0o000), ("scripts/lib", 0o000)] {
        fs::set_permissions(src.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let as_user = |code: i32, words: &str| {
        let mut command = support::as_user(place.path());
        command.args(words.split(' '));
        ends_with(code, command)
    };
    let (_, said) = as_user(2, "pack src a.vfs");
    assert!(said.contains("pack /scripts/lib: permission denied"), "{said}");
    let (_, said) = as_user(0, "pack src a.vfs --skip-unreadable");
    for name in ["notes.txt", "scripts/lib"] {
        assert!(said.contains(&format!("strata: {name}: ")), "{said}");
    }
    let (names, _) = as_user(0, "list a.vfs");
    assert!(!names.contains("notes.txt") && names.contains("scripts/main.lua"), "{names}");
    fs::set_permissions(&src, fs::Permissions::from_mode(0o000)).unwrap();
    as_user(2, "pack src b.vfs --skip-unreadable");
    fs::set_permissions(&src, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(src.join("scripts/lib"), fs::Permissions::from_mode(0o755)).unwrap();
}
