//! Linking, renaming and removing names.

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::{Errno, Result};

use super::{Inner, stat};
use crate::backend::Capabilities;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::FileType;
use crate::options::RenameMode;
use crate::path::VfsPath;

/// How often a rename is tried that the host refuses without a reason in its paths: between
/// the look for a directory and the rename somebody may have moved it into the other.
const ATTEMPTS: u32 = 10;

fn below(path: &VfsPath, base: &VfsPath) -> bool {
    path != base && path.starts_with(base)
}

impl Inner {
    pub(super) fn link_node(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        let linked = self.in_parents(from, to, |(from_dir, from), (to_dir, to)| {
            rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())
        });
        match linked {
            Ok(()) => {
                self.made(to);
                Ok(())
            }
            // The host looks at the new name first.
            Err(Errno::EXIST) if self.type_of(from)? == FileType::Directory => {
                Err(ErrorKind::OperationNotPermitted.into())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn rename_node(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<()> {
        if from.is_root() || to.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        if mode == RenameMode::Whiteout && !self.capabilities.contains(Capabilities::WHITEOUTS) {
            self.in_parents(from, to, |_, _| Ok(()))?;
            return Err(ErrorKind::Unsupported.into());
        }
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
        };
        let mut attempts = 0;
        let renamed = loop {
            let renamed = self.in_parents(from, to, |(from_dir, from), (to_dir, to)| {
                rustix::fs::renameat_with(from_dir, from, to_dir, to, flags)
            });
            attempts += 1;
            let refused = renamed == Err(Errno::INVAL) && !below(to, from) && !below(from, to);
            if !refused || attempts == ATTEMPTS {
                break renamed;
            }
            let parents = [from, to].into_iter().filter_map(VfsPath::parent);
            for directory in parents.filter(|parent| !parent.is_root()) {
                self.moved(directory);
            }
        };
        match renamed {
            Ok(()) => {
                self.moved(from);
                self.moved(to);
                self.made(to);
                if matches!(mode, RenameMode::Exchange | RenameMode::Whiteout) {
                    self.made(from);
                }
                Ok(())
            }
            Err(errno) => Err(self.rename_error(errno, from, to, mode)?.into()),
        }
    }

    /// What the host's number means for this rename.
    fn rename_error(
        &self,
        errno: Errno,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<ErrorKind> {
        Ok(match (errno, mode) {
            (Errno::INVAL, _) if below(to, from) || below(from, to) => ErrorKind::InvalidArgument,
            // The host's way to say that it does not know this mode.
            (Errno::INVAL, RenameMode::Replace) => ErrorKind::InvalidArgument,
            (Errno::INVAL, _) => ErrorKind::Unsupported,
            (Errno::EXIST, _) if below(to, from) => ErrorKind::InvalidArgument,
            (Errno::EXIST, RenameMode::NoReplace) => ErrorKind::AlreadyExists,
            // The destination holds the source, so it has entries, whatever the source is.
            (Errno::NOTEMPTY, RenameMode::NoReplace) => ErrorKind::AlreadyExists,
            (Errno::NOTEMPTY | Errno::EXIST, _) => {
                match below(from, to) && self.type_of(from)? != FileType::Directory {
                    true => ErrorKind::IsADirectory,
                    false => ErrorKind::DirectoryNotEmpty,
                }
            }
            (errno, _) => return Err(errno.into()),
        })
    }

    /// Removes a name: a directory with [`AtFlags::REMOVEDIR`].
    pub(super) fn unlink(&self, path: &VfsPath, flags: AtFlags) -> Result<()> {
        self.in_parent(path, |dir, name| rustix::fs::unlinkat(dir, name, flags))
    }

    pub(super) fn remove_file_node(&self, path: &VfsPath) -> BackendResult<()> {
        if path.is_root() {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(self.unlink(path, AtFlags::empty())?)
    }

    pub(super) fn remove_dir_node(&self, path: &VfsPath) -> BackendResult<()> {
        if path.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        match self.unlink(path, AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.moved(path);
                Ok(())
            }
            Err(Errno::EXIST) => Err(ErrorKind::DirectoryNotEmpty.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn type_of(&self, path: &VfsPath) -> BackendResult<FileType> {
        Ok(stat::file_type(&self.stat(path)?))
    }
}
