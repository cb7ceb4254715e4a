//! Archives hold the standard tree, whatever codec and key they are packed with.

use stratafs::archive::{ArchiveOptions, Compression, Key, PackOptions, Rule, pack_to_vec};
use stratafs::{ArchiveFs, MemoryFs};
use stratafs_testkit::{conformance, fixture};

fn packed(name: &str, options: &PackOptions<'_>, key: Option<Key>) {
    let fs = MemoryFs::new();
    let tree = fixture::populate(&fs);
    let (bytes, _) = pack_to_vec(&fs, options).expect("pack");
    let mut open = ArchiveOptions::new();
    if let Some(key) = key {
        open = open.key(key);
    }
    let archive = ArchiveFs::from_bytes_with(bytes, &open).expect("open the archive");
    conformance::read_only(name, &archive, &tree);
}

#[test]
fn plain() {
    packed("archive", &PackOptions::new(), None);
}

#[test]
fn small_blocks() {
    packed("small blocks", &PackOptions::new().block_size(4096), None);
}

#[test]
fn encrypted() {
    let key = || Key::raw([7; 32]);
    let options = PackOptions::new().rule(Rule::Encrypt("**".into())).key(key());
    packed("encrypted", &options, Some(key()));
}

#[test]
fn compressed() {
    let rule = Rule::Compress("**".into(), Compression::Lz4);
    packed("lz4", &PackOptions::new().rule(rule), None);
}

#[test]
fn obscured() {
    let key = || Key::xor(b"seed").expect("a key");
    let options = PackOptions::new().rule(Rule::Encrypt("**".into())).key(key());
    packed("xor", &options, Some(key()));
}
