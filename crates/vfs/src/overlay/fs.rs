//! The overlay as a [`FileSystem`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{Capabilities, DirEntry, File, FileSystem};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, Metadata, MetadataChange, Statfs};
use crate::options::{NewNode, NodeKind, OpenOptions, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};

use super::copy_up::Contents;
use super::handle::{CopiedFile, LowerFile, TemporaryFile, TemporaryLink};
use super::remaps::RESERVED;
use super::{Overlay, OverlayFs};

impl OverlayFs {
    /// Opens for reading: each layer is asked to open, the first that can decides.
    #[inline]
    fn open_to_read(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        let overlay = &*self.inner;
        let mut at = Cow::Borrowed(path);
        for (layer, here) in overlay.layers.iter().enumerate() {
            match here.fs.open(&at, options) {
                Ok(file) => return self.shown_file(layer, file, path, options),
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                    // A special file, or a whiteout.
                    let found = here.fs.metadata(&at)?.file_type;
                    let whiteout = found == FileType::Whiteout;
                    return Err(if whiteout { ErrorKind::NotFound.into() } else { error });
                }
                Err(error) if error.kind() == ErrorKind::SymlinkInPath && layer > 0 => {
                    // At the end of the path the answer stands; inside it, it may be hidden.
                    let found = overlay.find(path)?;
                    let kind = match found.metadata.file_type {
                        FileType::Symlink => ErrorKind::SymlinkInPath,
                        _ => ErrorKind::NotFound,
                    };
                    return Err(kind.into());
                }
                Err(error) => overlay.goes_on(error, layer, 0, path)?,
            }
            match here.below(at) {
                Some(below) => at = below,
                None => break,
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Wraps a layer's handle where it would show another id, or could miss a copy-up.
    #[inline]
    fn shown_file(
        &self,
        layer: usize,
        file: Box<dyn File>,
        path: &VfsPath,
        options: &OpenOptions,
    ) -> BackendResult<Box<dyn File>> {
        let overlay = &*self.inner;
        if layer > 0 && overlay.is_writable() {
            let shared = self.inner.share();
            return Ok(Box::new(LowerFile::new(shared, file, layer, path, options)?));
        }
        if layer == 0 && !overlay.ids.is_any() {
            return Ok(file);
        }
        let id = file.metadata()?.id;
        match overlay.ids.shown(layer, id) {
            shown if shown == id => Ok(file),
            shown => Ok(Box::new(CopiedFile { file, shown })),
        }
    }

    fn open_to_write(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        let overlay = &*self.inner;
        let _one = overlay.one_name();
        let _name = overlay.lock_name(path);
        let upper = &*overlay.upper()?.fs;
        let found = match overlay.find(path) {
            Ok(found) => found,
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && (options.create || options.create_new) =>
            {
                overlay.copy_up_parents(path)?;
                if !overlay.has_whiteout(path)? {
                    return upper.open(path, options);
                }
                overlay.place(path, |place| {
                    let new = OpenOptions { create_new: true, ..*options };
                    upper.open(place, &new).map(drop)
                })?;
                let plain = OpenOptions { create: false, create_new: false, ..*options };
                return upper.open(path, &plain);
            }
            Err(error) => return Err(error),
        };
        if options.create_new {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match found.metadata.file_type {
            FileType::File => {}
            FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
            FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
            _ => return Err(ErrorKind::InvalidArgument.into()),
        }
        if found.layer > 0 && !options.truncate {
            let lower = &*overlay.layers[found.layer].fs;
            let file = lower.open(&found.at, &OpenOptions::reading())?;
            return self.shown_file(found.layer, file, path, options);
        }
        if found.layer > 0 {
            overlay.copy_up_found(path, &found, Contents::Leave)?;
        }
        let plain = OpenOptions { create: false, create_new: false, ..*options };
        let file = upper.open(path, &plain)?;
        self.shown_file(0, file, path, options)
    }

    fn open_temporary(
        &self,
        path: &VfsPath,
        options: &OpenOptions,
    ) -> BackendResult<Box<dyn File>> {
        let overlay = &*self.inner;
        let _one = overlay.one_name();
        let _name = overlay.lock_name(path);
        let found = overlay.find(path)?;
        match found.metadata.file_type {
            FileType::Directory => {}
            FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
            _ => return Err(ErrorKind::NotADirectory.into()),
        }
        if found.layer > 0 {
            overlay.copy_up_found(path, &found, Contents::Copy)?;
        }
        let file = overlay.upper()?.fs.open(path, options)?;
        let link = TemporaryLink { overlay: self.inner.share() };
        Ok(Box::new(TemporaryFile { file, link }))
    }
}

impl Overlay {
    pub(super) fn read_dir(
        &self,
        path: &VfsPath,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let found = self.find(path)?;
        if !found.metadata.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let merged = self.directory_layers(found)?;
        let last = merged.len() - 1;
        // Names that a layer above has shown or hidden.
        let mut seen: HashSet<Box<[u8]>> = HashSet::new();
        let mut go_on = true;
        for (index, (layer, at)) in merged.into_iter().enumerate() {
            if !go_on {
                break;
            }
            self.layers[layer].fs.read_dir(&at, &mut |mut entry| {
                if seen.contains(entry.name) {
                    return ControlFlow::Continue(());
                }
                if index < last {
                    seen.insert(entry.name.into());
                }
                if entry.file_type == FileType::Whiteout {
                    return ControlFlow::Continue(());
                }
                entry.id = self.ids.shown(layer, entry.id);
                let flow = visit(entry);
                go_on = flow.is_continue();
                flow
            })?;
        }
        Ok(())
    }

    /// Copies up and changes. The whole is one change of one name.
    fn change<T>(
        &self,
        path: &VfsPath,
        change: impl FnOnce(&dyn FileSystem) -> BackendResult<T>,
    ) -> BackendResult<T> {
        let _one = self.one_name();
        let _name = self.lock_name(path);
        self.copy_up(path, Contents::Copy)?;
        change(&*self.upper()?.fs)
    }
}

impl FileSystem for OverlayFs {
    fn capabilities(&self) -> Capabilities {
        use Capabilities as C;
        let layers = &self.inner.layers;
        if self.inner.is_writable() {
            return layers[0].fs.capabilities() - (C::WHITEOUTS | C::STABLE_IDS | C::IMMUTABLE);
        }
        let kept = C::MODES | C::OWNERS | C::SPARSE;
        let all = layers.iter().map(|layer| layer.fs.capabilities()).fold(C::all(), |a, b| a & b);
        let any = layers.iter().map(|layer| layer.fs.capabilities()).fold(C::empty(), |a, b| a | b);
        (all & C::IMMUTABLE) | (any & kept) | (any & C::WATCH)
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Box<dyn File>> {
        if !options.is_valid() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if !options.needs_writable() {
            return self.open_to_read(path, options);
        }
        if !self.inner.is_writable() {
            return self.inner.refuse(path);
        }
        match options.temporary {
            true => self.open_temporary(path, options),
            false => self.open_to_write(path, options),
        }
    }

    #[inline]
    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        let found = self.inner.find(path)?;
        Ok(self.inner.ids.shown_metadata(found.layer, found.metadata))
    }

    #[inline]
    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        self.inner.is_there(path)
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.inner.read_dir(path, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        let found = self.inner.find(path)?;
        self.inner.layers[found.layer].fs.read_link(&found.at)
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        let overlay = &*self.inner;
        if !overlay.is_writable() {
            return overlay.refuse(path);
        }
        if node.kind == NodeKind::Whiteout {
            return Err(ErrorKind::Unsupported.into());
        }
        let _one = overlay.one_name();
        let _name = overlay.lock_name(path);
        let upper = &*overlay.upper()?.fs;
        match overlay.find(path) {
            Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        overlay.copy_up_parents(path)?;
        match node.kind {
            NodeKind::Directory => {
                let made = overlay.place_directory(path, node)?;
                Ok(overlay.ids.shown_metadata(0, made))
            }
            _ => overlay.place(path, |place| upper.create(place, node)),
        }
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        let overlay = &*self.inner;
        if !overlay.is_writable() {
            return overlay.refuse(from);
        }
        // Two names: as a rename, it excludes all other changes.
        let _trees = overlay.whole_trees();
        if overlay.find(from)?.metadata.is_dir() {
            return Err(ErrorKind::OperationNotPermitted.into());
        }
        match overlay.find(to) {
            Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        overlay.copy_up_parents(to)?;
        overlay.copy_up(from, Contents::Copy)?;
        overlay.place(to, |place| overlay.upper()?.fs.link(from, place))
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<()> {
        if !self.inner.is_writable() {
            return self.inner.refuse(from);
        }
        let _trees = self.inner.whole_trees();
        self.inner.rename(from, to, mode)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.inner.is_writable() {
            return self.inner.refuse(path);
        }
        let _one = self.inner.one_name();
        let _name = self.inner.lock_name(path);
        self.inner.remove_name(path)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        if !self.inner.is_writable() {
            return self.inner.refuse(path);
        }
        if path.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        let _trees = self.inner.whole_trees();
        self.inner.remove_directory(path)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<()> {
        if !self.inner.is_writable() {
            return self.inner.refuse(path);
        }
        self.inner.change(path, |upper| upper.set_metadata(path, change))
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        let found = self.inner.find(path)?;
        if name.starts_with(RESERVED) {
            return Err(ErrorKind::NoAttribute.into());
        }
        self.inner.layers[found.layer].fs.xattr(&found.at, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        let found = self.inner.find(path)?;
        let mut names = self.inner.layers[found.layer].fs.xattrs(&found.at)?;
        names.retain(|name| !name.starts_with(RESERVED));
        Ok(names)
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        if !self.inner.is_writable() {
            return self.inner.refuse(path);
        }
        if name.starts_with(RESERVED) {
            self.inner.find(path)?;
            return Err(ErrorKind::OperationNotPermitted.into());
        }
        self.inner.change(path, |upper| upper.set_xattr(path, name, value, mode))
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        if !self.inner.is_writable() {
            return self.inner.refuse(path);
        }
        // Asked first: nothing is copied up to find that there is nothing to remove.
        self.xattr(path, name)?;
        self.inner.change(path, |upper| upper.remove_xattr(path, name))
    }

    /// The room of the upper layer, or of the top one.
    fn statfs(&self) -> BackendResult<Statfs> {
        self.inner.layers[0].fs.statfs()
    }

    fn sync(&self) -> BackendResult<()> {
        self.inner.layers[0].fs.sync()
    }

    /// Watches every layer that reports. What a lower layer reports may be hidden here, so a
    /// report says that something may have changed.
    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.inner.find(path)?;
        let mut guards = Vec::new();
        for (layer, here) in self.inner.layers.iter().enumerate() {
            let sink = Arc::clone(&sink);
            let overlay = self.inner.share();
            let forward = move |event: WatchEvent| {
                let own = event.path.file_name().is_some_and(|name| name.starts_with(b".strata-"));
                let moved = layer > 0
                    && overlay.layers[0]
                        .below(Cow::Borrowed(&event.path))
                        .is_none_or(|below| *below != *event.path);
                match (own, moved) {
                    (true, _) => {}
                    // Its path here is not the path it has there.
                    (false, true) => sink.event(WatchEvent {
                        kind: WatchKind::Overflow,
                        path: crate::path::VfsPathBuf::new(),
                    }),
                    (false, false) => sink.event(event),
                }
            };
            match here.fs.watch(VfsPath::root(), Arc::new(Below { path: path.to_owned(), forward }))
            {
                Ok(guard) => guards.push(guard),
                Err(error)
                    if error.kind() == ErrorKind::Unsupported
                        && (layer > 0
                            || here.fs.capabilities().contains(Capabilities::IMMUTABLE)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(WatchGuard::new(guards))
    }
}

/// Passes on what concerns a path: the layers are watched from their roots, as the path need
/// not exist in each.
struct Below<F> {
    path: crate::path::VfsPathBuf,
    forward: F,
}

impl<F: Fn(WatchEvent) + Send + Sync> WatchSink for Below<F> {
    fn event(&self, event: WatchEvent) {
        if event.path.starts_with(&self.path) || event.kind == WatchKind::Overflow {
            (self.forward)(event);
        }
    }
}
