//! Directories whose lower part is elsewhere, or nowhere.
//!
//! A directory of a layer normally merges with the directory of the same path in the layers
//! below. Two kinds do not: an *opaque* one, made where a lower one was deleted, merges with
//! nothing; a *redirected* one, a lower directory that was renamed, merges with the path it
//! had. Both are marked by extended attributes on the directory in its layer, and kept in a
//! table in memory, empty in nearly every tree, so that a lookup costs one load.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::backend::FileSystem;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::FileType;
use crate::options::XattrMode;
use crate::path::{VfsPath, VfsPathBuf};

/// Names of attributes that begin so belong to overlays: users neither see nor set them.
pub(super) const RESERVED: &[u8] = b"user.overlay.";
pub(super) const OPAQUE: &[u8] = b"user.overlay.opaque";
pub(super) const REDIRECT: &[u8] = b"user.overlay.redirect";
/// On a file: the lower path that it was copied up from, set when it is renamed.
pub(super) const ORIGIN: &[u8] = b"user.overlay.origin";
/// On the root of a layer: some directory in it is opaque or redirected.
const ANY: &[u8] = b"user.overlay.remaps";

/// Where a directory's lower part is: `None` is nowhere.
pub(super) type Target = Option<VfsPathBuf>;

/// The opaque and redirected directories of one layer, by their path in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Remaps(BTreeMap<VfsPathBuf, Target>);

impl Remaps {
    /// Where to look for `path` in the layers below: `None` when they are hidden from it.
    pub(super) fn translate<'p>(&self, path: Cow<'p, VfsPath>) -> Option<Cow<'p, VfsPath>> {
        let mut prefix: &VfsPath = &path;
        loop {
            if let Some(target) = self.0.get(prefix) {
                let rest = path.strip_prefix(prefix)?;
                return target.as_ref().map(|target| Cow::Owned(target.join(rest)));
            }
            match prefix.parent() {
                Some(parent) => prefix = parent,
                None => return Some(path),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, path: &VfsPath) -> Option<&Target> {
        self.0.get(path)
    }

    pub(super) fn insert(&mut self, path: VfsPathBuf, target: Target) {
        self.0.insert(path, target);
    }

    fn below(&self, base: &VfsPath) -> Vec<VfsPathBuf> {
        self.0
            .range::<VfsPath, _>((Bound::Included(base), Bound::Unbounded))
            .map(|(path, _)| path)
            // Not all that begin with the bytes lie below (`a-b` sorts between `a` and `a/b`).
            .take_while(|path| path.as_bytes().starts_with(base.as_bytes()))
            .filter(|path| path.starts_with(base))
            .cloned()
            .collect()
    }

    /// Forgets what is at and below a path.
    pub(super) fn remove_below(&mut self, base: &VfsPath) {
        for path in self.below(base) {
            self.0.remove(&path);
        }
    }

    /// Copies what is at and below `from` to `to`, in place of what is known there.
    pub(super) fn copy_below(&mut self, from: &VfsPath, to: &VfsPath) {
        let old = self.clone();
        self.remove_below(to);
        self.extend_moved(&old, from, to);
    }

    /// Adds what another table has at and below `from`, as if it were at `to`.
    pub(super) fn extend_moved(&mut self, other: &Remaps, from: &VfsPath, to: &VfsPath) {
        for path in other.below(from) {
            if let (Some(rest), Some(target)) = (path.strip_prefix(from), other.0.get(&path)) {
                self.0.insert(to.join(rest), target.clone());
            }
        }
    }

    /// Reads the table of a layer from its attributes: one question where there is nothing to
    /// read, else a walk over the layer's directories.
    pub(super) fn load(layer: &dyn FileSystem) -> BackendResult<Remaps> {
        let mut remaps = Remaps::default();
        if attribute(layer, VfsPath::root(), ANY)?.is_none() {
            return Ok(remaps);
        }
        let mut pending = vec![VfsPathBuf::new()];
        while let Some(directory) = pending.pop() {
            if attribute(layer, &directory, OPAQUE)?.is_some() {
                remaps.insert(directory.clone(), None);
            } else if let Some(target) = attribute(layer, &directory, REDIRECT)? {
                // A layer is outside data: a redirect that is no path hides, it does not lead
                // astray.
                let target = VfsPath::new(&target).ok().map(VfsPath::to_owned);
                remaps.insert(directory.clone(), target);
            }
            layer.read_dir(&directory, &mut |entry| {
                if entry.file_type == FileType::Directory
                    && let Ok(child) = directory.join_name(entry.name)
                {
                    pending.push(child);
                }
                std::ops::ControlFlow::Continue(())
            })?;
        }
        Ok(remaps)
    }

    /// Writes one directory's mark to its layer, and the flag that there is one.
    pub(super) fn store(
        layer: &dyn FileSystem,
        path: &VfsPath,
        target: &Target,
    ) -> BackendResult<()> {
        layer.set_xattr(VfsPath::root(), ANY, b"y", XattrMode::Set)?;
        match target {
            None => {
                layer.set_xattr(path, OPAQUE, b"y", XattrMode::Set)?;
                remove_attribute(layer, path, REDIRECT)
            }
            Some(target) => {
                layer.set_xattr(path, REDIRECT, target.as_bytes(), XattrMode::Set)?;
                remove_attribute(layer, path, OPAQUE)
            }
        }
    }
}

/// An attribute's value, `None` where it or the capability is missing.
pub(super) fn attribute(
    layer: &dyn FileSystem,
    path: &VfsPath,
    name: &[u8],
) -> BackendResult<Option<Vec<u8>>> {
    match layer.xattr(path, name) {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NoAttribute | ErrorKind::Unsupported) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn remove_attribute(layer: &dyn FileSystem, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
    match layer.remove_xattr(path, name) {
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> &VfsPath {
        VfsPath::new(text.as_bytes()).unwrap()
    }

    fn translated(remaps: &Remaps, text: &str) -> Option<String> {
        let to = remaps.translate(Cow::Borrowed(path(text)))?;
        Some(String::from_utf8_lossy(to.as_bytes()).into_owned())
    }

    #[test]
    fn the_nearest_mark_above_decides() {
        let mut remaps = Remaps::default();
        assert_eq!(translated(&remaps, "a/b").as_deref(), Some("a/b"));
        remaps.insert(path("a").to_owned(), None);
        remaps.insert(path("a/b").to_owned(), Some(path("x/y").to_owned()));
        assert_eq!(translated(&remaps, "a"), None);
        assert_eq!(translated(&remaps, "a/c"), None);
        assert_eq!(translated(&remaps, "a/b/c").as_deref(), Some("x/y/c"));
        assert_eq!(translated(&remaps, "ab").as_deref(), Some("ab"));
        remaps.insert(path("a-c").to_owned(), None);
        remaps.copy_below(path("a"), path("new"));
        assert_eq!(translated(&remaps, "new/b").as_deref(), Some("x/y"));
        remaps.remove_below(path("a"));
        assert_eq!(translated(&remaps, "a/b").as_deref(), Some("a/b"));
        assert_eq!(translated(&remaps, "a-c/d"), None);
    }
}
