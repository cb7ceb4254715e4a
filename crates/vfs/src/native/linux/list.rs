//! Listing directories with a large buffer, without a stat per entry.

use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType as Host, RawDir};
use rustix::io::{Errno, Result};

use super::stat::{self, DeviceId};
use crate::backend::DirEntry;
use crate::metadata::FileType;
use crate::options::Detail;

/// Room for several hundred entries per system call.
const BUFFER_LEN: usize = 32 * 1024;

/// Visits all entries of an open directory.
pub(super) fn visit(
    fd: &OwnedFd,
    root_device: DeviceId,
    detail: Detail,
    visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let device = DeviceId::of(&stat::of(fd.as_fd(), stat::WANTED)?);
    let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
    let mut entries = RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let entry = match detail {
            Detail::Names => {
                let Some(file_type) = type_of(fd, name, entry.file_type())? else { continue };
                let id = device.file_id(root_device, entry.ino());
                visit(DirEntry { name, file_type, id, metadata: None })
            }
            Detail::Metadata => match stat::at(fd.as_fd(), name, stat::WANTED) {
                Ok(stat) => {
                    let known = stat::metadata(&stat, root_device);
                    let (file_type, id) = (known.file_type, known.id);
                    visit(DirEntry { name, file_type, id, metadata: Some(&known) })
                }
                Err(Errno::NOENT) => continue, // gone meanwhile
                Err(errno) => return Err(errno),
            },
        };
        if entry.is_break() {
            break;
        }
    }
    Ok(())
}

/// The listing's own word for the type, with a stat only where that leaves a doubt; `None` when
/// the entry has gone meanwhile.
#[inline]
fn type_of(fd: &OwnedFd, name: &[u8], host: Host) -> Result<Option<FileType>> {
    Ok(Some(match host {
        Host::RegularFile => FileType::File,
        Host::Directory => FileType::Directory,
        Host::Symlink => FileType::Symlink,
        Host::Fifo => FileType::Fifo,
        Host::Socket => FileType::Socket,
        Host::BlockDevice => FileType::BlockDevice,
        // A device or a whiteout; or a file system that keeps no types in directories.
        Host::CharacterDevice | Host::Unknown => match stat::at(fd.as_fd(), name, stat::WANTED) {
            Ok(stat) => stat::file_type(&stat),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        },
    }))
}

pub(super) fn is_empty(fd: &OwnedFd) -> Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}
