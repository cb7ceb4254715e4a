//! Making nodes that are not regular files.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};

use super::open::inherited_group;
use super::root::{NODE, open_step};
use super::{Inner, attributes, list, stat};
use crate::backend::Capabilities;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Device, Metadata, SET_GROUP_ID};
use crate::options::{NewNode, NodeKind};
use crate::path::VfsPath;

impl Inner {
    pub(super) fn create_node(
        &self,
        path: &VfsPath,
        node: &NewNode<'_>,
    ) -> BackendResult<Metadata> {
        if path.is_root() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let whiteouts = self.capabilities.contains(Capabilities::WHITEOUTS);
        let metadata = self.in_parent(path, |dir, name| match node.kind {
            NodeKind::Whiteout if !whiteouts => Err(ErrorKind::Unsupported.into()),
            NodeKind::Whiteout => self.create_whiteout(dir, name),
            _ => self.create_in(dir, name, node),
        });
        // Also after an error: a node that could not be given its owner was there for a moment.
        self.made(path);
        if node.kind == NodeKind::Whiteout {
            self.moved(path);
        }
        metadata
    }

    fn create_in(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        node: &NewNode<'_>,
    ) -> BackendResult<Metadata> {
        let mode = Mode::from_raw_mode(node.mode & 0o7777);
        let special = |kind, device: Device| {
            let device = rustix::fs::makedev(device.major, device.minor);
            rustix::fs::mknodat(dir, name, kind, mode, device)
        };
        match node.kind {
            NodeKind::Directory => rustix::fs::mkdirat(dir, name, mode)?,
            // The host would answer "not found".
            NodeKind::Symlink([]) => return Err(ErrorKind::InvalidArgument.into()),
            NodeKind::Symlink(target) => rustix::fs::symlinkat(target, dir, name)?,
            NodeKind::Fifo => special(FileType::Fifo, Device::default())?,
            NodeKind::Socket => special(FileType::Socket, Device::default())?,
            NodeKind::CharDevice(device) => special(FileType::CharacterDevice, device)?,
            NodeKind::BlockDevice(device) => special(FileType::BlockDevice, device)?,
            NodeKind::Whiteout => make_whiteout(dir, name)?,
        }
        match self.fit_node(dir, name, node) {
            Ok(metadata) => Ok(metadata),
            Err(errno) => {
                let flags = match node.kind {
                    NodeKind::Directory => AtFlags::REMOVEDIR,
                    _ => AtFlags::empty(),
                };
                // Best effort: somebody may have removed or filled it already.
                let _ = rustix::fs::unlinkat(dir, name, flags);
                Err(errno.into())
            }
        }
    }

    /// Gives a new node its owner, and its mode where the umask took bits of it.
    fn fit_node(&self, dir: BorrowedFd<'_>, name: &[u8], node: &NewNode<'_>) -> Result<Metadata> {
        let mut made = stat::metadata(&stat::at(dir, name, stat::WANTED)?, self.device);
        let group = match node.inherit_group {
            true => inherited_group(&stat::of(dir, stat::WANTED)?),
            false => None,
        };
        let bit = if group.is_some() && made.is_dir() { SET_GROUP_ID } else { 0 };
        let mode = node.mode & 0o7777 | bit;
        let wrong_mode = !made.is_symlink() && made.mode != mode;
        if node.owner.is_none() && !wrong_mode {
            return Ok(made);
        }
        let fd = open_step(dir, name, NODE, Mode::empty())?;
        if let Some(owner) = node.owner {
            let group = group.unwrap_or(owner.group);
            attributes::set_owner(fd.as_fd(), Some(owner.user), Some(group))?;
        }
        if !made.is_symlink() {
            attributes::set_mode(fd.as_fd(), mode)?;
        }
        made = stat::metadata(&stat::of(fd.as_fd(), stat::WANTED)?, self.device);
        Ok(made)
    }

    /// Puts a whiteout in the place of whatever has the name. Where something has, the whiteout
    /// is made under a name of its own first, since only a rename replaces in one step.
    fn create_whiteout(&self, dir: BorrowedFd<'_>, name: &[u8]) -> BackendResult<Metadata> {
        match make_whiteout(dir, name) {
            Err(Errno::EXIST) => replace_by_whiteout(dir, name)?,
            done => done?,
        }
        Ok(stat::metadata(&stat::at(dir, name, stat::WANTED)?, self.device))
    }
}

fn make_whiteout(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let mode = Mode::empty();
    rustix::fs::mknodat(dir, name, FileType::CharacterDevice, mode, rustix::fs::makedev(0, 0))
}

fn replace_by_whiteout(dir: BorrowedFd<'_>, name: &[u8]) -> BackendResult<()> {
    let spare = make_spare_whiteout(dir)?;
    let done = match rustix::fs::renameat(dir, &spare[..], dir, name) {
        Err(Errno::ISDIR) => replace_directory(dir, &spare, name),
        answer => answer.map_err(Into::into),
    };
    if done.is_err() {
        let _ = rustix::fs::unlinkat(dir, &spare[..], AtFlags::empty());
    }
    done
}

/// A directory cannot be replaced by a rename, but it can change places.
fn replace_directory(dir: BorrowedFd<'_>, spare: &[u8], name: &[u8]) -> BackendResult<()> {
    // Looked at first, so that a full directory never shows under the other name.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if !list::is_empty(&open_step(dir, name, flags, Mode::empty())?)? {
        return Err(ErrorKind::DirectoryNotEmpty.into());
    }
    let exchange = || rustix::fs::renameat_with(dir, spare, dir, name, RenameFlags::EXCHANGE);
    exchange()?;
    rustix::fs::unlinkat(dir, spare, AtFlags::REMOVEDIR).map_err(|errno| {
        // Somebody made a file in it meanwhile.
        let _ = exchange();
        errno.into()
    })
}

fn make_spare_whiteout(dir: BorrowedFd<'_>) -> Result<Vec<u8>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".stratafs-{process}-{number}").into_bytes();
        match make_whiteout(dir, &name) {
            Err(Errno::EXIST) => {}
            done => return done.map(|()| name),
        }
    }
}
