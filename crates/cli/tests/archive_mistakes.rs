//! Bad input to the commands on archives is named and does no harm.

mod support;

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use rustix::fs::FileType;
use support::{ends_with, lines_of_json, strata};

/// A place with a packed directory.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("src/dir")).unwrap();
    fs::write(place.path().join("src/dir/file"), "contents ".repeat(3000)).unwrap();
    fs::write(place.path().join("src/other"), "other").unwrap();
    run(place.path(), 0, &["pack", "src", "a.vfs"]);
    place
}

#[track_caller]
fn run(place: &Path, code: i32, arguments: &[&str]) -> (String, String) {
    ends_with(code, strata(place, arguments))
}

#[test]
fn mistakes_are_explained() {
    let place = place();
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    let good = fs::read(place.path().join("a.vfs")).unwrap();
    write("empty", b"");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, place.path().join("pipe"), FileType::Fifo, mode, 0)
        .unwrap();
    write("text", &b"no archive at all\n".repeat(50));
    write("short", &good[..good.len() - 1]);
    write("head", &good[..100]);
    let mut future = good.clone();
    future[8] = 99;
    write("future", &future);
    for command in ["list", "verify", "extract", "cat", "diff"] {
        for (file, part) in [
            ("missing", "no such file"),
            ("empty", "archive"),
            ("text", "archive"),
            ("short", "short"),
            ("head", "head"),
            ("future", "future"),
            ("src", "directory"),
        ] {
            let mut arguments = vec![command, file];
            arguments.extend(match command {
                "extract" => Some("out"),
                "cat" => Some("other"),
                "diff" => Some("a.vfs"),
                _ => None,
            });
            let (seen, said) = run(place.path(), 2, &arguments);
            assert!(seen.is_empty(), "{arguments:?}: {seen}");
            assert!(said.starts_with(&format!("strata: {file}: ")), "{arguments:?}: {said}");
            assert!(said.to_lowercase().contains(part), "{arguments:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        }
    }
    assert!(!place.path().join("out").exists(), "nothing to extract");
    for (arguments, part) in [
        (&["cat", "a.vfs", "no"][..], "open /no: no such file"),
        (&["cat", "a.vfs", "dir"], "open /dir: is a directory"),
        (&["cat", "a.vfs", "dir/file/x"], "/dir/file/x: not a directory"),
        (&["list", "a.vfs", "no"], "list /no: no such file"),
        (&["extract", "a.vfs", "out", "no"], "/no: no such file"),
        (&["extract", "a.vfs", "src/other"], "src/other"),
        (&["pack", "missing", "b.vfs"], "missing: no such file"),
        (&["pack", "src/other", "b.vfs"], "src/other"),
        (&["pack", "src", "no/b.vfs"], "no"),
        (&["pack", "src", "src"], "directory"),
        (&["pack", "src", "pipe"], "pipe: invalid argument: it is no regular file"),
        (&["pack", "src", "b.vfs", "--block-size", "5000"], "block size 5000"),
        (&["pack", "src", "b.vfs", "--compress", "*=gzip"], "no codec"),
        (&["pack", "src", "b.vfs", "--compress", "*=zstd:40"], "levels 1 to 22"),
        (&["pack", "src", "b.vfs", "--exclude", "[a"], "[a"),
        (&["pack", "src", "b.vfs", "--patch-from", "text"], "text: "),
    ] {
        let (_, said) = run(place.path(), 2, arguments);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert!(!place.path().join("b.vfs").exists());
    let left: Vec<_> = fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".tmp"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn damage_is_found_and_named() {
    let place = place();
    let archive = fs::File::options().write(true).open(place.path().join("a.vfs")).unwrap();
    let bytes = fs::read(place.path().join("a.vfs")).unwrap();
    let at = bytes.windows(9).position(|window| window == b"contents ").unwrap() as u64;
    archive.write_all_at(b"C", at).unwrap();
    let (seen, said) = run(place.path(), 1, &["verify", "a.vfs"]);
    assert!(seen.starts_with("/dir/file: block 0: wrong checksum\na.vfs: damaged: 1 "), "{seen}");
    assert_eq!(said, "");
    let (seen, _) = run(place.path(), 1, &["--json", "verify", "a.vfs", "--jobs", "2"]);
    let records = lines_of_json(&seen);
    assert_eq!((&records[0]["entry"], &records[1]["good"]), (&"/dir/file".into(), &false.into()));
}

/// Whatever stands in the target, nothing outside of it is touched.
#[test]
fn nothing_is_written_outside_of_the_target() {
    let place = place();
    let (out, outside) = (place.path().join("out"), place.path().join("outside"));
    let make = |made: &dyn Fn()| {
        for directory in [&out, &outside] {
            let _ = fs::remove_dir_all(directory);
            fs::create_dir(directory).unwrap();
        }
        fs::write(outside.join("file"), "outside").unwrap();
        made();
    };
    let untouched = || {
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "outside");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    };
    make(&|| symlink("../outside", out.join("dir")).unwrap());
    let (_, said) = run(place.path(), 2, &["extract", "a.vfs", "out", "--overwrite"]);
    assert!(said.contains("/dir") && said.contains("symbolic link"), "{said}");
    untouched();
    make(&|| {
        fs::create_dir(out.join("dir")).unwrap();
        symlink("../../outside/file", out.join("dir/file")).unwrap();
    });
    let (_, said) = run(place.path(), 2, &["extract", "a.vfs", "out"]);
    assert!(said.contains("/dir/file"), "{said}");
    run(place.path(), 0, &["extract", "a.vfs", "out", "--overwrite"]);
    assert!(out.join("dir/file").symlink_metadata().unwrap().is_file());
    untouched();

    // An archive whose name leads out.
    fs::write(place.path().join("src/XX.escape"), "escaped").unwrap();
    run(place.path(), 0, &["pack", "src", "c.vfs"]);
    let mut bytes = fs::read(place.path().join("c.vfs")).unwrap();
    let at = bytes.windows(9).rposition(|window| window == b"XX.escape").unwrap();
    bytes[at..at + 9].copy_from_slice(b"../escape");
    fs::write(place.path().join("c.vfs"), bytes).unwrap();
    make(&|| ());
    let (_, said) = run(place.path(), 2, &["extract", "c.vfs", "out"]);
    assert!(said.contains("damaged: /../escape: not a good name"), "{said}");
    assert!(!place.path().join("escape").exists());

    // An archive whose links lead out: they are made, last, and nothing goes through them.
    symlink("../outside", place.path().join("src/dir/up")).unwrap();
    symlink("/etc/passwd", place.path().join("src/etc")).unwrap();
    run(place.path(), 0, &["pack", "src", "b.vfs"]);
    make(&|| ());
    run(place.path(), 0, &["extract", "b.vfs", "out"]);
    assert_eq!(fs::read_link(out.join("etc")).unwrap(), Path::new("/etc/passwd"));
    untouched();
    let (_, said) = run(place.path(), 2, &["cat", "b.vfs", "etc"]);
    assert!(said.contains("etc"), "{said}");
    run(place.path(), 2, &["extract", "b.vfs", "out", "../../x"]);
}

/// The old archive is whole until the new one is.
#[test]
fn a_pack_that_is_killed_leaves_the_old_archive() {
    let place = place();
    let old = fs::read(place.path().join("a.vfs")).unwrap();
    let mut noise = stratafs_testkit::tools::noise(1, 1 << 16);
    for nth in 0..40u8 {
        noise.iter_mut().step_by(50).for_each(|byte| *byte = byte.wrapping_add(nth));
        fs::write(place.path().join(format!("src/noise-{nth}")), noise.repeat(8)).unwrap();
    }
    let arguments = ["pack", "src", "a.vfs", "--jobs", "1", "--compress", "*=zstd:22"];
    let mut packing = strata(place.path(), &arguments).spawn().unwrap();
    let temporary = place.path().join(format!(".strata-{}-0.tmp", packing.id()));
    support::wait_until("the new archive has begun", || temporary.exists());
    packing.kill().unwrap();
    let status = packing.wait().unwrap();
    assert!(!status.success(), "it was not killed in time: {status}");
    assert!(fs::read(place.path().join("a.vfs")).unwrap() == old);
    run(place.path(), 0, &["verify", "a.vfs"]);
    // What it left is in nobody's way.
    assert!(temporary.exists());
    run(place.path(), 0, &["pack", "src", "a.vfs"]);
    run(place.path(), 0, &["verify", "a.vfs"]);
}

#[test]
fn nobody_needs_to_read_all_of_it() {
    use std::process::Stdio;
    let place = place();
    for nth in 0..3000 {
        fs::write(place.path().join(format!("src/a-rather-long-name-{nth:050}")), "").unwrap();
    }
    run(place.path(), 0, &["pack", "src", "many.vfs"]);
    let mut command = strata(place.path(), &["list", "many.vfs"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

/// Changes one byte of the stored file `other` in the archive.
fn damage(place: &Path) {
    let mut bytes = fs::read(place.join("a.vfs")).unwrap();
    let at = bytes.windows(5).position(|five| five == b"other").unwrap();
    bytes[at] ^= 1;
    fs::write(place.join("a.vfs"), bytes).unwrap();
}

#[test]
fn damage_is_never_written_out_as_if_it_were_whole() {
    let place = place();
    damage(place.path());
    let (_, said) = run(place.path(), 2, &["extract", "a.vfs", "out"]);
    assert!(said.contains("a.vfs") && said.contains("/other") && said.contains("sum"), "{said}");
    assert!(!place.path().join("out/other").exists());
    let (text, said) = run(place.path(), 2, &["cat", "a.vfs", "other"]);
    assert!(said.contains("a.vfs") && said.contains("/other"), "{said}");
    assert_eq!(text, "");
}

#[test]
fn directories_that_were_there_keep_their_mode() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let place = place();
    let (source, out) = (place.path().join("src"), place.path().join("out"));
    set(&source, 0o777);
    set(&source.join("dir"), 0o777);
    run(place.path(), 0, &["pack", "src", "a.vfs"]);
    fs::create_dir_all(out.join("dir")).unwrap();
    set(&out, 0o700);
    set(&out.join("dir"), 0o750);
    run(place.path(), 0, &["extract", "a.vfs", "out"]);
    assert_eq!((mode(&out), mode(&out.join("dir"))), (0o700, 0o750));
    run(place.path(), 0, &["extract", "a.vfs", "out", "--overwrite"]);
    assert_eq!((mode(&out), mode(&out.join("dir"))), (0o700, 0o777));
    run(place.path(), 0, &["extract", "a.vfs", "new"]);
    assert_eq!(mode(&place.path().join("new")), 0o777);
}

#[test]
fn a_patch_of_an_encrypted_archive_needs_its_key() {
    let place = place();
    fs::write(place.path().join("key"), [7; 32]).unwrap();
    let key = ["--encrypt", "--key-file", "key"];
    run(place.path(), 0, &[&["pack", "src", "old.vfs"], &key[..]].concat());
    fs::write(place.path().join("src/other"), "changed").unwrap();
    let patch = ["pack", "src", "patch.vfs", "--patch-from", "old.vfs"];
    for wrong in [&[][..], &["--xor", "k"]] {
        let (_, said) = run(place.path(), 2, &[&patch, wrong].concat());
        assert!(said.contains("key"), "{said}");
        assert!(!place.path().join("patch.vfs").exists());
    }
    run(place.path(), 0, &[&patch, &key[..]].concat());
    let (text, _) = run(place.path(), 0, &["list", "patch.vfs"]);
    assert!(text.contains("other") && !text.contains("file"), "{text}");
}

#[test]
fn patterns_are_paths_and_those_that_match_nothing_are_named() {
    let place = place();
    for pattern in ["dir/", "./dir", "./dir/", "/dir"] {
        run(place.path(), 0, &["pack", "src", "b.vfs", "--exclude", pattern]);
        let (text, _) = run(place.path(), 0, &["list", "b.vfs"]);
        assert!(text.contains("other") && !text.contains("dir"), "{pattern}: {text}");
    }
    let (_, said) = run(place.path(), 0, &["pack", "src", "b.vfs", "--exclude", "nothing*"]);
    assert!(said.contains("nothing*"), "{said}");
    let (_, said) = run(place.path(), 0, &["pack", "src", "b.vfs", "--compress", "*.lua"]);
    assert!(said.contains("*.lua"), "{said}");
    fs::write(place.path().join("key"), [7; 32]).unwrap();
    let encrypt = ["pack", "src", "c.vfs", "--key-file", "key", "--encrypt=secret/"];
    let (_, said) = run(place.path(), 2, &encrypt);
    assert!(said.contains("secret/") && !place.path().join("c.vfs").exists(), "{said}");
    let (_, said) =
        run(place.path(), 0, &["pack", "src", "c.vfs", "--key-file", "key", "--encrypt=dir/"]);
    assert_eq!(said, "");
    assert!(run(place.path(), 2, &["cat", "c.vfs", "dir/file"]).1.contains("key"));
}

#[test]
fn holes_stay_holes() {
    use std::os::unix::fs::MetadataExt;
    let place = place();
    let file = fs::File::create(place.path().join("src/image")).unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(b"data", 2 << 20).unwrap();
    run(place.path(), 0, &["pack", "src", "a.vfs"]);
    run(place.path(), 0, &["extract", "a.vfs", "out"]);
    let image = place.path().join("out/image");
    assert_eq!(fs::read(&image).unwrap(), fs::read(place.path().join("src/image")).unwrap());
    assert!(fs::metadata(&image).unwrap().blocks() * 512 <= 1 << 20);
}

/// What gives rights comes back only with owners.
#[test]
fn attributes_that_give_rights_need_owners() {
    let place = place();
    let source = place.path().join("src/other");
    let set =
        |name: &str| rustix::fs::setxattr(&source, name, b"x", rustix::fs::XattrFlags::empty());
    if set("trusted.t").is_err() {
        return; // only root may make one
    }
    set("user.u").unwrap();
    run(place.path(), 0, &["pack", "src", "a.vfs"]);
    let names = |out: &str| {
        let mut names = vec![0; 1000];
        let len = rustix::fs::listxattr(place.path().join(out).join("other"), &mut names).unwrap();
        String::from_utf8(names[..len].to_vec()).unwrap()
    };
    let (_, said) = run(place.path(), 0, &["extract", "a.vfs", "plain"]);
    assert!(said.contains("trusted.t"), "{said}");
    assert_eq!(names("plain"), "user.u\0");
    run(place.path(), 0, &["extract", "a.vfs", "whole", "--owners"]);
    assert!(names("whole").contains("trusted.t"));
}
