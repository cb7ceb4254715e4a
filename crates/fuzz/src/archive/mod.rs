//! Archives: opened, looked at, verified and extracted.

mod frame;
mod seal;

use std::sync::Arc;

use stratafs::archive::{
    ArchiveOptions, ArchiveSource, Compression, ExtractOptions, Key, OpenCheck, PackOptions, Rule,
    VerifyReport, extract, pack_to_vec,
};
use stratafs::{
    ArchiveFs, BackendResult, Device, ErrorKind, FileSystem, MemoryFs, NodeKind, OpenOptions,
    XattrMode,
};
use stratafs_testkit::tools::{Random, create, link, mkdir, noise, p, put, symlink};

use crate::heap::bounded;
use crate::observe::{assert_same, observe};
use crate::{Target, mutate};

use frame::{BLOCK, BLOCK_FIELDS, ENTRY, ENTRY_FIELDS, Frame, HEADER_FIELDS, SLOT, number};
use seal::{Direction, MASTER, XOR, cipher_blocks, seal};

/// The target. The first byte of an input says how to open, the rest is the archive, whose
/// checksums are made good and whose encrypted blocks are encrypted before it is opened.
pub const TARGET: Target = Target { name: "archive", seeds, run, mutate: mutate_archive };

/// Bits of the first byte.
const GIVE_KEY: u8 = 1;
const VERIFY_READS: u8 = 2;
const CHECK_INDEX: u8 = 4;
const AS_IT_IS: u8 = 8;
const PASSPHRASE: u8 = 16;

/// What a small cache may keep, so that the bound below means something.
const CACHE: u64 = 1 << 20;

/// Archives that declare more contents are not read as a whole.
const CONTENTS: u64 = 4 << 20;

/// Two blocks of the largest size and the caller's buffers, as the documentation has it; the
/// rest is what a copy of the archive, the answers kept by this test and the extracted tree take.
fn memory_limit(input: &[u8]) -> usize {
    (3 * (4 << 20)) + CACHE as usize + CONTENTS as usize + (8 << 20) + 40 * input.len()
}

fn fixture() -> MemoryFs {
    let tree = MemoryFs::new();
    for directory in ["a", "a/b", "empty"] {
        mkdir(&tree, directory);
    }
    put(&tree, "a/text", "some words, some words, some words\n".repeat(250));
    put(&tree, "a/b/noise", noise(1, 5000));
    put(&tree, "a/b/same", noise(1, 5000));
    put(&tree, "a/b/small", "stored");
    put(&tree, "none", "");
    symlink(&tree, "a/text", "link");
    link(&tree, "a/text", "again");
    create(&tree, "fifo", NodeKind::Fifo);
    create(&tree, "device", NodeKind::BlockDevice(Device { major: 8, minor: 1 }));
    create(&tree, "gone", NodeKind::Whiteout);
    for (path, name) in [("a", "user.one"), ("a/text", "user.two")] {
        tree.set_xattr(p(path), name.as_bytes(), b"value", XattrMode::Set).expect("set_xattr");
    }
    tree
}

fn seeds() -> Vec<Vec<u8>> {
    let tree = fixture();
    let empty = pack_to_vec(&MemoryFs::new(), &PackOptions::new()).expect("pack").0;
    let mut seeds = vec![[vec![VERIFY_READS], empty].concat()];
    let keys = [None, Some(Key::xor(XOR).expect("a key")), Some(Key::raw(MASTER))];
    for compression in [Compression::Store, Compression::Lz4, Compression::Zstd(3)] {
        for key in keys.clone() {
            let mut options = PackOptions::new().block_size(4096).jobs(1);
            options = options.rule(Rule::Compress("*".into(), compression));
            let mut flags = 0;
            if let Some(key) = key {
                flags = GIVE_KEY;
                options = options.rule(Rule::Encrypt("*[!l]".into())).key(key).salt([9; 32]);
            }
            let mut bytes = pack_to_vec(&tree, &options).expect("pack").0;
            if bytes[49] == 2 {
                let frame = Frame::of(&bytes).expect("a fixture's frame");
                cipher_blocks(&mut bytes, &frame, Direction::Decrypt);
            }
            seeds.push([vec![flags], bytes].concat());
        }
    }
    seeds
}

fn mutate_archive(input: &mut Vec<u8>, random: &mut Random) {
    let Some(frame) = input.get(1..).and_then(Frame::of) else {
        return mutate::bytes(input, random);
    };
    let archive = &mut input[1..];
    let record = |random: &mut Random, start: usize, len: usize, count: usize| {
        start + len * mutate::below(random, count.max(1))
    };
    match random.below(16) {
        0 => input[0] = random.next() as u8,
        1 => mutate::bytes(input, random),
        2 | 3 => {
            let &(at, size) = mutate::one_of(random, HEADER_FIELDS);
            mutate::field(archive, at, size, random);
        }
        4..=8 => {
            let entry = record(random, frame.entries, ENTRY, frame.entry_count);
            let &(at, size) = mutate::one_of(random, ENTRY_FIELDS);
            mutate::field(archive, entry + at, size, random);
        }
        9 | 10 => {
            let block = record(random, frame.blocks, BLOCK, frame.block_count);
            let &(at, size) = mutate::one_of(random, BLOCK_FIELDS);
            mutate::field(archive, block + at, size, random);
        }
        11 => {
            // A second record where another was.
            let from = record(random, frame.entries, ENTRY, frame.entry_count);
            let to = record(random, frame.entries, ENTRY, frame.entry_count);
            archive.copy_within(from..from + ENTRY, to);
        }
        12 => {
            let slot = record(random, frame.index, SLOT, frame.table_len / SLOT);
            mutate::field(archive, slot + 4 * mutate::below(random, 2), 4, random);
        }
        13 => mutate::field(archive, frame.extras + mutate::below(random, 64), 4, random),
        14 => {
            let at = frame.names + mutate::below(random, 100);
            if let Some(byte) = archive.get_mut(at) {
                *byte = *mutate::one_of(random, b"/.\0ab");
            }
        }
        _ => {
            let at = mutate::below(random, frame.index);
            archive[at] = random.next() as u8;
        }
    }
}

fn run(input: &[u8]) {
    let Some((&flags, archive)) = input.split_first() else { return };
    let mut bytes = archive.to_vec();
    if flags & AS_IT_IS == 0 {
        seal(&mut bytes);
    }
    let mut options = ArchiveOptions::new().block_cache_bytes(CACHE);
    options.verify_reads = flags & VERIFY_READS != 0;
    if flags & CHECK_INDEX != 0 {
        options.check = OpenCheck::Index;
    }
    if flags & GIVE_KEY != 0 {
        let cheap = number(&bytes, 88, 4) <= 64 && number(&bytes, 92, 4) <= 2;
        options.key = match bytes.get(49) {
            Some(1) => Key::xor(XOR).ok(),
            Some(2) if flags & PASSPHRASE != 0 && cheap => Some(Key::passphrase("words")),
            Some(2) => Some(Key::raw(MASTER)),
            _ => None,
        };
    }
    bounded(memory_limit(input), || look(bytes, &options));
}

fn look(bytes: Vec<u8>, options: &ArchiveOptions) {
    let contents = Frame::of(&bytes).map_or(0, |frame| frame.content_len(&bytes));
    let archive = open_positional(&bytes, options);
    let positional = archive.map(|archive| observe(&archive));
    let archive = ArchiveFs::from_bytes_with(bytes, options);
    let (archive, positional) = match (archive, positional) {
        (Ok(archive), Ok(positional)) => (archive, positional),
        (Err(error), Err(other)) => {
            assert_eq!(error.kind(), other.kind(), "{error}, {other}");
            let expected = [ErrorKind::Corrupt, ErrorKind::UnknownFormat, ErrorKind::WrongKey];
            return assert!(expected.contains(&error.kind()), "{error}");
        }
        (memory, positional) => panic!("from memory {memory:?}, by position {positional:?}"),
    };
    let seen = observe(&archive);
    assert_same(&seen, &positional);
    if contents > CONTENTS {
        return;
    }
    let report = archive.verify(1, None);
    let extracted = MemoryFs::new();
    let options = ExtractOptions { special: true, owners: true, ..ExtractOptions::default() };
    let extracted = extract(&archive, &extracted, &options);
    if is_sound(&report) && report.locked == 0 {
        let corrupt = seen.errors(ErrorKind::Corrupt);
        assert!(corrupt.is_empty(), "verified, and yet {corrupt:?}");
        extracted.expect("what is verified can be extracted");
    }
}

/// Whether nothing is wrong but hashes of contents, which cannot be made good without decoding.
fn is_sound(report: &VerifyReport) -> bool {
    report.problems.iter().all(|problem| problem.reason.ends_with("the hash in the index"))
}

fn open_positional(bytes: &[u8], options: &ArchiveOptions) -> BackendResult<ArchiveFs> {
    let holder = Arc::new(MemoryFs::new());
    put(&*holder, "archive", bytes);
    let file = holder.open(p("archive"), &OpenOptions::reading())?.file;
    ArchiveFs::from_file(file, &options.clone().source(ArchiveSource::Positional))
}
