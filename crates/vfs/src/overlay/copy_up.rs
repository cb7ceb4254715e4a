//! Copying lower files and directories into the upper layer.

use std::sync::Arc;

use crate::backend::{Capabilities, File, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{FileId, FileType, Metadata, MetadataChange, Owner, TimeChange};
use crate::options::{NewNode, NodeKind, OpenOptions, RenameMode, Seek, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};

use super::State;
use super::copies::{Record, bucket};
use super::create::create_node;
use super::ids::Origin;
use super::lookup::Hit;
use super::remaps::NAMESPACE;

/// What of a file's contents to copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Contents {
    All,
    /// None: they are about to be cut.
    Nothing,
}

/// Contents are copied in pieces of this many bytes.
const PIECE: usize = 256 << 10;

pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A copy that waits for its name.
struct Copy {
    /// Of a regular file.
    file: Option<Arc<dyn File>>,
    id: FileId,
    /// Where it stands; a file that needs no such place has none.
    spare: Option<VfsPathBuf>,
}

impl State {
    /// Makes sure that the upper layer has what `path` shows. Callers hold no lock.
    pub(super) fn copy_up(&self, path: &VfsPath, contents: Contents) -> BackendResult<()> {
        let _copying = self.copying.lock(path);
        let hit = self.lookup(path)?;
        if hit.layer == 0 {
            return Ok(());
        }
        if hit.is_dir() {
            let _shared = self.tree.shared();
            return self.make_dir(path);
        }
        let Some(beneath) = self.beneath(path) else { return Ok(()) };
        let beneath = beneath.into_owned();
        let xattrs = self.xattrs_to_copy(&hit)?;
        let is_file = hit.file_type() == FileType::File;
        if is_file && xattrs.is_empty() && self.capabilities.contains(Capabilities::TEMPORARY) {
            // The contents are copied while nobody waits for the tree.
            let file = self.copy_without_name(VfsPath::root(), &hit, contents)?;
            let copy = Copy { id: file.metadata()?.id, file: Some(file), spare: None };
            let _shared = self.tree.shared();
            return self.publish(path, &beneath, &hit, &copy);
        }
        // This one stands in its directory while it is made, which must stay where it is.
        let _shared = self.tree.shared();
        if !self.still_shows(path, &beneath)? {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_dir(parent)?;
        }
        let spare = self.spare(path);
        let made = self.keeping_times(path, || {
            let copy = self.copy_to_spare(&spare, &hit, &xattrs, contents)?;
            self.publish(path, &beneath, &hit, &copy)
        });
        // Does nothing where the name was given away.
        let _ = self.top().remove_file(&spare);
        made
    }

    /// Whether the path still shows what the layers beneath have at `beneath`.
    fn still_shows(&self, path: &VfsPath, beneath: &VfsPath) -> BackendResult<bool> {
        Ok(self.find(path)?.layer > 0 && self.beneath(path).as_deref() == Some(beneath))
    }

    /// Gives a copy its name, unless the path shows something else by now.
    fn publish(
        &self,
        path: &VfsPath,
        beneath: &VfsPath,
        hit: &Hit<'_>,
        copy: &Copy,
    ) -> BackendResult<()> {
        if !self.still_shows(path, beneath)? {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_dir(parent)?;
        }
        let _name = self.names.lock(path);
        if !self.still_shows(path, beneath)? {
            return Ok(());
        }
        self.note_lower(path, hit);
        let shown = self.ids.shown(hit.layer, hit.metadata.id);
        let id = (hit.metadata.links <= 1).then_some(shown);
        self.ids.insert(copy.id, Origin { id, path: beneath.to_owned() });
        let place = || match (&copy.spare, &copy.file) {
            (Some(spare), _) => self.top().rename(spare, path, RenameMode::Replace).map(drop),
            (None, Some(file)) => self.keeping_times(path, || file.link_to(path)),
            (None, None) => Ok(()),
        };
        match &copy.file {
            Some(file) => self.copies.publish(beneath, file, copy.id, place),
            None => place(),
        }
    }

    /// Copies a lower file of layer `layer` for the handles on it, after its name has gone for
    /// good. The record has the copy. Callers hold no lock.
    pub(super) fn copy_orphan(
        &self,
        layer: usize,
        lower: &dyn File,
        beneath: &VfsPath,
    ) -> BackendResult<Record> {
        let _name = self.copying.lock(beneath);
        if let Some(record) = self.copies.record(beneath) {
            return Ok(record);
        }
        let metadata = lower.metadata()?;
        let file: Arc<dyn File> = Arc::from(self.nameless_file()?);
        self.fill(&*file, lower, &metadata, Contents::All)?;
        let id = file.metadata()?.id;
        let shown = (metadata.links <= 1).then(|| self.ids.shown(layer, metadata.id));
        self.ids.insert(id, Origin { id: shown, path: beneath.to_owned() });
        let put = || self.copies.put(beneath, &file, id);
        Ok(self.copies.announce(put, bucket(beneath)))
    }

    fn nameless_file(&self) -> BackendResult<Box<dyn File>> {
        let options = OpenOptions::new().read(true).write(true).mode(0o600);
        if self.capabilities.contains(Capabilities::TEMPORARY) {
            let opened = self.top().open(VfsPath::root(), &options.temporary(true))?;
            return Ok(opened.file);
        }
        let spare = self.spare_in(VfsPath::root());
        let file = self.top().open(&spare, &options.create_new(true))?.file;
        self.top().remove_file(&spare)?;
        Ok(file)
    }

    fn copy_without_name(
        &self,
        directory: &VfsPath,
        hit: &Hit<'_>,
        contents: Contents,
    ) -> BackendResult<Arc<dyn File>> {
        let options = OpenOptions::new().read(true).write(true).temporary(true).mode(0o600);
        let lower = self.layers[hit.layer].fs.open(&hit.path, &OpenOptions::reading())?.file;
        let file = self.top().open(directory, &options)?.file;
        self.fill(&*file, &*lower, &hit.metadata, contents)?;
        Ok(Arc::from(file))
    }

    fn copy_to_spare(
        &self,
        spare: &VfsPath,
        hit: &Hit<'_>,
        xattrs: &Xattrs,
        contents: Contents,
    ) -> BackendResult<Copy> {
        let upper = self.top();
        let layer = &*self.layers[hit.layer].fs;
        if hit.file_type() == FileType::File {
            let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600);
            let file = upper.open(spare, &options)?.file;
            set_xattrs(upper, spare, xattrs)?;
            let lower = layer.open(&hit.path, &OpenOptions::reading())?.file;
            self.fill(&*file, &*lower, &hit.metadata, contents)?;
            let id = file.metadata()?.id;
            return Ok(Copy { file: Some(Arc::from(file)), id, spare: Some(spare.to_owned()) });
        }
        let target;
        let kind = match hit.file_type() {
            FileType::Symlink => {
                target = layer.read_link(&hit.path)?;
                NodeKind::Symlink(&target)
            }
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::CharDevice => NodeKind::CharDevice(hit.metadata.device),
            FileType::BlockDevice => NodeKind::BlockDevice(hit.metadata.device),
            FileType::File | FileType::Directory | FileType::Whiteout => {
                return Err(ErrorKind::InvalidArgument.into());
            }
        };
        let node = NewNode::new(kind).mode(hit.metadata.mode);
        let made = create_node(upper, spare, &node)?;
        set_xattrs(upper, spare, xattrs)?;
        set_like(&hit.metadata, made.owner, |change| upper.set_metadata(spare, change))?;
        Ok(Copy { file: None, id: made.id, spare: Some(spare.to_owned()) })
    }

    /// Fills a new file with what a lower one has, the times last.
    fn fill(
        &self,
        file: &dyn File,
        lower: &dyn File,
        metadata: &Metadata,
        contents: Contents,
    ) -> BackendResult<()> {
        if contents == Contents::All {
            copy_contents(lower, file, metadata.len)?;
        }
        let made = file.metadata()?;
        set_like(metadata, made.owner, |change| file.set_metadata(change))
    }

    /// Makes sure that the upper layer has a directory that shows. Callers hold the tree.
    pub(super) fn make_dir(&self, path: &VfsPath) -> BackendResult<()> {
        if self.has_dir(path)? {
            return Ok(());
        }
        for directory in path.ancestors().skip(1).chain([path]) {
            if !self.has_dir(directory)? {
                self.copy_dir(directory)?;
            }
        }
        Ok(())
    }

    fn has_dir(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.top().metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(true),
            Ok(metadata) if metadata.file_type == FileType::Whiteout => {
                Err(ErrorKind::NotFound.into())
            }
            Ok(_) => Err(ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn copy_dir(&self, path: &VfsPath) -> BackendResult<()> {
        let _name = self.names.lock(path);
        let hit = self.find(path)?;
        if hit.layer == 0 {
            return Ok(());
        }
        if !hit.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        self.note_lower(path, &hit);
        let upper = self.top();
        let spare = self.spare(path);
        self.keeping_times(path, || {
            let made = upper.create(&spare, &NewNode::directory().mode(hit.metadata.mode))?;
            let fit = || {
                set_xattrs(upper, &spare, &self.xattrs_to_copy(&hit)?)?;
                set_like(&hit.metadata, made.owner, |change| upper.set_metadata(&spare, change))?;
                if let Some(beneath) = self.beneath(path) {
                    let id = Some(self.ids.shown(hit.layer, hit.metadata.id));
                    self.ids.insert(made.id, Origin { id, path: beneath.into_owned() });
                }
                upper.rename(&spare, path, RenameMode::Replace).map(drop)
            };
            fit().inspect_err(|_| drop(upper.remove_dir(&spare)))
        })
    }

    /// Runs something that makes a name without meaning to change its directory, and puts the
    /// directory's times back.
    fn keeping_times<T>(
        &self,
        path: &VfsPath,
        make: impl FnOnce() -> BackendResult<T>,
    ) -> BackendResult<T> {
        let parent = path.parent().unwrap_or(VfsPath::root());
        let before = self.top().metadata(parent)?;
        let made = make()?;
        let times = MetadataChange::new()
            .accessed(TimeChange::At(before.accessed))
            .modified(TimeChange::At(before.modified));
        // The copy is made; times that cannot be set are no reason to undo it.
        let _ = self.top().set_metadata(parent, &times);
        Ok(made)
    }

    pub(super) fn xattrs_to_copy(&self, hit: &Hit<'_>) -> BackendResult<Xattrs> {
        let layer = &*self.layers[hit.layer].fs;
        let mut xattrs = Vec::new();
        for name in layer.xattrs(&hit.path)? {
            if !name.starts_with(NAMESPACE) {
                let value = layer.xattr(&hit.path, &name)?;
                xattrs.push((name, value));
            }
        }
        Ok(xattrs)
    }
}

/// Attributes that the upper layer refuses (another security module's, say) are left out.
fn set_xattrs(upper: &dyn FileSystem, path: &VfsPath, xattrs: &Xattrs) -> BackendResult<()> {
    for (name, value) in xattrs {
        match upper.set_xattr(path, name, value, XattrMode::Set) {
            Err(error) if !is_refusal(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn is_refusal(error: &BackendError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::OperationNotPermitted | ErrorKind::PermissionDenied
    )
}

/// Sets mode, owner and times as they are on the lower file. An owner that the process may not
/// give is left out.
pub(super) fn set_like(
    metadata: &Metadata,
    made: Owner,
    set: impl Fn(&MetadataChange) -> BackendResult<Metadata>,
) -> BackendResult<()> {
    let mut change = MetadataChange::new()
        .accessed(TimeChange::At(metadata.accessed))
        .modified(TimeChange::At(metadata.modified));
    if !metadata.is_symlink() {
        change = change.mode(metadata.mode);
    }
    if made == metadata.owner {
        return set(&change).map(drop);
    }
    let set = match set(&change.owner(metadata.owner)) {
        Err(error) if error.kind() == ErrorKind::OperationNotPermitted => set(&change),
        answer => answer,
    };
    set.map(drop)
}

/// Copies contents, leaving holes where there are holes.
pub(super) fn copy_contents(from: &dyn File, to: &dyn File, len: u64) -> BackendResult<()> {
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match from.seek(at, Seek::Data) {
            Ok(start) => start,
            Err(error) if error.kind() == ErrorKind::NoSuchOffset => break,
            Err(_) => at,
        };
        let end = from.seek(start, Seek::Hole).unwrap_or(len).min(len).max(start + 1);
        copy_range(from, to, start, end, &mut buffer)?;
        at = end;
    }
    to.set_len(len)
}

fn copy_range(
    from: &dyn File,
    to: &dyn File,
    mut at: u64,
    end: u64,
    buffer: &mut Vec<u8>,
) -> BackendResult<()> {
    while at < end {
        let step = (end - at).min(PIECE as u64);
        let shared = from.bytes_at(at..at + step)?;
        let piece = match &shared {
            Some(bytes) => &bytes[..],
            None => {
                buffer.resize(step as usize, 0);
                let count = from.read_at(buffer, at)?;
                &buffer[..count]
            }
        };
        if piece.is_empty() {
            return Ok(()); // shorter than it said: cut meanwhile
        }
        let mut written = 0;
        while written < piece.len() {
            written += to.write_at(&piece[written..], at + written as u64)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}
