//! Holes, and storage reserved and given back.

#![expect(clippy::single_range_in_vec_init)] // lists of ranges, some of one range

use std::ops::Range;

use stratafs::{Allocation, ErrorKind, File, FileSystem, OpenOptions, Seek, SyncScope};

use super::cases;
use crate::tools::*;

cases![
    an_empty_file_has_neither,
    the_end_counts_as_a_hole,
    behind_the_end_is_nothing,
    holes_are_found: SPARSE,
    holes_between_data: SPARSE,
    no_data_after_the_last: SPARSE,
    holes_read_as_zeros,
    holes_take_no_storage: SPARSE,
    a_cut_gives_storage_back: SPARSE,
    a_punched_hole: SPARSE,
    a_hole_may_begin_anywhere: SPARSE,
    a_hole_behind_the_end: SPARSE,
    a_reservation_lengthens: SPARSE,
    a_reservation_may_keep_the_length: SPARSE,
    a_reservation_spares_what_is_there: SPARSE,
    zeros_lengthen: SPARSE,
    zeros_may_keep_the_length: SPARSE,
    writing_into_a_hole: SPARSE,
    an_empty_range_is_an_error: SPARSE,
    a_handle_for_reading_allocates_nothing: SPARSE,
    ranges_that_no_file_can_have: SPARSE,
    other_handles_see_it: SPARSE,
];

/// The size of data and holes: large against any unit of storage.
const UNIT: u64 = 256 << 10;

fn sparse(fs: &dyn FileSystem, data: &[Range<u64>], len: u64) -> Box<dyn File> {
    let file = edit(fs, "file");
    for range in data {
        write_all(&*file, &noise(range.start, (range.end - range.start) as usize), range.start);
    }
    file.set_len(len).unwrap();
    file
}

/// Storage behind the file, once nothing waits to be written.
fn allocated(file: &dyn File) -> u64 {
    file.sync(SyncScope::All).unwrap();
    file.metadata().unwrap().allocated
}

/// The file's data lies in what is called data, and no more than twice as much is.
#[track_caller]
fn data_is_where(file: &dyn File, written: &[Range<u64>]) {
    let found = data_ranges(file);
    for range in written {
        let covered = found.iter().any(|data| data.start <= range.start && range.end <= data.end);
        assert!(covered, "{range:?} is not within {found:?}");
    }
    let sum = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum();
    let (found, written): (u64, u64) = (sum(&found), sum(written));
    assert!(found <= 2 * written, "{found} bytes of data, {written} were written");
}

fn an_empty_file_has_neither(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    for what in [Seek::Data, Seek::Hole] {
        fails(file.seek(0, what), ErrorKind::NoSuchOffset);
    }
}

fn the_end_counts_as_a_hole(fs: &dyn FileSystem) {
    for len in [1, 100, 4096, 70_000] {
        put(fs, "file", noise(len, len as usize));
        let file = open(fs, "file", OpenOptions::reading());
        for offset in [0, len / 2, len - 1] {
            assert_eq!(file.seek(offset, Seek::Hole).unwrap(), len);
            assert_eq!(file.seek(offset, Seek::Data).unwrap(), offset);
        }
    }
}

fn behind_the_end_is_nothing(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = open(fs, "file", OpenOptions::reading());
    for offset in [8, 9, 4096, i64::MAX as u64, u64::MAX] {
        fails(file.seek(offset, Seek::Data), ErrorKind::NoSuchOffset);
        fails(file.seek(offset, Seek::Hole), ErrorKind::NoSuchOffset);
    }
}

fn holes_are_found(fs: &dyn FileSystem) {
    let data = [8 * UNIT..9 * UNIT];
    let file = sparse(fs, &data, 16 * UNIT);
    data_is_where(&*file, &data);
    assert_eq!(file.seek(0, Seek::Hole).unwrap(), 0);
    assert_eq!(file.seek(8 * UNIT + 5, Seek::Data).unwrap(), 8 * UNIT + 5);
    assert_eq!(file.seek(16 * UNIT - 1, Seek::Hole).unwrap(), 16 * UNIT - 1);
}

fn holes_between_data(fs: &dyn FileSystem) {
    let data: Vec<_> = (0..5).map(|i| i * 4 * UNIT..i * 4 * UNIT + UNIT).collect();
    let file = sparse(fs, &data, 17 * UNIT);
    data_is_where(&*file, &data);
    for range in &data {
        assert!(read(&*file, range.start, UNIT as usize) == noise(range.start, UNIT as usize));
    }
}

fn no_data_after_the_last(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..UNIT], 8 * UNIT);
    fails(file.seek(4 * UNIT, Seek::Data), ErrorKind::NoSuchOffset);
    fails(file.seek(8 * UNIT, Seek::Hole), ErrorKind::NoSuchOffset);
    let hole = sparse(fs, &[], UNIT);
    hole.set_len(0).unwrap();
    hole.set_len(UNIT).unwrap();
    fails(hole.seek(0, Seek::Data), ErrorKind::NoSuchOffset);
    assert_eq!(hole.seek(0, Seek::Hole).unwrap(), 0);
}

fn holes_read_as_zeros(fs: &dyn FileSystem) {
    let file = sparse(fs, &[3_000_000..3_000_100], 3_500_000);
    let bytes = contents(&*file);
    assert_eq!(bytes.len(), 3_500_000);
    assert!(bytes[..3_000_000].iter().all(|&byte| byte == 0));
    assert!(bytes[3_000_000..3_000_100] == noise(3_000_000, 100));
    assert!(bytes[3_000_100..].iter().all(|&byte| byte == 0));
}

fn holes_take_no_storage(fs: &dyn FileSystem) {
    let file = sparse(fs, &[8 * UNIT..9 * UNIT], 1 << 32);
    let storage = allocated(&*file);
    assert!((UNIT..2 * UNIT).contains(&storage), "{storage} bytes for a unit of data");
    assert_eq!(stat(fs, "file").allocated, storage);
}

fn a_cut_gives_storage_back(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..4 * UNIT], 4 * UNIT);
    assert!(allocated(&*file) >= 4 * UNIT);
    file.set_len(UNIT).unwrap();
    assert!(allocated(&*file) < 2 * UNIT);
    file.set_len(0).unwrap();
    assert!(allocated(&*file) < UNIT);
}

fn a_punched_hole(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..4 * UNIT], 4 * UNIT);
    let mut expected = contents(&*file);
    let before = allocated(&*file);
    file.allocate(Allocation::PunchHole, UNIT..3 * UNIT).unwrap();
    expected[UNIT as usize..3 * UNIT as usize].fill(0);
    assert!(contents(&*file) == expected);
    assert!(allocated(&*file) + UNIT <= before, "storage was kept");
    data_is_where(&*file, &[0..UNIT, 3 * UNIT..4 * UNIT]);
}

fn a_hole_may_begin_anywhere(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..100_000], 100_000);
    let mut expected = contents(&*file);
    for hole in [1000..9000, 4095..4097, 20_000..20_001, 50_000..99_999, 0..1] {
        file.allocate(Allocation::PunchHole, hole.clone()).unwrap();
        expected[hole.start as usize..hole.end as usize].fill(0);
        assert!(contents(&*file) == expected, "{hole:?}");
    }
}

fn a_hole_behind_the_end(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..10_000], 10_000);
    file.allocate(Allocation::PunchHole, 20_000..30_000).unwrap();
    assert!(contents(&*file) == noise(0, 10_000));
    file.allocate(Allocation::PunchHole, 5000..30_000).unwrap();
    let bytes = contents(&*file);
    assert!(bytes[..5000] == noise(0, 10_000)[..5000] && bytes[5000..] == [0; 5000]);
}

fn a_reservation_lengthens(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    file.allocate(Allocation::Reserve, UNIT..3 * UNIT).unwrap();
    assert_eq!(file.metadata().unwrap().len, 3 * UNIT);
    assert!(allocated(&*file) >= 2 * UNIT);
    assert!(contents(&*file) == vec![0; 3 * UNIT as usize]);
    file.allocate(Allocation::Reserve, 0..10).unwrap();
    assert_eq!(stat(fs, "file").len, 3 * UNIT, "a reservation never cuts");
}

fn a_reservation_may_keep_the_length(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..10], 10);
    file.allocate(Allocation::ReserveKeepLen, 0..2 * UNIT).unwrap();
    assert!(contents(&*file) == noise(0, 10));
    assert!(allocated(&*file) >= 2 * UNIT);
    // What is reserved is no data until something is written there.
    write_all(&*file, b"x", UNIT);
    let bytes = contents(&*file);
    assert!(bytes[..10] == noise(0, 10) && bytes[10..UNIT as usize].iter().all(|&b| b == 0));
    assert_eq!(bytes[UNIT as usize..], *b"x");
}

fn a_reservation_spares_what_is_there(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..50_000], 50_000);
    for what in [Allocation::Reserve, Allocation::ReserveKeepLen] {
        file.allocate(what, 10..40_000).unwrap();
        assert!(contents(&*file) == noise(0, 50_000));
    }
}

fn zeros_lengthen(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..10_000], 10_000);
    file.allocate(Allocation::Zero, 5000..20_000).unwrap();
    let bytes = contents(&*file);
    assert_eq!(bytes.len(), 20_000);
    assert!(bytes[..5000] == noise(0, 10_000)[..5000]);
    assert!(bytes[5000..].iter().all(|&byte| byte == 0));
}

fn zeros_may_keep_the_length(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..10_000], 10_000);
    file.allocate(Allocation::ZeroKeepLen, 1000..2000).unwrap();
    file.allocate(Allocation::ZeroKeepLen, 9000..20_000).unwrap();
    let mut expected = noise(0, 10_000);
    expected[1000..2000].fill(0);
    expected[9000..].fill(0);
    assert!(contents(&*file) == expected);
    // Nothing of what was zeroed behind the end comes back.
    file.set_len(20_000).unwrap();
    expected.resize(20_000, 0);
    assert!(contents(&*file) == expected);
}

fn writing_into_a_hole(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..UNIT], 8 * UNIT);
    write_all(&*file, &noise(1, UNIT as usize), 4 * UNIT);
    data_is_where(&*file, &[0..UNIT, 4 * UNIT..5 * UNIT]);
    file.allocate(Allocation::PunchHole, 0..UNIT).unwrap();
    write_all(&*file, b"again", 100);
    let bytes = contents(&*file);
    assert!(bytes[..100] == [0; 100] && bytes[100..105] == *b"again");
    assert!(bytes[105..4 * UNIT as usize].iter().all(|&byte| byte == 0));
    assert!(bytes[4 * UNIT as usize..5 * UNIT as usize] == noise(1, UNIT as usize));
}

const ALL: [Allocation; 5] = [
    Allocation::Reserve,
    Allocation::ReserveKeepLen,
    Allocation::PunchHole,
    Allocation::Zero,
    Allocation::ZeroKeepLen,
];

fn an_empty_range_is_an_error(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..10], 10);
    for what in ALL {
        fails(file.allocate(what, 5..5), ErrorKind::InvalidArgument);
    }
    assert!(contents(&*file) == noise(0, 10));
}

fn a_handle_for_reading_allocates_nothing(fs: &dyn FileSystem) {
    put(fs, "file", "contents");
    let file = open(fs, "file", OpenOptions::reading());
    for what in ALL {
        fails(file.allocate(what, 0..4096), ErrorKind::BadHandle);
    }
    assert_eq!(get(fs, "file"), b"contents");
}

fn ranges_that_no_file_can_have(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..10], 10);
    for what in ALL {
        for range in [0..u64::MAX, 1 << 63..(1 << 63) + 1] {
            fails(file.allocate(what, range), ErrorKind::FileTooLarge);
        }
    }
    assert!(contents(&*file) == noise(0, 10));
}

fn other_handles_see_it(fs: &dyn FileSystem) {
    let file = sparse(fs, &[0..UNIT], UNIT);
    let reader = open(fs, "file", OpenOptions::reading());
    assert_eq!(read(&*reader, 0, 10), noise(0, 10));
    file.allocate(Allocation::PunchHole, 0..UNIT / 2).unwrap();
    assert_eq!(read(&*reader, 0, 10), [0; 10]);
    file.allocate(Allocation::Reserve, 0..2 * UNIT).unwrap();
    assert_eq!(reader.metadata().unwrap().len, 2 * UNIT);
    unlink(fs, "file");
    file.allocate(Allocation::PunchHole, 0..UNIT).unwrap();
    assert!(contents(&*reader) == vec![0; 2 * UNIT as usize]);
}
