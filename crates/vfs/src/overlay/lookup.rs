//! Which layer holds what a path names.

use std::borrow::Cow;

use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata};
use crate::path::VfsPath;

use super::Overlay;

/// A hit: the layer (0 is the upper where there is one), the path in it, what is known there.
pub(super) struct Found<'p> {
    pub(super) layer: usize,
    pub(super) at: Cow<'p, VfsPath>,
    pub(super) metadata: Metadata,
}

impl Overlay {
    /// Asks the layers from the top; the first that has the name, or hides it, decides.
    #[inline]
    pub(super) fn find<'p>(&self, path: &'p VfsPath) -> BackendResult<Found<'p>> {
        self.find_from(0, Cow::Borrowed(path), path)
    }

    /// Whether a path of the layer `first` shows something, asked from that layer down.
    pub(super) fn shows_from(&self, first: usize, path: &VfsPath) -> BackendResult<bool> {
        Ok(self.metadata_from(first, path)?.is_some())
    }

    #[inline]
    fn find_from<'p>(
        &self,
        first: usize,
        mut at: Cow<'p, VfsPath>,
        whole: &VfsPath,
    ) -> BackendResult<Found<'p>> {
        for (layer, here) in self.layers.iter().enumerate().skip(first) {
            match here.fs.metadata(&at) {
                Ok(metadata) if metadata.file_type == FileType::Whiteout => break,
                Ok(metadata) => return Ok(Found { layer, at, metadata }),
                Err(error) => self.goes_on(error, layer, first, whole)?,
            }
            match here.below(at) {
                Some(below) => at = below,
                None => break,
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Whether a layer that failed lets the layers below it be asked.
    #[inline]
    pub(super) fn goes_on(
        &self,
        error: crate::BackendError,
        layer: usize,
        first: usize,
        whole: &VfsPath,
    ) -> BackendResult<()> {
        match error.kind() {
            ErrorKind::NotFound => Ok(()),
            ErrorKind::SymlinkInPath if layer == 0 => Err(error),
            // Something in this layer stands where the path wants a directory. Whether it is
            // a file, a link, a whiteout or hidden itself is for the walk to say.
            ErrorKind::NotADirectory | ErrorKind::SymlinkInPath if first == 0 => {
                Err(self.why_missing(whole))
            }
            _ => Err(error),
        }
    }

    /// Why a path cannot be reached, looked at name by name.
    #[cold]
    fn why_missing(&self, path: &VfsPath) -> crate::BackendError {
        for ancestor in path.ancestors().skip(1) {
            match self.find(ancestor).map(|found| found.metadata.file_type) {
                Ok(FileType::Directory) => {}
                Ok(FileType::Symlink) => return ErrorKind::SymlinkInPath.into(),
                Ok(_) => return ErrorKind::NotADirectory.into(),
                Err(error) => return error,
            }
        }
        ErrorKind::NotFound.into()
    }

    /// Whether the name is visible. The last layer is asked without wanting to know more.
    pub(super) fn is_there(&self, path: &VfsPath) -> BackendResult<bool> {
        let mut at = Cow::Borrowed(path);
        let last = self.layers.len() - 1;
        for (layer, here) in self.layers.iter().enumerate() {
            if layer == last && !here.has_whiteouts {
                return match here.fs.exists(&at) {
                    Err(error) if error.kind() == ErrorKind::SymlinkInPath && layer > 0 => {
                        self.found_or_not(path)
                    }
                    answer => answer,
                };
            }
            match here.fs.metadata(&at) {
                Ok(metadata) => return Ok(metadata.file_type != FileType::Whiteout),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return self.found_or_not(path),
            }
            match here.below(at) {
                Some(below) => at = below,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    #[cold]
    fn found_or_not(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.find(path) {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// The layers that a directory merges, from the top, with its path in each; the first is
    /// where it was found.
    pub(super) fn directory_layers<'p>(
        &self,
        found: Found<'p>,
    ) -> BackendResult<Vec<(usize, Cow<'p, VfsPath>)>> {
        let mut merged = Vec::new();
        let (mut layer, mut at) = (found.layer, found.at);
        loop {
            match self.layers[layer].fs.metadata(&at).map(|metadata| metadata.file_type) {
                Ok(FileType::Directory) => merged.push((layer, at.clone())),
                Ok(_) => break,
                Err(error) => match error.kind() {
                    ErrorKind::NotFound => {}
                    // Something that is no directory stands above it in that layer.
                    ErrorKind::NotADirectory | ErrorKind::SymlinkInPath => break,
                    _ => return Err(error),
                },
            }
            match self.layers[layer].below(at) {
                Some(below) if layer + 1 < self.layers.len() => (layer, at) = (layer + 1, below),
                _ => break,
            }
        }
        Ok(merged)
    }
}

impl Overlay {
    /// What an overlay without an upper answers to a change: `ReadOnly`, unless the way to the
    /// name is broken.
    #[cold]
    pub(super) fn refuse<T>(&self, path: &VfsPath) -> BackendResult<T> {
        if let Some(parent) = path.parent() {
            match self.find(parent)?.metadata.file_type {
                FileType::Directory => {}
                FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
                _ => return Err(ErrorKind::NotADirectory.into()),
            }
        }
        Err(ErrorKind::ReadOnly.into())
    }
}

/// The lower layers alone, by their own paths: what was there before the upper changed it.
impl Overlay {
    pub(super) fn lower_metadata(&self, path: &VfsPath) -> BackendResult<Option<Metadata>> {
        self.metadata_from(1, path)
    }

    fn metadata_from(&self, first: usize, path: &VfsPath) -> BackendResult<Option<Metadata>> {
        match self.find_from(first, Cow::Borrowed(path), path) {
            Ok(found) => Ok(Some(found.metadata)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::SymlinkInPath
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn lower_names(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        let found = match self.find_from(1, Cow::Borrowed(path), path) {
            Ok(found) if found.metadata.is_dir() => found,
            _ => return Ok(Vec::new()),
        };
        let mut hidden = std::collections::HashSet::new();
        let mut names = Vec::new();
        for (layer, at) in self.directory_layers(found)? {
            self.layers[layer].fs.read_dir(&at, &mut |entry| {
                if hidden.insert(entry.name.to_vec()) && entry.file_type != FileType::Whiteout {
                    names.push(entry.name.to_vec());
                }
                std::ops::ControlFlow::Continue(())
            })?;
        }
        Ok(names)
    }
}
