//! The host's error numbers as kinds, in one table.

use rustix::io::Errno;

use crate::error::{BackendError, ErrorKind};

impl From<Errno> for BackendError {
    fn from(errno: Errno) -> Self {
        match kind(errno) {
            // Only the number says which failure of the medium it was.
            ErrorKind::Io => BackendError::new(ErrorKind::Io, std::io::Error::from(errno)),
            kind => kind.into(),
        }
    }
}

/// What a number means when nothing more is known of the call. `ELOOP` is never a loop here:
/// nothing is followed, so it says that a symbolic link was met.
fn kind(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::NOTDIR => ErrorKind::NotADirectory,
        Errno::ISDIR => ErrorKind::IsADirectory,
        Errno::EXIST => ErrorKind::AlreadyExists,
        Errno::NOTEMPTY => ErrorKind::DirectoryNotEmpty,
        Errno::ACCESS => ErrorKind::PermissionDenied,
        Errno::PERM => ErrorKind::OperationNotPermitted,
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::INVAL | Errno::SPIPE => ErrorKind::InvalidArgument,
        Errno::NAMETOOLONG => ErrorKind::NameTooLong,
        Errno::LOOP => ErrorKind::SymlinkInPath,
        Errno::XDEV => ErrorKind::CrossesMounts,
        Errno::BUSY => ErrorKind::Busy,
        Errno::NOSPC => ErrorKind::NoSpace,
        Errno::DQUOT => ErrorKind::QuotaExceeded,
        Errno::FBIG | Errno::OVERFLOW => ErrorKind::FileTooLarge,
        Errno::MFILE | Errno::NFILE => ErrorKind::TooManyOpenFiles,
        Errno::MLINK => ErrorKind::TooManyLinks,
        Errno::NODATA => ErrorKind::NoAttribute,
        Errno::RANGE | Errno::TOOBIG => ErrorKind::TooLarge,
        Errno::BADF => ErrorKind::BadHandle,
        Errno::NXIO | Errno::NODEV => ErrorKind::NoSuchOffset,
        Errno::OPNOTSUPP | Errno::NOSYS => ErrorKind::Unsupported,
        Errno::INTR => ErrorKind::Interrupted,
        Errno::AGAIN => ErrorKind::WouldBlock,
        Errno::NOMEM => ErrorKind::OutOfMemory,
        Errno::TXTBSY => ErrorKind::TextBusy,
        Errno::STALE => ErrorKind::Stale,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_stays_readable() {
        let error = BackendError::from(Errno::IO);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.cause().unwrap().to_string().contains("os error 5"));
        assert!(BackendError::from(Errno::NOENT).cause().is_none());
    }
}
