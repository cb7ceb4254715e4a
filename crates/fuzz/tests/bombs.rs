//! Small inputs that would like to become large: each target asserts its own bound of memory.

use std::io::{Cursor, Write};

use stratafs::archive::{Compression, PackOptions, Rule, pack_to_vec};
use stratafs::zip::ZipOptions;
use stratafs::{FileSystem, MemoryFs, ZipFs};
use stratafs_fuzz::Target;
use stratafs_testkit::tools::put;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Runs a target with several first bytes, which are how to open.
fn run(name: &str, bytes: &[u8]) {
    let target = Target::named(name).expect("a target");
    for how in 0..2 {
        (target.run)(&[&[how], bytes].concat());
    }
}

fn zip_of(entries: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, contents) in entries {
        zip.start_file(name, SimpleFileOptions::default()).expect("a file");
        zip.write_all(&contents).expect("a file's contents");
    }
    zip.finish().expect("a zip file").into_inner()
}

#[test]
fn zip_entries_that_inflate_to_a_thousand_times_their_size() {
    run("zip", &zip_of((0..12).map(|nth| (format!("zeros-{nth}"), vec![0; 2 << 20]))));
}

#[test]
fn zip_names_that_imply_thousands_of_directories() {
    let names = (0..16).map(|nth| (format!("{nth}{}", "/d".repeat(2040)), Vec::new()));
    let bytes = zip_of(names);
    let zip = ZipFs::from_bytes(bytes.clone(), &ZipOptions::default()).expect("a zip file");
    assert_eq!(zip.statfs().expect("statfs").files, 1 + 16 * 2041);
    run("zip", &bytes);
}

#[test]
fn zip_directories_that_claim_more_entries_than_they_have() {
    let bytes = zip_of((0..100).map(|nth| (nth.to_string(), Vec::new())));
    let end = bytes.len() - 22;
    for count in [101, u16::MAX - 1, u16::MAX] {
        for len in [None, Some(u32::MAX - 1), Some(u32::MAX)] {
            let mut bytes = [vec![0; 200_000], bytes.clone()].concat();
            let end = end + 200_000;
            for at in [8, 10] {
                bytes[end + at..end + at + 2].copy_from_slice(&count.to_le_bytes());
            }
            if let Some(len) = len {
                bytes[end + 12..end + 16].copy_from_slice(&len.to_le_bytes());
            }
            run("zip", &bytes);
        }
    }
}

#[test]
fn archive_blocks_that_decode_to_hundreds_of_times_their_size() {
    for compression in [Compression::Lz4, Compression::Zstd(3)] {
        let tree = MemoryFs::new();
        for nth in 0..2 {
            put(&tree, &format!("zeros-{nth}"), vec![nth; 5 << 20]);
        }
        let options = PackOptions::new().block_size(4 << 20).jobs(1);
        let options = options.rule(Rule::Compress("*".into(), compression));
        run("archive", &pack_to_vec(&tree, &options).expect("pack").0);
    }
}
