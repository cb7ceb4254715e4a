//! Two error types: a backend's, cheap enough to be an answer, and a caller's, with context.
//!
//! A backend answers [`BackendError`]: a [`ErrorKind`] and, only where there is more to say, a
//! boxed cause. A plain [`ErrorKind::NotFound`] costs no allocation, which a stack of layers
//! that probes each of them needs. The public surface wraps it once into [`Error`], which adds
//! the operation and the path.

use std::fmt;
use std::io;

use crate::path::{VfsPath, VfsPathBuf};

/// What went wrong. Exhaustive on purpose: each door maps every kind to its own codes in one
/// `match`, so a new kind does not compile until all doors have decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// No such file or directory (`ENOENT`).
    NotFound,
    /// A component that should be a directory is not one (`ENOTDIR`).
    NotADirectory,
    /// The operation does not work on a directory (`EISDIR`).
    IsADirectory,
    /// The name is taken (`EEXIST`).
    AlreadyExists,
    /// The directory has entries (`ENOTEMPTY`).
    DirectoryNotEmpty,
    /// The permission bits refuse it (`EACCES`).
    PermissionDenied,
    /// Not allowed whatever the permission bits (`EPERM`).
    OperationNotPermitted,
    /// The backend, layer or mount is read-only (`EROFS`).
    ReadOnly,
    /// The path is not valid: NUL byte, `..` above the root (`EINVAL`).
    InvalidPath,
    /// An argument makes no sense for the operation (`EINVAL`).
    InvalidArgument,
    /// A name over 255 or a path over 4096 bytes (`ENAMETOOLONG`).
    NameTooLong,
    /// A backend met a symbolic link inside (not at the end of) a path: whoever resolves paths
    /// reads the link and asks again. Seen by callers only on a bare backend (`ELOOP`).
    SymlinkInPath,
    /// Too many symbolic links in a row (`ELOOP`).
    SymlinkLoop,
    /// A symbolic link leads out of the tree (`EXDEV`).
    Escapes,
    /// The two names are on different backends (`EXDEV`).
    CrossesMounts,
    /// In use: a mount point, a locked store (`EBUSY`).
    Busy,
    /// No space left, or the quota of a memory backend is used up (`ENOSPC`).
    NoSpace,
    /// A quota of the host is used up (`EDQUOT`).
    QuotaExceeded,
    /// Larger than the backend can hold (`EFBIG`).
    FileTooLarge,
    /// The process or the system is out of file descriptors (`EMFILE`, `ENFILE`).
    TooManyOpenFiles,
    /// The file has as many names as it can have (`EMLINK`).
    TooManyLinks,
    /// No extended attribute of that name (`ENODATA`).
    NoAttribute,
    /// A value does not fit, an extended attribute's for instance (`ERANGE`, `E2BIG`).
    TooLarge,
    /// The handle was not opened for this (`EBADF`).
    BadHandle,
    /// No data or hole at or after that offset; no such device (`ENXIO`).
    NoSuchOffset,
    /// The backend cannot do this at all; see its capabilities (`EOPNOTSUPP`).
    Unsupported,
    /// Stored data is damaged: bad checksum, offset out of range, impossible count (`EIO`).
    Corrupt,
    /// The data is encrypted and the key is missing or wrong (`EACCES`).
    WrongKey,
    /// The data is of a format or version this build does not read (`EIO`).
    UnknownFormat,
    /// Interrupted before it was done (`EINTR`).
    Interrupted,
    /// Would have to wait (`EAGAIN`).
    WouldBlock,
    /// Out of memory (`ENOMEM`).
    OutOfMemory,
    /// A file is being executed and cannot be written (`ETXTBSY`).
    TextBusy,
    /// The handle's file is gone from its host, as after a network file system's restart
    /// (`ESTALE`).
    Stale,
    /// Others changed what is to be changed ([`Conflicts`](crate::Conflicts)) (`EBUSY`).
    Conflict,
    /// Any other failure of the medium below (`EIO`).
    Io,
}

impl ErrorKind {
    /// The sentence for people.
    pub fn message(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "no such file or directory",
            ErrorKind::NotADirectory => "not a directory",
            ErrorKind::IsADirectory => "is a directory",
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::DirectoryNotEmpty => "directory not empty",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::OperationNotPermitted => "operation not permitted",
            ErrorKind::ReadOnly => "read-only file system",
            ErrorKind::InvalidPath => "invalid path",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::NameTooLong => "name too long",
            ErrorKind::SymlinkInPath => "a symbolic link stands inside the path",
            ErrorKind::SymlinkLoop => "too many symbolic links",
            ErrorKind::Escapes => "a symbolic link leads out of the tree",
            ErrorKind::CrossesMounts => "source and destination are on different mounts",
            ErrorKind::Busy => "in use",
            ErrorKind::NoSpace => "no space left",
            ErrorKind::QuotaExceeded => "quota exceeded",
            ErrorKind::FileTooLarge => "file too large",
            ErrorKind::TooManyOpenFiles => "too many open files",
            ErrorKind::TooManyLinks => "too many links",
            ErrorKind::NoAttribute => "no such extended attribute",
            ErrorKind::TooLarge => "value too large",
            ErrorKind::BadHandle => "the handle was not opened for this",
            ErrorKind::NoSuchOffset => "no such offset or device",
            ErrorKind::Unsupported => "not supported by this backend",
            ErrorKind::Corrupt => "stored data is damaged",
            ErrorKind::WrongKey => "key missing or wrong",
            ErrorKind::UnknownFormat => "unknown format or version",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::WouldBlock => "would block",
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::TextBusy => "text file busy",
            ErrorKind::Stale => "stale handle",
            ErrorKind::Conflict => "changed by others meanwhile",
            ErrorKind::Io => "input/output error",
        }
    }

    /// The nearest kind of the standard library's error.
    pub fn to_io(self) -> io::ErrorKind {
        use io::ErrorKind as Io;
        match self {
            ErrorKind::NotFound => Io::NotFound,
            ErrorKind::NotADirectory => Io::NotADirectory,
            ErrorKind::IsADirectory => Io::IsADirectory,
            ErrorKind::AlreadyExists => Io::AlreadyExists,
            ErrorKind::DirectoryNotEmpty => Io::DirectoryNotEmpty,
            ErrorKind::PermissionDenied
            | ErrorKind::OperationNotPermitted
            | ErrorKind::WrongKey => Io::PermissionDenied,
            ErrorKind::ReadOnly => Io::ReadOnlyFilesystem,
            ErrorKind::InvalidPath | ErrorKind::InvalidArgument => Io::InvalidInput,
            ErrorKind::NameTooLong => Io::InvalidFilename,
            ErrorKind::Escapes | ErrorKind::CrossesMounts => Io::CrossesDevices,
            ErrorKind::Busy | ErrorKind::Conflict => Io::ResourceBusy,
            ErrorKind::NoSpace => Io::StorageFull,
            ErrorKind::QuotaExceeded => Io::QuotaExceeded,
            ErrorKind::FileTooLarge => Io::FileTooLarge,
            ErrorKind::TooManyLinks => Io::TooManyLinks,
            ErrorKind::Unsupported => Io::Unsupported,
            ErrorKind::Corrupt | ErrorKind::UnknownFormat => Io::InvalidData,
            ErrorKind::Interrupted => Io::Interrupted,
            ErrorKind::WouldBlock => Io::WouldBlock,
            ErrorKind::OutOfMemory => Io::OutOfMemory,
            ErrorKind::TextBusy => Io::ExecutableFileBusy,
            ErrorKind::Stale => Io::StaleNetworkFileHandle,
            ErrorKind::SymlinkInPath
            | ErrorKind::SymlinkLoop
            | ErrorKind::TooManyOpenFiles
            | ErrorKind::NoAttribute
            | ErrorKind::TooLarge
            | ErrorKind::BadHandle
            | ErrorKind::NoSuchOffset
            | ErrorKind::Io => Io::Other,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A cause behind a thin pointer: with it an error takes two words, and most answers of a
/// backend fit into the registers that a call returns.
#[derive(Debug)]
struct Thin(Box<Cause>);

/// What a backend answers: a kind, and a cause only where it says more than the kind.
#[derive(Debug)]
pub struct BackendError {
    kind: ErrorKind,
    cause: Option<Thin>,
}

impl BackendError {
    /// An error with more to say: a text, or the error of a library below.
    pub fn new(kind: ErrorKind, cause: impl Into<Cause>) -> Self {
        BackendError { kind, cause: Some(Thin(Box::new(cause.into()))) }
    }

    /// The kind.
    #[inline]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The cause, if there is more to say than the kind.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.cause.as_ref().map(|cause| &**cause.0)
    }

    /// Adds operation and path.
    #[cold]
    pub fn at(self, operation: &'static str, path: &VfsPath) -> Error {
        Error(Box::new(Context {
            operation,
            path: path.to_owned(),
            kind: self.kind,
            cause: self.cause.map(|cause| *cause.0),
        }))
    }
}

impl From<ErrorKind> for BackendError {
    #[inline]
    fn from(kind: ErrorKind) -> Self {
        BackendError { kind, cause: None }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause() {
            Some(cause) => write!(f, "{}: {cause}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl std::error::Error for BackendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}

/// What a backend's methods return.
pub type BackendResult<T> = std::result::Result<T, BackendError>;

/// What a caller of the library sees: operation, path, kind, and the cause if there is one.
///
/// It converts into [`std::io::Error`] and keeps its kind and its text there.
pub struct Error(Box<Context>);

struct Context {
    operation: &'static str,
    path: VfsPathBuf,
    kind: ErrorKind,
    cause: Option<Cause>,
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed, a verb: `open`, `rename`.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The path it failed on.
    pub fn path(&self) -> &VfsPath {
        &self.0.path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { operation, path, kind, cause } = &*self.0;
        write!(f, "{operation} {}: {kind}", path.display())?;
        match cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("operation", &self.0.operation)
            .field("path", &self.0.path)
            .field("kind", &self.0.kind)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind().to_io(), error)
    }
}

impl From<Error> for BackendError {
    /// For a door or layer that calls the public surface from inside a backend.
    fn from(error: Error) -> BackendError {
        BackendError { kind: error.0.kind, cause: error.0.cause.map(|cause| Thin(Box::new(cause))) }
    }
}

/// What the library's public methods return.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_survives_conversion() {
        let path = VfsPath::new(b"a/b").unwrap();
        let error = BackendError::new(ErrorKind::Corrupt, "block 3").at("read", path);
        assert_eq!(error.to_string(), "read /a/b: stored data is damaged: block 3");
        let io: io::Error = error.into();
        assert_eq!(io.kind(), io::ErrorKind::InvalidData);
        assert!(io.to_string().contains("/a/b"));
    }

    #[test]
    fn a_miss_is_small() {
        assert_eq!(size_of::<BackendError>(), 2 * size_of::<usize>());
        assert_eq!(size_of::<BackendResult<usize>>(), 2 * size_of::<usize>());
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
