//! The tree to pack, in the order of its entries.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{FileId, FileType, Metadata};
use crate::options::{Detail, OpenOptions};
use crate::path::{VfsPath, VfsPathBuf};

use super::rules::{Rules, Treatment};
use super::{PackOptions, Warning};

/// All nodes in breadth-first order: the children of each directory are neighbours, by name.
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    pub block_count: u32,
}

pub(crate) struct Node {
    pub path: VfsPathBuf,
    pub parent: u32,
    pub metadata: Metadata,
    pub children: Range<u32>,
    pub target: Vec<u8>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first node that is the same file; its own number without hard links.
    pub file: u32,
    /// How many names in this tree.
    pub links: u32,
    pub treatment: Treatment,
    pub first_block: u32,
    /// Filled in as contents are written.
    pub plain_at: Option<u64>,
    pub hash: [u8; 32],
}

impl Node {
    pub(crate) fn is_file(&self) -> bool {
        self.metadata.is_file()
    }
}

impl Tree {
    /// Gives each file its blocks, by number: known before anything is read, so that threads
    /// can encrypt in any order.
    pub(crate) fn assign_blocks(&mut self, block_bits: u8) -> BackendResult<()> {
        let mut next = 0u64;
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let first = match node.file as usize {
                _ if !node.is_file() => continue,
                file if file == number => next,
                file => u64::from(self.nodes[file].first_block),
            };
            if node.file as usize == number {
                next += node.metadata.len.div_ceil(1 << block_bits);
            }
            // Checked below: what does not fit is never used.
            self.nodes[number].first_block = first as u32;
        }
        self.block_count = u32::try_from(next).map_err(|_| too_many("blocks"))?;
        Ok(())
    }
}

pub(crate) fn too_many(what: &str) -> BackendError {
    BackendError::new(ErrorKind::FileTooLarge, format!("more {what} than an archive can have"))
}

pub(crate) fn scan(
    source: &dyn FileSystem,
    rules: &Rules<'_>,
    options: &PackOptions<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Tree> {
    let mut scan = Scan { source, rules, options, warnings, by_id: HashMap::new() };
    let root = VfsPath::root();
    let mut nodes = vec![scan.node(root, 0, 0).map_err(|error| error.at("pack", root))?];
    let mut next = 0;
    while next < nodes.len() {
        if nodes[next].metadata.is_dir() {
            let first = nodes.len();
            for path in scan.list(&nodes[next].path)? {
                let number = u32::try_from(nodes.len())
                    .ok()
                    .filter(|&number| number < u32::MAX - 1)
                    .ok_or_else(|| too_many("entries").at("pack", &path))?;
                let node = match scan.node(&path, next as u32, number) {
                    Ok(node) => node,
                    Err(error) => {
                        scan.unreadable(&path, error)?;
                        continue;
                    }
                };
                if node.file != number {
                    let file = &mut nodes[node.file as usize];
                    file.links += 1;
                }
                nodes.push(node);
            }
            nodes[next].children = first as u32..nodes.len() as u32;
        }
        next += 1;
    }
    Ok(Tree { nodes, block_count: 0 })
}

struct Scan<'a> {
    source: &'a dyn FileSystem,
    rules: &'a Rules<'a>,
    options: &'a PackOptions<'a>,
    warnings: &'a mut Vec<Warning>,
    by_id: HashMap<FileId, u32>,
}

impl Scan<'_> {
    /// The children that are not left out, by name.
    fn list(&mut self, directory: &VfsPath) -> Result<Vec<VfsPathBuf>> {
        let mut children = Vec::new();
        let mut bad_name = None;
        let listed = self.source.read_dir(directory, Detail::Names, &mut |entry| {
            match directory.join_name(entry.name) {
                // What is left out is not looked at.
                Ok(path) if self.rules.excludes(&path, entry.file_type.is_dir()) => {}
                Ok(path) => children.push(path),
                Err(error) => bad_name = Some(error),
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = listed.and_then(|()| bad_name.map_or(Ok(()), Err)) {
            self.unreadable(directory, error)?;
        }
        children.sort_unstable();
        Ok(children)
    }

    /// Fails, or warns when the options say so. Without its root there is nothing to pack.
    fn unreadable(&mut self, path: &VfsPath, error: BackendError) -> Result<()> {
        if !self.options.skip_unreadable || path.is_root() {
            return Err(error.at("pack", path));
        }
        self.warnings.push(Warning { path: path.to_owned(), reason: error.to_string() });
        Ok(())
    }

    fn node(&mut self, path: &VfsPath, parent: u32, number: u32) -> BackendResult<Node> {
        let metadata = self.source.metadata(path)?;
        if path.len() > crate::path::MAX_PATH_LEN {
            return Err(ErrorKind::NameTooLong.into());
        }
        let target = match metadata.file_type {
            FileType::Symlink => self.source.read_link(path)?,
            _ => Vec::new(),
        };
        let xattrs = match self.options.xattrs {
            true if metadata.file_type != FileType::Whiteout => self.xattrs(path)?,
            _ => Vec::new(),
        };
        if self.options.skip_unreadable && metadata.is_file() {
            // What cannot be opened must be known before the archive is laid out.
            self.source.open(path, &OpenOptions::reading())?;
        }
        let file = match metadata.links > 1 && !metadata.is_dir() {
            true => *self.by_id.entry(metadata.id).or_insert(number),
            false => number,
        };
        Ok(Node {
            path: path.to_owned(),
            parent,
            metadata,
            children: 0..0,
            target,
            xattrs,
            file,
            links: 1,
            treatment: self.rules.treatment(path, metadata.is_dir()),
            first_block: 0,
            plain_at: None,
            hash: [0; 32],
        })
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut names = match self.source.xattrs(path) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(Vec::new()),
            names => names?,
        };
        names.sort_unstable();
        let mut xattrs = Vec::with_capacity(names.len());
        for name in names {
            let value = self.source.xattr(path, &name)?;
            if name.len() > 255 || value.len() > 65_536 {
                return Err(BackendError::new(ErrorKind::TooLarge, "an extended attribute"));
            }
            xattrs.push((name, value));
        }
        Ok(xattrs)
    }
}
