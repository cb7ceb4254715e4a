//! The host's error numbers as a backend's errors.

use rustix::io::Errno;

use crate::error::{BackendError, ErrorKind};

impl From<Errno> for BackendError {
    fn from(errno: Errno) -> Self {
        match ErrorKind::from_errno(errno.raw_os_error()) {
            // Only the number says which failure of the medium it was.
            ErrorKind::Io => BackendError::new(ErrorKind::Io, std::io::Error::from(errno)),
            kind => kind.into(),
        }
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
