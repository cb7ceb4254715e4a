//! `memory:`

use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, MemoryOptions, MetadataChange, Owner, VfsPath};

use crate::exit::Failure;
use crate::stack::grammar::number;
use crate::stack::{LayerKind, LayerSource};

/// An empty tree in memory.
pub const KIND: LayerKind = LayerKind {
    name: "memory",
    forms: &[("", "an empty tree in memory")],
    options: &[
        ("size=BYTES", "the most bytes that it holds"),
        ("files=COUNT", "the most files and directories that it holds"),
    ],
    parse: |argument| match argument {
        b"" => Ok(Box::new(Memory(MemoryOptions::new()))),
        _ => Err("memory takes no argument, only options: memory:,size=64M".into()),
    },
};

#[derive(Debug)]
struct Memory(MemoryOptions);

impl LayerSource for Memory {
    fn set(&mut self, option: &[u8], value: Option<&[u8]>) -> Result<bool, String> {
        match (option, value) {
            (b"size", Some(value)) => self.0.quota_bytes = Some(number(value)?),
            (b"files", Some(value)) => self.0.quota_files = Some(number(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn argument(&self) -> Vec<u8> {
        Vec::new()
    }

    fn options(&self) -> Vec<Vec<u8>> {
        let size = self.0.quota_bytes.map(|bytes| format!("size={bytes}").into_bytes());
        let files = self.0.quota_files.map(|count| format!("files={count}").into_bytes());
        size.into_iter().chain(files).collect()
    }

    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure> {
        let memory = MemoryFs::with_options(self.0);
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let owner = Owner { user: user.as_raw(), group: group.as_raw() };
        memory.set_metadata(VfsPath::root(), &MetadataChange::new().owner(owner))?;
        Ok(Arc::new(memory))
    }

    fn is_fresh(&self) -> bool {
        true
    }
}
