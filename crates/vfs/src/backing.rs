//! Files that a kernel reads and writes by itself.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The file of the host in which a backend keeps the whole contents of a file of its own, so that
/// a door can let the kernel read and write there ("passthrough").
///
/// # The contract
/// - **Whole and true.** The host's file has the same bytes at the same offsets, and the same
///   length, as the backend's, for as long as the `Backing` or a clone of it lives. The backend
///   does everything else it does to the file (other handles, a new length, holes) to the host's
///   file as well, at once.
/// - **One for all.** While it lives, every handle on the file answers a clone of this one: a
///   kernel refuses two at a time.
/// - **Reads and writes.** The kernel may read. It may write if [`writable`](Self::writable)
///   says so, and nobody is told of each write: what the backend must do for a write beyond
///   keeping bytes (times, reports, quotas) it does when it is asked for metadata, and when it is
///   told of the end.
/// - **The end.** Who let a kernel write calls [`File::close`](crate::File::close) on a handle of
///   the file when the kernel has done, and drops the `Backing` after it. What the kernel wrote
///   until then is part of the file, also when the process dies before.
/// - A layer hands it on only if it has nothing to do for reads and writes itself.
#[derive(Clone)]
pub struct Backing {
    shared: Arc<Shared>,
}

struct Shared {
    #[cfg(unix)]
    file: std::os::fd::OwnedFd,
    writable: bool,
    noted: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Backing {
    /// The host's file behind `file`.
    #[cfg(unix)]
    pub fn new(file: std::os::fd::OwnedFd, writable: bool) -> Self {
        Backing { shared: Arc::new(Shared { file, writable, noted: OnceLock::new() }) }
    }

    /// Whether a kernel may write.
    pub fn writable(&self) -> bool {
        self.shared.writable
    }

    /// What a door notes of it (a kernel's number for it), made at the first call; it lives as
    /// long as the backing does, which a backend may use for one file after another.
    pub fn note<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.shared.noted.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// Whether nobody else has it.
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Backing {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.shared.file)
    }
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backing").field("writable", &self.writable()).finish_non_exhaustive()
    }
}
