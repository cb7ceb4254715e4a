//! Error kinds as error numbers: the library's table, and where a kernel must be told otherwise.

use rustix::io::Errno;
use stratafs::{BackendError, ErrorKind};

/// What a door's method answers.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The error number of a backend's answer.
pub(crate) fn of(error: BackendError) -> Errno {
    match error.kind() {
        // The kernel resolves links itself; one inside a path means that a directory was
        // replaced by a link underneath, and the name must be looked up again.
        ErrorKind::SymlinkInPath => Errno::STALE,
        kind => Errno::from_raw_os_error(kind.errno()),
    }
}
