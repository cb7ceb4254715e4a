//! Renames: files are copied up first, lower directories are redirected instead of copied.

use std::borrow::Cow;

use crate::error::{BackendResult, ErrorKind};
use crate::metadata::FileType;
use crate::options::{RenameMode, XattrMode};
use crate::path::VfsPath;

use super::Overlay;
use super::copy_up::Contents;
use super::lookup::Found;
use super::remaps::{ORIGIN, attribute};

impl Overlay {
    /// The caller holds `trees` for writing.
    pub(super) fn rename(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<()> {
        if from.is_root() || to.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        if mode == RenameMode::Whiteout {
            return Err(ErrorKind::Unsupported.into());
        }
        let source = self.find(from)?;
        let target = match self.find(to) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.parent_must_be_directory(to)?;
                None
            }
            Err(error) => return Err(error),
        };
        if mode == RenameMode::Exchange && target.is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        let below = |a: &VfsPath, b: &VfsPath| a != b && a.starts_with(b);
        if below(to, from) || (mode == RenameMode::Exchange && below(from, to)) {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if let Some(target) = &target {
            if mode == RenameMode::NoReplace {
                return Err(ErrorKind::AlreadyExists.into());
            }
            let shown = |found: &Found<'_>| self.ids.shown(found.layer, found.metadata.id);
            let same =
                from == to || (shown(&source) == shown(target) && source.layer == target.layer);
            // Two lower names of one file become two files when one is changed; a rename of
            // one onto the other still finds them one.
            if same {
                return Ok(());
            }
            if mode != RenameMode::Exchange {
                match (source.metadata.is_dir(), target.metadata.is_dir()) {
                    (false, true) => return Err(ErrorKind::IsADirectory.into()),
                    (true, false) => return Err(ErrorKind::NotADirectory.into()),
                    (true, true) => self.must_be_empty(to)?,
                    (false, false) => {}
                }
            }
        }
        self.bring_up(from, &source)?;
        match target {
            Some(target) if mode == RenameMode::Exchange => {
                self.bring_up(to, &target)?;
                self.exchange(from, to)
            }
            target => self.replace(from, to, &source, target),
        }
    }

    fn parent_must_be_directory(&self, path: &VfsPath) -> BackendResult<()> {
        let parent = self.find(path.parent().unwrap_or(path))?;
        match parent.metadata.file_type {
            FileType::Directory => Ok(()),
            FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Copies up what is to be renamed, and writes down where its lower part is.
    fn bring_up(&self, path: &VfsPath, found: &Found<'_>) -> BackendResult<()> {
        if found.layer > 0 {
            self.copy_up_found(path, found, Contents::Copy)?;
        }
        let upper = &*self.upper()?.fs;
        let remaps = self.layers[0].remaps.load_full();
        let lower = remaps.translate(Cow::Borrowed(path));
        match found.metadata.is_dir() {
            // With a mark of its own it takes that along. Without one its lower part is found
            // by its path, which is about to change.
            true if remaps.get(path).is_none() => {
                let merges = match &lower {
                    Some(lower) => self.shows_from(1, lower)?,
                    None => false,
                };
                let lower = lower.filter(|_| merges).map(Cow::into_owned);
                self.mark(path, &lower)
            }
            false if found.layer > 0 => match lower {
                // For the report of changes: a rename, not a new file and a missing one.
                Some(lower) if attribute(upper, path, ORIGIN)?.is_none() => {
                    match upper.set_xattr(path, ORIGIN, lower.as_bytes(), XattrMode::Set) {
                        // The host keeps no such attributes on links and special files.
                        Err(error)
                            if matches!(
                                error.kind(),
                                ErrorKind::OperationNotPermitted
                                    | ErrorKind::PermissionDenied
                                    | ErrorKind::Unsupported
                            ) =>
                        {
                            Ok(())
                        }
                        answer => answer,
                    }
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn exchange(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        let before = self.layers[0].remaps.load_full();
        self.upper()?.fs.rename(from, to, RenameMode::Exchange)?;
        self.remap(|remaps| {
            remaps.remove_below(from);
            remaps.remove_below(to);
            remaps.extend_moved(&before, from, to);
            remaps.extend_moved(&before, to, from);
        });
        Ok(())
    }

    fn replace(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        source: &Found<'_>,
        target: Option<Found<'_>>,
    ) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        self.copy_up_parents(to)?;
        let leaves_whiteout = self.shows_below(from)?;
        let is_dir = source.metadata.is_dir();
        let in_upper = self.in_upper(to)?.map(|metadata| metadata.file_type);
        if is_dir && in_upper == Some(FileType::Directory) {
            let lower_shows = self.shows_below(to)?;
            self.clear_whiteouts(to, lower_shows)?;
        }
        // The marks of the new place are there before it is, so that nothing shows through.
        if is_dir {
            self.remap(|remaps| remaps.copy_below(from, to));
        }
        let mode = match leaves_whiteout {
            true => RenameMode::Whiteout,
            false => RenameMode::Replace,
        };
        let renamed = match in_upper {
            // A directory cannot replace a whiteout, but change places with it.
            Some(FileType::Whiteout) if is_dir => upper
                .rename(from, to, RenameMode::Exchange)
                .and_then(|()| if leaves_whiteout { Ok(()) } else { upper.remove_file(from) }),
            _ => upper.rename(from, to, mode),
        };
        if is_dir {
            let undone = if renamed.is_ok() { from } else { to };
            self.remap(|remaps| remaps.remove_below(undone));
        }
        renamed?;
        if let Some(target) = target
            && target.layer == 0
            && (target.metadata.is_dir() || target.metadata.links <= 1)
        {
            self.ids.remove(target.metadata.id);
        }
        Ok(())
    }
}
