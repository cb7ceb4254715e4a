//! Copying within a tree, across mounts.

use crate::backend::FileSystem;
use crate::error::{BackendResult, ErrorKind, Result};
use crate::metadata::{FileType, Metadata, MetadataChange, TimeChange};
use crate::mount::Vfs;
use crate::mount::resolve::Last;
use crate::options::{NewNode, NodeKind, OpenOptions};
use crate::path::{AsPath, VfsPath, VfsPathBuf};

/// Bytes moved at a time: large enough that calls do not matter, small enough for a cache.
const PIECE: usize = 256 << 10;

impl Vfs {
    /// Copies the contents and permission bits of a file to `to`, made or replaced, and
    /// answers how many bytes that were. Links are followed.
    ///
    /// # Errors
    /// As [`Vfs::open`] and [`Vfs::create`]; `InvalidArgument` when both are one file. After
    /// an error the destination may be incomplete.
    pub fn copy(&self, from: impl AsPath, to: impl AsPath) -> Result<u64> {
        let source = self.open(&from)?;
        let metadata = source.metadata()?;
        let options = OpenOptions::new().write(true).create(true).mode(metadata.mode);
        let target = self.open_with(&to, &options)?;
        if target.metadata()?.id == metadata.id && metadata.links > 0 {
            return self.at_path("copy", &to, |_| Err(ErrorKind::InvalidArgument.into()));
        }
        target.set_len(0)?;
        let mut piece = vec![0; PIECE.min(usize::try_from(metadata.len).unwrap_or(PIECE).max(1))];
        let mut done = 0;
        loop {
            match source.read_at(&mut piece, done)? {
                0 => break,
                count => {
                    target.write_all_at(&piece[..count], done)?;
                    done += count as u64;
                }
            }
        }
        target.set_metadata(&MetadataChange::new().mode(metadata.mode))?;
        Ok(done)
    }

    /// Copies a file, link or whole directory to `to`, with permission bits, owners, times and
    /// extended attributes as far as the destination keeps them. Links are copied as links.
    /// Directories merge with those that exist; files replace files.
    ///
    /// # Errors
    /// As the calls it is made of; what was copied before an error stays. `InvalidArgument`
    /// when `to` lies below `from`.
    pub fn copy_all(&self, from: impl AsPath, to: impl AsPath) -> Result<()> {
        let (from, to) = (
            self.at_path("copy", &from, |path| Ok(path.to_owned()))?,
            self.at_path("copy", &to, |path| Ok(path.to_owned()))?,
        );
        if to.starts_with(&from) {
            return self.at_path("copy", &to, |_| Err(ErrorKind::InvalidArgument.into()));
        }
        // Times of a directory last, when nothing is made in it any more.
        let mut directories = Vec::new();
        for entry in self.walk(&from)? {
            let entry = entry?;
            let rest = entry.path.strip_prefix(&from).unwrap_or(VfsPath::root());
            let target = to.join(rest);
            let metadata = self.symlink_metadata(&entry.path)?;
            self.copy_one(&entry.path, &target, &metadata)?;
            match entry.file_type {
                FileType::Directory => directories.push((entry.path, target, metadata)),
                _ => self.copy_attributes(&entry.path, &target, &metadata)?,
            }
        }
        for (from, to, metadata) in directories.iter().rev() {
            self.copy_attributes(from, to, metadata)?;
        }
        Ok(())
    }

    fn copy_one(&self, from: &VfsPath, to: &VfsPath, metadata: &Metadata) -> Result<()> {
        let target;
        let kind = match metadata.file_type {
            FileType::File => return self.copy(from, to).map(drop),
            FileType::Directory => return self.create_dir_all(to),
            FileType::Symlink => {
                target = self.read_link(from)?;
                NodeKind::Symlink(&target)
            }
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::CharDevice | FileType::Whiteout => NodeKind::CharDevice(metadata.device),
            FileType::BlockDevice => NodeKind::BlockDevice(metadata.device),
        };
        self.create_node(to, &NewNode::new(kind).mode(metadata.mode))
    }

    fn copy_attributes(&self, from: &VfsPath, to: &VfsPath, metadata: &Metadata) -> Result<()> {
        self.at_path("copy attributes", to, |to| {
            let from: VfsPathBuf = self.resolve(from, Last::Keep)?;
            let to = self.resolve(to, Last::Keep)?;
            for name in self.tree.xattrs(&from)? {
                let value = self.tree.xattr(&from, &name)?;
                unless_unsupported(self.tree.set_xattr(&to, &name, &value, Default::default()))?;
            }
            let mut change = MetadataChange::new()
                .owner(metadata.owner)
                .accessed(TimeChange::At(metadata.accessed))
                .modified(TimeChange::At(metadata.modified));
            if !metadata.is_symlink() {
                change = change.mode(metadata.mode);
            }
            let set = match self.tree.set_metadata(&to, &change) {
                // Giving files away is for the privileged; the rest can still be kept.
                Err(error) if error.kind() == ErrorKind::OperationNotPermitted => {
                    let (user, group) = (None, None);
                    self.tree.set_metadata(&to, &MetadataChange { user, group, ..change })
                }
                answer => answer,
            };
            set.map(drop)
        })
    }
}

fn unless_unsupported(answer: BackendResult<()>) -> BackendResult<()> {
    match answer {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Unsupported | ErrorKind::OperationNotPermitted
            ) =>
        {
            Ok(())
        }
        answer => answer,
    }
}
