//! What a program may do with the contents of files on a mount.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom as At, copy_file_range};
use rustix::io::Errno;
use support::on_each_tree;

fn new_file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index / 1000 + index * 7) as u8).collect()
}

#[test]
fn holes_are_found_and_punched() {
    on_each_tree(|root| {
        let file = new_file(&root.join("sparse"));
        file.write_all_at(&[7; 65_536], 8 << 20).unwrap();
        assert_eq!(rustix::fs::seek(&file, At::Data(0)).unwrap(), 8 << 20);
        assert_eq!(rustix::fs::seek(&file, At::Hole(0)).unwrap(), 0);
        assert_eq!(rustix::fs::seek(&file, At::Hole(8 << 20)).unwrap(), (8 << 20) + 65_536);
        assert_eq!(rustix::fs::seek(&file, At::Data(9 << 20)).unwrap_err(), Errno::NXIO);
        assert!(file.metadata().unwrap().blocks() * 512 < 8 << 20);

        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 8 << 20, 32_768).unwrap();
        assert_eq!(rustix::fs::seek(&file, At::Data(0)).unwrap(), (8 << 20) + 32_768);
        let mut read = vec![1; 65_536];
        file.read_exact_at(&mut read, 8 << 20).unwrap();
        assert!(read[..32_768] == [0; 32_768] && read[32_768..] == [7; 32_768]);
        let alone = rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE, 0, 4096);
        assert_eq!(alone.unwrap_err(), Errno::OPNOTSUPP);
    });
}

#[test]
fn storage_is_reserved_with_and_without_a_new_length() {
    on_each_tree(|root| {
        let file = new_file(&root.join("reserved"));
        rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 4096, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 4096);
        assert!(file.metadata().unwrap().blocks() * 512 >= 1 << 20);
        let empty = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 0);
        assert_eq!(empty.unwrap_err(), Errno::INVAL);
        let reader = File::open(root.join("reserved")).unwrap();
        let refused = rustix::fs::fallocate(&reader, FallocateFlags::empty(), 0, 1);
        assert_eq!(refused.unwrap_err(), Errno::BADF);
    });
}

/// More than the mount copies for one request, at odd offsets, to its end and behind it.
#[test]
fn ranges_are_copied() {
    on_each_tree(|root| {
        let (from, to) = (new_file(&root.join("from")), new_file(&root.join("to")));
        let all = bytes(20 << 20);
        from.write_all_at(&all, 0).unwrap();
        let (mut source, mut target) = (3, 5);
        loop {
            let copied =
                copy_file_range(&from, Some(&mut source), &to, Some(&mut target), 64 << 20);
            if copied.unwrap() == 0 {
                break;
            }
        }
        assert_eq!((source, target), (20 << 20, (20 << 20) + 2));
        let mut copy = Vec::new();
        (&to).read_to_end(&mut copy).unwrap();
        assert!(copy[..5] == [0; 5] && copy[5..] == all[3..]);

        // Within one file; ranges that overlap are refused.
        let (mut source, mut target) = (0, 4096);
        copy_file_range(&from, Some(&mut source), &from, Some(&mut target), 4096).unwrap();
        let mut moved = [0; 4096];
        from.read_exact_at(&mut moved, 4096).unwrap();
        assert!(moved[..] == all[..4096]);
        let (mut source, mut target) = (0, 1);
        let refused = copy_file_range(&from, Some(&mut source), &from, Some(&mut target), 4096);
        assert_eq!(refused.unwrap_err(), Errno::INVAL);
    });
}

#[test]
fn the_page_cache_can_be_gone_around() {
    const LEN: usize = 1 << 16;
    on_each_tree(|root| {
        let mut room = vec![0_u8; 2 * LEN + 4096];
        let start = room.as_ptr().align_offset(4096);
        let (ours, theirs) = room[start..start + 2 * LEN].split_at_mut(LEN);
        ours.copy_from_slice(&bytes(LEN));
        let cached = new_file(&root.join("file"));
        cached.write_all_at(&[1; LEN], 0).unwrap();
        let direct = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(root.join("file"))
            .unwrap();
        direct.read_exact_at(theirs, 0).unwrap();
        assert!(theirs == [1; LEN]);
        direct.write_all_at(ours, 0).unwrap();
        cached.read_exact_at(theirs, 0).unwrap();
        assert!(theirs == ours);
        cached.write_all_at(b"cached", 4096).unwrap();
        direct.read_exact_at(theirs, 0).unwrap();
        assert_eq!(&theirs[4096..4102], b"cached");
    });
}

/// The loader maps programs: one that was just written runs, and one that runs cannot be
/// written.
#[test]
fn a_running_program_is_busy() {
    on_each_tree(|root| {
        fs::copy("/bin/sleep", root.join("program")).unwrap();
        let mut running =
            std::process::Command::new(root.join("program")).arg("60").spawn().unwrap();
        let busy = OpenOptions::new().write(true).open(root.join("program")).unwrap_err();
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(busy.kind(), std::io::ErrorKind::ExecutableFileBusy);
        OpenOptions::new().write(true).open(root.join("program")).unwrap();
    });
}
