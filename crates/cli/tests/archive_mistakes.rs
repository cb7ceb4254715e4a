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
