//! Listing a directory.

use std::ops::ControlFlow;

use super::node::NodeId;
use super::store::Store;
use crate::backend::DirEntry;
use crate::error::BackendResult;
use crate::metadata::FileType;
use crate::options::Detail;

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
        directory: NodeId,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
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
            let (name, id) = (&arena[start..end], node.file_id());
            start = end;
            let known = match detail {
                Detail::Names => None,
                Detail::Metadata => match self.node(node).metadata(node) {
                    Some(metadata) => Some(metadata),
                    None => continue, // gone meanwhile
                },
            };
            let entry = DirEntry { name, file_type, id, metadata: known.as_ref() };
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }
}
