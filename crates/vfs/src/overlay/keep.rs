//! Copying an upper layer out, and what copying whole files takes.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{FileId, FileType, Metadata};
use crate::options::{Detail, NewNode, NodeKind, OpenOptions, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};

use super::OverlayFs;
use super::copy_up::{Xattrs, copy_contents, is_refusal, set_like};
use super::create::create_node;
use super::remaps::NAMESPACE;

impl OverlayFs {
    /// Copies what the upper layer holds to an empty directory of `target`: a native directory
    /// then serves as the upper layer of a later overlay, whiteouts and marks included.
    ///
    /// # Errors
    /// What the layers or the target meet; `ReadOnly` for an overlay without an upper layer.
    pub fn keep(&self, target: &dyn FileSystem) -> Result<()> {
        self.keep_with(target, &|_| ())
    }

    /// As [`keep`](Self::keep); `progress` is told after each file how many bytes of contents
    /// are written so far.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn keep_with(&self, target: &dyn FileSystem, progress: &dyn Fn(u64)) -> Result<()> {
        let root = VfsPath::root();
        self.state.upper(root).map_err(|error| error.at("keep", root))?;
        let _alone = self.state.tree.exclusive();
        copy_tree(self.state.top(), target, progress)
    }
}

/// Where the first name of a file with several went.
pub(super) type Linked = HashMap<FileId, VfsPathBuf>;

/// What is known of a file besides its contents.
pub(super) struct Facts {
    pub(super) metadata: Metadata,
    pub(super) xattrs: Xattrs,
}

impl Facts {
    pub(super) fn of(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<Facts> {
        let metadata = fs.metadata(path)?;
        let mut xattrs = Xattrs::new();
        for name in fs.xattrs(path)? {
            let value = fs.xattr(path, &name)?;
            xattrs.push((name, value));
        }
        Ok(Facts { metadata, xattrs })
    }

    /// Gives them to a file that is there already, whose attributes go unless they are given.
    pub(super) fn replace(&self, fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<()> {
        for name in fs.xattrs(path)? {
            let kept = self.xattrs.iter().any(|(known, _)| *known == name);
            if kept || name.starts_with(NAMESPACE) {
                continue;
            }
            match fs.remove_xattr(path, &name) {
                Err(error) if !is_refusal(&error) => return Err(error),
                _ => {}
            }
        }
        self.put(fs, path)
    }

    /// Gives them to a file of another file system. Attributes and owners that it refuses are
    /// left out.
    pub(super) fn put(&self, fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<()> {
        for (name, value) in &self.xattrs {
            match fs.set_xattr(path, name, value, XattrMode::Set) {
                Err(error) if !is_refusal(&error) => return Err(error),
                _ => {}
            }
        }
        let made = fs.metadata(path)?.owner;
        set_like(&self.metadata, made, |change| fs.set_metadata(path, change))
    }
}

/// Copies one file that is no directory, with everything known of it.
pub(super) fn copy_one(
    from: &dyn FileSystem,
    source: &VfsPath,
    facts: &Facts,
    to: &dyn FileSystem,
    path: &VfsPath,
) -> BackendResult<()> {
    let metadata = &facts.metadata;
    let target;
    let kind = match metadata.file_type {
        FileType::File => {
            let options = OpenOptions::new().write(true).create_new(true).mode(0o600);
            let copy = to.open(path, &options)?.file;
            copy_contents(
                &*from.open(source, &OpenOptions::reading())?.file,
                &*copy,
                metadata.len,
            )?;
            return facts.put(to, path);
        }
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => {
            target = from.read_link(source)?;
            NodeKind::Symlink(&target)
        }
        FileType::Fifo => NodeKind::Fifo,
        FileType::Socket => NodeKind::Socket,
        FileType::CharDevice => NodeKind::CharDevice(metadata.device),
        FileType::BlockDevice => NodeKind::BlockDevice(metadata.device),
        FileType::Whiteout => return to.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop),
    };
    let node = NewNode::new(kind).mode(metadata.mode);
    create_node(to, path, &node)?;
    facts.put(to, path)
}

/// Copies everything below one root to another that is empty, names of one file as links.
fn copy_tree(from: &dyn FileSystem, to: &dyn FileSystem, progress: &dyn Fn(u64)) -> Result<()> {
    let mut written = 0;
    let mut linked = Linked::new();
    let mut directories = Vec::new();
    let mut pending = vec![VfsPathBuf::new()];
    while let Some(directory) = pending.pop() {
        let at = |error: BackendError| error.at("keep", &directory);
        for name in names_in(from, &directory).map_err(at)? {
            let path = directory.join(VfsPath::from_normal(&name));
            let copied = (|| {
                let facts = Facts::of(from, &path)?;
                let metadata = &facts.metadata;
                if metadata.is_dir() {
                    pending.push(path.clone());
                    return to.create(&path, &NewNode::directory()).map(drop);
                }
                if let Some(first) = linked.get(&metadata.id) {
                    return to.link(first, &path).map(drop);
                }
                copy_one(from, &path, &facts, to, &path)?;
                written += metadata.len;
                progress(written);
                if metadata.links > 1 && metadata.file_type != FileType::Whiteout {
                    linked.insert(metadata.id, path.clone());
                }
                Ok(())
            })();
            copied.map_err(|error| error.at("keep", &path))?;
        }
        directories.push(directory);
    }
    // Modes and times of directories last, when nothing is made in them any more.
    for directory in directories.iter().rev() {
        Facts::of(from, directory)
            .and_then(|facts| facts.put(to, directory))
            .map_err(|error| error.at("keep", directory))?;
    }
    Ok(())
}

pub(super) fn names_in(fs: &dyn FileSystem, directory: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    fs.read_dir(directory, Detail::Names, &mut |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

/// Removes whatever a path names; nothing there is fine.
pub(super) fn remove_tree(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<()> {
    let mut pending = vec![(path.to_owned(), false)];
    while let Some((path, emptied)) = pending.pop() {
        let gone = match fs.metadata(&path) {
            Ok(metadata) if !metadata.is_dir() => fs.remove_file(&path),
            Ok(_) if emptied => fs.remove_dir(&path),
            Ok(_) => {
                pending.push((path.clone(), true));
                for name in names_in(fs, &path)? {
                    pending.push((path.join(VfsPath::from_normal(&name)), false));
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        match gone {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            answer => answer?,
        }
    }
    Ok(())
}
