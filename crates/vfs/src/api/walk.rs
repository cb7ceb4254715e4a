//! Walking a tree.

use crate::error::Result;
use crate::metadata::FileType;
use crate::mount::Vfs;
use crate::path::{AsPath, VfsPath, VfsPathBuf};

/// One file met on a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WalkEntry {
    /// Its path in the tree.
    pub path: VfsPathBuf,
    /// Its type; symbolic links are not followed.
    pub file_type: FileType,
    /// How far below the start it lies; the start itself is 0.
    pub depth: usize,
}

/// Walks a tree, each directory before what it holds, names in byte order. Made by
/// [`Vfs::walk`].
///
/// Holds the listings of the directories from the start down to the current one. A directory
/// that cannot be read gives an error in place of its contents, and the walk goes on.
#[derive(Debug)]
pub struct Walk<'a> {
    vfs: &'a Vfs,
    // The next one to visit is at the end.
    pending: Vec<WalkEntry>,
    descend: Option<(VfsPathBuf, usize)>,
}

impl Vfs {
    /// Walks everything at and below `path`.
    ///
    /// # Errors
    /// As [`Vfs::symlink_metadata`] for the start; each step may have its own.
    pub fn walk(&self, path: impl AsPath) -> Result<Walk<'_>> {
        let start = self.at_path("walk", &path, |path| {
            let metadata = self.followed_metadata(path)?;
            Ok(WalkEntry { path: path.to_owned(), file_type: metadata.file_type, depth: 0 })
        })?;
        Ok(Walk { vfs: self, pending: vec![start], descend: None })
    }
}

impl Walk<'_> {
    /// Leaves out what lies below the directory that `next` has just given.
    pub fn skip_contents(&mut self) {
        self.descend = None;
    }

    fn read(&mut self, path: &VfsPath, depth: usize) -> Result<()> {
        let list = self.vfs.read_dir(path)?.sorted();
        let start = self.pending.len();
        for entry in list.iter() {
            let path = path.join_name(entry.name).map_err(|error| error.at("walk", path))?;
            self.pending.push(WalkEntry { path, file_type: entry.file_type, depth });
        }
        self.pending[start..].reverse();
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((path, depth)) = self.descend.take()
            && let Err(error) = self.read(&path, depth)
        {
            return Some(Err(error));
        }
        let entry = self.pending.pop()?;
        if entry.file_type.is_dir() {
            self.descend = Some((entry.path.clone(), entry.depth + 1));
        }
        Some(Ok(entry))
    }
}
