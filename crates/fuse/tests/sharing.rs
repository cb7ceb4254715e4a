//! What several processes may expect of one file on a mount.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, RenameFlags, mknodat, renameat_with};
use rustix::io::Errno;
use support::{on_each_tree, run};

#[test]
fn appenders_lose_nothing() {
    on_each_tree(|root| {
        // One handle for all lines, and one for each.
        let scripts = [
            "exec >> log; for i in $(seq 200); do echo \"$0 $i\"; done",
            "for i in $(seq 200); do echo \"$0 $i\" >> log; done",
        ];
        let writers = (0..4).map(|writer| {
            let mut shell = Command::new("sh");
            shell.args(["-c", scripts[writer % 2], &writer.to_string()]).current_dir(root);
            shell.spawn().unwrap()
        });
        for mut writer in writers.collect::<Vec<_>>() {
            assert!(writer.wait().unwrap().success());
        }
        let text = fs::read_to_string(root.join("log")).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        let mut expected: Vec<String> =
            (0..4).flat_map(|w| (1..=200).map(move |i| format!("{w} {i}"))).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
    });
}

#[test]
fn flock_holds_between_processes() {
    on_each_tree(|root| {
        let file = File::create(root.join("locked")).unwrap();
        let try_lock = |kind: &str| {
            let mut flock = Command::new("flock");
            flock.args(["-n", kind]).arg(root.join("locked")).arg("true");
            flock.status().unwrap().success()
        };
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        assert!(!try_lock("-x") && !try_lock("-s"));
        rustix::fs::flock(&file, FlockOperation::LockShared).unwrap();
        assert!(!try_lock("-x") && try_lock("-s"));
        drop(file);
        assert!(try_lock("-x"));
    });
}

/// Ranges of a file: held by this process, asked for by another.
#[test]
fn record_locks_hold_between_processes() {
    on_each_tree(|root| {
        let path = root.join("locked");
        fs::write(&path, "0123456789").unwrap();
        let try_lock = || {
            let script = "open(F, '+<', $ARGV[0]) or die; my $r = pack('s s x![q] q q i', \
                F_WRLCK, SEEK_SET, 0, 5, 0); exit(fcntl(F, F_SETLK, $r) ? 0 : 1)";
            let mut perl = Command::new("perl");
            perl.args(["-MFcntl=:DEFAULT,:seek", "-e", script]).arg(&path);
            perl.status().unwrap().code()
        };
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(try_lock(), Some(1));
        rustix::fs::fcntl_lock(&file, FlockOperation::Unlock).unwrap();
        assert_eq!(try_lock(), Some(0));
    });
}

#[test]
fn fifos_and_sockets_connect_processes() {
    on_each_tree(|root| {
        let (fifo, socket) = (root.join("fifo"), root.join("socket"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(fifo.metadata().unwrap().file_type().is_fifo());
        let mut writer = Command::new("sh")
            .args(["-c", "echo through > fifo"])
            .current_dir(root)
            .spawn()
            .unwrap();
        assert_eq!(fs::read_to_string(&fifo).unwrap(), "through\n");
        assert!(writer.wait().unwrap().success());

        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(socket.metadata().unwrap().file_type().is_socket());
        let mut client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        client.write_all(b"x").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.read_exact(&mut [0]).unwrap();
        fs::rename(&socket, root.join("moved")).unwrap();
        std::os::unix::net::UnixStream::connect(root.join("moved")).unwrap();
    });
}

#[test]
fn names_change_places_in_one_step() {
    on_each_tree(|root| {
        let (one, other) = (root.join("one"), root.join("other"));
        fs::write(&one, "1").unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("x"), "2").unwrap();
        let rename = |from: &Path, to: &Path, flags| renameat_with(CWD, from, CWD, to, flags);
        rename(&one, &other, RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read_to_string(one.join("x")).unwrap(), "2");
        assert_eq!(fs::read_to_string(&other).unwrap(), "1");
        let taken = rename(&other, &one, RenameFlags::NOREPLACE);
        assert_eq!(taken.unwrap_err(), Errno::EXIST);
        rename(&other, &root.join("free"), RenameFlags::NOREPLACE).unwrap();
        let missing = rename(&one, &root.join("missing"), RenameFlags::EXCHANGE);
        assert_eq!(missing.unwrap_err(), Errno::NOENT);
        let whiteout = rename(&one, &root.join("new"), RenameFlags::WHITEOUT);
        assert_eq!(whiteout.unwrap_err(), Errno::INVAL);
        assert!(one.is_dir() && !root.join("new").exists());
    });
}

/// What the mount does not carry is refused at once, so that programs do without.
#[test]
fn what_is_not_carried_is_refused() {
    on_each_tree(|root| {
        fs::write(root.join("file"), "").unwrap();
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let unnamed = rustix::fs::open(root, flags, Mode::from_raw_mode(0o600));
        assert_eq!(unnamed.unwrap_err(), Errno::OPNOTSUPP);
        // Owner, user 1, group, mask, others: a tag, permissions and an id each.
        let acl =
            [(1, 6, u32::MAX), (2, 4, 1), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)];
        let acl: Vec<u8> = [2, 0, 0, 0]
            .into_iter()
            .chain(acl.iter().flat_map(|&(tag, bits, id)| {
                let [a, b, c, d] = u32::to_le_bytes(id);
                [tag, 0, bits, 0, a, b, c, d]
            }))
            .collect();
        let name = "system.posix_acl_access";
        let none = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(root.join("file"), name, &acl, none);
        assert_eq!(set.unwrap_err(), Errno::OPNOTSUPP);
        assert!(root.join("file").metadata().unwrap().created().is_err());
    });
    // The usual program does well without.
    on_each_tree(|root| {
        let mut temporary = tempfile::tempfile_in(root).unwrap();
        temporary.write_all(b"text").unwrap();
        let mut list = Command::new("ls");
        assert_eq!(run(list.arg("-A").arg(root)), "");
    });
}
