//! What is tested: a file system and whatever must live as long as it does.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use stratafs::FileSystem;

/// A file system under test. Dropped, it takes its temporary directory with it.
pub struct Subject {
    // Declared first, so that it is dropped before what it stands on.
    fs: Arc<dyn FileSystem>,
    _keeps: Option<Box<dyn Any>>,
}

/// Makes an empty, writable file system for one case.
pub type Factory<'a> = &'a dyn Fn() -> Subject;

impl Subject {
    /// A file system that needs nothing else.
    pub fn new(fs: Arc<dyn FileSystem>) -> Self {
        Subject { fs, _keeps: None }
    }

    /// A file system that needs `keeps` (a temporary directory, a mount) to live as long.
    pub fn keeping(fs: Arc<dyn FileSystem>, keeps: impl Any) -> Self {
        Subject { fs, _keeps: Some(Box::new(keeps)) }
    }

    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// The file system, shared.
    pub fn shared(&self) -> Arc<dyn FileSystem> {
        Arc::clone(&self.fs)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.fs).finish()
    }
}
