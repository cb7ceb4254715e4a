//! Compression of one block.

use crate::error::{BackendError, BackendResult, ErrorKind};

use super::format::{Codec, corrupt};

/// How the packer compresses a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compression {
    /// Not at all: stored as it is, read without a copy where mapped.
    Store,
    /// LZ4: decodes at memory speed.
    Lz4,
    /// Zstandard at this level (1 to 22): smaller, slower. Needs the feature `zstd`.
    Zstd(i32),
}

impl Compression {
    /// The level that `zstd` without one means.
    pub const DEFAULT_ZSTD_LEVEL: i32 = 3;
}

/// Compresses one block, or says `Stored` when that does not save a sixteenth of it.
pub(crate) fn compress(
    raw: &[u8],
    compression: Compression,
    out: &mut Vec<u8>,
) -> BackendResult<Codec> {
    let start = out.len();
    let codec = match compression {
        Compression::Store => Codec::Stored,
        Compression::Lz4 => {
            out.resize(start + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
            let len = lz4_flex::block::compress_into(raw, &mut out[start..])
                .map_err(|error| BackendError::new(ErrorKind::Io, error))?;
            out.truncate(start + len);
            Codec::Lz4
        }
        Compression::Zstd(level) => {
            zstd::compress(raw, level, out)?;
            Codec::Zstd
        }
    };
    if codec == Codec::Stored || out.len() - start > raw.len() - raw.len().div_ceil(16) {
        out.truncate(start);
        out.extend_from_slice(raw);
        return Ok(Codec::Stored);
    }
    Ok(codec)
}

/// Decodes one block into exactly `out`.
pub(crate) fn decompress(codec: Codec, stored: &[u8], out: &mut [u8]) -> BackendResult<()> {
    let len = match codec {
        Codec::Stored if stored.len() == out.len() => {
            out.copy_from_slice(stored);
            out.len()
        }
        Codec::Stored => stored.len(),
        Codec::Lz4 => lz4_flex::block::decompress_into(stored, out)
            .map_err(|error| corrupt(format!("LZ4: {error}")))?,
        Codec::Zstd => zstd::decompress(stored, out)?,
    };
    match len == out.len() {
        true => Ok(()),
        false => Err(corrupt(format!("it decodes to {len} bytes, not {}", out.len()))),
    }
}

#[cfg(feature = "zstd")]
mod zstd {
    use std::cell::RefCell;

    use super::{BackendError, BackendResult, ErrorKind, corrupt};
    use ::zstd::bulk::{Compressor, Decompressor};

    thread_local! {
        // A context is a quarter of a megabyte: made once for each thread, not for each block.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
        static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    }

    pub(super) fn compress(raw: &[u8], level: i32, out: &mut Vec<u8>) -> BackendResult<()> {
        let failed = |error| BackendError::new(ErrorKind::Io, error);
        COMPRESSOR.with_borrow_mut(|slot| {
            let compressor = match slot {
                Some((known, compressor)) if *known == level => compressor,
                _ => &mut slot.insert((level, Compressor::new(level).map_err(failed)?)).1,
            };
            let start = out.len();
            out.resize(start + ::zstd::zstd_safe::compress_bound(raw.len()), 0);
            let len = compressor.compress_to_buffer(raw, &mut out[start..]).map_err(failed)?;
            out.truncate(start + len);
            Ok(())
        })
    }

    pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> BackendResult<usize> {
        DECOMPRESSOR.with_borrow_mut(|slot| {
            let decompressor = match slot {
                Some(known) => known,
                None => slot.insert(
                    Decompressor::new().map_err(|error| BackendError::new(ErrorKind::Io, error))?,
                ),
            };
            decompressor
                .decompress_to_buffer(stored, out)
                .map_err(|error| corrupt(format!("Zstandard: {error}")))
        })
    }
}

#[cfg(not(feature = "zstd"))]
mod zstd {
    use super::{BackendError, BackendResult, ErrorKind};

    const REASON: &str = "Zstandard: this build of the library lacks the feature `zstd`";

    pub(super) fn compress(_: &[u8], _: i32, _: &mut Vec<u8>) -> BackendResult<()> {
        Err(BackendError::new(ErrorKind::Unsupported, REASON))
    }

    pub(super) fn decompress(_: &[u8], _: &mut [u8]) -> BackendResult<usize> {
        Err(BackendError::new(ErrorKind::Unsupported, REASON))
    }
}
