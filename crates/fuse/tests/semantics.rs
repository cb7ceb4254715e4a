//! What a program may expect of a mount.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;

use stratafs::{MemoryFs, MemoryOptions, ReadOnlyFs, Vfs};
use stratafs_fuse::MountOptions;
use support::{Mounted, like_a_disk, on_each_tree};

#[test]
fn a_removed_file_lives_as_long_as_it_is_open() {
    on_each_tree(|root| {
        let path = root.join("file");
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"before").unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        file.write_all(b" and after").unwrap();
        file.set_len(14).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        fs::write(&path, "another").unwrap();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and aft");
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    });
}

#[test]
fn a_removed_file_can_be_opened_again_through_its_handle() {
    on_each_tree(|root| {
        let path = root.join("file");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all_at(b"text", 0).unwrap();
        fs::remove_file(&path).unwrap();
        use std::os::fd::AsRawFd;
        let again = fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!(again, b"text");
    });
}

#[test]
fn hard_links_are_one_file() {
    on_each_tree(|root| {
        let (one, other) = (root.join("one"), root.join("other"));
        fs::write(&one, "text").unwrap();
        fs::hard_link(&one, &other).unwrap();
        let (first, second) = (one.metadata().unwrap(), other.metadata().unwrap());
        assert_eq!(first.ino(), second.ino());
        assert_eq!(second.nlink(), 2);
        let reader = File::open(&one).unwrap();
        OpenOptions::new().append(true).open(&other).unwrap().write_all(b" more").unwrap();
        let mut text = [0; 9];
        reader.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"text more");
        fs::remove_file(&one).unwrap();
        assert_eq!(other.metadata().unwrap().nlink(), 1);
    });
}

#[test]
fn a_directory_moves_with_what_is_open_in_it() {
    on_each_tree(|root| {
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "text").unwrap();
        let file = OpenOptions::new().write(true).open(root.join("a/b/file")).unwrap();
        fs::rename(root.join("a"), root.join("c")).unwrap();
        file.write_all_at(b"T", 0).unwrap();
        file.set_len(3).unwrap();
        assert_eq!(fs::read_to_string(root.join("c/b/file")).unwrap(), "Tex");
        assert!(!root.join("a").exists());
    });
}

#[test]
fn a_listing_is_complete_while_its_entries_are_removed() {
    on_each_tree(|root| {
        for index in 0..3000 {
            File::create(root.join(format!("file-with-a-longer-name-{index}"))).unwrap();
        }
        let mut seen = 0;
        for entry in fs::read_dir(root).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
            seen += 1;
        }
        assert_eq!(seen, 3000);
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
        fs::remove_dir(root.join(".")).unwrap_err();
    });
}

#[test]
fn extended_attributes_round_trip() {
    on_each_tree(|root| {
        let path = root.join("file");
        fs::write(&path, "").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "user.one", b"value", flags).unwrap();
        let mut value = [0; 16];
        assert_eq!(rustix::fs::getxattr(&path, "user.one", &mut value).unwrap(), 5);
        let mut names = [0; 64];
        let len = rustix::fs::listxattr(&path, &mut names).unwrap();
        assert_eq!(&names[..len], b"user.one\0");
        let again = rustix::fs::setxattr(&path, "user.one", b"", rustix::fs::XattrFlags::CREATE);
        assert_eq!(again.unwrap_err(), rustix::io::Errno::EXIST);
        rustix::fs::removexattr(&path, "user.one").unwrap();
        let gone = rustix::fs::getxattr(&path, "user.one", &mut value);
        assert_eq!(gone.unwrap_err(), rustix::io::Errno::NODATA);
    });
}

#[test]
fn times_before_1970_and_nanoseconds_are_kept() {
    on_each_tree(|root| {
        let path = root.join("file");
        fs::write(&path, "").unwrap();
        for (seconds, nanos) in [(1_000_000_000, 123_456_789), (-5, 250_000_000), (-5, 0)] {
            let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanos };
            let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(rustix::fs::CWD, &path, &times, rustix::fs::AtFlags::empty())
                .unwrap();
            let metadata = path.metadata().unwrap();
            assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (seconds, nanos));
        }
    });
}

#[test]
fn a_set_group_id_directory_hands_its_group_on() {
    on_each_tree(|root| {
        let directory = root.join("shared");
        fs::create_dir(&directory).unwrap();
        if std::os::unix::fs::chown(&directory, None, Some(1)).is_err() {
            return; // only root may give a directory to any group
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o2775)).unwrap();
        fs::write(directory.join("file"), "").unwrap();
        fs::create_dir(directory.join("below")).unwrap();
        let below = directory.join("below").metadata().unwrap();
        assert_eq!((below.gid(), below.mode() & 0o2000), (1, 0o2000));
        assert_eq!(directory.join("file").metadata().unwrap().gid(), 1);
    });
}

#[test]
fn a_full_tree_says_so_and_goes_on() {
    let quota = MemoryOptions::new().quota_bytes(1 << 20);
    let Some(mounted) = Mounted::new(Arc::new(MemoryFs::with_options(quota)), &like_a_disk())
    else {
        return;
    };
    let error = fs::write(mounted.path().join("big"), vec![0; 4 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    fs::remove_file(mounted.path().join("big")).unwrap();
    fs::write(mounted.path().join("small"), "fits").unwrap();
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let memory = Arc::new(MemoryFs::new());
    let tree = Vfs::new();
    tree.mount("/", memory.clone(), stratafs::MountOptions::new()).unwrap();
    tree.write("file", "text").unwrap();
    for (fs_, options) in [
        (tree.freeze() as Arc<dyn stratafs::FileSystem>, MountOptions::new().read_only(true)),
        (Arc::new(ReadOnlyFs::new(memory)), MountOptions::new()),
    ] {
        let Some(mounted) = Mounted::new(fs_, &options) else { return };
        assert_eq!(fs::read_to_string(mounted.path().join("file")).unwrap(), "text");
        for result in [
            fs::write(mounted.path().join("file"), "x"),
            fs::write(mounted.path().join("new"), "x"),
            fs::create_dir(mounted.path().join("directory")),
            fs::remove_file(mounted.path().join("file")),
        ] {
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
    }
}

#[test]
fn names_need_not_be_text_and_have_255_bytes() {
    use std::os::unix::ffi::OsStrExt;
    on_each_tree(|root| {
        let odd = root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
        fs::write(&odd, "text").unwrap();
        let entry = fs::read_dir(root).unwrap().next().unwrap().unwrap();
        assert_eq!(entry.file_name().as_bytes(), b"\xff\xfe");
        fs::write(root.join("x".repeat(255)), "").unwrap();
        let error = fs::write(root.join("x".repeat(256)), "").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    });
}

#[test]
fn writing_clears_set_user_id_for_others() {
    on_each_tree(|root| {
        if !rustix::process::geteuid().is_root() {
            return; // it takes root to write as somebody else
        }
        let path = root.join("program");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        fs::set_permissions(root, fs::Permissions::from_mode(0o777)).unwrap();
        support::run(
            std::process::Command::new("setpriv")
                .args([
                    "--reuid=1",
                    "--regid=1",
                    "--clear-groups",
                    "sh",
                    "-c",
                    "echo more >> \"$0\"",
                ])
                .arg(&path),
        );
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o777);
    });
}

#[test]
fn programs_run_from_a_mount() {
    on_each_tree(|root| {
        let program = root.join("program");
        let mut file = OpenOptions::new();
        file.write(true).create_new(true).mode(0o755);
        file.open(&program).unwrap().write_all(b"#!/bin/sh\necho ran\n").unwrap();
        assert_eq!(support::run(&mut std::process::Command::new(&program)), "ran\n");
        fs::copy("/bin/true", root.join("true")).unwrap();
        support::run(&mut std::process::Command::new(root.join("true")));
    });
}
