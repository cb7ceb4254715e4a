//! Error kinds as error numbers and back: the one table, for every door and backend.
//!
//! The numbers are Linux's, which WASI-like hosts and most doors of ours speak. One kind has one
//! number; several numbers may mean one kind.

use crate::error::ErrorKind;

/// Numbers that kinds are told as. `asm-generic/errno-base.h` and `errno.h` of the Linux kernel.
macro_rules! numbers {
    ($($kind:ident => $number:literal),+ $(,)?) => {
        impl ErrorKind {
            /// The error number that a program is told, as Linux numbers them.
            pub const fn errno(self) -> i32 {
                match self {
                    $(ErrorKind::$kind => $number),+
                }
            }
        }
    };
}

numbers! {
    NotFound => 2,
    NotADirectory => 20,
    IsADirectory => 21,
    AlreadyExists => 17,
    DirectoryNotEmpty => 39,
    PermissionDenied => 13,
    OperationNotPermitted => 1,
    ReadOnly => 30,
    InvalidPath => 22,
    InvalidArgument => 22,
    NameTooLong => 36,
    SymlinkInPath => 40,
    SymlinkLoop => 40,
    Escapes => 18,
    CrossesMounts => 18,
    Busy => 16,
    NoSpace => 28,
    QuotaExceeded => 122,
    FileTooLarge => 27,
    TooManyOpenFiles => 24,
    TooManyLinks => 31,
    NoAttribute => 61,
    TooLarge => 34,
    BadHandle => 9,
    NoSuchOffset => 6,
    Unsupported => 95,
    Corrupt => 5,
    WrongKey => 13,
    UnknownFormat => 5,
    Interrupted => 4,
    WouldBlock => 11,
    OutOfMemory => 12,
    TextBusy => 26,
    Stale => 116,
    Conflict => 16,
    Io => 5,
}

impl ErrorKind {
    /// What a number of Linux means when nothing more is known of the call. `ELOOP` is read as a
    /// symbolic link that was met, since a backend follows none. A number that stands for no kind
    /// is [`Io`](ErrorKind::Io).
    pub const fn from_errno(number: i32) -> ErrorKind {
        match number {
            2 => ErrorKind::NotFound,
            20 => ErrorKind::NotADirectory,
            21 => ErrorKind::IsADirectory,
            17 => ErrorKind::AlreadyExists,
            39 => ErrorKind::DirectoryNotEmpty,
            13 => ErrorKind::PermissionDenied,
            1 => ErrorKind::OperationNotPermitted,
            30 => ErrorKind::ReadOnly,
            22 | 29 => ErrorKind::InvalidArgument,
            36 => ErrorKind::NameTooLong,
            40 => ErrorKind::SymlinkInPath,
            18 => ErrorKind::CrossesMounts,
            16 => ErrorKind::Busy,
            28 => ErrorKind::NoSpace,
            122 => ErrorKind::QuotaExceeded,
            27 | 75 => ErrorKind::FileTooLarge,
            23 | 24 => ErrorKind::TooManyOpenFiles,
            31 => ErrorKind::TooManyLinks,
            61 => ErrorKind::NoAttribute,
            7 | 34 => ErrorKind::TooLarge,
            9 => ErrorKind::BadHandle,
            6 | 19 => ErrorKind::NoSuchOffset,
            38 | 95 => ErrorKind::Unsupported,
            4 => ErrorKind::Interrupted,
            11 => ErrorKind::WouldBlock,
            12 => ErrorKind::OutOfMemory,
            26 => ErrorKind::TextBusy,
            116 => ErrorKind::Stale,
            _ => ErrorKind::Io,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn the_numbers_are_the_hosts() {
        for (kind, errno) in [
            (ErrorKind::NotFound, Errno::NOENT),
            (ErrorKind::DirectoryNotEmpty, Errno::NOTEMPTY),
            (ErrorKind::NameTooLong, Errno::NAMETOOLONG),
            (ErrorKind::SymlinkInPath, Errno::LOOP),
            (ErrorKind::QuotaExceeded, Errno::DQUOT),
            (ErrorKind::NoAttribute, Errno::NODATA),
            (ErrorKind::Unsupported, Errno::OPNOTSUPP),
            (ErrorKind::Stale, Errno::STALE),
            (ErrorKind::TextBusy, Errno::TXTBSY),
            (ErrorKind::TooManyLinks, Errno::MLINK),
        ] {
            assert_eq!(kind.errno(), errno.raw_os_error(), "{kind:?}");
            assert_eq!(ErrorKind::from_errno(errno.raw_os_error()), kind);
        }
    }
}
