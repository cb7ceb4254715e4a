//! Extended attributes of the entry itself.
//!
//! The host has no call that takes a directory's descriptor and a name, but the directory has a
//! path of its own in `/proc`, and the calls beginning with `l` follow no link at its end.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};

use super::Inner;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::options::XattrMode;
use crate::path::VfsPath;

/// The longest value and name of the contract, which are Linux's own.
const MAX_VALUE_LEN: usize = 65_536;
const MAX_NAME_LEN: usize = 255;

/// Most values and lists fit; larger ones cost one more call.
const FIRST_TRY_LEN: usize = 512;

impl Inner {
    pub(super) fn get_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        let read =
            self.in_proc(path, |path| read_growing(|buf| rustix::fs::lgetxattr(path, name, buf)));
        read.map_err(|errno| match errno {
            // A namespace or file system without attributes has none of this name; a name that
            // is too long or empty is no name of any.
            Errno::OPNOTSUPP | Errno::RANGE => ErrorKind::NoAttribute.into(),
            errno => errno.into(),
        })
    }

    pub(super) fn list_xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        let read = self.in_proc(path, |path| read_growing(|buf| rustix::fs::llistxattr(path, buf)));
        match read {
            Ok(names) => {
                let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
                Ok(names.map(<[u8]>::to_vec).collect())
            }
            Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn put_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        if name.len() > MAX_NAME_LEN || value.len() > MAX_VALUE_LEN {
            // A missing file comes first.
            self.stat(path)?;
            return Err(ErrorKind::TooLarge.into());
        }
        let flags = match mode {
            XattrMode::Set => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        self.in_proc(path, |path| rustix::fs::lsetxattr(path, name, value, flags))
            .map_err(name_error(name))
    }

    pub(super) fn delete_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.in_proc(path, |path| rustix::fs::lremovexattr(path, name)).map_err(|errno| match errno
        {
            Errno::RANGE => ErrorKind::NoAttribute.into(),
            errno => errno.into(),
        })
    }

    /// Calls with a path that this process alone can use, of the entry itself.
    fn in_proc<T>(&self, path: &VfsPath, call: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.in_parent(path, |dir, name| call(&proc_entry(dir, name)))
    }
}

fn proc_entry(dir: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

fn name_error(name: &[u8]) -> impl Fn(Errno) -> BackendError {
    let is_empty = name.is_empty();
    move |errno| match errno {
        Errno::RANGE if is_empty => ErrorKind::InvalidArgument.into(),
        errno => errno.into(),
    }
}

/// Reads into a buffer that grows until the answer, which may change meanwhile, fits.
fn read_growing(mut read: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; FIRST_TRY_LEN];
    loop {
        match read(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < MAX_VALUE_LEN => {
                buffer.resize(buffer.len() * 8, 0);
            }
            Err(errno) => return Err(errno),
        }
    }
}
