//! Writing the contents of an archive (or any tree) out, safely.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::backend::{Capabilities, File, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{Device, FileId, FileType, Metadata, MetadataChange, TimeChange};
use crate::options::{Detail, NewNode, NodeKind, OpenOptions, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};

use super::pack::Warning;

/// Zeros of this many bytes are left as holes.
const HOLE: usize = 64 << 10;

/// How to extract.
#[derive(Default)]
pub struct ExtractOptions<'a> {
    /// What to extract, each with everything below it; empty: all.
    pub paths: Vec<VfsPathBuf>,
    /// Replace files that exist, and what is known of directories that do (mode, times,
    /// attributes). Without it an existing file is an error, and an existing directory keeps its
    /// own. A directory never gives way to a file.
    pub overwrite: bool,
    /// Give the target's root the mode, times and attributes of the source's: it was made for
    /// this. Nothing else changes them.
    pub new_root: bool,
    /// Restore owners, and with them what gives rights: the set-user-id and set-group-id bits, and
    /// extended attributes outside of `user.`, such as file capabilities. Usually needs
    /// privileges.
    pub owners: bool,
    /// Make FIFOs, sockets, devices and whiteouts, too. Without it they are left out with a
    /// [`Warning`].
    pub special: bool,
    /// Called with the number of bytes written, on the caller's thread.
    pub progress: Option<&'a dyn Fn(u64)>,
}

impl std::fmt::Debug for ExtractOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtractOptions")
            .field("paths", &self.paths)
            .field("overwrite", &self.overwrite)
            .field("new_root", &self.new_root)
            .field("owners", &self.owners)
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}

/// What was extracted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtractReport {
    /// Regular files written, hard links included.
    pub files: u64,
    /// Directories made or found.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// What was left out or changed.
    pub warnings: Vec<Warning>,
}

/// Writes what `source` holds into the root of `target`.
///
/// Safe against hostile trees: names come from the source one at a time and are checked to be
/// names; nothing is written through a symbolic link, as links are made after everything else
/// and `target`, being a backend, follows none; new files are made new, never opened. So give a
/// backend, such as a native directory, not a [`Vfs`](crate::Vfs), which resolves links.
///
/// New directories are private to their owner until everything below them is written; then they
/// get their own mode and times. Stretches of zeros are written as holes. After an error, what was
/// written before it stays, but not the file that it met.
///
/// # Errors
/// `NotFound` for a path that is not in the source; `AlreadyExists` for an existing file without
/// `overwrite`; `SymlinkInPath` or `NotADirectory` where the target has a link or a file in
/// the place of a directory; what reading and writing meet.
pub fn extract(
    source: &dyn FileSystem,
    target: &dyn FileSystem,
    options: &ExtractOptions<'_>,
) -> Result<ExtractReport> {
    let mut work = Extraction {
        source,
        target,
        options,
        report: ExtractReport::default(),
        directories: Vec::new(),
        symlinks: Vec::new(),
        links: HashMap::new(),
        buffer: Vec::new(),
    };
    let all = [VfsPathBuf::new()];
    let paths = if options.paths.is_empty() { &all[..] } else { &options.paths[..] };
    for path in paths {
        work.ancestors(path)?;
        work.tree(path)?;
    }
    for (path, metadata) in std::mem::take(&mut work.symlinks) {
        work.symlink(&path, &metadata).map_err(|error| error.at("extract", &path))?;
    }
    for (path, metadata) in std::mem::take(&mut work.directories).iter().rev() {
        work.finish(path, metadata).map_err(|error| error.at("extract", path))?;
    }
    Ok(work.report)
}

struct Extraction<'a> {
    source: &'a dyn FileSystem,
    target: &'a dyn FileSystem,
    options: &'a ExtractOptions<'a>,
    report: ExtractReport,
    /// Their modes and times are set at the end, the deepest first.
    directories: Vec<(VfsPathBuf, Metadata)>,
    symlinks: Vec<(VfsPathBuf, Metadata)>,
    links: HashMap<FileId, VfsPathBuf>,
    buffer: Vec<u8>,
}

impl Extraction<'_> {
    /// The directories above a path that was asked for.
    fn ancestors(&mut self, path: &VfsPath) -> Result<()> {
        for directory in path.ancestors().filter(|path| !path.is_root()) {
            let at = |error: BackendError| error.at("extract", directory);
            let metadata = self.source.metadata(directory).map_err(at)?;
            if !self.directories.iter().any(|(known, _)| **known == *directory) {
                self.node(directory, &metadata).map_err(at)?;
            }
        }
        Ok(())
    }

    fn tree(&mut self, top: &VfsPath) -> Result<()> {
        let mut next = vec![top.to_owned()];
        while let Some(path) = next.pop() {
            let at = |error: BackendError| error.at("extract", &path);
            let metadata = self.source.metadata(&path).map_err(at)?;
            self.node(&path, &metadata).map_err(at)?;
            if !metadata.is_dir() {
                continue;
            }
            let start = next.len();
            let mut bad = None;
            let listed = self.source.read_dir(&path, Detail::Names, &mut |entry| {
                match path.join_name(entry.name) {
                    Ok(child) => next.push(child),
                    Err(error) => bad = Some(error),
                }
                ControlFlow::Continue(())
            });
            listed.and_then(|()| bad.map_or(Ok(()), Err)).map_err(at)?;
            next[start..].sort_unstable_by(|a, b| b.cmp(a));
        }
        Ok(())
    }

    fn warn(&mut self, path: &VfsPath, reason: impl Into<String>) {
        self.report.warnings.push(Warning { path: path.to_owned(), reason: reason.into() });
    }

    fn node(&mut self, path: &VfsPath, metadata: &Metadata) -> BackendResult<()> {
        let special = match metadata.file_type {
            FileType::Directory => return self.directory(path, metadata),
            FileType::File => return self.file(path, metadata),
            FileType::Symlink => {
                self.symlinks.push((path.to_owned(), *metadata));
                return Ok(());
            }
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::CharDevice => NodeKind::CharDevice(metadata.device),
            FileType::BlockDevice => NodeKind::BlockDevice(metadata.device),
            FileType::Whiteout => NodeKind::Whiteout,
        };
        let wanted = match special {
            NodeKind::Whiteout => Capabilities::WHITEOUTS,
            _ => Capabilities::SPECIAL_NODES,
        };
        if !self.options.special || !self.target.capabilities().contains(wanted) {
            self.warn(path, format!("{:?} left out", metadata.file_type));
            return Ok(());
        }
        self.make_way(path)?;
        self.target.create(path, &NewNode::new(special))?;
        match special {
            NodeKind::Whiteout => Ok(()),
            _ => self.finish(path, metadata),
        }
    }

    fn directory(&mut self, path: &VfsPath, metadata: &Metadata) -> BackendResult<()> {
        let restore = match path.is_root() {
            true => self.options.new_root,
            false => self.make_directory(path)? || self.options.overwrite,
        };
        if restore {
            self.directories.push((path.to_owned(), *metadata));
        }
        self.report.directories += 1;
        Ok(())
    }

    /// Answers whether it made the directory, or it was there.
    fn make_directory(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.target.create(path, &NewNode::directory().mode(0o700)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match self.target.metadata(path)?.file_type {
                    FileType::Directory => Ok(false),
                    FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
                    _ => Err(ErrorKind::NotADirectory.into()),
                }
            }
            made => made.map(|_| true),
        }
    }

    /// Removes what has the name, when the options allow it and it is no directory.
    fn make_way(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.options.overwrite {
            return Ok(());
        }
        match self.target.remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn file(&mut self, path: &VfsPath, metadata: &Metadata) -> BackendResult<()> {
        self.make_way(path)?;
        if metadata.links > 1 {
            if let Some(first) = self.links.get(&metadata.id)
                && self.target.capabilities().contains(Capabilities::HARD_LINKS)
            {
                self.report.files += 1;
                return self.target.link(first, path).map(drop);
            }
            self.links.insert(metadata.id, path.to_owned());
        }
        let from = self.source.open(path, &OpenOptions::reading())?.file;
        let new = OpenOptions::new().write(true).create_new(true).mode(0o600);
        let to = self.target.open(path, &new)?.file;
        let copied = self.copy(&*from, &*to);
        drop(to);
        if copied.is_err() {
            // A half must not pass for the whole; the error that led here says more than another.
            let _ = self.target.remove_file(path);
        }
        copied?;
        self.report.files += 1;
        self.finish(path, metadata)
    }

    fn copy(&mut self, from: &dyn File, to: &dyn File) -> BackendResult<()> {
        self.buffer.resize(1 << 20, 0);
        let mut offset = 0;
        loop {
            let n = from.read_at(&mut self.buffer, offset)?;
            if n == 0 {
                return to.set_len(offset);
            }
            for piece in self.buffer[..n].chunks(HOLE) {
                if piece.iter().any(|&byte| byte != 0) {
                    let mut rest = piece;
                    while !rest.is_empty() {
                        let at = offset + (piece.len() - rest.len()) as u64;
                        rest = &rest[to.write_at(rest, at)?..];
                    }
                }
                offset += piece.len() as u64;
            }
            self.report.bytes += n as u64;
            if let Some(progress) = self.options.progress {
                progress(self.report.bytes);
            }
        }
    }

    fn symlink(&mut self, path: &VfsPath, metadata: &Metadata) -> BackendResult<()> {
        if !self.target.capabilities().contains(Capabilities::SYMLINKS) {
            self.warn(path, "the target has no symbolic links: left out");
            return Ok(());
        }
        let target = self.source.read_link(path)?;
        self.make_way(path)?;
        self.target.create(path, &NewNode::symlink(&target))?;
        self.report.symlinks += 1;
        self.finish(path, metadata)
    }

    /// Attributes, then mode and times.
    fn finish(&mut self, path: &VfsPath, metadata: &Metadata) -> BackendResult<()> {
        debug_assert!(metadata.device == Device::default() || !metadata.is_dir());
        if self.target.capabilities().contains(Capabilities::XATTRS) {
            for name in self.source.xattrs(path)? {
                if !self.options.owners && !name.starts_with(b"user.") {
                    let name = name.escape_ascii();
                    self.warn(path, format!("extended attribute {name} left out: it gives rights"));
                    continue;
                }
                let value = self.source.xattr(path, &name)?;
                if let Err(error) = self.target.set_xattr(path, &name, &value, XattrMode::Set) {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    self.warn(path, format!("extended attribute {name}: {error}"));
                }
            }
        }
        let mut change = MetadataChange::new().modified(TimeChange::At(metadata.modified));
        if self.options.owners {
            change = change.owner(metadata.owner);
        }
        if !metadata.is_symlink() {
            let mask = if self.options.owners { 0o7777 } else { 0o1777 };
            if metadata.mode & !mask != 0 {
                self.warn(path, "set-user-id and set-group-id bits left out");
            }
            change = change.mode(metadata.mode & mask);
        }
        self.target.set_metadata(path, &change).map(drop)
    }
}
