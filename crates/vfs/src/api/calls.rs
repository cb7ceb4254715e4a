//! The calls of `std::fs` on a tree.
//!
//! All follow symbolic links in the middle of a path. At its end, those that act on contents
//! (`open`, `read`, `metadata`, `read_dir`, ...) follow; those that act on the name
//! (`remove_file`, `rename`, `symlink_metadata`, `read_link`, ...) do not.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::backend::{DirEntry, FileSystem};
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{FileType, Metadata, MetadataChange, Statfs};
use crate::mount::Vfs;
use crate::mount::resolve::Last;
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::{AsPath, VfsPath, normalize};
use crate::watch::{WatchGuard, WatchSink};

use super::file::VfsFile;
use super::list::DirList;

/// Normalises the caller's path, calls, and names operation and path in an error.
#[inline]
fn with_path<T>(
    operation: &'static str,
    path: &(impl AsPath + ?Sized),
    call: impl FnOnce(&VfsPath) -> BackendResult<T>,
) -> Result<T> {
    with_path_then(operation, path, call, |value, _| value)
}

/// As [`with_path`], and makes the answer of what `call` answered, in its place: moving a large
/// answer from one kind of result into another takes longer than many a call.
#[inline]
fn with_path_then<T, U>(
    operation: &'static str,
    path: &(impl AsPath + ?Sized),
    call: impl FnOnce(&VfsPath) -> BackendResult<T>,
    then: impl FnOnce(T, &VfsPath) -> U,
) -> Result<U> {
    let bytes = path.path_bytes();
    // `call` is written once, and what is rare stands elsewhere, so that all of it is inlined.
    match normalize(&bytes) {
        Ok(path) => match call(&path) {
            Ok(value) => Ok(then(value, &path)),
            Err(error) => Err(error.at(operation, &path)),
        },
        Err(error) => Err(named(error, operation, &bytes)),
    }
}

#[cold]
fn named(error: BackendError, operation: &'static str, bytes: &[u8]) -> crate::Error {
    match normalize(bytes) {
        Ok(path) => error.at(operation, &path),
        Err(_) => error.at(operation, VfsPath::unchecked(bytes)),
    }
}

impl Vfs {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    #[inline]
    pub fn open(&self, path: impl AsPath) -> Result<VfsFile> {
        self.open_with(path, &OpenOptions::reading())
    }

    /// Opens a file for writing: made where there is none, else cut to length 0.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    pub fn create(&self, path: impl AsPath) -> Result<VfsFile> {
        self.open_with(path, &OpenOptions::writing())
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    #[inline]
    pub fn open_with(&self, path: impl AsPath, options: &OpenOptions) -> Result<VfsFile> {
        let salt = Cell::new(0);
        let open = |path: &VfsPath| {
            self.resolving(path, Last::Follow, |path| self.tree.open_bare(path, options, &salt))
        };
        with_path_then("open", &path, open, |opened, path| {
            VfsFile::new(opened.file, salt.get(), options.append, path)
        })
    }

    /// What is known of a file; of a symbolic link's target.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`].
    #[inline]
    pub fn metadata(&self, path: impl AsPath) -> Result<Metadata> {
        with_path("metadata", &path, |path| self.followed_metadata(path))
    }

    #[inline]
    pub(super) fn followed_metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.resolving(path, Last::Follow, |path| {
            match self.tree.metadata(path) {
                // Has the link at the end resolved like one in the middle.
                Ok(metadata) if metadata.is_symlink() => Err(ErrorKind::SymlinkInPath.into()),
                answer => answer,
            }
        })
    }

    /// What is known of a file; of a symbolic link itself.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`].
    pub fn symlink_metadata(&self, path: impl AsPath) -> Result<Metadata> {
        with_path("metadata", &path, |path| {
            self.resolving(path, Last::Keep, |path| self.tree.metadata(path))
        })
    }

    /// Whether something has this name; a symbolic link counts, wherever it points.
    ///
    /// # Errors
    /// What a backend meets; a missing or unsuitable component is `false`, not an error.
    #[inline]
    pub fn exists(&self, path: impl AsPath) -> Result<bool> {
        with_path("exists", &path, |path| {
            self.resolving(path, Last::Keep, |path| self.tree.exists(path))
        })
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// As [`FileSystem::read_dir`]; `TooLarge` when the names take over 4 GiB.
    pub fn read_dir(&self, path: impl AsPath) -> Result<DirList> {
        with_path("read directory", &path, |path| self.list(path, Detail::Names))
    }

    /// The entries of a directory, each with its metadata: one call of the backend where
    /// [`metadata`](Self::metadata) of each entry would be as many.
    ///
    /// # Errors
    /// As [`read_dir`](Self::read_dir).
    pub fn read_dir_with_metadata(&self, path: impl AsPath) -> Result<DirList> {
        with_path("read directory", &path, |path| self.list(path, Detail::Metadata))
    }

    pub(super) fn list(&self, path: &VfsPath, detail: Detail) -> BackendResult<DirList> {
        let mut list = DirList::default();
        let mut fits = true;
        self.visit(path, detail, &mut |entry| {
            fits = list.push(entry);
            if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if fits { Ok(list) } else { Err(ErrorKind::TooLarge.into()) }
    }

    fn visit(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        match self.tree.read_dir(path, detail, visit) {
            Err(error)
                if matches!(error.kind(), ErrorKind::SymlinkInPath | ErrorKind::NotADirectory) =>
            {
                // Either a link in the way, or the path itself is one.
                let resolved = self.resolve(path, Last::Follow)?;
                match *resolved == *path {
                    true => Err(error),
                    false => self.tree.read_dir(&resolved, detail, visit),
                }
            }
            answer => answer,
        }
    }

    /// Calls `visit` for each entry of a directory, in the backend's order, until it breaks:
    /// nothing is collected, so a huge directory takes no memory. `visit` must not call the
    /// same tree.
    ///
    /// # Errors
    /// As [`FileSystem::read_dir`].
    pub fn visit_dir(
        &self,
        path: impl AsPath,
        mut visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        with_path("read directory", &path, |path| self.visit(path, Detail::Names, &mut visit))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::read_link`].
    pub fn read_link(&self, path: impl AsPath) -> Result<Vec<u8>> {
        with_path("read link", &path, |path| {
            self.resolving(path, Last::Keep, |path| self.tree.read_link(path))
        })
    }

    /// The whole contents of a file.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`VfsFile::read_at`].
    pub fn read(&self, path: impl AsPath) -> Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.open(path)?.read_to_end_at(&mut contents, 0)?;
        Ok(contents)
    }

    /// The whole contents of a file of UTF-8 text.
    ///
    /// # Errors
    /// As [`read`](Self::read); `InvalidArgument` when the contents are not UTF-8.
    pub fn read_to_string(&self, path: impl AsPath) -> Result<String> {
        String::from_utf8(self.read(&path)?).map_err(|error| {
            let error = BackendError::new(ErrorKind::InvalidArgument, error.utf8_error());
            named(error, "read", &path.path_bytes())
        })
    }

    /// Makes a file with these contents, or replaces the contents of the one there is. Not
    /// atomic: to replace a file in one step, write another and [`rename`](Self::rename) it.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`VfsFile::write_at`].
    pub fn write(&self, path: impl AsPath, contents: impl AsRef<[u8]>) -> Result<()> {
        self.create(path)?.write_all_at(contents.as_ref(), 0)
    }

    fn make(&self, operation: &'static str, path: &impl AsPath, node: &NewNode<'_>) -> Result<()> {
        with_path(operation, path, |path| {
            self.resolving(path, Last::Keep, |path| self.tree.create(path, node)).map(drop)
        })
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// As [`FileSystem::create`].
    pub fn create_dir(&self, path: impl AsPath) -> Result<()> {
        self.make("create directory", &path, &NewNode::directory())
    }

    /// Makes a directory and whatever leads to it; one that exists is left as it is.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; `NotADirectory` when a file is in the way.
    pub fn create_dir_all(&self, path: impl AsPath) -> Result<()> {
        with_path("create directory", &path, |path| {
            for directory in path.ancestors().skip(1).chain([path]) {
                let made = self.resolving(directory, Last::Keep, |path| {
                    self.tree.create(path, &NewNode::directory())
                });
                match made {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            match self.followed_metadata(path)?.is_dir() {
                true => Ok(()),
                false => Err(ErrorKind::NotADirectory.into()),
            }
        })
    }

    /// Makes a node of any kind but a regular file.
    ///
    /// # Errors
    /// As [`FileSystem::create`].
    pub fn create_node(&self, path: impl AsPath, node: &NewNode<'_>) -> Result<()> {
        self.make("create", &path, node)
    }

    /// Makes a symbolic link at `path` that says `target`. (The order of arguments is
    /// target first, as in `std::os::unix::fs::symlink`.)
    ///
    /// # Errors
    /// As [`FileSystem::create`].
    pub fn symlink(&self, target: impl AsPath, path: impl AsPath) -> Result<()> {
        self.make("symlink", &path, &NewNode::symlink(&target.path_bytes()))
    }

    /// Gives the file at `original` the further name `path`.
    ///
    /// # Errors
    /// As [`FileSystem::link`]; `CrossesMounts`.
    pub fn hard_link(&self, original: impl AsPath, path: impl AsPath) -> Result<()> {
        self.two("link", &original, &path, |from, to| self.tree.link(from, to))
    }

    /// Renames, replacing what has the name, atomically.
    ///
    /// # Errors
    /// As [`FileSystem::rename`]; `CrossesMounts`.
    pub fn rename(&self, from: impl AsPath, to: impl AsPath) -> Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// Renames in the given mode.
    ///
    /// # Errors
    /// As [`FileSystem::rename`]; `CrossesMounts`.
    pub fn rename_with(&self, from: impl AsPath, to: impl AsPath, mode: RenameMode) -> Result<()> {
        self.two("rename", &from, &to, |from, to| self.tree.rename(from, to, mode))
    }

    fn two(
        &self,
        operation: &'static str,
        from: &impl AsPath,
        to: &impl AsPath,
        call: impl Fn(&VfsPath, &VfsPath) -> BackendResult<Metadata>,
    ) -> Result<()> {
        let to_bytes = to.path_bytes();
        let to = normalize(&to_bytes).map_err(|error| named(error, operation, &to_bytes))?;
        with_path(operation, from, |from| {
            let answer = match call(from, &to) {
                Err(error) if error.kind() == ErrorKind::SymlinkInPath => {
                    call(&self.resolve(from, Last::Keep)?, &self.resolve(&to, Last::Keep)?)
                }
                answer => answer,
            };
            answer.map(drop)
        })
    }

    /// Removes a name that is not a directory.
    ///
    /// # Errors
    /// As [`FileSystem::remove_file`].
    pub fn remove_file(&self, path: impl AsPath) -> Result<()> {
        with_path("remove file", &path, |path| {
            self.resolving(path, Last::Keep, |path| self.tree.remove_file(path))
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`FileSystem::remove_dir`].
    pub fn remove_dir(&self, path: impl AsPath) -> Result<()> {
        with_path("remove directory", &path, |path| {
            self.resolving(path, Last::Keep, |path| self.tree.remove_dir(path))
        })
    }

    /// Removes a directory with everything below it. Links are removed, not followed. Not
    /// atomic: after an error a part may be gone.
    ///
    /// # Errors
    /// As [`remove_dir`](Self::remove_dir) and [`remove_file`](Self::remove_file); `Busy` when
    /// a mount point lies below.
    pub fn remove_dir_all(&self, path: impl AsPath) -> Result<()> {
        with_path("remove directory", &path, |path| {
            let path = self.resolve(path, Last::Keep)?;
            match self.tree.metadata(&path)?.is_dir() {
                true => self.remove_tree(&path),
                false => Err(ErrorKind::NotADirectory.into()),
            }
        })
    }

    fn remove_tree(&self, path: &VfsPath) -> BackendResult<()> {
        // The depth of the tree is not the caller's choice alone, so no recursion.
        let mut pending = vec![(path.to_owned(), false)];
        while let Some((path, emptied)) = pending.pop() {
            if emptied {
                self.tree.remove_dir(&path)?;
                continue;
            }
            let list = self.list(&path, Detail::Names)?;
            pending.push((path.clone(), true));
            for entry in list.iter() {
                let child = path.join_name(entry.name)?;
                match entry.file_type {
                    FileType::Directory => pending.push((child, false)),
                    _ => self.tree.remove_file(&child)?,
                }
            }
        }
        Ok(())
    }

    /// Changes metadata; of a symbolic link's target.
    ///
    /// # Errors
    /// As [`FileSystem::set_metadata`].
    pub fn set_metadata(&self, path: impl AsPath, change: &MetadataChange) -> Result<()> {
        with_path("set metadata", &path, |path| {
            let path = self.resolve(path, Last::Follow)?;
            self.tree.set_metadata(&path, change).map(drop)
        })
    }

    /// The value of an extended attribute; of a symbolic link's target.
    ///
    /// # Errors
    /// As [`FileSystem::xattr`].
    pub fn xattr(&self, path: impl AsPath, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        with_path("get attribute", &path, |path| {
            self.tree.xattr(&self.resolve(path, Last::Follow)?, name.as_ref())
        })
    }

    /// The names of all extended attributes; of a symbolic link's target.
    ///
    /// # Errors
    /// As [`FileSystem::xattrs`].
    pub fn xattrs(&self, path: impl AsPath) -> Result<Vec<Vec<u8>>> {
        with_path("list attributes", &path, |path| {
            self.tree.xattrs(&self.resolve(path, Last::Follow)?)
        })
    }

    /// Sets an extended attribute; of a symbolic link's target.
    ///
    /// # Errors
    /// As [`FileSystem::set_xattr`].
    pub fn set_xattr(
        &self,
        path: impl AsPath,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        with_path("set attribute", &path, |path| {
            let path = self.resolve(path, Last::Follow)?;
            self.tree.set_xattr(&path, name.as_ref(), value.as_ref(), mode)
        })
    }

    /// Removes an extended attribute; of a symbolic link's target.
    ///
    /// # Errors
    /// As [`FileSystem::remove_xattr`].
    pub fn remove_xattr(&self, path: impl AsPath, name: impl AsRef<[u8]>) -> Result<()> {
        with_path("remove attribute", &path, |path| {
            self.tree.remove_xattr(&self.resolve(path, Last::Follow)?, name.as_ref())
        })
    }

    /// Reports changes at and below a path, in all mounts there as they are now, until the
    /// guard is dropped. The sink may be a closure; see [`WatchSink`] for what it must not do.
    ///
    /// # Errors
    /// As [`FileSystem::watch`].
    pub fn watch(&self, path: impl AsPath, sink: impl WatchSink + 'static) -> Result<WatchGuard> {
        let sink: Arc<dyn WatchSink> = Arc::new(sink);
        with_path("watch", &path, |path| {
            self.tree.watch(&self.resolve(path, Last::Follow)?, Arc::clone(&sink))
        })
    }

    /// Room of the root mount.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn statfs(&self) -> Result<Statfs> {
        with_path("statfs", "", |_| self.tree.statfs())
    }

    /// Syncs every mount.
    ///
    /// # Errors
    /// The first that a backend meets; all are tried.
    pub fn sync(&self) -> Result<()> {
        with_path("sync", "", |_| self.tree.sync())
    }

    /// For the other files of this module.
    pub(super) fn at_path<T>(
        &self,
        operation: &'static str,
        path: &(impl AsPath + ?Sized),
        call: impl FnOnce(&VfsPath) -> BackendResult<T>,
    ) -> Result<T> {
        with_path(operation, path, call)
    }
}
