//! Reading, writing and cutting through a handle.

use stratafs::{Capabilities, ErrorKind, File, FileSystem, OpenOptions, SyncScope};

use super::cases;
use crate::tools::*;

cases![
    what_is_written_is_read,
    a_read_ends_at_the_end,
    an_empty_buffer_reads_and_writes_nothing,
    a_gap_reads_as_zeros,
    overwriting_changes_only_its_range,
    sizes_around_blocks,
    writes_in_any_order,
    one_handle_sees_what_another_wrote,
    a_handle_for_reading_does_not_write,
    a_handle_for_writing_does_not_read,
    set_len_cuts_and_lengthens,
    set_len_shows_zeros_where_data_was,
    a_cut_file_grows_again_with_zeros,
    far_offsets_read_as_the_end,
    far_offsets_are_too_large_to_write,
    bytes_at_shows_the_same_bytes,
    bytes_stay_as_they_are,
    sync_returns,
    random_writes_match_a_vector,
    len_of_a_handle_follows,
];

fn what_is_written_is_read(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    write_all(&*file, b"hello, world", 0);
    assert_eq!(read(&*file, 0, 5), b"hello");
    assert_eq!(read(&*file, 7, 5), b"world");
    assert_eq!(get(fs, "file"), b"hello, world");
    assert_eq!(stat(fs, "file").len, 12);
}

fn a_read_ends_at_the_end(fs: &dyn FileSystem) {
    put(fs, "file", "0123456789");
    let file = open(fs, "file", OpenOptions::reading());
    assert_eq!(read(&*file, 6, 100), b"6789");
    let mut buf = [7; 4];
    assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 11).unwrap(), 0);
    assert_eq!(buf, [7; 4], "nothing was read, nothing may be written");
    put(fs, "empty", "");
    assert_eq!(open(fs, "empty", OpenOptions::reading()).read_at(&mut buf, 0).unwrap(), 0);
}

fn an_empty_buffer_reads_and_writes_nothing(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    assert_eq!(file.write_at(&[], 0).unwrap(), 0);
    assert_eq!(file.write_at(&[], 1000).unwrap(), 0);
    assert_eq!(file.metadata().unwrap().len, 0);
    write_all(&*file, b"x", 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert_eq!(file.metadata().unwrap().len, 1);
}

fn a_gap_reads_as_zeros(fs: &dyn FileSystem) {
    for gap in [1, 100, 4096, 70_000, 3 << 20] {
        let file = edit(fs, &format!("gap{gap}"));
        write_all(&*file, b"ab", 0);
        write_all(&*file, b"yz", 2 + gap);
        let mut expected = b"ab".to_vec();
        expected.resize(2 + gap as usize, 0);
        expected.extend_from_slice(b"yz");
        assert!(contents(&*file) == expected, "a gap of {gap}");
    }
}

fn overwriting_changes_only_its_range(fs: &dyn FileSystem) {
    let mut expected = noise(1, 300_000);
    put(fs, "file", &expected);
    let file = open(fs, "file", OpenOptions::new().read(true).write(true));
    for (offset, len) in [(0, 1), (299_999, 1), (65_530, 12), (4095, 2), (100_000, 131_072)] {
        let new = noise(offset as u64 + 2, len);
        write_all(&*file, &new, offset as u64);
        expected[offset..offset + len].copy_from_slice(&new);
        assert!(contents(&*file) == expected, "{len} bytes at {offset}");
    }
}

fn sizes_around_blocks(fs: &dyn FileSystem) {
    let mut sizes = vec![0, 1, 2, 3 << 20];
    for power in [512, 4096, 16_384, 65_536, 1 << 20] {
        sizes.extend([power - 1, power, power + 1]);
    }
    for size in sizes {
        let bytes = noise(size as u64, size);
        put(fs, "file", &bytes);
        assert!(get(fs, "file") == bytes, "{size} bytes");
        assert_eq!(stat(fs, "file").len, size as u64);
    }
}

fn writes_in_any_order(fs: &dyn FileSystem) {
    let expected = noise(3, 256 * 1024);
    let file = edit(fs, "file");
    let mut blocks: Vec<usize> = (0..64).collect();
    let mut random = Random::new(4);
    for i in (1..blocks.len()).rev() {
        blocks.swap(i, random.below(i as u64 + 1) as usize);
    }
    for block in blocks {
        let start = block * 4096;
        write_all(&*file, &expected[start..start + 4096], start as u64);
    }
    assert!(contents(&*file) == expected);
}

fn one_handle_sees_what_another_wrote(fs: &dyn FileSystem) {
    put(fs, "file", "old");
    let reader = open(fs, "file", OpenOptions::reading());
    let writer = open(fs, "file", OpenOptions::new().write(true));
    assert_eq!(contents(&*reader), b"old");
    write_all(&*writer, b"newer", 0);
    assert_eq!(contents(&*reader), b"newer");
    writer.set_len(2).unwrap();
    assert_eq!(contents(&*reader), b"ne");
    put(fs, "file", "");
    assert_eq!(contents(&*reader), b"");
}

fn a_handle_for_reading_does_not_write(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = open(fs, "file", OpenOptions::reading());
    fails(file.write_at(b"x", 0), ErrorKind::BadHandle);
    fails(file.set_len(1), ErrorKind::BadHandle);
    assert_eq!(get(fs, "file"), b"contents");
}

fn a_handle_for_writing_does_not_read(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    for options in [OpenOptions::new().write(true), OpenOptions::new().append(true)] {
        let file = open(fs, "file", options);
        fails(file.read_at(&mut [0; 4], 0), ErrorKind::BadHandle);
        match file.bytes_at(0..4) {
            Ok(None) => {}
            Ok(Some(_)) => panic!("bytes_at shows what read_at would not"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::BadHandle),
        }
        assert_eq!(file.metadata().unwrap().len, 8);
    }
}

fn set_len_cuts_and_lengthens(fs: &dyn FileSystem) {
    let bytes = noise(5, 200_000);
    put(fs, "file", &bytes);
    let file = open(fs, "file", OpenOptions::new().read(true).write(true));
    for len in [200_000, 150_000, 65_536, 65_535, 4097, 1, 0] {
        file.set_len(len).unwrap();
        assert!(contents(&*file) == bytes[..len as usize], "cut to {len}");
        assert_eq!(stat(fs, "file").len, len);
    }
    file.set_len(100_000).unwrap();
    assert!(contents(&*file) == vec![0; 100_000]);
    let appender = open(fs, "file", OpenOptions::new().append(true));
    appender.set_len(3).unwrap();
    assert_eq!(stat(fs, "file").len, 3);
}

fn set_len_shows_zeros_where_data_was(fs: &dyn FileSystem) {
    let bytes = noise(6, 100_000);
    for cut in [0, 1, 4095, 4096, 65_536, 99_999] {
        put(fs, "file", &bytes);
        let file = open(fs, "file", OpenOptions::new().read(true).write(true));
        file.set_len(cut as u64).unwrap();
        file.set_len(150_000).unwrap();
        let mut expected = bytes[..cut].to_vec();
        expected.resize(150_000, 0);
        assert!(contents(&*file) == expected, "cut to {cut}");
    }
}

fn a_cut_file_grows_again_with_zeros(fs: &dyn FileSystem) {
    put(fs, "file", noise(7, 10_000));
    let file = open(fs, "file", OpenOptions::new().read(true).write(true));
    file.set_len(10).unwrap();
    write_all(&*file, b"end", 5000);
    let mut expected = noise(7, 10);
    expected.resize(5000, 0);
    expected.extend_from_slice(b"end");
    assert_eq!(contents(&*file), expected);
}

fn far_offsets_read_as_the_end(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = open(fs, "file", OpenOptions::reading());
    for offset in [1 << 40, i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX] {
        assert_eq!(file.read_at(&mut [0; 8], offset).unwrap(), 0, "offset {offset:#x}");
    }
}

fn far_offsets_are_too_large_to_write(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = open(fs, "file", OpenOptions::new().read(true).write(true));
    for offset in [i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX] {
        fails(file.write_at(b"xy", offset), ErrorKind::FileTooLarge);
    }
    for len in [1 << 63, u64::MAX] {
        fails(file.set_len(len), ErrorKind::FileTooLarge);
    }
    assert_eq!(contents(&*file), b"contents");
}

fn bytes_at_shows_the_same_bytes(fs: &dyn FileSystem) {
    let bytes = noise(8, 200_000);
    put(fs, "file", &bytes);
    let file = open(fs, "file", OpenOptions::reading());
    for (start, end) in
        [(0, 10), (0, 200_000), (100, 70_000), (199_990, 300_000), (200_000, 200_001), (5, 5)]
    {
        let Some(shared) = file.bytes_at(start..end).unwrap() else { continue };
        let end = end.min(200_000) as usize;
        assert!(shared == bytes[(start as usize).min(end)..end], "{start}..{end}");
    }
    if let Some(shared) = file.bytes_at(u64::MAX - 1..u64::MAX).unwrap() {
        assert!(shared.is_empty());
    }
}

fn bytes_stay_as_they_are(fs: &dyn FileSystem) {
    for len in [100, 10_000, 300_000] {
        let bytes = noise(9, len);
        put(fs, "file", &bytes);
        let file = open(fs, "file", OpenOptions::new().read(true).write(true));
        let Some(shared) = file.bytes_at(0..len as u64).unwrap() else { continue };
        write_all(&*file, &noise(10, len / 2), 0);
        assert!(shared == bytes, "a write shows in bytes lent before");
        file.set_len(0).unwrap();
        assert!(shared == bytes, "a cut shows in bytes lent before");
        write_all(&*file, &noise(11, len), 0);
        unlink(fs, "file");
        drop(file);
        put(fs, "file", noise(12, len));
        assert!(shared == bytes, "a removal shows in bytes lent before");
    }
}

fn sync_returns(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    write_all(&*file, b"contents", 0);
    file.sync(SyncScope::Data).unwrap();
    file.sync(SyncScope::All).unwrap();
    open(fs, "file", OpenOptions::reading()).sync(SyncScope::All).unwrap();
    fs.sync().unwrap();
    assert_eq!(get(fs, "file"), b"contents");
}

fn random_writes_match_a_vector(fs: &dyn FileSystem) {
    let mut random = Random::new(13);
    let file = edit(fs, "file");
    let mut expected: Vec<u8> = Vec::new();
    for step in 0..300 {
        let offset = random.below(150_000) as usize;
        let len = 1 + random.size(17);
        match random.below(5) {
            0 => {
                file.set_len(offset as u64).unwrap();
                expected.resize(offset, 0);
            }
            1 => {
                let end = (offset + len).min(expected.len());
                let start = offset.min(end);
                assert!(read(&*file, offset as u64, len) == expected[start..end], "step {step}");
            }
            _ => {
                let bytes = noise(step, len);
                write_all(&*file, &bytes, offset as u64);
                if expected.len() < offset + len {
                    expected.resize(offset + len, 0);
                }
                expected[offset..offset + len].copy_from_slice(&bytes);
            }
        }
    }
    assert!(contents(&*file) == expected);
}

fn len_of_a_handle_follows(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    let len = |file: &dyn File| file.metadata().unwrap().len;
    assert_eq!(len(&*file), 0);
    write_all(&*file, b"12345", 10);
    assert_eq!(len(&*file), 15);
    assert_eq!(stat(fs, "file").len, 15);
    write_all(&*file, b"1", 0);
    assert_eq!(len(&*file), 15);
    put(fs, "file", "x");
    assert_eq!(len(&*file), 1);
    if fs.capabilities().contains(Capabilities::HARD_LINKS) {
        link(fs, "file", "other");
        put(fs, "other", "four");
        assert_eq!(len(&*file), 4);
    }
}
