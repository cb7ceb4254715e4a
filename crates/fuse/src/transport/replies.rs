//! What the kernel is told.

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use stratafs::{FileType, Metadata, Statfs};

use crate::door::{Door, Found};
use crate::errno::Answer;

use super::Transport;
use super::convert::{encode_device, kind};

/// Cached contents stay when a file is opened again: in a tree of our own they cannot be out
/// of date, in a shared one the kernel compares modification times. Closing need not be told:
/// everything is written through.
pub(super) const OPEN_FILE: FopenFlags =
    FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_NOFLUSH);

/// By the protocol, this number says that nothing has the name.
const NOTHING: u64 = 0;

impl Transport {
    pub(super) fn attributes(&self, number: u64, metadata: &Metadata) -> FileAttr {
        let (user, group) = self.owner.unwrap_or((metadata.owner.user, metadata.owner.group));
        FileAttr {
            ino: INodeNo(number),
            size: metadata.len,
            blocks: metadata.allocated.div_ceil(512),
            atime: metadata.accessed.into(),
            mtime: metadata.modified.into(),
            ctime: metadata.changed.into(),
            crtime: metadata.created.unwrap_or_default().into(),
            kind: kind(metadata.file_type),
            perm: (metadata.mode & 0o7777) as u16,
            nlink: metadata.links,
            uid: user,
            gid: group,
            rdev: encode_device(metadata.device),
            blksize: 4096,
            flags: 0,
        }
    }

    pub(super) fn reply_entry(&self, reply: ReplyEntry, call: impl FnOnce(&Door) -> Answer<Found>) {
        let begun = self.lifetimes.begin();
        match self.ask(call) {
            Ok(found) => {
                let lifetime = match found.node {
                    NOTHING => self.lifetimes.of_nothing(begun),
                    _ => self.lifetimes.of(&found.metadata, begun),
                };
                let attributes = self.attributes(found.node, &found.metadata);
                reply.entry(&lifetime, &attributes, Generation(found.generation));
            }
            Err(error) => reply.error(error),
        }
    }

    /// As [`reply_entry`](Self::reply_entry); a name that is missing is worth remembering too.
    pub(super) fn reply_lookup(
        &self,
        reply: ReplyEntry,
        call: impl FnOnce(&Door) -> Answer<Found>,
    ) {
        let call = |door: &Door| match call(door) {
            Err(rustix::io::Errno::NOENT) => Ok(Found::nothing()),
            answer => answer,
        };
        self.reply_entry(reply, call);
    }

    pub(super) fn reply_attributes(
        &self,
        node: INodeNo,
        reply: ReplyAttr,
        call: impl FnOnce(&Door) -> Answer<Metadata>,
    ) {
        let begun = self.lifetimes.begin();
        match self.ask(call) {
            Ok(metadata) => {
                let lifetime = self.lifetimes.of(&metadata, begun);
                reply.attr(&lifetime, &self.attributes(node.0, &metadata));
            }
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_empty(&self, reply: ReplyEmpty, call: impl FnOnce(&Door) -> Answer<()>) {
        match self.ask(call) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_open(
        &self,
        flags: FopenFlags,
        reply: ReplyOpen,
        call: impl FnOnce(&Door) -> Answer<u64>,
    ) {
        match self.ask(call) {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_written(
        &self,
        reply: ReplyWrite,
        call: impl FnOnce(&Door) -> Answer<usize>,
    ) {
        match self.ask(call) {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_statfs(
        &self,
        reply: ReplyStatfs,
        call: impl FnOnce(&Door) -> Answer<Statfs>,
    ) {
        match self.ask(call) {
            Ok(room) => {
                let unit = room.block_size.max(512);
                let blocks = |bytes: u64| bytes / u64::from(unit);
                reply.statfs(
                    blocks(room.total),
                    blocks(room.free),
                    blocks(room.available),
                    room.files,
                    room.files_free,
                    unit,
                    stratafs::path::MAX_NAME_LEN as u32,
                    unit,
                );
            }
            Err(error) => reply.error(error),
        }
    }

    /// `size` 0 asks for the length.
    pub(super) fn reply_xattr(
        &self,
        size: u32,
        reply: ReplyXattr,
        call: impl FnOnce(&Door) -> Answer<Vec<u8>>,
    ) {
        match self.ask(call) {
            Ok(value) if size == 0 => reply.size(value.len() as u32),
            Ok(value) if value.len() <= size as usize => reply.data(&value),
            Ok(_) => reply.error(Errno::ERANGE),
            Err(error) => reply.error(error),
        }
    }
}

impl Found {
    fn nothing() -> Self {
        Found { node: NOTHING, generation: 0, metadata: Metadata::new(FileType::File, 0) }
    }
}
