//! Moving a lower file to the upper layer before its first change.

use std::borrow::Cow;
use std::sync::{Arc, MutexGuard};

use xxhash_rust::xxh3::xxh3_64;

use crate::backend::{Capabilities, File, FileSystem};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange, TimeChange};
use crate::options::{NewNode, NodeKind, OpenOptions, Seek, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};

use super::lookup::Found;
use super::remaps::RESERVED;
use super::{Overlay, lock};

/// Bytes copied at a time.
const PIECE: usize = 256 << 10;

/// Whether a copy-up takes the bytes along.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    Copy,
    /// They are about to be cut off.
    Leave,
}

impl Overlay {
    /// Excludes other changes of the same name.
    pub(super) fn lock_name(&self, path: &VfsPath) -> MutexGuard<'_, ()> {
        lock(&self.names[xxh3_64(path.as_bytes()) as usize % self.names.len()])
    }

    /// Makes sure that the upper layer has what the path names. The caller holds `trees` for
    /// reading and the lock of the name, or `trees` for writing.
    pub(super) fn copy_up(&self, path: &VfsPath, contents: Contents) -> BackendResult<()> {
        self.upper()?;
        let found = self.find(path)?;
        if found.layer == 0 {
            return Ok(());
        }
        self.copy_up_found(path, &found, contents)
    }

    pub(super) fn copy_up_found(
        &self,
        path: &VfsPath,
        found: &Found<'_>,
        contents: Contents,
    ) -> BackendResult<()> {
        self.copy_up_parents(path)?;
        let upper = &*self.upper()?.fs;
        let lower = &*self.layers[found.layer].fs;
        let metadata = &found.metadata;
        match metadata.file_type {
            FileType::Directory => self.copy_up_directory(path, found),
            FileType::File => self.copy_up_file(path, found, contents),
            FileType::Whiteout => Err(ErrorKind::NotFound.into()),
            kind => {
                let target;
                let kind = match kind {
                    FileType::Symlink => {
                        target = lower.read_link(&found.at)?;
                        NodeKind::Symlink(&target)
                    }
                    FileType::Fifo => NodeKind::Fifo,
                    FileType::Socket => NodeKind::Socket,
                    FileType::CharDevice => NodeKind::CharDevice(metadata.device),
                    _ => NodeKind::BlockDevice(metadata.device),
                };
                let node = NewNode { kind, mode: metadata.mode, owner: Some(metadata.owner) };
                let made = upper.create(path, &node)?;
                self.copy_attributes(lower, &found.at, path)?;
                upper.set_metadata(path, &all_of(metadata))?;
                self.ids.insert(made.id, self.ids.shown(found.layer, metadata.id));
                Ok(())
            }
        }
    }

    /// Makes the directories above a path in the upper layer, each with the metadata of the
    /// one that shows.
    pub(super) fn copy_up_parents(&self, path: &VfsPath) -> BackendResult<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        match self.upper()?.fs.metadata(parent) {
            Ok(metadata) if metadata.is_dir() => return Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for directory in parent.ancestors().chain([parent]) {
            let found = self.find(directory)?;
            match found.metadata.file_type {
                FileType::Directory if found.layer == 0 => {}
                FileType::Directory => self.copy_up_directory(directory, &found)?,
                FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
                _ => return Err(ErrorKind::NotADirectory.into()),
            }
        }
        Ok(())
    }

    fn copy_up_directory(&self, path: &VfsPath, found: &Found<'_>) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        let metadata = &found.metadata;
        let node = NewNode::directory().mode(metadata.mode).owner(metadata.owner);
        // The parent's times show through; making a copy in it must not move them.
        let parent = path.parent().map(|parent| upper.metadata(parent)).transpose()?;
        match upper.create(path, &node) {
            Ok(made) => {
                self.copy_attributes(&*self.layers[found.layer].fs, &found.at, path)?;
                upper.set_metadata(path, &all_of(metadata))?;
                self.ids.insert(made.id, self.ids.shown(found.layer, metadata.id));
            }
            // Another change below the same directory has just made it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        self.restore_times(path, parent)
    }

    /// Puts a parent's times back after a copy was made in it: nothing that shows has changed.
    fn restore_times(&self, path: &VfsPath, parent: Option<Metadata>) -> BackendResult<()> {
        if let (Some(at), Some(parent)) = (path.parent(), parent) {
            let times = MetadataChange::new()
                .accessed(TimeChange::At(parent.accessed))
                .modified(TimeChange::At(parent.modified));
            self.upper()?.fs.set_metadata(at, &times)?;
        }
        Ok(())
    }

    fn copy_up_file(
        &self,
        path: &VfsPath,
        found: &Found<'_>,
        contents: Contents,
    ) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        let lower = &*self.layers[found.layer].fs;
        let parent = path.parent().unwrap_or(VfsPath::root());
        let parent_metadata = upper.metadata(parent)?;
        let shown = self.ids.shown(found.layer, found.metadata.id);
        let source = match contents {
            Contents::Copy => Some(lower.open(&found.at, &OpenOptions::reading())?),
            Contents::Leave => None,
        };
        // Nobody may meet half a copy: it gets its name when it is whole, or at least, where
        // the upper has no unnamed files, the name of nothing that showed before.
        let unnamed = upper.capabilities().contains(Capabilities::TEMPORARY);
        let place: Cow<'_, VfsPath> = match unnamed {
            true => Cow::Borrowed(parent),
            false => Cow::Owned(temporary_name(parent)?),
        };
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .temporary(unnamed)
            .create_new(!unnamed)
            .mode(found.metadata.mode)
            .owner(found.metadata.owner);
        let copy = upper.open(&place, &options)?;
        let filled = (|| {
            if let Some(source) = &source {
                copy_contents(&**source, &*copy, found.metadata.len)?;
            }
            copy.set_metadata(&all_of(&found.metadata))
        })();
        let named = filled.and_then(|()| match unnamed {
            true => copy.link_to(path),
            false => upper.rename(&place, path, crate::options::RenameMode::NoReplace),
        });
        if let Err(error) = named {
            if !unnamed {
                // The first error is the one to tell.
                let _ = upper.remove_file(&place);
            }
            return Err(error);
        }
        self.copy_attributes(lower, &found.at, path)?;
        let id = copy.metadata()?.id;
        self.ids.insert(id, shown);
        // Naming and attributes moved the times of the copy's parent only; put them back.
        self.restore_times(path, Some(parent_metadata))?;
        self.copied.remember(shown, Arc::from(copy));
        Ok(())
    }

    /// Copies a file that has lost its name, for a handle that wants to write to it.
    pub(super) fn copy_unnamed(
        &self,
        source: &dyn File,
        shown: crate::metadata::FileId,
    ) -> BackendResult<Arc<dyn File>> {
        let upper = &*self.upper()?.fs;
        let metadata = source.metadata()?;
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .temporary(true)
            .mode(metadata.mode)
            .owner(metadata.owner);
        let copy = upper.open(VfsPath::root(), &options)?;
        copy_contents(source, &*copy, metadata.len)?;
        copy.set_metadata(&all_of(&metadata))?;
        self.ids.insert(copy.metadata()?.id, shown);
        let copy: Arc<dyn File> = Arc::from(copy);
        self.copied.remember(shown, Arc::clone(&copy));
        Ok(copy)
    }

    /// Copies extended attributes that are the user's.
    fn copy_attributes(
        &self,
        lower: &dyn FileSystem,
        from: &VfsPath,
        to: &VfsPath,
    ) -> BackendResult<()> {
        let upper = &*self.upper()?.fs;
        for name in lower.xattrs(from)? {
            if name.starts_with(RESERVED) {
                continue;
            }
            let value = lower.xattr(from, &name)?;
            match upper.set_xattr(to, &name, &value, XattrMode::Set) {
                // Namespaces that only the privileged may write (`security.`, `trusted.`), or
                // that the upper does not know: better a copy without than no write at all.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::OperationNotPermitted
                            | ErrorKind::PermissionDenied
                            | ErrorKind::Unsupported
                    ) => {}
                answer => answer?,
            }
        }
        Ok(())
    }
}

/// A name in a directory for the time of one operation.
pub(super) fn temporary_name(directory: &VfsPath) -> BackendResult<VfsPathBuf> {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0);
    directory.join_name(format!(".strata-{random:016x}").as_bytes())
}

/// Everything that a change can carry, as it is.
pub(super) fn all_of(metadata: &Metadata) -> MetadataChange {
    let change = MetadataChange::new()
        .owner(metadata.owner)
        .accessed(TimeChange::At(metadata.accessed))
        .modified(TimeChange::At(metadata.modified));
    match metadata.is_symlink() {
        true => change,
        // After the owner: a change of owner may clear the set-user-id bit.
        false => change.mode(metadata.mode),
    }
}

/// Copies the bytes, and leaves holes where the source has them.
pub(super) fn copy_contents(from: &dyn File, to: &dyn File, len: u64) -> BackendResult<()> {
    let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE)).max(1)];
    let mut at = 0;
    while at < len {
        at = match from.seek(at, Seek::Data) {
            Ok(data) => data,
            Err(error) if error.kind() == ErrorKind::NoSuchOffset => break,
            Err(error) => return Err(error),
        };
        let hole = from.seek(at, Seek::Hole)?;
        while at < hole {
            let want = piece.len().min(usize::try_from(hole - at).unwrap_or(usize::MAX));
            let count = from.read_at(&mut piece[..want], at)?;
            if count == 0 {
                break;
            }
            let mut done = 0;
            while done < count {
                done += to.write_at(&piece[done..count], at + done as u64)?;
            }
            at += count as u64;
        }
        if at < hole {
            break; // it became shorter meanwhile
        }
    }
    to.set_len(len)
}
