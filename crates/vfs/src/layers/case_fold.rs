//! Names found whatever their case.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::sync::ShardedLock;

use crate::backend::{Capabilities, DirEntry, FileSystem, Opened};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Metadata, MetadataChange, Statfs};
use crate::nodes::NodeSystem;
use crate::options::{Detail, NewNode, OpenOptions, RenameMode, XattrMode};
use crate::path::{VfsPath, VfsPathBuf};
use crate::storage::{Step, Storage};
use crate::watch::{WatchGuard, WatchSink};

/// Folded names of one directory and what they are on the backend.
type Index = HashMap<Vec<u8>, Vec<u8>>;

/// Finds names whatever their case: each component exactly as given if it is there, else the
/// name that is equal after Unicode case folding (of several, the first by bytes).
///
/// New names keep the case they are given; a name that differs only in case from one that is
/// there is taken. Renaming a file to another case of its own name works. Names that are not
/// UTF-8 are folded in their ASCII letters only. Listings show names as they are.
///
/// # Cost
/// A name in its exact case costs one more probe of the backend. Another case costs a listing
/// of each directory on the way; on an immutable backend each directory is listed once and its
/// index kept. Calls that make names run one at a time, so that two cases of one name are not
/// made at once; changes made to the backend by other ways are seen but not kept apart.
///
/// Temporary files ([`Capabilities::TEMPORARY`]) are not offered.
pub struct CaseFoldFs {
    inner: Arc<dyn FileSystem>,
    /// By directory; only for an immutable backend.
    indices: Option<ShardedLock<HashMap<VfsPathBuf, Index>>>,
    making: Mutex<()>,
}

impl CaseFoldFs {
    /// Puts the layer over a backend.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        let immutable = inner.capabilities().contains(Capabilities::IMMUTABLE);
        CaseFoldFs {
            indices: immutable.then(ShardedLock::default),
            making: Mutex::default(),
            inner,
        }
    }

    /// The backend's own path for `path`: as far as names are found, theirs; the rest as given.
    fn resolve<'p>(&self, path: &'p VfsPath) -> BackendResult<Cow<'p, VfsPath>> {
        if self.is_there(path)? {
            return Ok(Cow::Borrowed(path));
        }
        let mut found = VfsPathBuf::new();
        let mut rest = path.components();
        while let Some(name) = rest.next() {
            let exact = found.join_name(name)?;
            if self.is_there(&exact)? {
                found = exact;
            } else if let Some(name) = self.find(&found, name)? {
                found.push(&name)?;
            } else {
                found = exact;
                rest.try_for_each(|name| found.push(name))?;
                break;
            }
        }
        Ok(Cow::Owned(found))
    }

    /// Whether looking for other names is of no use: the path is there, or the backend will
    /// answer that a symbolic link stands in it.
    fn is_there(&self, path: &VfsPath) -> BackendResult<bool> {
        match self.inner.exists(path) {
            Err(error) if error.kind() == ErrorKind::SymlinkInPath => Ok(true),
            answer => answer,
        }
    }

    /// The name in `dir` that `name` is another case of.
    fn find(&self, dir: &VfsPath, name: &[u8]) -> BackendResult<Option<Vec<u8>>> {
        let wanted = fold(name);
        let Some(indices) = &self.indices else {
            let mut best: Option<Vec<u8>> = None;
            self.list(dir, &mut |name| {
                if fold(name) == wanted && best.as_deref().is_none_or(|best| name < best) {
                    best = Some(name.to_vec());
                }
            })?;
            return Ok(best);
        };
        {
            let known = indices.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(index) = known.get(dir) {
                return Ok(index.get(&*wanted).cloned());
            }
        }
        let mut index = Index::new();
        let is_dir = self.list(dir, &mut |name| {
            let kept = index.entry(fold(name).into_owned()).or_insert_with(|| name.to_vec());
            if name < kept.as_slice() {
                *kept = name.to_vec();
            }
        })?;
        let found = index.get(&*wanted).cloned();
        // What is no directory is not worth keeping: callers can ask for any number of these.
        if is_dir {
            let mut known = indices.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(dir.to_owned(), index);
        }
        Ok(found)
    }

    /// Visits the names of a directory; `false` when it is none.
    fn list(&self, dir: &VfsPath, visit: &mut dyn FnMut(&[u8])) -> BackendResult<bool> {
        let listed = self.inner.read_dir(dir, Detail::Names, &mut |entry| {
            visit(entry.name);
            ControlFlow::Continue(())
        });
        match listed {
            Ok(()) => Ok(true),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Where a file at `from` goes when it is renamed to `to`, given in another case perhaps.
    fn destination<'p>(
        &self,
        from: &VfsPath,
        to: &'p VfsPath,
        mode: RenameMode,
    ) -> BackendResult<Cow<'p, VfsPath>> {
        let found = self.resolve(to)?;
        if mode == RenameMode::Exchange || *found != *from {
            return Ok(found);
        }
        // Another case of its own name: the new case is what is asked for.
        match (found.parent(), to.file_name()) {
            (Some(parent), Some(name)) => Ok(Cow::Owned(parent.join_name(name)?)),
            _ => Ok(found),
        }
    }

    fn lock(&self) -> impl Drop + '_ {
        // Nothing is kept under the lock, so a panic elsewhere leaves nothing broken.
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Full case folding, character by character: upper case first, then lower, so that letters
/// with two lower cases (final sigma, long s) and sharp s meet.
fn fold(name: &[u8]) -> Cow<'_, [u8]> {
    if name.is_ascii() {
        return match name.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        };
    }
    match std::str::from_utf8(name) {
        Ok(text) => {
            let folded: String =
                text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
            Cow::Owned(folded.into_bytes())
        }
        Err(_) => Cow::Owned(name.to_ascii_lowercase()),
    }
}

impl fmt::Debug for CaseFoldFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaseFoldFs").field(&self.inner).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl FileSystem for CaseFoldFs {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities() - (Capabilities::TEMPORARY | Capabilities::GROUPS)
    }

    fn open(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<Opened> {
        if !options.is_valid() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if options.temporary && self.inner.capabilities().contains(Capabilities::WRITE) {
            self.inner.metadata(&self.resolve(path)?)?;
            return Err(ErrorKind::Unsupported.into());
        }
        let _making = (options.create || options.create_new).then(|| self.lock());
        self.inner.open(&self.resolve(path)?, options)
    }

    fn metadata(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.inner.metadata(&self.resolve(path)?)
    }

    fn exists(&self, path: &VfsPath) -> BackendResult<bool> {
        self.inner.exists(&self.resolve(path)?)
    }

    fn read_dir(
        &self,
        path: &VfsPath,
        detail: Detail,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        self.inner.read_dir(&self.resolve(path)?, detail, visit)
    }

    fn read_link(&self, path: &VfsPath) -> BackendResult<Vec<u8>> {
        self.inner.read_link(&self.resolve(path)?)
    }

    fn create(&self, path: &VfsPath, node: &NewNode<'_>) -> BackendResult<Metadata> {
        let _making = self.lock();
        self.inner.create(&self.resolve(path)?, node)
    }

    fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        let _making = self.lock();
        self.inner.link(&self.resolve(from)?, &self.resolve(to)?)
    }

    fn rename(&self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> BackendResult<Metadata> {
        let _making = self.lock();
        let from = self.resolve(from)?;
        let to = self.destination(&from, to, mode)?;
        self.inner.rename(&from, &to, mode)
    }

    fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.remove_file(&self.resolve(path)?)
    }

    fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.remove_dir(&self.resolve(path)?)
    }

    fn set_metadata(&self, path: &VfsPath, change: &MetadataChange) -> BackendResult<Metadata> {
        self.inner.set_metadata(&self.resolve(path)?, change)
    }

    fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.inner.xattr(&self.resolve(path)?, name)
    }

    fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.inner.xattrs(&self.resolve(path)?)
    }

    fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.inner.set_xattr(&self.resolve(path)?, name, value, mode)
    }

    fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.inner.remove_xattr(&self.resolve(path)?, name)
    }

    fn statfs(&self) -> BackendResult<Statfs> {
        self.inner.statfs()
    }

    fn sync(&self) -> BackendResult<()> {
        self.inner.sync()
    }

    fn watch(&self, path: &VfsPath, sink: Arc<dyn WatchSink>) -> BackendResult<WatchGuard> {
        self.inner.watch(&self.resolve(path)?, sink)
    }

    fn sync_dir(&self, path: &VfsPath) -> BackendResult<()> {
        self.inner.sync_dir(&self.resolve(path)?)
    }

    /// Not through this layer: its paths would have to be found first.
    fn commit(&self, _: &[Step<'_>]) -> BackendResult<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    /// None: a name has several spellings here.
    fn nodes(&self) -> Option<&dyn NodeSystem> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn folding() {
        for (a, b) in [
            ("ReadMe.TXT", "readme.txt"),
            ("\u{c9}T\u{c9}", "\u{e9}t\u{e9}"),
            ("\u{3a3}\u{3c2}", "\u{3c3}\u{3c3}"),
            ("STRASSE", "stra\u{df}e"),
        ] {
            assert_eq!(fold(a.as_bytes()), fold(b.as_bytes()), "{a} {b}");
        }
        assert_eq!(fold(b"A\xffB"), fold(b"a\xffb"));
        assert_ne!(fold(b"a"), fold(b"b"));
        assert_ne!(fold("e".as_bytes()), fold("\u{e9}".as_bytes()));
    }
}
