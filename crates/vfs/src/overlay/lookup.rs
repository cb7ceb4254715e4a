//! Finding what a path shows.

use std::borrow::Cow;

use crate::backend::{Capabilities, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata};
use crate::path::{VfsPath, VfsPathBuf};

use super::State;

/// What a path shows, and where.
pub(super) struct Hit<'p> {
    pub(super) layer: usize,
    /// By which the layer knows it.
    pub(super) path: Cow<'p, VfsPath>,
    /// As the layer answers it.
    pub(super) metadata: Metadata,
}

pub(super) enum Probe<'p> {
    Hit(Hit<'p>),
    /// No layer shows the name. `whiteout`: because the top layer hides it by a whiteout of
    /// its own.
    Missing {
        whiteout: bool,
    },
    /// Something that is no directory stands in the way in some layer: whatever the layers
    /// beneath have is hidden, and which error it is takes a walk to say.
    Blocked,
}

impl Hit<'_> {
    pub(super) fn file_type(&self) -> FileType {
        self.metadata.file_type
    }

    pub(super) fn is_dir(&self) -> bool {
        self.metadata.is_dir()
    }
}

impl Probe<'_> {
    /// Whether the answer came from the top layer alone.
    #[inline]
    pub(super) fn is_from_top(&self) -> bool {
        matches!(self, Probe::Hit(Hit { layer: 0, .. }))
    }
}

impl State {
    /// Asks the layers in turn. Lookups that hold no lock call it through
    /// [`Tree::look`](super::tree::Tree::look).
    #[inline]
    pub(super) fn probe<'p>(&self, path: &'p VfsPath) -> BackendResult<Probe<'p>> {
        self.probe_from(0, Cow::Borrowed(path))
    }

    /// Asks the layers from `first` on, which knows the path as `path`.
    #[inline]
    pub(super) fn probe_from<'p>(
        &self,
        first: usize,
        mut path: Cow<'p, VfsPath>,
    ) -> BackendResult<Probe<'p>> {
        for layer in first..self.layers.len() {
            match self.layers[layer].fs.metadata(&path) {
                Ok(Metadata { file_type: FileType::Whiteout, .. }) => {
                    return Ok(Probe::Missing { whiteout: layer == 0 });
                }
                Ok(metadata) => return Ok(Probe::Hit(Hit { layer, path, metadata })),
                Err(error) => match error.kind() {
                    ErrorKind::NotFound => {}
                    ErrorKind::NotADirectory | ErrorKind::SymlinkInPath => {
                        return Ok(Probe::Blocked);
                    }
                    _ => return Err(error),
                },
            }
            match self.layers[layer].remaps.map(path) {
                Some(beneath) => path = beneath,
                None => break,
            }
        }
        Ok(Probe::Missing { whiteout: false })
    }

    /// What the path shows; for callers that hold the tree.
    pub(super) fn find<'p>(&self, path: &'p VfsPath) -> BackendResult<Hit<'p>> {
        match self.probe(path)? {
            Probe::Hit(hit) => Ok(hit),
            Probe::Missing { .. } => Err(ErrorKind::NotFound.into()),
            Probe::Blocked => Err(self.explain(path)),
        }
    }

    /// As [`find`](Self::find), for callers that hold no lock.
    #[inline]
    pub(super) fn lookup<'p>(&self, path: &'p VfsPath) -> BackendResult<Hit<'p>> {
        let probe = self
            .tree
            .look(|| self.probe(path), |answer| answer.as_ref().is_ok_and(Probe::is_from_top))?;
        match probe {
            Probe::Hit(hit) => Ok(hit),
            Probe::Missing { .. } => Err(ErrorKind::NotFound.into()),
            Probe::Blocked => {
                let _shared = self.tree.shared();
                self.find(path)
            }
        }
    }

    /// As [`lookup`](Self::lookup), where nothing is an answer as well.
    pub(super) fn lookup_any<'p>(&self, path: &'p VfsPath) -> BackendResult<Option<Hit<'p>>> {
        match self.lookup(path) {
            Ok(hit) => Ok(Some(hit)),
            // A missing directory above is the caller's concern: it looks at the parent.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which error a blocked path is: walks down to the first name that is no directory.
    #[cold]
    pub(super) fn explain(&self, path: &VfsPath) -> BackendError {
        for directory in path.ancestors() {
            match self.probe(directory) {
                Ok(Probe::Hit(hit)) => match hit.file_type() {
                    FileType::Directory => {}
                    FileType::Symlink => return ErrorKind::SymlinkInPath.into(),
                    _ => return ErrorKind::NotADirectory.into(),
                },
                Ok(_) => return ErrorKind::NotFound.into(),
                Err(error) => return error,
            }
        }
        ErrorKind::NotFound.into()
    }

    #[inline]
    pub(super) fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        match self.plain_metadata(path) {
            Some(answer) => answer,
            None => self.any_metadata(path),
        }
    }

    /// The metadata of a file, or that there is nothing, where nothing else is in the way. The
    /// layer's answer is handed on where it lies: to move it takes as long as to ask a layer.
    #[inline]
    fn plain_metadata(&self, path: &VfsPath) -> Option<BackendResult<Metadata>> {
        let begun = self.tree.begin();
        let mut name = Cow::Borrowed(path);
        for (index, layer) in self.layers.iter().enumerate() {
            match layer.fs.metadata(&name) {
                Ok(mut metadata) => {
                    if !metadata.is_file() || (index > 0 && !self.tree.stands(begun)) {
                        return None;
                    }
                    metadata.id = self.ids.shown(index, metadata.id);
                    return Some(Ok(metadata));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return None,
            }
            match layer.remaps.map(name) {
                Some(beneath) => name = beneath,
                None => break,
            }
        }
        self.tree.stands(begun).then(|| Err(ErrorKind::NotFound.into()))
    }

    fn any_metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        let hit = self.lookup(path)?;
        let mut metadata = self.shown(hit.layer, hit.metadata);
        if metadata.is_dir() && self.tree.look(|| self.merges(&hit), |_| false)? {
            // One layer's number would be wrong, and a program that believes it overlooks
            // directories of the other layers; the right one would take a listing.
            metadata.links = 1;
        }
        Ok(metadata)
    }

    /// Whether a layer beneath has a part of this directory.
    fn merges(&self, directory: &Hit<'_>) -> BackendResult<bool> {
        match self.layers[directory.layer].remaps.map(Cow::Borrowed(&*directory.path)) {
            Some(beneath) => Ok(self.next_part(directory.layer + 1, beneath)?.is_some()),
            None => Ok(false),
        }
    }

    /// A layer's metadata as the overlay shows it.
    #[inline]
    pub(super) fn shown(&self, layer: usize, mut metadata: Metadata) -> Metadata {
        metadata.id = self.ids.shown(layer, metadata.id);
        metadata
    }

    /// Asks the last layer whether it has the name instead of what it has.
    #[inline]
    pub(super) fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        let answer = self
            .tree
            .look(|| self.probe_existence(path), |answer| matches!(answer, Ok(Existence::InTop)))?;
        match answer {
            Existence::InTop | Existence::Beneath => Ok(true),
            Existence::Nowhere => Ok(false),
            Existence::Blocked => match self.lookup(path) {
                Ok(_) => Ok(true),
                Err(error) => match error.kind() {
                    ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(false),
                    _ => Err(error),
                },
            },
        }
    }

    #[inline]
    fn probe_existence(&self, path: &VfsPath) -> BackendResult<Existence> {
        let Some((last, above)) = self.layers.split_last() else {
            return Ok(Existence::Nowhere);
        };
        let mut path = Cow::Borrowed(path);
        for (index, layer) in above.iter().enumerate() {
            match layer.fs.metadata(&path) {
                Ok(metadata) => {
                    return Ok(match (metadata.file_type, index) {
                        (FileType::Whiteout, _) => Existence::Nowhere,
                        (_, 0) => Existence::InTop,
                        _ => Existence::Beneath,
                    });
                }
                Err(error) => match error.kind() {
                    ErrorKind::NotFound => {}
                    ErrorKind::NotADirectory | ErrorKind::SymlinkInPath => {
                        return Ok(Existence::Blocked);
                    }
                    _ => return Err(error),
                },
            }
            match layer.remaps.map(path) {
                Some(beneath) => path = beneath,
                None => return Ok(Existence::Nowhere),
            }
        }
        let found = match last.fs.exists(&path) {
            Err(error) if error.kind() == ErrorKind::SymlinkInPath => {
                return Ok(Existence::Blocked);
            }
            answer => answer?,
        };
        // To a layer a whiteout is something.
        if !found || is_whiteout(&*last.fs, &path)? {
            return Ok(Existence::Nowhere);
        }
        Ok(if above.is_empty() { Existence::InTop } else { Existence::Beneath })
    }

    /// By which name the layers beneath the upper one know what is at `path`, and what merges
    /// with it; `None` when nothing does.
    pub(super) fn beneath<'p>(&self, path: &'p VfsPath) -> Option<Cow<'p, VfsPath>> {
        self.layers[0].remaps.map(Cow::Borrowed(path))
    }

    /// Which name of the layers beneath would show at `path` if the upper layer had nothing
    /// there.
    pub(super) fn covered<'p>(&self, path: &'p VfsPath) -> Option<Cow<'p, VfsPath>> {
        let Some((parent, name)) = path.split_last() else { return Some(Cow::Borrowed(path)) };
        match self.beneath(parent)? {
            Cow::Borrowed(_) => Some(Cow::Borrowed(path)),
            Cow::Owned(mut beneath) => {
                beneath.push_path(VfsPath::from_normal(name));
                Some(Cow::Owned(beneath))
            }
        }
    }

    /// Whether a whiteout is needed to hide `path`: the layers beneath have something that
    /// would show there.
    pub(super) fn is_covering(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.covered(path) {
            Some(beneath) => Ok(matches!(self.probe_from(1, beneath)?, Probe::Hit(_))),
            None => Ok(false),
        }
    }

    /// Where a file of the layers beneath shows now, if it still does.
    pub(super) fn whereabouts(&self, beneath: &VfsPath) -> BackendResult<Option<VfsPathBuf>> {
        for path in self.layers[0].remaps.unmap(beneath) {
            if let Probe::Hit(hit) = self.probe(&path)?
                && hit.layer > 0
            {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Checks that the directory of a name that is to be made is one.
    pub(super) fn check_parent(&self, path: &VfsPath) -> BackendResult<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        match self.find(parent)?.file_type() {
            FileType::Directory => Ok(()),
            FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// The upper layer; without one the error for a change at `path`. The contract lets the
    /// errors of a broken path come before `ReadOnly`.
    pub(super) fn upper(&self, path: &VfsPath) -> BackendResult<&dyn FileSystem> {
        if self.writable {
            return Ok(self.top());
        }
        self.check_parent(path)?;
        Err(ErrorKind::ReadOnly.into())
    }

    /// Checks that the upper layer can do what a call needs.
    pub(super) fn needs(&self, capability: Capabilities) -> BackendResult<()> {
        match self.capabilities.contains(capability) {
            true => Ok(()),
            false => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Calls the layer that shows the path.
    pub(super) fn reading<T>(
        &self,
        path: &VfsPath,
        read: impl Fn(&dyn FileSystem, &VfsPath) -> BackendResult<T>,
    ) -> BackendResult<T> {
        self.tree.look(
            || {
                let hit = self.find(path)?;
                read(&*self.layers[hit.layer].fs, &hit.path)
            },
            |_| false,
        )
    }
}

enum Existence {
    InTop,
    Beneath,
    Nowhere,
    Blocked,
}

fn is_whiteout(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<bool> {
    if !fs.capabilities().contains(Capabilities::WHITEOUTS) {
        return Ok(false);
    }
    match fs.metadata(path) {
        Ok(metadata) => Ok(metadata.file_type == FileType::Whiteout),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
