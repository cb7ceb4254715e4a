//! What the kernel is told.

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use stratafs::{Capabilities, Entry, FileType, Metadata, NodeId, Statfs};

use crate::door::Door;
use crate::errno::Answer;

use super::Transport;
use super::convert::{encode_device, id, kind};
use super::operations::Operation;

/// By the protocol, this number says that nothing has the name.
const NOTHING: NodeId = NodeId(0);

impl Transport {
    /// Cached contents stay when a file is opened again: in a tree of our own they cannot be out
    /// of date, in a shared one the kernel compares modification times. Closing is told only where
    /// it may bring an error to light: everything is written through.
    pub(super) fn open_flags(&self) -> FopenFlags {
        let late = self.door.capabilities().contains(Capabilities::LATE_ERRORS);
        let flush = if late { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        FopenFlags::FOPEN_KEEP_CACHE | flush
    }

    pub(super) fn attributes(&self, node: NodeId, metadata: &Metadata) -> FileAttr {
        let (user, group) = self.owner.unwrap_or((metadata.owner.user, metadata.owner.group));
        FileAttr {
            ino: INodeNo(node.0),
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

    pub(super) fn reply_entry(
        &self,
        operation: Operation,
        reply: ReplyEntry,
        call: impl FnOnce(&Door) -> Answer<Entry>,
    ) {
        let begun = self.lifetimes.begin();
        match self.ask(operation, call) {
            Ok(found) => {
                let lifetime = match found.node {
                    NOTHING => self.lifetimes.of_nothing(begun),
                    _ => self.lifetimes.of(&found.metadata, begun),
                };
                let attributes = self.attributes(found.node, &found.metadata);
                reply.entry(&lifetime, &attributes, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    /// As [`reply_entry`](Self::reply_entry); a name that is missing is worth remembering too.
    pub(super) fn reply_lookup(
        &self,
        operation: Operation,
        reply: ReplyEntry,
        call: impl FnOnce(&Door) -> Answer<Entry>,
    ) {
        let call = |door: &Door| match call(door) {
            Err(rustix::io::Errno::NOENT) => Ok(nothing()),
            answer => answer,
        };
        self.reply_entry(operation, reply, call);
    }

    pub(super) fn reply_attributes(
        &self,
        operation: Operation,
        node: INodeNo,
        reply: ReplyAttr,
        call: impl FnOnce(&Door) -> Answer<Metadata>,
    ) {
        let begun = self.lifetimes.begin();
        match self.ask(operation, call) {
            Ok(metadata) => {
                let lifetime = self.lifetimes.of(&metadata, begun);
                reply.attr(&lifetime, &self.attributes(id(node), &metadata));
            }
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_empty(
        &self,
        operation: Operation,
        reply: ReplyEmpty,
        call: impl FnOnce(&Door) -> Answer<()>,
    ) {
        match self.ask(operation, call) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_open(
        &self,
        operation: Operation,
        flags: FopenFlags,
        reply: ReplyOpen,
        call: impl FnOnce(&Door) -> Answer<u64>,
    ) {
        match self.ask(operation, call) {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_written(
        &self,
        operation: Operation,
        reply: ReplyWrite,
        call: impl FnOnce(&Door) -> Answer<usize>,
    ) {
        match self.ask(operation, call) {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(error),
        }
    }

    pub(super) fn reply_statfs(
        &self,
        operation: Operation,
        reply: ReplyStatfs,
        call: impl FnOnce(&Door) -> Answer<Statfs>,
    ) {
        match self.ask(operation, call) {
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
        operation: Operation,
        size: u32,
        reply: ReplyXattr,
        call: impl FnOnce(&Door) -> Answer<Vec<u8>>,
    ) {
        match self.ask(operation, call) {
            Ok(value) if size == 0 => reply.size(value.len() as u32),
            Ok(value) if value.len() <= size as usize => reply.data(&value),
            Ok(_) => reply.error(Errno::ERANGE),
            Err(error) => reply.error(error),
        }
    }
}

fn nothing() -> Entry {
    Entry { node: NOTHING, metadata: Metadata::new(FileType::File, 0), parent: None }
}
