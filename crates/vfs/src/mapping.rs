//! The one place that maps a file into memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use bytes::Bytes;

/// Maps `len` bytes of a file from `offset` on, for reading. `len` is not 0, and the range lies
/// within the file as it is now.
///
/// A mapped file that is cut short by somebody else kills the process that touches the lost
/// pages (`SIGBUS`). Whoever makes such files must replace them by rename, never in place, as
/// the packer does; whoever cannot trust that opens with positional reads instead.
pub(crate) fn map(file: &File, offset: u64, len: usize) -> io::Result<Bytes> {
    // SAFETY: the map is read-only and private to this process. What would make the slice
    // unsound is a change of the file's bytes while it is borrowed: archives are immutable by
    // contract (see above), every reader of these bytes bounds-checks what it takes from them
    // at each use instead of trusting an earlier check, and bytes are only ever copied or
    // lent as plain `u8`, of which every value is valid.
    let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map(file)? };
    Ok(Bytes::from_owner(map))
}
