//! Reading, compressing and encrypting on several threads, written in order.
//!
//! The contents are cut into units of up to 1 MiB. Threads take the next unit, as long as it is
//! not too far ahead of the writer; the calling thread writes them in order. Memory is thus
//! bounded by a few units for each thread, whatever the files' sizes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::archive::cipher::{BlockId, Cipher};
use crate::archive::codec::compress;
use crate::archive::format::{Block, Codec, PAGE};
use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, Result};
use crate::options::OpenOptions;

use super::output::Output;
use super::rules::Treatment;
use super::scan::{Node, Tree};
use super::{PackOptions, Progress, changed_while_packed};

const UNIT: u64 = 1 << 20;
/// Units in flight for each thread.
const AHEAD: usize = 4;
/// Stored files from this length on start at a page.
const ALIGN_TO_PAGE: u64 = 64 << 10;

#[derive(Clone, Copy)]
struct Unit {
    node: u32,
    offset: u64,
    len: u64,
}

/// What a thread made of a unit.
struct Done {
    /// Codec, length and checksum of each block in `stored`.
    blocks: Vec<(Codec, u32, u64)>,
    stored: Vec<u8>,
    /// The raw bytes of a unit of a larger file; the hash of a file that is one unit.
    content: Content,
}

enum Content {
    Whole([u8; 32]),
    Part(Vec<u8>),
}

/// Writes the contents of all files and gives their blocks.
pub(crate) fn write_contents(
    source: &dyn FileSystem,
    tree: &mut Tree,
    output: &mut Output<'_>,
    cipher: &Cipher,
    options: &PackOptions<'_>,
    block_bits: u8,
) -> Result<Vec<Block>> {
    let units = units(tree, block_bits);
    let jobs = options.job_count().clamp(1, units.len().max(1));
    let line = Line::new(jobs * AHEAD);
    let mut writer = Writer::new(tree, cipher, options);
    let nodes = &tree.nodes;
    let finished = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs {
            let (sender, line, units) = (sender.clone(), &line, &units);
            scope.spawn(move || {
                while let Some(nth) = line.take(units.len()) {
                    let unit = units[nth];
                    let node = &nodes[unit.node as usize];
                    let done = process(source, node, unit, cipher, block_bits);
                    if sender.send((nth, done)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let result = write_in_order(&receiver, &units, nodes, &line, &mut writer, output);
        if result.is_err() {
            line.stop();
        }
        result
    });
    finished?;
    let Writer { results, blocks, .. } = writer;
    for (node, result) in tree.nodes.iter_mut().zip(results) {
        node.plain_at = result.plain_at;
        node.hash = result.hash;
    }
    Ok(blocks)
}

fn units(tree: &Tree, block_bits: u8) -> Vec<Unit> {
    let unit = UNIT.max(1 << block_bits);
    let mut units = Vec::new();
    for (number, node) in tree.nodes.iter().enumerate() {
        if !node.is_file() || node.file as usize != number {
            continue;
        }
        let len = node.metadata.len;
        let mut offset = 0;
        loop {
            let rest = len - offset;
            units.push(Unit { node: number as u32, offset, len: rest.min(unit) });
            offset += rest.min(unit);
            if offset == len {
                break;
            }
        }
    }
    units
}

/// Hands out units, not too far ahead of what is written.
struct Line {
    state: Mutex<(usize, usize)>,
    moved: Condvar,
    ahead: usize,
    stopped: AtomicBool,
}

impl Line {
    fn new(ahead: usize) -> Line {
        Line {
            state: Mutex::new((0, 0)),
            moved: Condvar::new(),
            ahead,
            stopped: AtomicBool::new(false),
        }
    }

    fn take(&self, count: usize) -> Option<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (next, written) = *state;
            if next == count || self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            if next < written + self.ahead {
                state.0 += 1;
                return Some(next);
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn written(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        self.moved.notify_all();
    }

    fn stop(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopped.store(true, Ordering::Relaxed);
        drop(state);
        self.moved.notify_all();
    }
}

fn process(
    source: &dyn FileSystem,
    node: &Node,
    unit: Unit,
    cipher: &Cipher,
    block_bits: u8,
) -> Result<Done> {
    let at = |error: BackendError| error.at("pack", &node.path);
    let raw = read_unit(source, node, unit)?;
    let mut done =
        Done { blocks: Vec::new(), stored: Vec::new(), content: Content::Whole([0; 32]) };
    let first = u64::from(node.first_block) + (unit.offset >> block_bits);
    for (nth, block) in raw.chunks(1 << block_bits).enumerate() {
        let number = (first + nth as u64) as u32;
        let stored = store_block(block, number, node.treatment, cipher, &mut done.stored);
        done.blocks.push(stored.map_err(at)?);
    }
    done.content = match unit.len == node.metadata.len {
        true => {
            let mut hasher = cipher.content_hasher();
            Content::Whole(*hasher.update(&raw).finalize().as_bytes())
        }
        false => Content::Part(raw),
    };
    Ok(done)
}

/// Compresses, encrypts and appends one block; gives codec, length and checksum.
fn store_block(
    raw: &[u8],
    number: u32,
    treatment: Treatment,
    cipher: &Cipher,
    out: &mut Vec<u8>,
) -> BackendResult<(Codec, u32, u64)> {
    let start = out.len();
    let codec = compress(raw, treatment.compression, out)?;
    if treatment.encrypted {
        let mut text = out.split_off(start);
        let raw_len = raw.len() as u32;
        cipher.seal(&mut text, BlockId { number, raw_len, codec })?;
        out.append(&mut text);
    }
    let stored = &out[start..];
    Ok((codec, stored.len() as u32, xxhash_rust::xxh3::xxh3_64(stored)))
}

fn read_unit(source: &dyn FileSystem, node: &Node, unit: Unit) -> Result<Vec<u8>> {
    let at = |error: BackendError| error.at("pack", &node.path);
    let file = source.open(&node.path, &OpenOptions::reading()).map_err(at)?.file;
    let mut raw = vec![0; unit.len as usize];
    let mut done = 0;
    while done < raw.len() {
        match file.read_at(&mut raw[done..], unit.offset + done as u64).map_err(at)? {
            0 => return Err(changed_while_packed(&node.path)),
            n => done += n,
        }
    }
    let is_last = unit.offset + unit.len == node.metadata.len;
    if is_last && file.read_at(&mut [0], node.metadata.len).map_err(at)? != 0 {
        return Err(changed_while_packed(&node.path));
    }
    Ok(raw)
}

fn write_in_order(
    receiver: &mpsc::Receiver<(usize, Result<Done>)>,
    units: &[Unit],
    nodes: &[Node],
    line: &Line,
    writer: &mut Writer<'_>,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    while next < units.len() {
        let Ok((nth, done)) = receiver.recv() else { break };
        waiting.insert(nth, done);
        while let Some(done) = waiting.remove(&next) {
            let unit = units[next];
            let node = &nodes[unit.node as usize];
            writer
                .write(unit, node, done?, output)
                .map_err(|error: BackendError| error.at("pack", &node.path))?;
            next += 1;
            line.written();
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct FileResult {
    plain_at: Option<u64>,
    hash: [u8; 32],
}

/// Contents that are in the archive already: hash, length and how they were treated.
type Known = HashMap<([u8; 32], u64, Treatment), (usize, Option<u64>)>;

struct Writer<'a> {
    results: Vec<FileResult>,
    blocks: Vec<Block>,
    known: Known,
    cipher: &'a Cipher,
    hasher: blake3::Hasher,
    current: Current,
    progress: Progress,
    report: Option<&'a dyn Fn(Progress)>,
}

/// The file that is being written.
#[derive(Clone, Copy, Default)]
struct Current {
    before_padding: u64,
    start: u64,
    first_record: usize,
    all_stored: bool,
}

impl<'a> Writer<'a> {
    fn new(tree: &Tree, cipher: &'a Cipher, options: &PackOptions<'a>) -> Writer<'a> {
        let files = tree
            .nodes
            .iter()
            .enumerate()
            .filter(|(number, node)| node.is_file() && node.file as usize == *number);
        let mut progress = Progress { files_done: 0, files: 0, bytes_done: 0, bytes: 0 };
        for (_, node) in files {
            progress.files += 1;
            progress.bytes += node.metadata.len;
        }
        Writer {
            results: vec![FileResult::default(); tree.nodes.len()],
            blocks: Vec::with_capacity(tree.block_count as usize),
            known: Known::new(),
            cipher,
            hasher: cipher.content_hasher(),
            current: Current::default(),
            progress,
            report: options.progress,
        }
    }

    fn write(
        &mut self,
        unit: Unit,
        node: &Node,
        done: Done,
        output: &mut Output<'_>,
    ) -> BackendResult<()> {
        let stored = done.blocks.iter().all(|&(codec, ..)| codec == Codec::Stored);
        if unit.offset == 0 {
            let before_padding = output.position();
            if stored && !node.treatment.encrypted && unit.len > 0 {
                output.align(if node.metadata.len >= ALIGN_TO_PAGE { PAGE } else { 64 })?;
            }
            let start = output.position();
            let first_record = self.blocks.len();
            self.current = Current { before_padding, start, first_record, all_stored: true };
            self.hasher = self.cipher.content_hasher();
        }
        self.current.all_stored &= stored;
        let mut offset = output.position();
        for &(codec, stored_len, sum) in &done.blocks {
            self.blocks.push(Block { offset, stored_len, codec, sum });
            offset += u64::from(stored_len);
        }
        output.write(&done.stored)?;
        if let Content::Part(raw) = &done.content {
            self.hasher.update(raw);
        }
        self.progress.bytes_done += unit.len;
        if unit.offset + unit.len == node.metadata.len {
            let hash = match done.content {
                Content::Whole(hash) => hash,
                Content::Part(_) => *self.hasher.finalize().as_bytes(),
            };
            self.end_of_file(unit, node, hash, output);
        }
        if let Some(report) = self.report {
            report(self.progress);
        }
        Ok(())
    }

    fn end_of_file(&mut self, unit: Unit, node: &Node, hash: [u8; 32], output: &mut Output<'_>) {
        let current = self.current;
        let is_plain = current.all_stored && !node.treatment.encrypted;
        let mut plain_at = is_plain.then_some(current.start);
        let key = (hash, node.metadata.len, node.treatment);
        // Equal contents are written once. Not when encrypted: each block's number is part of
        // its encryption.
        if !node.treatment.encrypted && node.metadata.len > 0 {
            if let Some(&(record, known_at)) = self.known.get(&key) {
                output.rewind(current.before_padding);
                let count = self.blocks.len() - current.first_record;
                self.blocks.truncate(current.first_record);
                self.blocks.extend_from_within(record..record + count);
                plain_at = known_at;
            } else {
                self.known.insert(key, (current.first_record, plain_at));
            }
        }
        self.results[unit.node as usize] = FileResult { plain_at, hash };
        self.progress.files_done += 1;
    }
}
