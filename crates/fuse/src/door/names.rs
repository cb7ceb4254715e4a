//! Names: made, removed, moved.

use std::sync::PoisonError;

use rustix::io::Errno;
use stratafs::{Device, NewNode, NodeKind, OpenOptions, Owner, RenameMode, VfsPath};

use crate::errno::{Answer, of};
use crate::handles::OpenFile;

use super::attributes::SET_GROUP_ID;
use super::{Caller, Door, Found};

/// The low bits of a mode that a backend keeps.
const MODE_BITS: u32 = 0o7777;

impl Door {
    /// Owner and mode of something new at `path`: in a set-group-id directory it gets the
    /// directory's group, and a directory also the bit.
    pub(super) fn inherit(
        &self,
        caller: Caller,
        path: &VfsPath,
        mode: u32,
        directory: bool,
    ) -> Answer<(Owner, u32)> {
        let parent = path.parent().unwrap_or(VfsPath::root());
        let parent = self.fs.metadata(parent).map_err(of)?;
        let mode = mode & MODE_BITS;
        if parent.mode & SET_GROUP_ID == 0 {
            return Ok((Owner { user: caller.user, group: caller.group }, mode));
        }
        let owner = Owner { user: caller.user, group: parent.owner.group };
        Ok((owner, if directory { mode | SET_GROUP_ID } else { mode }))
    }

    pub(crate) fn create_node(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        kind: NodeKind<'_>,
        mode: u32,
    ) -> Answer<Found> {
        self.at_name(parent, name, |path| {
            let is_dir = matches!(kind, NodeKind::Directory);
            let (owner, mode) = self.inherit(caller, path, mode, is_dir)?;
            let node = NewNode { kind, mode, owner: Some(owner) };
            let metadata = self.fs.create(path, &node).map_err(of)?;
            Ok(self.enter(parent, name, metadata))
        })
    }

    /// `mknod`: the type is in the mode.
    pub(crate) fn make_node(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
        device: Device,
    ) -> Answer<Found> {
        let kind = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => return self.make_file(caller, parent, name, mode),
            libc::S_IFIFO => NodeKind::Fifo,
            libc::S_IFSOCK => NodeKind::Socket,
            libc::S_IFCHR => NodeKind::CharDevice(device),
            libc::S_IFBLK => NodeKind::BlockDevice(device),
            _ => return Err(Errno::INVAL),
        };
        self.create_node(caller, parent, name, kind, mode)
    }

    fn make_file(&self, caller: Caller, parent: u64, name: &[u8], mode: u32) -> Answer<Found> {
        self.at_name(parent, name, |path| {
            let (owner, mode) = self.inherit(caller, path, mode, false)?;
            let options = OpenOptions::new().write(true).create_new(true).mode(mode).owner(owner);
            let file = self.fs.open(path, &options).map_err(of)?;
            let metadata = file.metadata().map_err(of)?;
            Ok(self.enter(parent, name, metadata))
        })
    }

    pub(crate) fn read_link(&self, node: u64) -> Answer<Vec<u8>> {
        self.at(node, |path| self.fs.read_link(path))
    }

    pub(crate) fn hard_link(&self, node: u64, parent: u64, name: &[u8]) -> Answer<Found> {
        let _names = self.hold_names();
        let to = self.name_path(parent, name)?;
        let from = self.inodes().locate(node).map_err(|_| Errno::NOENT)?;
        self.fs.link(&from.path, &to).map_err(of)?;
        let metadata = self.fs.metadata(&to).map_err(of)?;
        let mut inodes = self.inodes();
        if inodes.last(node).is_some_and(|last| last.id == metadata.id) {
            inodes.link(node, parent, name, &metadata);
            let generation = inodes.generation(node);
            return Ok(Found { node, generation, metadata });
        }
        drop(inodes);
        // The backend made a second file of it: the kernel must be told the truth.
        Ok(self.enter(parent, name, metadata))
    }

    pub(crate) fn unlink(&self, parent: u64, name: &[u8]) -> Answer<()> {
        self.at_name(parent, name, |path| {
            self.fs.remove_file(path).map_err(of)?;
            self.inodes().take_name(parent, name);
            Ok(())
        })
    }

    pub(crate) fn remove_dir(&self, parent: u64, name: &[u8]) -> Answer<()> {
        self.at_name(parent, name, |path| {
            self.fs.remove_dir(path).map_err(of)?;
            self.inodes().take_name(parent, name);
            Ok(())
        })
    }

    pub(crate) fn rename(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        mode: RenameMode,
    ) -> Answer<()> {
        let _names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let from_path = self.name_path(from.0, from.1)?;
        let to_path = self.name_path(to.0, to.1)?;
        let replaced = match mode {
            RenameMode::Replace if from_path != to_path => self.open_replaced(to, &to_path),
            _ => None,
        };
        self.fs.rename(&from_path, &to_path, mode).map_err(of)?;
        let mut inodes = self.inodes();
        replaced.into_iter().for_each(|file| inodes.keep(file));
        match mode {
            RenameMode::Exchange => inodes.exchange(from, to),
            RenameMode::Replace | RenameMode::NoReplace | RenameMode::Whiteout => {
                inodes.rename(from, to);
            }
        }
        Ok(())
    }

    /// A handle on a file that is about to be replaced. Somebody may have looked it up and not
    /// opened it yet; the kernel looks up a name that it lost in between once more, but not a
    /// third time.
    fn open_replaced(&self, (parent, name): (u64, &[u8]), path: &VfsPath) -> Option<OpenFile> {
        let node = {
            let inodes = self.inodes();
            let node = inodes.child((parent, name))?;
            let is_file = inodes.last(node).is_some_and(|last| last.is_file());
            Some(node).filter(|_| is_file && inodes.open_handle(node, true, true).is_none())?
        };
        // For reading alone where it is being executed.
        [true, false].into_iter().find_map(|write| {
            let file = self.fs.open(path, &OpenOptions::new().read(true).write(write)).ok()?;
            Some(OpenFile { node, file, read: true, write })
        })
    }
}
