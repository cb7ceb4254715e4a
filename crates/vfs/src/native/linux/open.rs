//! Opening and making regular files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Statx, StatxFlags};
use rustix::io::{Errno, Result, retry_on_intr};

use super::file::NativeFile;
use super::root::NODE;
use super::stat::{self, DeviceId};
use super::{Inner, attributes};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::SET_GROUP_ID;
use crate::options::OpenOptions;
use crate::path::VfsPath;

/// How often a file that comes and goes while it is opened to be made is tried again.
const MAX_RACES: usize = 64;

impl Inner {
    pub(super) fn open_file(
        &self,
        path: &VfsPath,
        options: &OpenOptions,
    ) -> BackendResult<(NativeFile, bool)> {
        if !options.is_valid() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if options.temporary {
            return Ok((self.open_temporary(path, options)?, true));
        }
        if options.reference {
            let fd = self.open_at(path, NODE, Mode::empty())?;
            return Ok((handle(fd, self.device, options), false));
        }
        if path.is_root() {
            return Err(match options.create_new {
                true => ErrorKind::AlreadyExists.into(),
                false => ErrorKind::IsADirectory.into(),
            });
        }
        if options.create || options.create_new {
            return self.open_or_make(path, options);
        }
        Ok((self.open_existing(path, options)?, false))
    }

    fn open_existing(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<NativeFile> {
        let fd = self
            .open_at(path, access(options) | truncate(options), Mode::empty())
            .map_err(open_error)?;
        check_regular(fd.as_fd(), options)?;
        Ok(handle(fd, self.device, options))
    }

    /// A file made by this call must get exactly its mode and owner, one that was there must
    /// keep its own, so which of the two happened has to be known: each is tried alone. Which
    /// first decides only what it costs: who writes a file from its beginning mostly makes it,
    /// who appends to one mostly finds it.
    fn open_or_make(
        &self,
        path: &VfsPath,
        options: &OpenOptions,
    ) -> BackendResult<(NativeFile, bool)> {
        let mut make = options.create_new || options.truncate;
        for _ in 0..MAX_RACES {
            let answer = match make {
                true => self.make_file(path, options),
                false => self.open_existing(path, options),
            };
            match answer.as_ref().map_err(BackendError::kind) {
                Err(ErrorKind::AlreadyExists) if make && !options.create_new => make = false,
                Err(ErrorKind::NotFound) if !make => make = true,
                _ => return answer.map(|file| (file, make)),
            }
        }
        Err(ErrorKind::Busy.into())
    }

    fn make_file(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<NativeFile> {
        let flags = access(options) | OFlags::CREATE | OFlags::EXCL;
        let fd = self.open_at(path, flags, Mode::from_raw_mode(options.mode & 0o7777))?;
        self.made(path);
        if let Err(errno) = fit(fd.as_fd(), options, self.inherited(path, options)) {
            // Best effort: somebody may have replaced it already.
            let _ = self.unlink(path, AtFlags::empty());
            return Err(errno.into());
        }
        Ok(handle(fd, self.device, options))
    }

    fn open_temporary(&self, path: &VfsPath, options: &OpenOptions) -> BackendResult<NativeFile> {
        let mut flags = access(options);
        // Told not to follow a link, the kernel would not say that it met one.
        flags.remove(OFlags::NONBLOCK | OFlags::NOFOLLOW);
        let mode = Mode::from_raw_mode(options.mode & 0o7777);
        let fd =
            self.open_at(path, flags | OFlags::TMPFILE, mode).map_err(|errno| match errno {
                // What a file system without temporary files says.
                Errno::ISDIR | Errno::OPNOTSUPP => ErrorKind::Unsupported.into(),
                errno => BackendError::from(errno),
            })?;
        let group = match options.inherit_group {
            true => self.stat(path).ok().and_then(|directory| inherited_group(&directory)),
            false => None,
        };
        fit(fd.as_fd(), options, group)?;
        Ok(handle(fd, self.device, options))
    }

    /// The group that a new file gets of its directory, where it is to get one.
    fn inherited(&self, path: &VfsPath, options: &OpenOptions) -> Option<u32> {
        if !options.inherit_group {
            return None;
        }
        let stat = self.in_parent(path, |dir, _| stat::of(dir, stat::WANTED));
        stat.ok().and_then(|directory| inherited_group(&directory))
    }

    /// Gives a temporary file its name.
    pub(super) fn link_temporary(&self, fd: BorrowedFd<'_>, path: &VfsPath) -> BackendResult<()> {
        if path.is_root() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.in_parent(path, |dir, name| {
            let source = attributes::proc_path(fd);
            let follow = AtFlags::SYMLINK_FOLLOW;
            match rustix::fs::linkat(rustix::fs::CWD, source, dir, name, follow) {
                // Without /proc only a privileged process can name a file by its descriptor.
                Err(Errno::NOENT) => rustix::fs::linkat(fd, c"", dir, name, AtFlags::EMPTY_PATH),
                answer => answer,
            }
        })?;
        self.made(path);
        Ok(())
    }

    /// Opens, or makes: again after an interruption, and once more with the descriptors back
    /// that the cache holds when they are all in use.
    #[inline]
    fn open_at(&self, path: &VfsPath, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let open = || match flags.contains(OFlags::CREATE) {
            true => self.open_new(path, flags, mode),
            false => self.open_node(path, flags, mode),
        };
        match retry_on_intr(open) {
            Err(Errno::MFILE) => {
                self.give_descriptors_back();
                open()
            }
            answer => answer,
        }
    }
}

fn handle(fd: OwnedFd, root_device: DeviceId, options: &OpenOptions) -> NativeFile {
    let writable = options.is_writing();
    NativeFile { fd, root_device, writable, temporary_in: None }
}

/// Opens what a descriptor stands for, whatever name it has: by its name in this process.
pub(super) fn reopen(
    fd: BorrowedFd<'_>,
    root_device: DeviceId,
    options: &OpenOptions,
) -> BackendResult<NativeFile> {
    if !options.is_valid() || *options != options.existing() {
        return Err(ErrorKind::InvalidArgument.into());
    }
    let is = stat::file_type(&stat::of(fd, StatxFlags::TYPE)?);
    if options.reference {
        return Ok(handle(fd.try_clone_to_owned().map_err(from_io)?, root_device, options));
    }
    match is {
        crate::FileType::File => {}
        crate::FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
        crate::FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
        _ => return Err(ErrorKind::InvalidArgument.into()),
    }
    // The last name of this path is a link to be followed.
    let flags = access(options) - OFlags::NOFOLLOW;
    let path = attributes::proc_path(fd);
    let opened = retry_on_intr(|| rustix::fs::open(&*path, flags, Mode::empty()))?;
    Ok(handle(opened, root_device, options))
}

fn from_io(error: std::io::Error) -> BackendError {
    Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
}

/// The group that a directory gives to what is made in it.
pub(super) fn inherited_group(directory: &Statx) -> Option<u32> {
    (u32::from(directory.stx_mode) & SET_GROUP_ID != 0).then_some(directory.stx_gid)
}

/// Without blocking on a FIFO or device, which is then refused.
fn access(options: &OpenOptions) -> OFlags {
    let how = match (options.read, options.is_writing()) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    let append = if options.append { OFlags::APPEND } else { OFlags::empty() };
    how | append | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY
}

fn truncate(options: &OpenOptions) -> OFlags {
    if options.truncate { OFlags::TRUNC } else { OFlags::empty() }
}

fn open_error(errno: Errno) -> BackendError {
    match errno {
        // A socket, a FIFO without a reader, a device without a driver.
        Errno::NXIO | Errno::NODEV => ErrorKind::InvalidArgument.into(),
        errno => errno.into(),
    }
}

/// Refuses what is no regular file.
///
/// Readers are first asked how much there is to read, which directories and most devices do not
/// know: a stat costs four times as much, a fifth of the whole open. Only what has something to
/// read passes by that alone. A FIFO or terminal passes too while somebody has just written to
/// it, but cannot be read at an offset, so the first read refuses it, without taking anything.
fn check_regular(fd: BorrowedFd<'_>, options: &OpenOptions) -> BackendResult<()> {
    if !options.is_writing() && rustix::io::ioctl_fionread(fd).is_ok_and(|len| len > 0) {
        return Ok(());
    }
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(ErrorKind::IsADirectory.into()),
        _ => Err(ErrorKind::InvalidArgument.into()),
    }
}

/// Gives a file that was just made its owner, and its mode where the process's umask took bits
/// of it. The umask itself is the whole process's and never touched.
fn fit(fd: BorrowedFd<'_>, options: &OpenOptions, group: Option<u32>) -> Result<()> {
    if let Some(owner) = options.owner {
        attributes::set_owner(fd, Some(owner.user), Some(group.unwrap_or(owner.group)))?;
    }
    let mode: RawMode = rustix::fs::fstat(fd)?.st_mode & 0o7777;
    if mode != options.mode & 0o7777 {
        rustix::fs::fchmod(fd, Mode::from_raw_mode(options.mode & 0o7777))?;
    }
    Ok(())
}
