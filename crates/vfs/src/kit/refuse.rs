//! What backends and layers that cannot be changed answer to calls that would change something.

use crate::backend::FileSystem;
use crate::error::{BackendResult, ErrorKind};
use crate::path::VfsPath;

/// What a layer answers to a call that would change something: a broken path first.
#[cold]
pub fn refuse<T>(fs: &dyn FileSystem, path: &VfsPath) -> BackendResult<T> {
    if let Some(parent) = path.parent() {
        let parent = fs.metadata(parent)?;
        if parent.is_symlink() {
            return Err(ErrorKind::SymlinkInPath.into());
        }
        if !parent.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
    }
    Err(ErrorKind::ReadOnly.into())
}

/// The methods of a [`FileSystem`] that change something, each refused by the expression.
#[macro_export]
macro_rules! refuse_changes {
    (|$self:ident, $path:ident| $refuse:expr) => {
        fn create(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::NewNode<'_>,
        ) -> $crate::BackendResult<$crate::Metadata> {
            $refuse
        }

        fn link(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::VfsPath,
        ) -> $crate::BackendResult<$crate::Metadata> {
            $refuse
        }

        fn rename(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::VfsPath,
            _: $crate::RenameMode,
        ) -> $crate::BackendResult<$crate::Metadata> {
            $refuse
        }

        fn remove_file(&$self, $path: &$crate::VfsPath) -> $crate::BackendResult<()> {
            $refuse
        }

        fn remove_dir(&$self, $path: &$crate::VfsPath) -> $crate::BackendResult<()> {
            $refuse
        }

        fn set_metadata(
            &$self,
            $path: &$crate::VfsPath,
            _: &$crate::MetadataChange,
        ) -> $crate::BackendResult<$crate::Metadata> {
            $refuse
        }

        fn set_xattr(
            &$self,
            $path: &$crate::VfsPath,
            _: &[u8],
            _: &[u8],
            _: $crate::XattrMode,
        ) -> $crate::BackendResult<()> {
            $refuse
        }

        fn remove_xattr(&$self, $path: &$crate::VfsPath, _: &[u8]) -> $crate::BackendResult<()> {
            $refuse
        }

        fn commit(&$self, steps: &[$crate::Step<'_>]) -> $crate::BackendResult<()> {
            let _ = steps;
            let $path = $crate::VfsPath::root();
            $refuse
        }
    };
}
pub use refuse_changes;
