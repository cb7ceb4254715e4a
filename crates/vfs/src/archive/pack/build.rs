//! Index, header and trailer.

use crate::archive::cipher::Cipher;
use crate::archive::format::{
    self, Block, CipherKind, Entry, HASH_LEN, Header, Kdf, Layout, MAX_PROBE, PAGE, SLOT_LEN, flag,
    two_halves,
};
use crate::archive::index::path_hash;
use crate::archive::key::{Keys, random_salt};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::FileType;

use super::output::Output;
use super::rules::cipher_kind;
use super::scan::{Node, Tree, too_many};
use super::{PackOptions, PackReport};

/// Probes that a table is built for: other seeds are tried before a longer search is accepted.
const GOOD_PROBE: u32 = 64;

/// The cipher of the archive to write, and what its header says of it.
pub(crate) struct Secrets {
    pub cipher: Cipher,
    kind: CipherKind,
    kdf: Kdf,
    salt: [u8; 32],
    check: [u8; 16],
    seal: Option<[u8; 32]>,
}

impl Secrets {
    pub(crate) fn new(options: &PackOptions<'_>) -> BackendResult<Secrets> {
        let Some(key) = &options.key else {
            return Ok(Secrets {
                cipher: Cipher::None,
                kind: CipherKind::None,
                kdf: Kdf::Given,
                salt: [0; 32],
                check: [0; 16],
                seal: None,
            });
        };
        let salt = options.salt.map_or_else(random_salt, Ok)?;
        let derived = key.derive(key.kdf(), &salt)?;
        let seal = match &derived.keys {
            Keys::Aead { seal, .. } => Some(*seal),
            Keys::Xor(_) => None,
        };
        Ok(Secrets {
            cipher: Cipher::new(&derived.keys),
            kind: cipher_kind(options),
            kdf: key.kdf(),
            salt,
            check: derived.check,
            seal,
        })
    }
}

/// Writes index, trailer and header behind the contents.
pub(crate) fn finish(
    tree: &Tree,
    blocks: &[Block],
    mut output: Output<'_>,
    secrets: &Secrets,
    is_patch: bool,
    block_bits: u8,
) -> BackendResult<PackReport> {
    output.align(PAGE)?;
    let entry_count = tree.nodes.len() as u32;
    let mut header = Header {
        minor: 0,
        flags: if is_patch { flag::PATCH } else { 0 },
        archive_len: 0,
        index_offset: output.position(),
        index_len: 0,
        entry_count,
        block_count: tree.block_count,
        table_bits: 0,
        cipher: secrets.kind,
        kdf: secrets.kdf,
        block_bits,
        max_probe: 0,
        seed: 0,
        extras_len: 0,
        names_len: 0,
        content_len: 0,
        salt: secrets.salt,
        key_check: secrets.check,
        index_sum: 0,
        root: [0; 32],
        seal: [0; 32],
    };
    let mut report = PackReport { entries: entry_count.into(), ..PackReport::default() };
    let mut sections = Sections { names: Vec::new(), extras: Vec::new() };
    let mut entries = Vec::with_capacity(tree.nodes.len());
    let mut hashes = Vec::with_capacity(tree.nodes.len() * HASH_LEN);
    for (number, node) in tree.nodes.iter().enumerate() {
        entries.push(sections.entry(tree, number as u32, node, block_bits)?);
        hashes.extend_from_slice(&content_hash(tree, node, &secrets.cipher));
        match node.metadata.file_type {
            FileType::File => {
                report.files += 1;
                if node.file as usize == number {
                    report.content_len += node.metadata.len;
                }
            }
            FileType::Symlink => header.flags |= flag::SYMLINKS,
            FileType::Whiteout => {
                report.whiteouts += 1;
                header.flags |= flag::WHITEOUTS;
            }
            _ => {}
        }
        if !node.xattrs.is_empty() {
            header.flags |= flag::XATTRS;
        }
    }
    let table = table(tree, &mut header)?;
    header.content_len = report.content_len;
    header.names_len = sections.names.len() as u64;
    header.extras_len = sections.extras.len() as u64;
    let layout = Layout::of(&header).ok_or_else(|| too_many("bytes of index"))?;
    header.index_len = layout.len;
    let mut index = table;
    let mut section = |start: u64, parts: &mut dyn Iterator<Item = &[u8]>| {
        index.resize(start as usize, 0);
        parts.for_each(|part| index.extend_from_slice(part));
    };
    let encoded: Vec<_> = entries.iter().map(Entry::encode).collect();
    section(layout.entries, &mut encoded.iter().map(|entry| &entry[..]));
    let encoded: Vec<_> = blocks.iter().map(Block::encode).collect();
    section(layout.blocks, &mut encoded.iter().map(|block| &block[..]));
    section(layout.hashes, &mut std::iter::once(&hashes[..]));
    section(layout.extras, &mut std::iter::once(&sections.extras[..]));
    section(layout.names, &mut std::iter::once(&sections.names[..]));

    header.archive_len = header.index_offset + layout.len + format::TRAILER_LEN as u64;
    let header_bytes = header.finish(&index, secrets.seal.as_ref());
    output.write(&index)?;
    output.write(&format::encode_trailer(header.archive_len))?;
    output.finish(&header_bytes)?;
    report.archive_len = header.archive_len;
    report.root_hash = header.root;
    Ok(report)
}

fn content_hash(tree: &Tree, node: &Node, cipher: &Cipher) -> [u8; HASH_LEN] {
    match node.metadata.file_type {
        FileType::File => tree.nodes[node.file as usize].hash,
        FileType::Symlink => *cipher.content_hasher().update(&node.target).finalize().as_bytes(),
        _ => [0; HASH_LEN],
    }
}

struct Sections {
    names: Vec<u8>,
    extras: Vec<u8>,
}

impl Sections {
    fn entry(
        &mut self,
        tree: &Tree,
        number: u32,
        node: &Node,
        block_bits: u8,
    ) -> BackendResult<Entry> {
        let metadata = &node.metadata;
        let path = self.name(node.path.as_bytes())?;
        let path_len = node.path.len() as u16;
        let name_len = node.path.file_name().map_or(0, <[u8]>::len) as u16;
        let mut entry = Entry {
            len: 0,
            data: 0,
            first_block: 0,
            path,
            path_len,
            name_start: path_len - name_len,
            kind: metadata.file_type,
            flags: 0,
            block_bits: 0,
            mode: metadata.mode,
            parent: node.parent,
            modified: metadata.modified,
            user: metadata.owner.user,
            group: metadata.owner.group,
            extra: self.extra(tree, node)?,
        };
        debug_assert!(number == 0 || node.parent < number);
        match metadata.file_type {
            FileType::File => {
                let file = &tree.nodes[node.file as usize];
                entry.len = file.metadata.len;
                entry.block_bits = block_bits;
                entry.first_block = file.first_block;
                if file.treatment.encrypted {
                    entry.flags |= format::ENCRYPTED;
                }
                if let Some(offset) = file.plain_at {
                    entry.flags |= format::PLAIN;
                    entry.data = offset;
                }
            }
            FileType::Directory => {
                let children = &node.children;
                entry.data = two_halves(children.start, children.end - children.start);
            }
            FileType::Symlink => {
                entry.len = node.target.len() as u64;
                entry.data = self.name(&node.target)?.into();
            }
            FileType::CharDevice | FileType::BlockDevice => {
                entry.data = two_halves(metadata.device.major, metadata.device.minor);
            }
            FileType::Fifo | FileType::Socket | FileType::Whiteout => {}
        }
        Ok(entry)
    }

    fn name(&mut self, bytes: &[u8]) -> BackendResult<u32> {
        let start = self.names.len();
        self.names.extend_from_slice(bytes);
        match u32::try_from(self.names.len()) {
            Ok(_) => Ok(start as u32),
            Err(_) => Err(too_many("bytes of names")),
        }
    }

    fn extra(&mut self, tree: &Tree, node: &Node) -> BackendResult<u32> {
        let links = tree.nodes[node.file as usize].links;
        if links == 1 && node.xattrs.is_empty() {
            return Ok(0);
        }
        if self.extras.is_empty() {
            self.extras.extend_from_slice(&[0; 8]);
        }
        let start =
            u32::try_from(self.extras.len()).map_err(|_| too_many("extended attributes"))?;
        self.extras.extend_from_slice(&node.file.to_le_bytes());
        self.extras.extend_from_slice(&links.to_le_bytes());
        self.extras.extend_from_slice(&(node.xattrs.len() as u32).to_le_bytes());
        for (name, value) in &node.xattrs {
            self.extras.extend_from_slice(&(name.len() as u16).to_le_bytes());
            self.extras.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.extras.extend_from_slice(name);
            self.extras.extend_from_slice(value);
        }
        Ok(start)
    }
}

/// The hash table; sets the header's fields for it.
fn table(tree: &Tree, header: &mut Header) -> BackendResult<Vec<u8>> {
    let bits = (tree.nodes.len() as u64 * 2).next_power_of_two().trailing_zeros() as u8;
    let mut best: Option<(u32, u64, Vec<u8>)> = None;
    for seed in 0..16 {
        let (probe, table) = fill(tree, bits, seed);
        if best.as_ref().is_none_or(|(known, ..)| probe < *known) {
            best = Some((probe, seed, table));
        }
        if probe <= GOOD_PROBE {
            break;
        }
    }
    match best {
        Some((probe, seed, table)) if probe <= MAX_PROBE => {
            header.table_bits = bits;
            header.max_probe = probe;
            header.seed = seed;
            Ok(table)
        }
        _ => Err(BackendError::new(ErrorKind::InvalidArgument, "too many paths with one hash")),
    }
}

/// Puts all paths into a table; gives the longest distance from a home slot.
fn fill(tree: &Tree, bits: u8, seed: u64) -> (u32, Vec<u8>) {
    let mask = (1u64 << bits) - 1;
    let mut table = vec![0; SLOT_LEN << bits];
    let mut longest = 0;
    for (number, node) in tree.nodes.iter().enumerate() {
        let hash = path_hash(node.path.as_bytes(), seed);
        let mut slot = hash & mask;
        let mut distance = 0;
        loop {
            let record = &mut table[slot as usize * SLOT_LEN..][..SLOT_LEN];
            if format::u32_at(record, 4) == 0 {
                record[..4].copy_from_slice(&((hash >> 32) as u32).to_le_bytes());
                record[4..].copy_from_slice(&(number as u32 + 1).to_le_bytes());
                break;
            }
            slot = (slot + 1) & mask;
            distance += 1;
        }
        longest = longest.max(distance);
    }
    (longest, table)
}
