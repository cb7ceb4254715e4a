//! Metadata, extended attributes, room, storage.

use rustix::io::Errno;
use stratafs::{Allocation, Metadata, MetadataChange, NodeId, Seek, Statfs, TimeChange, XattrMode};

use crate::errno::{Answer, of};
use crate::ids::FileHandle;

use super::{Caller, Door};

/// What `chmod`, `chown`, `truncate` and `utimensat` ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttributeChange {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) len: Option<u64>,
    pub(crate) accessed: Option<TimeChange>,
    pub(crate) modified: Option<TimeChange>,
}

/// The ways to call `fallocate` that can be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallocate {
    pub(crate) what: Allocation,
}

impl Fallocate {
    /// From the system call's mode.
    pub(crate) fn from_mode(mode: i32) -> Answer<Self> {
        let (keep, punch, zero) =
            (libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE);
        let what = match mode {
            0 => Allocation::Reserve,
            mode if mode == keep => Allocation::ReserveKeepLen,
            mode if mode == punch | keep => Allocation::PunchHole,
            mode if mode == zero => Allocation::Zero,
            mode if mode == zero | keep => Allocation::ZeroKeepLen,
            _ => return Err(Errno::OPNOTSUPP),
        };
        Ok(Fallocate { what })
    }
}

impl Door {
    /// By the handle where there is one, else by the number.
    pub(crate) fn metadata(&self, node: NodeId, handle: Option<FileHandle>) -> Answer<Metadata> {
        if let Some(metadata) = self.known.metadata(node) {
            return Ok(metadata);
        }
        match handle.and_then(|handle| self.files.get(handle)) {
            Some(file) => file.file.metadata().map_err(of),
            None => self.nodes().metadata(node).map_err(of),
        }
    }

    pub(crate) fn set_metadata(
        &self,
        caller: Caller,
        node: NodeId,
        handle: Option<FileHandle>,
        change: AttributeChange,
    ) -> Answer<Metadata> {
        let owner_changes = change.user.is_some() || change.group.is_some();
        let cut_by_stranger = change.len.is_some() && !caller.keeps_privilege_bits();
        let metadata = MetadataChange {
            user: change.user,
            group: change.group,
            clear_set_id: change.mode.is_none() && (owner_changes || cut_by_stranger),
            mode: change.mode,
            len: change.len,
            accessed: change.accessed,
            modified: change.modified,
        };
        // A file without a name, and one that may be written though its mode says otherwise.
        let file = handle.and_then(|handle| self.files.get(handle));
        let file = file.filter(|file| file.write || change.len.is_none());
        let under_way = self.known.change(node);
        let answer = match file {
            Some(file) => file.file.set_metadata(&metadata),
            None => self.nodes().set_metadata(node, &metadata),
        };
        drop(under_way);
        answer.map_err(of)
    }

    /// For who may not keep them: takes set-user-id and set-group-id bits away after a change
    /// of contents. The kernel leaves this to the door (`HANDLE_KILLPRIV_V2`).
    pub(crate) fn clear_privilege_bits(&self, node: NodeId) -> Answer<()> {
        let change = MetadataChange::new().clear_set_id();
        let now = self.nodes().metadata(node).map_err(of)?;
        if change.mode_after(now.file_type, now.mode) == now.mode {
            return Ok(());
        }
        self.nodes().set_metadata(node, &change).map(drop).map_err(of)
    }

    pub(crate) fn xattr(&self, node: NodeId, name: &[u8]) -> Answer<Vec<u8>> {
        if is_kernel_interpreted(name) {
            return Err(Errno::OPNOTSUPP);
        }
        if self.known.is_plain(node) {
            return Err(Errno::NODATA);
        }
        self.nodes().xattr(node, name).map_err(of)
    }

    /// The names, each ended by a NUL byte.
    pub(crate) fn xattrs(&self, node: NodeId) -> Answer<Vec<u8>> {
        let names = self.nodes().xattrs(node).map_err(of)?;
        let mut list = Vec::new();
        for name in names.iter().filter(|name| !is_kernel_interpreted(name)) {
            list.extend_from_slice(name);
            list.push(0);
        }
        Ok(list)
    }

    pub(crate) fn set_xattr(
        &self,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Answer<()> {
        if is_kernel_interpreted(name) {
            return Err(Errno::OPNOTSUPP);
        }
        let _change = self.known.change(node);
        self.known.not_plain(node);
        self.nodes().set_xattr(node, name, value, mode).map_err(of)
    }

    pub(crate) fn remove_xattr(&self, node: NodeId, name: &[u8]) -> Answer<()> {
        if is_kernel_interpreted(name) {
            return Err(Errno::OPNOTSUPP);
        }
        let _change = self.known.change(node);
        self.nodes().remove_xattr(node, name).map_err(of)
    }

    pub(crate) fn statfs(&self) -> Answer<Statfs> {
        self.fs.statfs().map_err(of)
    }

    pub(crate) fn allocate(
        &self,
        caller: Caller,
        handle: FileHandle,
        how: Fallocate,
        offset: u64,
        len: u64,
    ) -> Answer<()> {
        let file = self.file(handle)?;
        if !file.write {
            return Err(Errno::BADF);
        }
        let end = offset.checked_add(len).filter(|&end| end <= i64::MAX as u64);
        let end = end.ok_or(Errno::FBIG)?;
        file.file.allocate(how.what, offset..end).map_err(of)?;
        if !caller.keeps_privilege_bits() {
            self.clear_privilege_bits(file.node)?;
        }
        Ok(())
    }

    pub(crate) fn seek(&self, handle: FileHandle, offset: u64, what: Seek) -> Answer<u64> {
        self.file(handle)?.file.seek(offset, what).map_err(of)
    }

    /// Whether the backend keeps owners; where it does not, files belong to who mounted.
    pub(crate) fn keeps_owners(&self) -> bool {
        self.capabilities.contains(stratafs::Capabilities::OWNERS)
    }
}

/// Access control lists would be stored but not enforced: refused, so that nobody relies on
/// them.
fn is_kernel_interpreted(name: &[u8]) -> bool {
    name.starts_with(b"system.")
}
