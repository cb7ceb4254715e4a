//! Zip files: opened and looked at.

use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use stratafs::zip::ZipOptions;
use stratafs::{BackendResult, ErrorKind, FileSystem, MemoryFs, OpenOptions, ZipFs};
use stratafs_testkit::tools::{Random, noise, p, put};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::heap::bounded;
use crate::observe::{assert_same, observe};
use crate::{Target, mutate};

/// The target. The first byte of an input says how to open, the rest is the zip file, whose
/// checksums are made good before it is opened.
pub const TARGET: Target = Target { name: "zip", seeds, run, mutate: mutate_zip };

/// Bits of the first byte.
const NO_CACHE: u8 = 1;
const AS_IT_IS: u8 = 2;

const CACHE: u64 = 8 << 20;

/// The cache, an entry that is being inflated beside it, and what a handle holds; the rest is
/// the directory in memory and the answers kept by this test.
fn memory_limit(input: &[u8]) -> usize {
    2 * CACHE as usize + (4 << 20) + 200 * input.len()
}

/// Signatures, and the fields behind them that mean something, as offset and size.
type Record = (&'static [u8], &'static [(usize, usize)]);
const RECORDS: &[Record] = &[
    (b"PK\x03\x04", &[(6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2), (30, 1)]),
    (
        CENTRAL,
        &[
            (4, 2),
            (6, 2),
            (8, 2),
            (10, 2),
            (12, 2),
            (14, 2),
            (16, 4),
            (20, 4),
            (24, 4),
            (28, 2),
            (30, 2),
            (32, 2),
            (34, 2),
            (38, 4),
            (40, 2),
            (42, 4),
            (46, 1),
            (47, 1),
        ],
    ),
    (b"PK\x05\x06", &[(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)]),
    (b"PK\x06\x06", &[(4, 8), (16, 4), (24, 8), (32, 8), (40, 8), (48, 8)]),
    (b"PK\x06\x07", &[(4, 4), (8, 8), (16, 4)]),
];
const CENTRAL: &[u8] = b"PK\x01\x02";

fn seeds() -> Vec<Vec<u8>> {
    let options = SimpleFileOptions::default();
    let mut seeds = Vec::new();
    for (method, large) in [(CompressionMethod::Stored, false), (CompressionMethod::Deflated, true)]
    {
        let how = options.compression_method(method).large_file(large);
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_directory("dir/", how.unix_permissions(0o750)).expect("a directory");
        for (name, data) in [
            ("dir/text", "some words, some words, some words\n".repeat(100).into_bytes()),
            ("dir/noise", noise(1, 600)),
            ("implied/deep/file", b"x".to_vec()),
            ("back\\slash", Vec::new()),
            ("../out", b"kept out".to_vec()),
        ] {
            zip.start_file(name, how).expect("a file");
            zip.write_all(&data).expect("a file's contents");
        }
        zip.add_symlink("link", "dir/text", how).expect("a symbolic link");
        zip.set_comment("a comment").expect("a comment");
        let bytes = zip.finish().expect("a zip file").into_inner();
        seeds.extend([0, NO_CACHE].map(|flags| [&[flags], &bytes[..]].concat()));
    }
    seeds.push([&[0], &b"PK\x05\x06"[..], &[0; 18]].concat());
    seeds
}

/// Where a signature stands.
fn places(bytes: &[u8], signature: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(signature.len()).enumerate();
    windows.filter(|(_, window)| *window == signature).map(|(at, _)| at).collect()
}

fn mutate_zip(input: &mut Vec<u8>, random: &mut Random) {
    let &(signature, fields) = mutate::one_of(random, RECORDS);
    let places = places(input, signature);
    match random.below(8) {
        0 if !input.is_empty() => input[0] = random.next() as u8,
        1 => mutate::bytes(input, random),
        _ if places.is_empty() => mutate::bytes(input, random),
        _ => {
            let &place = mutate::one_of(random, &places);
            let &(at, size) = mutate::one_of(random, fields);
            mutate::field(input, place + at, size, random);
        }
    }
}

fn number(bytes: &[u8], at: usize, size: usize) -> usize {
    let field = bytes.get(at..at + size).unwrap_or_default();
    field.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
}

/// Makes lengths and checksums of the entries in the central directory those of their contents.
fn seal(bytes: &mut [u8]) {
    for record in places(bytes, CENTRAL) {
        let header = number(bytes, record + 42, 4);
        let start = header + 30 + number(bytes, header + 26, 2) + number(bytes, header + 28, 2);
        let stored = bytes.get(start..start + number(bytes, record + 20, 4)).unwrap_or_default();
        let mut contents = Vec::new();
        match number(bytes, record + 10, 2) {
            0 => contents.extend_from_slice(stored),
            // Ends at the first error.
            8 => drop(DeflateDecoder::new(stored).take(1 << 20).read_to_end(&mut contents)),
            _ => continue,
        }
        let mut crc = Crc::new();
        crc.update(&contents);
        if let Some(place) = bytes.get_mut(record + 16..record + 28) {
            place[..4].copy_from_slice(&crc.sum().to_le_bytes());
            place[8..].copy_from_slice(&(contents.len() as u32).to_le_bytes());
        }
    }
}

fn run(input: &[u8]) {
    let Some((&flags, zip)) = input.split_first() else { return };
    let mut bytes = zip.to_vec();
    if flags & AS_IT_IS == 0 {
        seal(&mut bytes);
    }
    let inflate_cache_bytes = if flags & NO_CACHE != 0 { 0 } else { CACHE };
    let options = ZipOptions { positional: false, inflate_cache_bytes };
    bounded(memory_limit(input), || look(bytes, options));
}

fn look(bytes: Vec<u8>, options: ZipOptions) {
    let positional = open_positional(&bytes, options).map(|zip| observe(&zip));
    let (zip, positional) = match (ZipFs::from_bytes(bytes, &options), positional) {
        (Ok(zip), Ok(positional)) => (zip, positional),
        (Err(error), Err(other)) => {
            assert_eq!(error.kind(), other.kind(), "{error}, {other}");
            let expected = [ErrorKind::Corrupt, ErrorKind::UnknownFormat, ErrorKind::Unsupported];
            return assert!(expected.contains(&error.kind()), "{error}");
        }
        (memory, positional) => panic!("from memory {memory:?}, by position {positional:?}"),
    };
    let seen = observe(&zip);
    assert_same(&seen, &positional);
    let corrupt = seen.errors(ErrorKind::Corrupt);
    let of_contents = corrupt.iter().all(|(_, question, _)| !question.starts_with("read_dir"));
    assert!(of_contents, "the index is checked when it is made: {corrupt:?}");
}

fn open_positional(bytes: &[u8], options: ZipOptions) -> BackendResult<ZipFs> {
    let holder = Arc::new(MemoryFs::new());
    put(&*holder, "zip", bytes);
    let file = holder.open(p("zip"), &OpenOptions::reading())?.file;
    ZipFs::from_file(file, &ZipOptions { positional: true, ..options })
}
