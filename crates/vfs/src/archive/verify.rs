//! Checking a whole archive: header, index, every block, every file's hash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::BackendResult;
use crate::metadata::FileType;
use crate::path::VfsPath;

use super::ArchiveFs;
use super::cipher::Cipher;
use super::format::{
    Codec, EntryRef, HEADER_LEN, SEAL_AT, TRAILER_LEN, corrupt, decode_trailer, flag, root_hash,
};
use super::index::{Index, ROOT};
use super::inner::{Inner, check_sum};

/// Something wrong in an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Which entry, as text, or `header`, `index`, `trailer`.
    pub entry: String,
    /// What is wrong, for people.
    pub reason: String,
}

/// What [`ArchiveFs::verify`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Entries looked at.
    pub entries: u64,
    /// Blocks whose checksums were checked.
    pub blocks: u64,
    /// Bytes of contents that were decoded and hashed.
    pub bytes: u64,
    /// Encrypted files whose blocks were checked and not decrypted, for want of a key.
    pub locked: u64,
    /// What is wrong, in the order of the entries; at most [`MAX_PROBLEMS`](Self::MAX_PROBLEMS).
    pub problems: Vec<Problem>,
}

impl VerifyReport {
    /// How many problems are listed at most.
    pub const MAX_PROBLEMS: usize = 1000;

    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Problems by entry; those of the archive as a whole come first.
#[derive(Default)]
struct Findings(BTreeMap<(u64, usize), Problem>);

impl Findings {
    fn add(&mut self, place: u64, entry: String, reason: String) {
        let nth = self.0.len();
        if nth < VerifyReport::MAX_PROBLEMS {
            self.0.insert((place, nth), Problem { entry, reason });
        }
    }

    fn archive(&mut self, part: &str, reason: impl Into<String>) {
        self.add(0, part.to_owned(), reason.into());
    }

    fn entry(&mut self, index: &Index, number: u32, reason: impl Into<String>) {
        self.add(u64::from(number) + 1, index.describe(number), reason.into());
    }

    /// Takes the reason out of a backend's error, which may name the entry already.
    fn check(&mut self, index: &Index, number: u32, result: BackendResult<()>) {
        if let Err(error) = result {
            let reason = error.cause().map_or_else(|| error.to_string(), ToString::to_string);
            let named = format!("{}: ", index.describe(number));
            let reason = reason.strip_prefix(&named).unwrap_or(&reason).to_owned();
            self.entry(index, number, reason);
        }
    }
}

impl ArchiveFs {
    /// Checks everything: checksums and hashes of header and index, the shape of the tree, that
    /// no blocks overlap, and every block and file. Without the key of an encrypted archive,
    /// the checksums of encrypted blocks are checked and their contents are not.
    ///
    /// Reads the whole archive, on `jobs` threads (0: as many as the host has). `progress` is
    /// called with the number of bytes of contents done, from any of the threads.
    pub fn verify(&self, jobs: usize, progress: Option<&(dyn Fn(u64) + Sync)>) -> VerifyReport {
        let inner = &*self.inner;
        let mut findings = Findings::default();
        check_frame(inner, &mut findings);
        check_tree(inner, &mut findings);
        check_overlaps(&inner.index, &mut findings);
        let jobs = match jobs {
            0 => std::thread::available_parallelism().map_or(1, Into::into),
            jobs => jobs,
        };
        let contents = Contents {
            inner,
            next: AtomicU32::new(0),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            locked: AtomicU64::new(0),
            progress,
        };
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| contents.run())).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Findings>| match thread.join() {
                Ok(findings) => findings,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect::<Vec<_>>()
        });
        for Findings(found) in found {
            for ((place, _), Problem { entry, reason }) in found {
                findings.add(place, entry, reason);
            }
        }
        VerifyReport {
            entries: inner.index.entry_count().into(),
            blocks: contents.blocks.into_inner(),
            bytes: contents.bytes.into_inner(),
            locked: contents.locked.into_inner(),
            problems: findings.0.into_values().collect(),
        }
    }
}

/// Header, trailer, checksum and root hash of the index.
fn check_frame(inner: &Inner, findings: &mut Findings) {
    let header = &inner.header;
    let mut raw = [0; HEADER_LEN];
    if let Err(error) = inner.source.read_exact_at(&mut raw, 0) {
        return findings.archive("header", error.to_string());
    }
    if raw[100..104] != [0; 4] || raw[224..248] != [0; 24] {
        findings.archive("header", "bytes that must be zero are not");
    }
    let index = inner.index.bytes();
    if xxhash_rust::xxh3::xxh3_64(index) != header.index_sum {
        findings.archive("index", "wrong checksum");
    }
    if root_hash(&raw, index) != header.root {
        findings.archive("index", "wrong root hash");
    }
    if header.seal == [0; SEAL_AT - super::format::ROOT_AT]
        && header.cipher == super::format::CipherKind::Aead
    {
        findings.archive("header", "the seal is missing");
    }
    let mut trailer = [0; TRAILER_LEN];
    let at = header.archive_len - TRAILER_LEN as u64;
    match inner.source.read_exact_at(&mut trailer, at) {
        Ok(()) if decode_trailer(&trailer) == Some(header.archive_len) => {}
        Ok(()) => findings.archive("trailer", "it does not agree with the header"),
        Err(error) => findings.archive("trailer", error.to_string()),
    }
}

/// Every entry is one node of one tree, and the table finds it.
fn check_tree(inner: &Inner, findings: &mut Findings) {
    let index = &inner.index;
    let mut next_child = 1;
    for number in 0..index.entry_count() {
        let checked = check_entry(inner, number, &mut next_child, findings);
        findings.check(index, number, checked);
    }
    if next_child != index.entry_count() {
        let reason = format!("{next_child} of {} entries are in the tree", index.entry_count());
        findings.archive("index", reason);
    }
    let used = index.used_slots();
    if used != u64::from(index.entry_count()) {
        let reason = format!("the table has {used} slots in use for {}", index.entry_count());
        findings.archive("index", reason);
    }
}

fn check_entry(
    inner: &Inner,
    number: u32,
    next_child: &mut u32,
    findings: &mut Findings,
) -> BackendResult<()> {
    let index = &inner.index;
    let entry = index.entry(number)?;
    let kind = index.kind(number, entry)?;
    let path = index.path(entry)?;
    let Ok(path) = VfsPath::new(path) else {
        return Err(corrupt("its path is not normal"));
    };
    if number == ROOT && (!path.is_root() || !kind.is_dir()) {
        return Err(corrupt("the first entry is not the root"));
    }
    if number != ROOT && index.find(path)? != Some(number) {
        findings.entry(index, number, "the table does not lead to it");
    }
    if !entry.reserved_is_zero() {
        findings.entry(index, number, "bytes that must be zero are not");
    }
    if let Some(extra) = index.extra(number, entry)? {
        extra.xattrs(|_, _| true)?;
        if extra.file > number || extra.links == 0 {
            findings.entry(index, number, "its hard links make no sense");
        }
    }
    let needs = match kind {
        FileType::Symlink => {
            index.link_target(number, entry)?;
            flag::SYMLINKS
        }
        FileType::Whiteout => flag::WHITEOUTS,
        _ => 0,
    };
    if inner.header.flags & needs != needs {
        findings.entry(index, number, "the header denies that there are such entries");
    }
    if kind == FileType::Directory {
        check_children(index, number, entry, path, next_child)?;
    }
    Ok(())
}

fn check_children(
    index: &Index,
    number: u32,
    entry: EntryRef<'_>,
    path: &VfsPath,
    next_child: &mut u32,
) -> BackendResult<()> {
    let children = index.children(number, entry)?;
    if children.is_empty() {
        return Ok(());
    }
    if children.start != *next_child {
        return Err(corrupt("its children are not where they should be"));
    }
    *next_child = children.end;
    let mut last: &[u8] = b"";
    for child in children {
        let entry = index.entry(child)?;
        let name = index.child_name(number, child, entry)?;
        let whole = index.path(entry)?;
        if path.join_name(name).map_or(true, |joined| joined.as_bytes() != whole) {
            return Err(index.corrupt(child, "its path is not its directory's and its name"));
        }
        if name <= last {
            return Err(index.corrupt(child, "it is not in order"));
        }
        last = name;
    }
    Ok(())
}

/// Blocks either share all their bytes (equal contents) or none.
fn check_overlaps(index: &Index, findings: &mut Findings) {
    let mut ranges = Vec::with_capacity(index.block_count() as usize);
    for number in 0..index.block_count() {
        match index.block(number) {
            Ok(block) => ranges.push((block.offset, block.stored_len, number)),
            Err(error) => findings.archive("index", error.to_string()),
        }
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(offset, len, number), (next, next_len, other)] = *pair else { continue };
        let same = offset == next && len == next_len;
        if !same && offset + u64::from(len) > next {
            findings.archive("index", format!("blocks {number} and {other} overlap"));
        }
    }
}

/// The contents of all files, shared among threads.
struct Contents<'a> {
    inner: &'a Inner,
    next: AtomicU32,
    blocks: AtomicU64,
    bytes: AtomicU64,
    locked: AtomicU64,
    progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl Contents<'_> {
    fn run(&self) -> Findings {
        let index = &self.inner.index;
        let mut findings = Findings::default();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= index.entry_count() {
                // Stays here however many threads there are.
                self.next.store(index.entry_count(), Ordering::Relaxed);
                return findings;
            }
            let checked = self.check(number);
            findings.check(index, number, checked);
        }
    }

    fn check(&self, number: u32) -> BackendResult<()> {
        let index = &self.inner.index;
        let entry = index.entry(number)?;
        match index.kind(number, entry)? {
            FileType::File => {}
            FileType::Symlink => return self.check_target(number, entry),
            _ => return Ok(()),
        }
        // The other names of a hard link say the same: checked once.
        if let Some(extra) = index.extra(number, entry)?
            && extra.file != number
        {
            let first = index.entry(extra.file)?;
            // The first is the one that is checked, so it must be nobody's other name itself.
            let is_first =
                index.extra(extra.file, first)?.is_some_and(|own| own.file == extra.file);
            let same = entry.same_contents(first)
                && index.content_hash(number)? == index.content_hash(extra.file)?;
            return match is_first && same {
                true => Ok(()),
                false => Err(corrupt("it is not the file that it is a hard link of")),
            };
        }
        self.check_file(number, entry)
    }

    fn check_target(&self, number: u32, entry: EntryRef<'_>) -> BackendResult<()> {
        let index = &self.inner.index;
        if matches!(self.inner.cipher, Cipher::Locked(super::format::CipherKind::Aead)) {
            return Ok(());
        }
        let mut hasher = self.inner.cipher.content_hasher();
        hasher.update(index.link_target(number, entry)?);
        match hasher.finalize() == *index.content_hash(number)? {
            true => Ok(()),
            false => Err(corrupt("its target does not have the hash in the index")),
        }
    }

    fn check_file(&self, number: u32, entry: EntryRef<'_>) -> BackendResult<()> {
        let inner = self.inner;
        let index = &inner.index;
        let block_range = index.block_range(number, entry)?;
        let block_size = 1u64 << entry.block_bits();
        let encrypted = entry.is_encrypted();
        let locked = matches!(inner.cipher, Cipher::Locked(_));
        if encrypted && locked {
            self.locked.fetch_add(1, Ordering::Relaxed);
        }
        if entry.is_plain() && encrypted {
            return Err(corrupt("it is said to be plain and encrypted"));
        }
        if entry.is_plain() {
            inner.contents(number, entry)?;
        }
        let mut hasher = inner.cipher.content_hasher();
        let mut plain_at = entry.data();
        let mut rest = entry.len();
        let (mut stored, mut raw) = (Vec::new(), Vec::new());
        for (nth, block_number) in block_range.enumerate() {
            let raw_len = rest.min(block_size) as usize;
            rest -= raw_len as u64;
            let at = |reason: crate::BackendError| {
                let text = reason.cause().map_or_else(|| reason.to_string(), |c| c.to_string());
                crate::BackendError::new(reason.kind(), format!("block {nth}: {text}"))
            };
            let block = inner.checked_block(block_number, raw_len).map_err(at)?;
            if entry.is_plain() {
                if block.codec != Codec::Stored || block.offset != plain_at {
                    return Err(at(corrupt("a plain file's blocks do not lie in a row")));
                }
                plain_at += raw_len as u64;
            }
            stored.resize(block.stored_len as usize, 0);
            inner.source.read_exact_at(&mut stored, block.offset).map_err(at)?;
            check_sum(&stored, block).map_err(at)?;
            self.blocks.fetch_add(1, Ordering::Relaxed);
            if !(encrypted && locked) {
                raw.resize(raw_len, 0);
                inner.decode(encrypted, block_number, block, &mut raw).map_err(at)?;
                hasher.update(&raw);
            }
            let bytes = self.bytes.fetch_add(raw_len as u64, Ordering::Relaxed) + raw_len as u64;
            if let Some(progress) = self.progress {
                progress(bytes);
            }
        }
        // Without the key of an authenticated archive its hashes cannot be made.
        if locked && (encrypted || inner.header.cipher == super::format::CipherKind::Aead) {
            return Ok(());
        }
        match hasher.finalize() == *index.content_hash(number)? {
            true => Ok(()),
            false => Err(corrupt("its contents do not have the hash in the index")),
        }
    }
}
