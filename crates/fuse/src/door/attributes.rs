//! Metadata, extended attributes, room, storage.

use rustix::io::Errno;
use stratafs::{
    Allocation, Metadata, MetadataChange, OpenOptions, Seek, Statfs, TimeChange, XattrMode,
};

use crate::errno::{Answer, of};

use super::{Caller, Door};

const SET_USER_ID: u32 = 0o4000;
pub(super) const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

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

/// The mode without the bits that a change of contents or owner takes away: set-user-id
/// always, set-group-id where it means "run as the group" (the group may execute).
fn without_privilege_bits(mode: u32) -> u32 {
    let cleared = mode & !SET_USER_ID;
    if mode & GROUP_EXECUTE != 0 { cleared & !SET_GROUP_ID } else { cleared }
}

impl Door {
    /// By the handle where there is one, by the name where the node has one, by any handle
    /// open on it, and at last what was known of it.
    pub(crate) fn metadata(&self, node: u64, handle: Option<u64>) -> Answer<Metadata> {
        if let Some(file) = handle.and_then(|handle| self.files.get(handle)) {
            return self.remembered(node, file.file.metadata().map_err(of)?);
        }
        match self.at(node, |path| self.fs.metadata(path)) {
            Ok(metadata) => self.remembered(node, metadata),
            Err(Errno::STALE) => self.nameless_metadata(node),
            Err(error) => Err(error),
        }
    }

    fn remembered(&self, node: u64, metadata: Metadata) -> Answer<Metadata> {
        self.inodes().remember(node, &metadata);
        Ok(metadata)
    }

    fn nameless_metadata(&self, node: u64) -> Answer<Metadata> {
        let (file, last) = {
            let inodes = self.inodes();
            if inodes.locate(node).is_ok() {
                return Err(Errno::STALE); // it has a name, which is gone underneath
            }
            (inodes.open_handle(node, false, false), inodes.last(node))
        };
        match (file, last) {
            (Some(file), _) => self.remembered(node, file.file.metadata().map_err(of)?),
            // A removed file that is held only by its inode: a working directory, `O_PATH`.
            (None, Some(last)) if last.links == 0 => Ok(last),
            _ => Err(Errno::STALE),
        }
    }

    pub(crate) fn set_metadata(
        &self,
        caller: Caller,
        node: u64,
        handle: Option<u64>,
        change: AttributeChange,
    ) -> Answer<Metadata> {
        if let Some(len) = change.len {
            self.set_len(node, handle, len)?;
            if !caller.keeps_privilege_bits() {
                self.clear_privilege_bits(node)?;
            }
        }
        let mut metadata = MetadataChange {
            mode: change.mode,
            user: change.user,
            group: change.group,
            accessed: change.accessed,
            modified: change.modified,
        };
        let owner_changes = change.user.is_some() || change.group.is_some();
        if owner_changes && change.mode.is_none() {
            let now = self.metadata(node, handle)?;
            let cleared = without_privilege_bits(now.mode);
            if !now.is_dir() && cleared != now.mode {
                metadata.mode = Some(cleared);
            }
        }
        if change.len.is_none() || !metadata.is_empty() {
            self.change(node, handle, &metadata)?;
        }
        self.metadata(node, handle)
    }

    fn change(&self, node: u64, handle: Option<u64>, change: &MetadataChange) -> Answer<()> {
        match self.at(node, |path| self.fs.set_metadata(path, change)) {
            Err(Errno::STALE) => {
                let file = match handle.and_then(|handle| self.files.get(handle)) {
                    Some(file) => Some(file),
                    None => self.inodes().open_handle(node, false, false),
                };
                file.ok_or(Errno::STALE)?.file.set_metadata(change).map_err(of)
            }
            answer => answer,
        }
    }

    /// For who may not keep them: takes set-user-id and set-group-id bits away after a change
    /// of contents. The kernel leaves this to the door (`HANDLE_KILLPRIV_V2`).
    pub(crate) fn clear_privilege_bits(&self, node: u64) -> Answer<()> {
        let now = self.metadata(node, None)?;
        let cleared = without_privilege_bits(now.mode);
        if cleared == now.mode || !now.is_file() {
            return Ok(());
        }
        self.change(node, None, &MetadataChange::new().mode(cleared))
    }

    fn set_len(&self, node: u64, handle: Option<u64>, len: u64) -> Answer<()> {
        let given = handle.and_then(|handle| self.files.get(handle)).filter(|file| file.write);
        let open = given.or_else(|| self.inodes().open_handle(node, false, true));
        if let Some(file) = open {
            return file.file.set_len(len).map_err(of);
        }
        // Cutting to nothing on opening spares a layered backend from copying what is cut.
        let options = OpenOptions::new().write(true).truncate(len == 0);
        self.at(node, |path| {
            let file = self.fs.open(path, &options)?;
            if len > 0 { file.set_len(len) } else { Ok(()) }
        })
    }

    pub(crate) fn xattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>> {
        if is_kernel_interpreted(name) {
            return Err(Errno::OPNOTSUPP);
        }
        self.at(node, |path| self.fs.xattr(path, name))
    }

    /// The names, each ended by a NUL byte.
    pub(crate) fn xattrs(&self, node: u64) -> Answer<Vec<u8>> {
        let names = self.at(node, |path| self.fs.xattrs(path))?;
        let mut list = Vec::new();
        for name in names.iter().filter(|name| !is_kernel_interpreted(name)) {
            list.extend_from_slice(name);
            list.push(0);
        }
        Ok(list)
    }

    pub(crate) fn set_xattr(
        &self,
        node: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Answer<()> {
        if is_kernel_interpreted(name) {
            return Err(Errno::OPNOTSUPP);
        }
        self.at(node, |path| self.fs.set_xattr(path, name, value, mode))
    }

    pub(crate) fn remove_xattr(&self, node: u64, name: &[u8]) -> Answer<()> {
        if is_kernel_interpreted(name) {
            return Err(Errno::OPNOTSUPP);
        }
        self.at(node, |path| self.fs.remove_xattr(path, name))
    }

    pub(crate) fn statfs(&self) -> Answer<Statfs> {
        self.fs.statfs().map_err(of)
    }

    pub(crate) fn allocate(
        &self,
        caller: Caller,
        handle: u64,
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

    pub(crate) fn seek(&self, handle: u64, offset: u64, what: Seek) -> Answer<u64> {
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
