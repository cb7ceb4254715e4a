//! Names: made, removed, moved.

use rustix::io::Errno;
use stratafs::{Device, Entry, NewNode, NodeId, NodeKind, OpenOptions, Owner, RenameMode};

use crate::errno::{Answer, of};

use super::known::close;
use super::{Caller, Door};

/// The low bits of a mode that a backend keeps.
const MODE_BITS: u32 = 0o7777;

impl Caller {
    fn owner(self) -> Owner {
        Owner { user: self.user, group: self.group }
    }
}

/// How a file begins that a caller makes.
pub(super) fn new_file(caller: Caller, mode: u32) -> OpenOptions {
    OpenOptions::new().mode(mode & MODE_BITS).owner(caller.owner()).inherit_group(true)
}

impl Door {
    pub(crate) fn create_node(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &[u8],
        kind: NodeKind<'_>,
        mode: u32,
    ) -> Answer<Entry> {
        let node = NewNode::new(kind).mode(mode & MODE_BITS).owner(caller.owner());
        let change = self.known.change(parent);
        self.known.add_name(parent, name);
        let entry = self.nodes().create(parent, name, &node.inherit_group(true)).map_err(of)?;
        self.known.made(entry.node, entry.metadata.is_dir());
        close([change], [entry.parent]);
        Ok(entry)
    }

    /// `mknod`: the type is in the mode.
    pub(crate) fn make_node(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &[u8],
        mode: u32,
        device: Device,
    ) -> Answer<Entry> {
        let kind = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => {
                let options = new_file(caller, mode).write(true).create_new(true);
                return Ok(self.made(parent, name, &options)?.entry);
            }
            libc::S_IFIFO => NodeKind::Fifo,
            libc::S_IFSOCK => NodeKind::Socket,
            libc::S_IFCHR => NodeKind::CharDevice(device),
            libc::S_IFBLK => NodeKind::BlockDevice(device),
            _ => return Err(Errno::INVAL),
        };
        self.create_node(caller, parent, name, kind, mode)
    }

    /// Opens a file by name, and makes it where there is none.
    pub(super) fn made(
        &self,
        parent: NodeId,
        name: &[u8],
        options: &OpenOptions,
    ) -> Answer<stratafs::Created> {
        let change = self.known.change(parent);
        self.known.add_name(parent, name);
        let created = self.nodes().create_file(parent, name, options).map_err(of)?;
        if created.made {
            self.known.made(created.entry.node, false);
        }
        close([change], [created.entry.parent]);
        Ok(created)
    }

    pub(crate) fn read_link(&self, node: NodeId) -> Answer<Vec<u8>> {
        self.nodes().read_link(node).map_err(of)
    }

    pub(crate) fn hard_link(&self, node: NodeId, parent: NodeId, name: &[u8]) -> Answer<Entry> {
        let change = self.known.change(parent);
        self.known.add_name(parent, name);
        let entry = self.nodes().link(node, parent, name).map_err(of)?;
        close([change], [entry.parent]);
        Ok(entry)
    }

    pub(crate) fn unlink(&self, parent: NodeId, name: &[u8]) -> Answer<()> {
        let change = self.known.change(parent);
        let after = self.nodes().remove_file(parent, name).map_err(of)?;
        close([change], [after]);
        Ok(())
    }

    pub(crate) fn remove_dir(&self, parent: NodeId, name: &[u8]) -> Answer<()> {
        let change = self.known.change(parent);
        let after = self.nodes().remove_dir(parent, name).map_err(of)?;
        close([change], [after]);
        Ok(())
    }

    pub(crate) fn rename(
        &self,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        mode: RenameMode,
    ) -> Answer<()> {
        let changes = [self.known.change(from.0), self.known.change(to.0)];
        self.known.add_name(to.0, to.1);
        if mode == RenameMode::Exchange {
            self.known.add_name(from.0, from.1);
        }
        let renamed = self.nodes().rename(from, to, mode).map_err(of)?;
        close(changes, renamed.parents);
        // A directory that moved has a new time of change.
        for moved in renamed.moved.into_iter().flatten() {
            drop(self.known.change(moved));
        }
        Ok(())
    }
}
