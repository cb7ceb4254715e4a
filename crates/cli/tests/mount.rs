//! `strata mount` and `strata umount`.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use stratafs::archive::{PackOptions, pack_to_vec};
use support::{Mountpoint, ends_with, is_mounted, skipped, strata, wait_until};

#[test]
fn a_stack_is_mounted_in_the_background_and_unmounted() {
    if skipped() {
        return;
    }
    let (base, maps, at) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Mountpoint::new());
    fs::write(base.path().join("file"), "base").unwrap();
    fs::write(maps.path().join("map"), "map").unwrap();
    let (base_spec, maps_spec) = (
        format!("native:{}", base.path().display()),
        format!("native:{},ro@/data/maps", maps.path().display()),
    );
    let mut arguments = vec!["mount", "--layer", &base_spec, "--layer", "memory:"];
    arguments.extend(["--layer", &maps_spec, at.text()]);
    ends_with(0, strata(base.path(), &arguments));
    assert_eq!(fs::read_to_string(at.path().join("data/maps/map")).unwrap(), "map");
    fs::write(at.path().join("file"), "changed").unwrap();
    assert_eq!(fs::read_to_string(at.path().join("file")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(base.path().join("file")).unwrap(), "base");
    let refused = fs::write(at.path().join("data/maps/map"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

    let open = fs::File::open(at.path().join("file")).unwrap();
    let (_, said) = ends_with(2, strata(base.path(), &["umount", at.text()]));
    assert!(said.contains("in use"), "{said}");
    drop(open);
    ends_with(0, strata(base.path(), &["umount", at.text()]));
    assert!(!is_mounted(at.path()));
    let (_, said) = ends_with(2, strata(base.path(), &["umount", at.text()]));
    assert!(said.contains("nothing is mounted"), "{said}");
}

#[test]
fn a_signal_unmounts() {
    if skipped() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let at = Mountpoint::new();
        let arguments = ["mount", "--foreground", "--layer", "memory:", at.text()];
        let mut server =
            strata(at.path().parent().unwrap(), &arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        fs::write(at.path().join("file"), "text").unwrap();
        kill_process(Pid::from_child(&server), signal).unwrap();
        let status = server.wait().unwrap();
        stderr.read_to_string(&mut line).unwrap();
        assert!(status.success(), "{signal:?}: {status}: {line}");
        assert!(!is_mounted(at.path()));
    }
}

#[test]
fn an_idle_mount_goes_by_itself() {
    if skipped() {
        return;
    }
    let at = Mountpoint::new();
    let arguments = ["mount", "--layer", "memory:", "--idle-timeout", "1", at.text()];
    ends_with(0, strata(at.path().parent().unwrap(), &arguments));
    wait_until("unmounted by itself", || !is_mounted(at.path()));
}

#[test]
fn a_read_only_mount_refuses_changes() {
    if skipped() {
        return;
    }
    let at = Mountpoint::new();
    let arguments = ["mount", "--read-only", "--layer", "memory:", at.text()];
    ends_with(0, strata(at.path().parent().unwrap(), &arguments));
    let refused = fs::write(at.path().join("file"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    ends_with(0, strata(at.path().parent().unwrap(), &["umount", at.text()]));
}

#[test]
fn mistakes_are_explained() {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    fs::create_dir_all(place.path().join("full/sub")).unwrap();
    let spec = format!("native:{}", place.path().display());
    for (arguments, part) in [
        (vec!["mount", "--layer", "disk:x", "inside"], "no kind `disk`"),
        (vec!["mount", "--layer", "native:missing", "inside"], "missing"),
        (vec!["mount", "--layer", "memory:", "missing"], "missing"),
        (vec!["mount", "--layer", &spec, "inside"], "contain itself"),
        (vec!["mount", "inside"], "--layer"),
        (vec!["mount", "--layer", "memory:", "file"], "file: "),
        (vec!["mount", "--layer", "memory:", "full"], "full is not empty"),
        (vec!["mount", "--layer", "native:file", "inside"], "file: "),
        (vec!["umount", "inside"], "nothing is mounted"),
        (vec!["umount", "missing/place"], "missing/place: No such file"),
        (vec!["umount", "/proc"], "/proc: the proc that is mounted here is not strata's"),
    ] {
        let (_, said) = ends_with(2, strata(place.path(), &arguments));
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert!(!is_mounted(&inside));
}

#[test]
fn a_directory_that_is_not_empty_is_covered_on_demand_or_by_its_own_layer() {
    if skipped() {
        return;
    }
    let at = Mountpoint::new();
    fs::write(at.path().join("file"), "beneath").unwrap();
    let own = stratafs_cli::stack::native_spec(at.path());
    for (arguments, shows) in [
        (vec!["mount", "--nonempty", "--layer", "memory:", at.text()], false),
        (vec!["mount", "--layer", &own, "--layer", "memory:", at.text()], true),
    ] {
        ends_with(0, strata(at.path().parent().unwrap(), &arguments));
        assert_eq!(at.path().join("file").exists(), shows);
        fs::write(at.path().join("new"), "above").unwrap();
        ends_with(0, strata(at.path().parent().unwrap(), &["umount", at.text()]));
        assert!(!at.path().join("new").exists());
    }
}

#[test]
fn archives_and_zip_files_are_layers() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let source = stratafs::Vfs::with_root(stratafs::MemoryFs::new());
    source.create_dir("dir").unwrap();
    source.write("dir/packed", "from the archive").unwrap();
    source.write("both", "archive").unwrap();
    let (packed, _) = pack_to_vec(&*source.tree(), &PackOptions::new()).unwrap();
    fs::write(place.path().join("data.vfs"), packed).unwrap();
    let mut zip = std::process::Command::new("zip");
    zip.args(["-q", "-0", "app.zip", "data.vfs"]).current_dir(place.path());
    ends_with(0, zip);

    for spec in ["archive:data.vfs", "archive:app.zip!data.vfs"] {
        let at = Mountpoint::new();
        let arguments = [
            "mount",
            "--layer",
            spec,
            "--layer",
            "memory:",
            "--layer",
            "zip:app.zip@/z",
            at.text(),
        ];
        ends_with(0, strata(place.path(), &arguments));
        let text = |name: &str| fs::read_to_string(at.path().join(name)).unwrap();
        assert_eq!(text("dir/packed"), "from the archive");
        fs::write(at.path().join("both"), "memory").unwrap();
        fs::rename(at.path().join("dir"), at.path().join("moved")).unwrap();
        assert_eq!(
            (text("both"), text("moved/packed")),
            ("memory".into(), "from the archive".into())
        );
        assert!(at.path().join("z/data.vfs").metadata().unwrap().len() > 0);
        ends_with(0, strata(place.path(), &["umount", at.text()]));
    }
    let (_, said) = ends_with(
        2,
        strata(place.path(), &["mount", "--layer", "archive:app.zip", "--nonempty", "."]),
    );
    assert!(said.contains("app.zip"), "{said}");
}
