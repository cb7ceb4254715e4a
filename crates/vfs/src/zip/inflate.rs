//! Deflated entries: inflated whole and kept, or read on by a handle.

use std::collections::HashMap;
use std::fmt;

use std::sync::{Arc, Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress, Status};

use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::source::Source;

use super::Data;

/// Deflate makes at most 1,032 bytes of one.
const MAX_RATIO: u64 = 1032;

pub(super) fn corrupt(reason: impl Into<String>) -> BackendError {
    BackendError::new(ErrorKind::Corrupt, reason.into())
}

/// Refuses sizes that cannot be true before anything is allocated for them.
pub(super) fn check_sizes(data: &Data) -> BackendResult<()> {
    match data.len > data.stored_len.saturating_mul(MAX_RATIO) {
        true => Err(corrupt(format!(
            "{} bytes cannot inflate to the declared {}",
            data.stored_len, data.len
        ))),
        false => Ok(()),
    }
}

/// Inflates an entry from its beginning on.
pub(super) struct Inflater {
    state: Decompress,
    input: Vec<u8>,
    input_pos: usize,
    /// Next byte of the entry's stored bytes to read.
    stored_pos: u64,
    position: u64,
    crc: flate2::Crc,
}

impl Inflater {
    pub(super) fn new() -> Inflater {
        Inflater {
            state: Decompress::new(false),
            input: Vec::new(),
            input_pos: 0,
            stored_pos: 0,
            position: 0,
            crc: flate2::Crc::new(),
        }
    }

    /// How many bytes have come out.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Fills `out` with the next bytes, all of which the entry has by its declared size. With
    /// the last byte, end and checksum are checked.
    pub(super) fn read(
        &mut self,
        source: &Source,
        data: &Data,
        out: &mut [u8],
    ) -> BackendResult<()> {
        let mut done = 0;
        while done < out.len() {
            match self.step(source, data, &mut out[done..])? {
                (0, true) => {
                    return Err(corrupt(format!(
                        "it inflates to {} bytes, not the declared {}",
                        self.position, data.len
                    )));
                }
                (n, _) => done += n,
            }
        }
        if self.position == data.len {
            self.check_end(source, data)?;
        }
        Ok(())
    }

    fn check_end(&mut self, source: &Source, data: &Data) -> BackendResult<()> {
        loop {
            match self.step(source, data, &mut [0])? {
                (0, true) => break,
                (0, false) => {}
                _ => {
                    let reason = format!("it inflates to more than the declared {}", data.len);
                    return Err(corrupt(reason));
                }
            }
        }
        match self.crc.sum() == data.crc {
            true => Ok(()),
            false => Err(corrupt("wrong checksum")),
        }
    }

    /// One call of the decompressor: how many bytes came out, and whether that was the end.
    fn step(
        &mut self,
        source: &Source,
        data: &Data,
        out: &mut [u8],
    ) -> BackendResult<(usize, bool)> {
        if self.input_pos == self.input.len() {
            let rest = data.stored_len - self.stored_pos;
            self.input.resize(rest.min(64 << 10) as usize, 0);
            source.read_exact_at(&mut self.input, data.offset + self.stored_pos)?;
            self.stored_pos += self.input.len() as u64;
            self.input_pos = 0;
        }
        let (in_before, out_before) = (self.state.total_in(), self.state.total_out());
        let input = &self.input[self.input_pos..];
        let status = self
            .state
            .decompress(input, out, FlushDecompress::None)
            .map_err(|error| corrupt(format!("deflate: {error}")))?;
        let taken = (self.state.total_in() - in_before) as usize;
        let made = (self.state.total_out() - out_before) as usize;
        self.input_pos += taken;
        self.position += made as u64;
        self.crc.update(&out[..made]);
        let ended = status == Status::StreamEnd;
        if !ended && taken == 0 && made == 0 {
            let out_of_input = self.input.is_empty();
            return Err(corrupt(match out_of_input {
                true => "the deflated data is cut short",
                false => "the deflated data makes no progress",
            }));
        }
        Ok((made, ended))
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Inflates a whole entry; memory grows with what comes out.
pub(super) fn inflate_whole(source: &Source, data: &Data) -> BackendResult<Vec<u8>> {
    let mut inflater = Inflater::new();
    let mut out = Vec::new();
    while (out.len() as u64) < data.len {
        let start = out.len();
        let rest = usize::try_from(data.len - start as u64)
            .map_err(|_| BackendError::from(ErrorKind::OutOfMemory))?;
        out.resize(start + rest.min((1 << 20).max(start)), 0);
        inflater.read(source, data, &mut out[start..])?;
    }
    if data.len == 0 {
        inflater.read(source, data, &mut [])?;
    }
    Ok(out)
}

/// Inflated entries by number, the least recently used goes first.
pub(super) struct InflateCache {
    state: Mutex<State>,
    capacity: u64,
}

#[derive(Default)]
struct State {
    entries: HashMap<u32, (u64, Arc<Vec<u8>>)>,
    bytes: u64,
    clock: u64,
}

impl InflateCache {
    pub(super) fn new(capacity: u64) -> InflateCache {
        InflateCache { state: Mutex::default(), capacity }
    }

    /// Whether an entry of this length is kept.
    pub(super) fn takes(&self, len: u64) -> bool {
        len <= self.capacity / 4
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Vec<u8>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let (used, bytes) = state.entries.get_mut(&number)?;
        *used = now;
        Some(Arc::clone(bytes))
    }

    pub(super) fn insert(&self, number: u32, bytes: Arc<Vec<u8>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let len = bytes.len() as u64;
        if state.entries.insert(number, (now, bytes)).is_none() {
            state.bytes += len;
        }
        while state.bytes > self.capacity {
            let oldest = state.entries.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(&number, _)| number) else { break };
            if let Some((_, gone)) = state.entries.remove(&oldest) {
                state.bytes -= gone.len() as u64;
            }
        }
    }
}

impl fmt::Debug for InflateCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InflateCache").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
