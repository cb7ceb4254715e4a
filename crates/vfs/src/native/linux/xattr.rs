//! Extended attributes of the entry itself.
//!
//! The host has no call that takes a directory's descriptor and a name, but the directory has a
//! path of its own in `/proc`, and the calls beginning with `l` follow no link at its end.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};

use super::Inner;
use super::attributes::proc_path;
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
        self.in_proc(path, |path| get(path, name))
    }

    pub(super) fn list_xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.in_proc(path, list)
    }

    pub(super) fn put_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        if is_too_large(name, value) {
            // A missing file comes first.
            self.stat(path)?;
        }
        self.in_proc(path, |path| set(path, name, value, mode))
    }

    pub(super) fn delete_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.in_proc(path, |path| remove(path, name))
    }

    /// Calls with a path that this process alone can use, of the entry itself.
    fn in_proc<T>(
        &self,
        path: &VfsPath,
        call: impl FnOnce(&Entry) -> BackendResult<T>,
    ) -> BackendResult<T> {
        self.in_parent(path, |dir, name| {
            call(&Entry { path: proc_entry(dir, name), follow: false })
        })
    }
}

/// A file by a path of this process, whose last name may be a link to the file.
pub(super) struct Entry {
    path: Vec<u8>,
    follow: bool,
}

/// What a descriptor stands for.
pub(super) fn of(fd: BorrowedFd<'_>) -> Entry {
    Entry { path: proc_path(fd).into_bytes(), follow: true }
}

pub(super) fn get(entry: &Entry, name: &[u8]) -> BackendResult<Vec<u8>> {
    let read = read_growing(|buf| match entry.follow {
        true => rustix::fs::getxattr(&*entry.path, name, buf),
        false => rustix::fs::lgetxattr(&*entry.path, name, buf),
    });
    read.map_err(|errno| match errno {
        // A namespace or file system without attributes has none of this name; a name that is
        // too long or empty is no name of any.
        Errno::OPNOTSUPP | Errno::RANGE => ErrorKind::NoAttribute.into(),
        errno => errno.into(),
    })
}

pub(super) fn list(entry: &Entry) -> BackendResult<Vec<Vec<u8>>> {
    let read = read_growing(|buf| match entry.follow {
        true => rustix::fs::listxattr(&*entry.path, buf),
        false => rustix::fs::llistxattr(&*entry.path, buf),
    });
    match read {
        Ok(names) => {
            let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
            Ok(names.map(<[u8]>::to_vec).collect())
        }
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn set(entry: &Entry, name: &[u8], value: &[u8], mode: XattrMode) -> BackendResult<()> {
    if is_too_large(name, value) {
        return Err(ErrorKind::TooLarge.into());
    }
    let flags = match mode {
        XattrMode::Set => XattrFlags::empty(),
        XattrMode::Create => XattrFlags::CREATE,
        XattrMode::Replace => XattrFlags::REPLACE,
    };
    let done = match entry.follow {
        true => rustix::fs::setxattr(&*entry.path, name, value, flags),
        false => rustix::fs::lsetxattr(&*entry.path, name, value, flags),
    };
    done.map_err(name_error(name))
}

pub(super) fn remove(entry: &Entry, name: &[u8]) -> BackendResult<()> {
    let done = match entry.follow {
        true => rustix::fs::removexattr(&*entry.path, name),
        false => rustix::fs::lremovexattr(&*entry.path, name),
    };
    done.map_err(|errno| match errno {
        Errno::RANGE => ErrorKind::NoAttribute.into(),
        errno => errno.into(),
    })
}

fn is_too_large(name: &[u8], value: &[u8]) -> bool {
    name.len() > MAX_NAME_LEN || value.len() > MAX_VALUE_LEN
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
