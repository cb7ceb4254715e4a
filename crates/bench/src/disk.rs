//! Bringing the disk into the same state before every measurement.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::Advice;

/// Hands everything that is waiting to be written to the medium and waits for it: what this
/// suite wrote, and whatever else waits on the same file system, so that no target starts
/// behind another's backlog.
pub(crate) fn settle(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Drops every file below `dir` from the page cache. Needs no privilege; pages that wait to be
/// written or are mapped somewhere stay.
pub(crate) fn drop_cached(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            drop_cached(&entry.path())?;
        } else {
            let file = OpenOptions::new().read(true).open(entry.path())?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
