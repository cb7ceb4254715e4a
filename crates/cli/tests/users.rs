//! As somebody without privileges: in a user namespace, or through `fusermount3`.

#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use support::{as_user, ends_with, skipped};

/// A shell as root, in a directory with the program, that sees a `/dev/fuse` of its own, which
/// everybody may open, and mounts for itself alone; `user` in it does something as a user.
fn shell(directory: &Path, script: &str) -> Command {
    drop(as_user(directory)); // puts the program there
    let whole = format!(
        r#"
        mount --make-rprivate /
        mount -t tmpfs none /mnt
        mknod -m 666 /mnt/fuse c 10 229
        mount --bind /mnt/fuse /dev/fuse
        umount -l /mnt
        user() {{ setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }}
        {script}
        "#
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &whole]).current_dir(directory);
    command
}

#[test]
fn a_user_gets_a_view_at_the_same_path() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = "user ./strata run --apply -- sh -ec 'pwd; id -u; echo mine > mine; rm strata'";
    let (seen, _) = ends_with(0, shell(place.path(), script));
    assert_eq!(seen, format!("{}\n65534\n", place.path().display()));
    assert_eq!(place.path().join("mine").metadata().unwrap().uid(), 65534);
    assert!(!place.path().join("strata").exists());
}

/// Where there are no user namespaces the setuid helper mounts the view at a temporary place,
/// which is said. A changed root is one of the places where the kernel allows none.
#[test]
fn without_a_namespace_the_view_is_elsewhere() {
    if skipped() {
        return;
    }
    let (place, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(place.path().join("sub")).unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let script = r#"
        mount --rbind / /mnt
        user() { chroot --userspec=65534:65534 --groups= /mnt sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"; }
        user ./strata run --apply -- sh -ec 'pwd; ls; echo mine > mine; exit 0'
        # A place within the directory would show in the view and lead back into it.
        user env TMPDIR="$PWD/sub" ./strata run --discard -- sh -c 'pwd; ls sub; exit 9' || echo $?
    "#;
    let mut command = shell(place.path(), script);
    command.env("TMPDIR", temporary.path());
    let (seen, said) = ends_with(0, command);
    let start = format!("{}/strata-run-", temporary.path().display());
    let (first, second) = seen.split_once("\nstrata\nsub\n").unwrap();
    assert!(first.starts_with(&start), "{seen}\n{said}");
    let (second, rest) = second.split_once('\n').unwrap();
    assert!(second.contains("/strata-run-"), "{seen}\n{said}");
    assert!(!second.starts_with(place.path().to_str().unwrap()) && rest == "9\n", "{seen}");
    assert!(said.contains("no namespace to be had") && said.contains(&start), "{said}");
    assert_eq!(place.path().join("mine").metadata().unwrap().uid(), 65534);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_user_mounts_and_unmounts_through_the_helper() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = r#"
        user mkdir at data; user sh -c 'echo base > data/file'
        user ./strata mount --layer native:data --layer memory: at
        user sh -ec 'cat at/file; echo changed > at/file; cat at/file data/file'
        user ./strata umount at
        grep -c " $PWD/at " /proc/mounts || true
        user ./strata mount --layer memory: --read-only at
        user sh -c 'echo x > at/file' 2> /dev/null || echo refused
        ./strata umount at
        # Somebody else's.
        mkdir mount; ./strata mount --layer memory: mount
        user ./strata umount mount 2> said && echo wrong
        grep -c 'strata: mount: ' said
        ./strata umount mount
        # Where the user may not mount.
        user ./strata mount --layer memory: /root 2>> said || echo $?
        user ./strata mount --layer memory: --idle-timeout 1 at
        for i in $(seq 300); do grep -q " $PWD/at " /proc/mounts || break; sleep 0.1; done
        grep -c " $PWD/at " /proc/mounts || true
    "#;
    let (seen, said) = ends_with(0, shell(place.path(), script));
    assert_eq!(seen, "base\nchanged\nbase\n0\nrefused\n1\n2\n0\n", "{said}");
}
