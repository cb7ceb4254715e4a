//! Listing a directory.

use std::ops::ControlFlow;

use super::node::NodeId;
use super::store::{Store, as_directory};
use crate::backend::DirEntry;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::FileType;
use crate::path::VfsPath;

/// One entry, its name in the arena up to `end`.
struct Listed {
    end: usize,
    file_type: FileType,
    node: NodeId,
}

impl Store {
    /// Visits the entries as they were at one moment, in the order they were made. They are
    /// copied under the directory's lock and visited without it: a visitor may wait for
    /// another thread that wants to change this very directory.
    pub(crate) fn read_dir(
        &self,
        path: &VfsPath,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let found = self.existing(path)?;
        let directory = as_directory(found).map_err(|_| ErrorKind::NotADirectory)?;
        let mut arena = Vec::new();
        let mut entries = Vec::new();
        {
            let list = self.read_names(directory)?;
            self.names.each(&list, |name, file_type, node| {
                arena.extend_from_slice(name);
                entries.push(Listed { end: arena.len(), file_type, node });
            });
        }
        let mut start = 0;
        for Listed { end, file_type, node } in entries {
            let entry = DirEntry { name: &arena[start..end], file_type, id: node.file_id() };
            if visit(entry).is_break() {
                break;
            }
            start = end;
        }
        Ok(())
    }
}
