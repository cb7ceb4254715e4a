//! Directories: opened, listed, closed.

use std::sync::Arc;

use rustix::io::Errno;
use stratafs::{Detail, Entry, ErrorKind, FileType, Metadata, NodeId};

use crate::directory::{Listing, OpenDir};
use crate::errno::{Answer, of};
use crate::ids::{Cookie, DirHandle};

use super::Door;

/// One entry of a plain listing. The cookie is where the entry after it is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) number: u64,
    pub(crate) cookie: Cookie,
    pub(crate) file_type: FileType,
    pub(crate) name: &'a [u8],
}

/// One entry of a listing with metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plus<'a> {
    pub(crate) entry: Entry,
    pub(crate) cookie: Cookie,
    pub(crate) name: &'a [u8],
    /// How many reports of changes there had been before the entry was asked for.
    pub(crate) begun: u64,
}

/// `.` and `..` come before the snapshot's entries.
const DOTS: u64 = 2;

impl Door {
    pub(crate) fn open_dir(&self, node: NodeId) -> DirHandle {
        self.dirs.insert(node, Arc::new(OpenDir::new(node)))
    }

    pub(crate) fn close_dir(&self, handle: DirHandle) -> Answer<()> {
        self.dirs.remove(handle).map(drop).ok_or(Errno::BADF)
    }

    fn listing(
        &self,
        directory: &OpenDir,
        from: Cookie,
        detail: Detail,
        begun: u64,
    ) -> Answer<(Arc<Listing>, bool)> {
        directory.listing(from == Cookie::START, || {
            Listing::read(self.nodes(), directory.node, detail, begun).map_err(of)
        })
    }

    /// Calls `add` for each entry from the cookie on, until it says that there is no more
    /// room.
    pub(crate) fn list(
        &self,
        handle: DirHandle,
        from: Cookie,
        begun: u64,
        mut add: impl FnMut(Listed<'_>) -> bool,
    ) -> Answer<()> {
        let directory = self.dirs.get(handle).ok_or(Errno::BADF)?;
        let (listing, _) = self.listing(&directory, from, Detail::Names, begun)?;
        let mut at = from;
        loop {
            let entry = match at.0 {
                0 | 1 => self.dot(&directory, at),
                _ => match listing.get((at.0 - DOTS) as usize) {
                    Some((name, file_type, id)) => {
                        Listed { number: id, cookie: at.next(), file_type, name }
                    }
                    None => return Ok(()),
                },
            };
            if add(entry) {
                return Ok(());
            }
            at = at.next();
        }
    }

    fn dot(&self, directory: &OpenDir, at: Cookie) -> Listed<'static> {
        let (name, node): (&[u8], NodeId) = match at.0 {
            0 => (b".", directory.node),
            _ => (b"..", self.nodes().parent(directory.node)),
        };
        Listed { number: node.0, cookie: at.next(), file_type: FileType::Directory, name }
    }

    /// As [`list`](Self::list), and each entry that was added counts as a lookup.
    pub(crate) fn list_plus(
        &self,
        handle: DirHandle,
        from: Cookie,
        begun: u64,
        mut add: impl FnMut(Plus<'_>) -> bool,
    ) -> Answer<()> {
        let directory = self.dirs.get(handle).ok_or(Errno::BADF)?;
        let (listing, is_new) = self.listing(&directory, from, Detail::Metadata, begun)?;
        let mut at = from;
        while at.0 < DOTS {
            let dot = self.dot(&directory, at);
            let metadata = Metadata::new(FileType::Directory, 0);
            let entry = Entry { node: NodeId(dot.number), metadata, parent: None };
            if add(Plus { entry, cookie: dot.cookie, name: dot.name, begun }) {
                return Ok(());
            }
            at = at.next();
        }
        while let Some((name, ..)) = listing.get((at.0 - DOTS) as usize) {
            let listed = listing.metadata((at.0 - DOTS) as usize);
            at = at.next();
            let (entry, begun) = match listed {
                // A tree of our own may have changed since the snapshot, and the kernel would
                // keep what it is told now.
                Some(listed) if is_new || !self.exclusive => {
                    let counted = self.nodes().count(directory.node, name, listed);
                    (counted.map_err(of)?, listing.begun)
                }
                _ => (self.looked_up(directory.node, name)?, begun),
            };
            let Some(entry) = entry else { continue };
            if add(Plus { entry, cookie: at, name, begun }) {
                self.forget(entry.node, 1);
                break;
            }
        }
        Ok(())
    }

    fn looked_up(&self, parent: NodeId, name: &[u8]) -> Answer<Option<Entry>> {
        match self.nodes().lookup(parent, name) {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(of(error)),
        }
    }
}
