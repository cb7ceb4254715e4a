//! Error kinds as error numbers: the one place.

use rustix::io::Errno;
use stratafs::{BackendError, ErrorKind};

/// What a door's method answers.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The error number of a kind.
pub(crate) fn errno(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::IsADirectory => Errno::ISDIR,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::DirectoryNotEmpty => Errno::NOTEMPTY,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::OperationNotPermitted => Errno::PERM,
        ErrorKind::ReadOnly => Errno::ROFS,
        ErrorKind::InvalidPath | ErrorKind::InvalidArgument => Errno::INVAL,
        ErrorKind::NameTooLong => Errno::NAMETOOLONG,
        // The kernel resolves links itself; one inside a path means that a directory was
        // replaced by a link underneath, and the name must be looked up again.
        ErrorKind::SymlinkInPath => Errno::STALE,
        ErrorKind::SymlinkLoop => Errno::LOOP,
        ErrorKind::Escapes | ErrorKind::CrossesMounts => Errno::XDEV,
        ErrorKind::Busy | ErrorKind::Conflict => Errno::BUSY,
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::FileTooLarge => Errno::FBIG,
        ErrorKind::TooManyOpenFiles => Errno::MFILE,
        ErrorKind::TooManyLinks => Errno::MLINK,
        ErrorKind::NoAttribute => Errno::NODATA,
        ErrorKind::TooLarge => Errno::RANGE,
        ErrorKind::BadHandle => Errno::BADF,
        ErrorKind::NoSuchOffset => Errno::NXIO,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::WrongKey => Errno::ACCESS,
        ErrorKind::Interrupted => Errno::INTR,
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        ErrorKind::TextBusy => Errno::TXTBSY,
        ErrorKind::Stale => Errno::STALE,
        ErrorKind::Corrupt | ErrorKind::UnknownFormat | ErrorKind::Io => Errno::IO,
    }
}

/// The error number of a backend's answer.
pub(crate) fn of(error: BackendError) -> Errno {
    errno(error.kind())
}
