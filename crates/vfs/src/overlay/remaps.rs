//! Directories that do not merge with the name beneath them: opaque ones, and renamed ones.
//!
//! A layer's table maps a directory of the layer to what it merges with in the layers beneath:
//! nothing (opaque), or another directory (a redirect). It is an immutable value behind one
//! pointer, empty for most layers. On the layer it is kept in the extended attributes
//! [`OPAQUE`] and [`REDIRECT`] of the directories; [`FLAG`] on the root says that there are
//! any, so that other layers need no scan when they are opened.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::options::{Detail, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};

/// The names that only the overlay itself uses.
pub(super) const NAMESPACE: &[u8] = b"user.overlay.";
const OPAQUE: &[u8] = b"user.overlay.opaque";
const REDIRECT: &[u8] = b"user.overlay.redirect";
/// On a file: the lower path that it was copied up from, noted when it is renamed.
pub(super) const ORIGIN: &[u8] = b"user.overlay.origin";
/// On the root: owner, mode or attributes were changed through the overlay.
pub(super) const CHANGED: &[u8] = b"user.overlay.changed";
const FLAG: &[u8] = b"user.overlay.remaps";

/// What a directory merges with, when not with its own name beneath.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Remap {
    /// Nothing.
    Opaque,
    /// This directory of the layers beneath.
    To(VfsPathBuf),
}

pub(super) type Table = HashMap<VfsPathBuf, Remap>;

/// The table of one layer.
#[derive(Debug, Default)]
pub(super) struct Remaps {
    any: AtomicBool,
    table: ArcSwap<Table>,
    edits: Mutex<()>,
    flagged: AtomicBool,
}

impl Remaps {
    /// Reads what a layer holds.
    pub(super) fn load(layer: &dyn FileSystem) -> BackendResult<Self> {
        let remaps = Remaps::default();
        if read(layer, VfsPath::root(), FLAG)?.is_some() {
            let mut table = Table::new();
            scan(layer, &mut table)?;
            remaps.flagged.store(true, Ordering::Relaxed);
            remaps.edit(|fresh| *fresh = table);
        }
        Ok(remaps)
    }

    /// The path by which the layers beneath know `path`; `None` at and below an opaque
    /// directory.
    #[inline]
    pub(super) fn map<'p>(&self, path: Cow<'p, VfsPath>) -> Option<Cow<'p, VfsPath>> {
        if !self.any.load(Ordering::Acquire) {
            return Some(path);
        }
        self.map_by_table(path)
    }

    fn map_by_table<'p>(&self, path: Cow<'p, VfsPath>) -> Option<Cow<'p, VfsPath>> {
        let table = self.table.load();
        let mut directory: Option<&VfsPath> = Some(&path);
        while let Some(here) = directory {
            match table.get(here) {
                None => directory = here.parent(),
                Some(Remap::Opaque) => return None,
                Some(Remap::To(beneath)) => {
                    let rest = path.strip_prefix(here).unwrap_or(VfsPath::root());
                    return Some(Cow::Owned(beneath.join(rest)));
                }
            }
        }
        Some(path)
    }

    /// Every path that [`map`](Self::map)s to `beneath`. At most one of them can show it: the
    /// others are hidden by a whiteout or by what took their place.
    pub(super) fn unmap(&self, beneath: &VfsPath) -> Vec<VfsPathBuf> {
        let mut paths = Vec::new();
        if self.map(Cow::Borrowed(beneath)).as_deref() == Some(beneath) {
            paths.push(beneath.to_owned());
        }
        for (directory, remap) in &**self.table.load() {
            if let Remap::To(base) = remap
                && let Some(rest) = beneath.strip_prefix(base)
            {
                let path = directory.join(rest);
                if self.map(Cow::Borrowed(&path)).as_deref() == Some(beneath) {
                    paths.push(path);
                }
            }
        }
        paths
    }

    pub(super) fn get(&self, directory: &VfsPath) -> Option<Remap> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.table.load().get(directory).cloned()
    }

    /// Replaces the table by a changed one.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Table)) {
        let _one = self.edits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        change(&mut table);
        let any = !table.is_empty();
        if any {
            self.any.store(true, Ordering::Release);
        }
        self.table.store(Arc::new(table));
        if !any {
            self.any.store(false, Ordering::Release);
        }
    }

    /// Forgets what was at and below a directory that is gone.
    pub(super) fn forget(&self, directory: &VfsPath) {
        if self.any.load(Ordering::Acquire) {
            self.edit(|table| table.retain(|path, _| !path.starts_with(directory)));
        }
    }

    /// Puts a directory's remap into the layer. The table stays as it is.
    pub(super) fn persist(
        &self,
        layer: &dyn FileSystem,
        directory: &VfsPath,
        remap: Option<&Remap>,
    ) -> BackendResult<()> {
        let set =
            |path: &VfsPath, name, value: &[u8]| layer.set_xattr(path, name, value, XattrMode::Set);
        if remap.is_some() && !self.flagged.load(Ordering::Acquire) {
            set(VfsPath::root(), FLAG, b"y")?;
            self.flagged.store(true, Ordering::Release);
        }
        match remap {
            Some(Remap::Opaque) => {
                set(directory, OPAQUE, b"y")?;
                clear(layer, directory, REDIRECT)
            }
            Some(Remap::To(beneath)) => {
                set(directory, REDIRECT, beneath.as_bytes())?;
                clear(layer, directory, OPAQUE)
            }
            None if self.flagged.load(Ordering::Acquire) => {
                clear(layer, directory, OPAQUE)?;
                clear(layer, directory, REDIRECT)
            }
            None => Ok(()),
        }
    }
}

/// Moves the entries at and below `from` to the same places at and below `to`, and those of
/// `to` to `from` where the two change places; else they go.
pub(super) fn move_entries(table: &mut Table, from: &VfsPath, to: &VfsPath, exchange: bool) {
    let old: Vec<_> = table.drain().collect();
    for (path, remap) in old {
        let path = if let Some(rest) = path.strip_prefix(from) {
            to.join(rest)
        } else if let Some(rest) = path.strip_prefix(to) {
            if !exchange {
                continue;
            }
            from.join(rest)
        } else {
            path
        };
        table.insert(path, remap);
    }
}

pub(super) fn set_entry(table: &mut Table, directory: &VfsPath, remap: Option<Remap>) {
    match remap {
        Some(remap) => table.insert(directory.to_owned(), remap),
        None => table.remove(directory),
    };
}

pub(super) fn read(
    layer: &dyn FileSystem,
    path: &VfsPath,
    name: &[u8],
) -> BackendResult<Option<Vec<u8>>> {
    match layer.xattr(path, name) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(None),
        Err(error) => Err(error),
    }
}

fn clear(layer: &dyn FileSystem, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
    match layer.remove_xattr(path, name) {
        Err(error) if error.kind() != ErrorKind::NoAttribute => Err(error),
        _ => Ok(()),
    }
}

fn scan(layer: &dyn FileSystem, table: &mut Table) -> BackendResult<()> {
    let mut waiting = vec![VfsPathBuf::new()];
    while let Some(directory) = waiting.pop() {
        if read(layer, &directory, OPAQUE)?.is_some() {
            table.insert(directory.clone(), Remap::Opaque);
        } else if let Some(value) = read(layer, &directory, REDIRECT)? {
            let beneath = VfsPath::new(&value).map_err(|_| {
                let text = format!("{}: a redirect that is no path", directory.display());
                BackendError::new(ErrorKind::Corrupt, text)
            })?;
            table.insert(directory.clone(), Remap::To(beneath.to_owned()));
        }
        layer.read_dir(&directory, Detail::Names, &mut |entry| {
            if entry.file_type.is_dir() {
                waiting.push(directory.join(VfsPath::from_normal(entry.name)));
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> &VfsPath {
        VfsPath::new(text.as_bytes()).unwrap()
    }

    fn mapped(remaps: &Remaps, text: &str) -> Option<String> {
        let mapped = remaps.map(Cow::Borrowed(path(text)))?;
        Some(String::from_utf8(mapped.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn the_nearest_entry_decides() {
        let remaps = Remaps::default();
        assert_eq!(mapped(&remaps, "a/b").as_deref(), Some("a/b"));
        remaps.edit(|table| {
            table.insert(path("a").to_owned(), Remap::To(path("x/y").to_owned()));
            table.insert(path("a/b").to_owned(), Remap::Opaque);
        });
        assert_eq!(mapped(&remaps, "a").as_deref(), Some("x/y"));
        assert_eq!(mapped(&remaps, "a/c/d").as_deref(), Some("x/y/c/d"));
        assert_eq!(mapped(&remaps, "a/b/c"), None);
        assert_eq!(mapped(&remaps, "ab").as_deref(), Some("ab"));
        assert_eq!(remaps.unmap(path("x/y/c")), [path("x/y/c").to_owned(), path("a/c").to_owned()]);
        assert_eq!(remaps.unmap(path("a/c")), []);
        remaps.forget(path("a"));
        assert_eq!(mapped(&remaps, "a/b").as_deref(), Some("a/b"));
    }

    #[test]
    fn entries_move_with_their_directory() {
        let mut table = Table::new();
        table.insert(path("a/p").to_owned(), Remap::Opaque);
        table.insert(path("b").to_owned(), Remap::To(path("z").to_owned()));
        move_entries(&mut table, path("a"), path("b"), true);
        assert_eq!(table.get(path("b/p")), Some(&Remap::Opaque));
        assert_eq!(table.get(path("a")), Some(&Remap::To(path("z").to_owned())));
        move_entries(&mut table, path("b"), path("a"), false);
        assert_eq!(table.len(), 1);
        assert_eq!(table.get(path("a/p")), Some(&Remap::Opaque));
    }
}
