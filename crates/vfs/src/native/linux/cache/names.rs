//! Learning which names a directory holds.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Result;

use super::filter::Filter;
use super::snapshot::Names;
use super::watcher::{NEW_NAMES, Watcher};

/// A directory with more names is asked each time: listing it takes longer than it saves.
const MAX_NAMES: usize = 1 << 18;

/// The attribute of a directory in which the case of names does not matter
/// (`FS_CASEFOLD_FL`).
const CASEFOLD: u32 = 0x4000_0000;

pub(super) struct Learnt {
    pub(super) names: Names,
    /// The watch that proves them.
    pub(super) watch: Option<i32>,
}

/// Watches the directory, and then lists it: whatever appears later is reported.
pub(super) fn learn(watcher: &Watcher, dir: BorrowedFd<'_>) -> Learnt {
    let Ok(watch) = watcher.add(dir, NEW_NAMES) else {
        return Learnt { names: Names::Unprovable, watch: None };
    };
    let names = match list(dir) {
        Ok(Some(filter)) => Names::Known(Arc::new(filter)),
        Ok(None) | Err(_) => Names::Unprovable,
    };
    Learnt { names, watch: Some(watch) }
}

fn list(dir: BorrowedFd<'_>) -> Result<Option<Filter>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, c".", flags, Mode::empty())?;
    // A file system that knows no attributes knows no such directories either.
    if rustix::fs::ioctl_getflags(&fd).is_ok_and(|flags| flags.bits() & CASEFOLD != 0) {
        return Ok(None);
    }
    let mut hashes = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
    let mut entries = RawDir::new(&fd, &mut buffer);
    while let Some(entry) = entries.next() {
        if hashes.len() == MAX_NAMES {
            return Ok(None);
        }
        hashes.push(Filter::hash(entry?.file_name().to_bytes()));
    }
    let filter = Filter::with_capacity(hashes.len());
    for hash in hashes {
        filter.insert_hash(hash);
    }
    Ok(Some(filter))
}
