//! Listing directories that several layers have.

use std::borrow::Cow;
use std::ops::ControlFlow;

use hashbrown::HashTable;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::DirEntry;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileId, FileType};
use crate::options::Detail;
use crate::path::{VfsPath, VfsPathBuf};

use super::State;
use super::lookup::Probe;

/// The layers whose directories merge at a path, and by which path each knows it.
type Parts = SmallVec<[(usize, VfsPathBuf); 4]>;

impl State {
    /// Lists what the path shows. A directory of one layer alone is passed on entry by entry;
    /// of several layers all but the last are collected.
    pub(super) fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let mut visit = |entry: DirEntry<'_>| match detail {
            Detail::Names => visit(DirEntry { metadata: None, ..entry }),
            Detail::Metadata => self.visit_with_metadata(path, entry, visit),
        };
        let (parts, names) = self.tree.look(
            || {
                let parts = self.merged_parts(path)?;
                let names = self.collect(&parts)?;
                Ok::<_, crate::BackendError>((parts, names))
            },
            |_| false,
        )?;
        for entry in &names.entries {
            if entry.file_type == FileType::Whiteout {
                continue;
            }
            let shown = DirEntry {
                name: names.name(entry),
                file_type: entry.file_type,
                id: self.ids.shown(entry.layer, entry.id),
                metadata: None,
            };
            if visit(shown).is_break() {
                return Ok(());
            }
        }
        let Some((last, at)) = parts.last() else { return Ok(()) };
        let is_upper = *last == 0 && self.writable;
        let streamed = self.layers[*last].fs.read_dir(at, detail, &mut |entry| {
            let hidden = entry.file_type == FileType::Whiteout
                || (is_upper && self.is_spare(entry.name))
                || names.contains(entry.name);
            if hidden {
                return ControlFlow::Continue(());
            }
            let id = self.ids.shown(*last, entry.id);
            let shown = entry.metadata.map(|known| self.shown(*last, *known));
            visit(DirEntry { id, metadata: shown.as_ref(), ..entry })
        });
        match streamed {
            // Removed since we looked; it was there, and what it had was shown.
            Err(error) if error.kind() == ErrorKind::NotFound && !names.entries.is_empty() => {
                Ok(())
            }
            answer => answer,
        }
    }

    /// Completes an entry of the directory with what is known of it. A directory's is asked for:
    /// whether it merges, its part in one layer does not say.
    fn visit_with_metadata(
        &self,
        directory: &VfsPath,
        entry: DirEntry<'_>,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if entry.metadata.is_some() && !entry.file_type.is_dir() {
            return visit(entry);
        }
        match self.metadata(&directory.join(VfsPath::from_normal(entry.name))) {
            Ok(known) => {
                let (file_type, id) = (known.file_type, known.id);
                visit(DirEntry { file_type, id, metadata: Some(&known), ..entry })
            }
            Err(_) => ControlFlow::Continue(()), // gone meanwhile
        }
    }

    /// The error that listing has, or the parts, the topmost first.
    fn merged_parts(&self, path: &VfsPath) -> BackendResult<Parts> {
        let top = self.find(path)?;
        if !top.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let mut parts = Parts::new();
        let (mut layer, mut at) = (top.layer, top.path);
        loop {
            parts.push((layer, at.clone().into_owned()));
            let Some(beneath) = self.layers[layer].remaps.map(at) else { return Ok(parts) };
            match self.next_part(layer + 1, beneath)? {
                Some(next) => (layer, at) = next,
                None => return Ok(parts),
            }
        }
    }

    pub(super) fn next_part<'p>(
        &self,
        first: usize,
        path: Cow<'p, VfsPath>,
    ) -> BackendResult<Option<(usize, Cow<'p, VfsPath>)>> {
        match self.probe_from(first, path)? {
            Probe::Hit(hit) if hit.is_dir() => Ok(Some((hit.layer, hit.path))),
            _ => Ok(None),
        }
    }

    /// The names of all parts but the last.
    fn collect(&self, parts: &Parts) -> BackendResult<Names> {
        let mut names = Names::default();
        let above = parts.len().saturating_sub(1);
        for (layer, at) in &parts[..above] {
            self.layers[*layer].fs.read_dir(at, Detail::Names, &mut |entry| {
                if !(*layer == 0 && self.is_spare(entry.name)) {
                    names.insert(*layer, entry);
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(names)
    }

    /// Checks that a directory shows no entries. Callers hold the tree alone.
    pub(super) fn must_be_empty(&self, path: &VfsPath) -> BackendResult<()> {
        let parts = self.merged_parts(path)?;
        let mut names = Names::default();
        let mut empty = true;
        for (layer, at) in &parts {
            self.layers[*layer].fs.read_dir(at, Detail::Names, &mut |entry| {
                let spare = *layer == 0 && self.is_spare(entry.name);
                if !spare && !names.contains(entry.name) {
                    names.insert(*layer, entry);
                    empty &= entry.file_type == FileType::Whiteout;
                }
                if empty { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        if empty { Ok(()) } else { Err(ErrorKind::DirectoryNotEmpty.into()) }
    }
}

/// Names of upper parts, in one arena, found by hash.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    index: HashTable<u32>,
}

struct Entry {
    start: usize,
    len: usize,
    file_type: FileType,
    id: FileId,
    layer: usize,
}

impl Names {
    fn name(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.len]
    }

    fn contains(&self, name: &[u8]) -> bool {
        if self.index.is_empty() {
            return false;
        }
        let is_it = |&index: &u32| self.name(&self.entries[index as usize]) == name;
        self.index.find(xxh3_64(name), is_it).is_some()
    }

    /// Keeps the first of each name.
    fn insert(&mut self, layer: usize, entry: DirEntry<'_>) {
        if self.contains(entry.name) {
            return;
        }
        let Ok(index) = u32::try_from(self.entries.len()) else { return };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry.name);
        let len = entry.name.len();
        let DirEntry { file_type, id, .. } = entry;
        self.entries.push(Entry { start, len, file_type, id, layer });
        let Names { bytes, entries, index: table } = self;
        let hash = |&index: &u32| {
            let entry = &entries[index as usize];
            xxh3_64(&bytes[entry.start..entry.start + entry.len])
        };
        table.insert_unique(xxh3_64(entry.name), index, hash);
    }
}
