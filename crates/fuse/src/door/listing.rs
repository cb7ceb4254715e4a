//! Directories: opened, listed, closed.

use std::sync::Arc;

use rustix::io::Errno;
use stratafs::{ErrorKind, FileType, Metadata};

use crate::directory::{Listing, OpenDir};
use crate::errno::{Answer, of};
use crate::inodes::child;

use super::{Door, Found};

/// One entry of a plain listing. The cookie is where the entry after it is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) number: u64,
    pub(crate) cookie: u64,
    pub(crate) file_type: FileType,
    pub(crate) name: &'a [u8],
}

/// One entry of a listing with metadata. `node` is `None` where nothing can be said of the
/// entry but its name and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plus<'a> {
    pub(crate) found: Found,
    pub(crate) cookie: u64,
    pub(crate) name: &'a [u8],
}

/// `.` and `..` come before the snapshot's entries.
const DOTS: u64 = 2;

impl Door {
    pub(crate) fn open_dir(&self, node: u64) -> Answer<u64> {
        Ok(self.dirs.insert(node, Arc::new(OpenDir::new(node))))
    }

    pub(crate) fn close_dir(&self, handle: u64) -> Answer<()> {
        self.dirs.remove(handle).map(drop).ok_or(Errno::BADF)
    }

    fn listing(&self, directory: &OpenDir, from: u64) -> Answer<Arc<Listing>> {
        directory.listing(from == 0, || {
            match self.at(directory.node, |path| Listing::read(&*self.fs, path)) {
                // A removed directory lists nothing.
                Err(Errno::STALE) if self.inodes().locate(directory.node).is_err() => {
                    Ok(Listing::default())
                }
                answer => answer,
            }
        })
    }

    /// Calls `add` for each entry from the cookie on, until it says that there is no more
    /// room.
    pub(crate) fn list(
        &self,
        handle: u64,
        from: u64,
        mut add: impl FnMut(Listed<'_>) -> bool,
    ) -> Answer<()> {
        let directory = self.dirs.get(handle).ok_or(Errno::BADF)?;
        let listing = self.listing(&directory, from)?;
        for index in from.. {
            let entry = match index {
                0 | 1 => self.dot(&directory, index),
                _ => match listing.get((index - DOTS) as usize) {
                    Some((name, file_type, id)) => {
                        Listed { number: id, cookie: index + 1, file_type, name }
                    }
                    None => break,
                },
            };
            if add(entry) {
                break;
            }
        }
        Ok(())
    }

    fn dot(&self, directory: &OpenDir, index: u64) -> Listed<'static> {
        let (name, number): (&[u8], u64) = match index {
            0 => (b".", directory.node),
            _ => (b"..", self.inodes().parent(directory.node)),
        };
        Listed { number, cookie: index + 1, file_type: FileType::Directory, name }
    }

    /// As [`list`](Self::list), and each entry that was added counts as a lookup.
    pub(crate) fn list_plus(
        &self,
        handle: u64,
        from: u64,
        mut add: impl FnMut(Plus<'_>) -> bool,
    ) -> Answer<()> {
        let directory = self.dirs.get(handle).ok_or(Errno::BADF)?;
        let listing = self.listing(&directory, from)?;
        for index in from..DOTS {
            let dot = self.dot(&directory, index);
            let metadata = Metadata::new(FileType::Directory, 0);
            let found = Found { node: dot.number, generation: 0, metadata };
            if add(Plus { found, cookie: dot.cookie, name: dot.name }) {
                return Ok(());
            }
        }
        let _names = self.hold_names();
        let Ok(located) = self.inodes().locate(directory.node) else { return Ok(()) };
        for index in from.max(DOTS).. {
            let Some((name, ..)) = listing.get((index - DOTS) as usize) else { break };
            let metadata = match self.fs.metadata(&child(&located.path, name)?) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(of(error)),
            };
            let found = self.enter(directory.node, name, metadata);
            if add(Plus { found, cookie: index + 1, name }) {
                self.forget(found.node, 1);
                break;
            }
        }
        Ok(())
    }
}
