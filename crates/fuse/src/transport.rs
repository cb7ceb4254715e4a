//! The `fuser` crate's protocol types, translated into calls of the door.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, Session,
    SessionACL, TimeOrNow, WriteFlags,
};
use stratafs::{
    Capabilities, Device, FileType, Metadata, NodeKind, RenameMode, Seek, TimeChange, Timestamp,
    XattrMode,
};

use crate::door::{AttributeChange, Caller, Door, Fallocate, Found, Opening};
use crate::errno::Answer;
use crate::options::{Freshness, MountOptions};

/// The largest read and write in one request; the kernel's own limit by default.
const MAX_WRITE: u32 = 1 << 20;

/// Requests that may wait in the background (reading ahead, writing back).
const MAX_BACKGROUND: u16 = 64;

/// Serves a mounted device on threads of its own. When this returns, the kernel and the door
/// have agreed on how to talk.
pub(crate) fn start(
    door: Arc<Door>,
    device: OwnedFd,
    options: &MountOptions,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let freshness = match door.capabilities().contains(Capabilities::IMMUTABLE) {
        true => Freshness::Exclusive,
        false => options.freshness,
    };
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let transport = Transport { owner: (!door.keeps_owners()).then_some(owner), door, freshness };
    let mut config = Config::default();
    config.n_threads = Some(options.thread_count());
    // Who may come in is the kernel's decision: the mount option says it.
    let session = Session::from_fd(transport, device, SessionACL::All, config)?;
    std::thread::Builder::new().name("strata-fuse".to_owned()).spawn(move || session.run())
}

struct Transport {
    door: Arc<Door>,
    freshness: Freshness,
    /// Whose the files are where the backend keeps no owners.
    owner: Option<(u32, u32)>,
}

impl Transport {
    /// Calls the door. Whatever happens in a backend, the kernel gets an answer.
    fn ask<T>(&self, call: impl FnOnce(&Door) -> Answer<T>) -> Result<T, Errno> {
        self.door.touch();
        if self.door.is_stopped() {
            return Err(Errno::ENOTCONN);
        }
        match catch_unwind(AssertUnwindSafe(|| call(&self.door))) {
            Ok(answer) => answer.map_err(|error| Errno::from_i32(error.raw_os_error())),
            Err(_) => Err(Errno::EIO),
        }
    }

    fn lifetime(&self) -> Duration {
        self.freshness.lifetime()
    }

    fn attributes(&self, number: u64, metadata: &Metadata) -> FileAttr {
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

    fn reply_entry(&self, answer: Result<Found, Errno>, reply: ReplyEntry) {
        match answer {
            Ok(found) => {
                let attributes = self.attributes(found.node, &found.metadata);
                reply.entry(&self.lifetime(), &attributes, Generation(found.generation));
            }
            Err(error) => reply.error(error),
        }
    }

    fn reply_attributes(&self, node: INodeNo, answer: Result<Metadata, Errno>, reply: ReplyAttr) {
        match answer {
            Ok(metadata) => reply.attr(&self.lifetime(), &self.attributes(node.0, &metadata)),
            Err(error) => reply.error(error),
        }
    }

    /// Cached contents stay when a file is opened again: in a tree of our own they cannot be
    /// out of date, in a shared one the kernel compares modification times. Closing need not
    /// be told: everything is written through.
    fn open_flags() -> FopenFlags {
        FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH
    }
}

fn reply_empty(answer: Result<(), Errno>, reply: ReplyEmpty) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// `size` 0 asks for the length.
fn reply_xattr(answer: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match answer {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() <= size as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(error),
    }
}

fn caller(request: &Request) -> Caller {
    Caller { user: request.uid(), group: request.gid() }
}

fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::File => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharDevice | FileType::Whiteout => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
    }
}

/// The kernel's 32-bit form of a device number.
fn encode_device(device: Device) -> u32 {
    (device.minor & 0xff) | (device.major << 8) | ((device.minor & !0xff) << 12)
}

fn decode_device(number: u32) -> Device {
    Device { major: (number >> 8) & 0xfff, minor: (number & 0xff) | ((number >> 12) & 0xfff00) }
}

fn time_change(time: TimeOrNow) -> TimeChange {
    match time {
        TimeOrNow::SpecificTime(time) => TimeChange::At(timestamp(time)),
        TimeOrNow::Now => TimeChange::Now,
    }
}

/// The protocol library subtracts the nanoseconds of a time before 1970, which count forwards:
/// put right here.
fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => time.into(),
        Err(before) => {
            let distance = before.duration();
            Timestamp {
                seconds: -(distance.as_secs() as i64),
                nanoseconds: distance.subsec_nanos(),
            }
        }
    }
}

impl Filesystem for Transport {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Not ATOMIC_O_TRUNC: it cuts the file before the kernel has seen that a program runs
        // from it, and kills that program.
        let mut wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_ASYNC_DIO;
        if self.freshness == Freshness::Shared {
            wanted |= InitFlags::FUSE_AUTO_INVAL_DATA;
        }
        // What an older kernel lacks is an optimisation, save for one: without
        // HANDLE_KILLPRIV_V2 the kernel does that work itself.
        let both = wanted & config.capabilities();
        config.add_capabilities(both).map_err(|_| io::ErrorKind::Unsupported)?;
        // The nearest values that are possible serve as well.
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.ask(|door| door.lookup(parent.0, name.as_bytes())) {
            Err(error) if error.code() == libc::ENOENT => {
                // Number 0 says "nothing here", and may be kept as long as anything else.
                let nothing = self.attributes(0, &Metadata::new(FileType::File, 0));
                reply.entry(&self.lifetime(), &nothing, Generation(0));
            }
            answer => self.reply_entry(answer, reply),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.door.forget(node.0, count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let handle = handle.map(|handle| handle.0);
        self.reply_attributes(node, self.ask(|door| door.metadata(node.0, handle)), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        len: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = AttributeChange {
            mode: mode.map(|mode| mode & 0o7777),
            user,
            group,
            len,
            accessed: accessed.map(time_change),
            modified: modified.map(time_change),
        };
        let handle = handle.map(|handle| handle.0);
        let answer = self.ask(|door| door.set_metadata(caller(request), node.0, handle, change));
        self.reply_attributes(node, answer, reply);
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.ask(|door| door.read_link(node.0)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let device = decode_device(device);
        let answer = self
            .ask(|door| door.make_node(caller(request), parent.0, name.as_bytes(), mode, device));
        self.reply_entry(answer, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let kind = NodeKind::Directory;
        let answer = self
            .ask(|door| door.create_node(caller(request), parent.0, name.as_bytes(), kind, mode));
        self.reply_entry(answer, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.ask(|door| door.unlink(parent.0, name.as_bytes())), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.ask(|door| door.remove_dir(parent.0, name.as_bytes())), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let kind = NodeKind::Symlink(target.as_os_str().as_bytes());
        let answer = self
            .ask(|door| door.create_node(caller(request), parent.0, name.as_bytes(), kind, 0o777));
        self.reply_entry(answer, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        // A whiteout is a layer's own business: no tree shows one, so none can be asked for.
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        reply_empty(self.ask(|door| door.rename(from, to, mode)), reply);
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let answer = self.ask(|door| door.hard_link(node.0, parent.0, name.as_bytes()));
        self.reply_entry(answer, reply);
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let how = Opening::from_flags(flags.0);
        match self.ask(|door| door.open(node.0, how)) {
            Ok(handle) => reply.opened(FileHandle(handle), Self::open_flags()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let how = Opening::from_flags(flags);
        let answer =
            self.ask(|door| door.create(caller(request), parent.0, name.as_bytes(), mode, how));
        match answer {
            Ok((found, handle)) => reply.created(
                &self.lifetime(),
                &self.attributes(found.node, &found.metadata),
                Generation(found.generation),
                FileHandle(handle),
                Self::open_flags(),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // The reply is sent from where the bytes are; it comes back only when nothing was.
        let mut unsent = Some(reply);
        let answer = self.ask(|door| {
            door.read(handle.0, offset, size as usize, |bytes| {
                if let Some(reply) = unsent.take() {
                    reply.data(bytes);
                }
            })
        });
        if let (Err(error), Some(reply)) = (answer, unsent) {
            reply.error(error);
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let clear = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.ask(|door| door.write(handle.0, offset, data, clear)) {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let answer = self.ask(|door| {
            door.close(handle.0);
            Ok(())
        });
        reply_empty(answer, reply);
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.ask(|door| door.sync_file(handle.0, data_only)), reply);
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // In a tree of our own the kernel may keep listings too: it drops them when a name
        // comes or goes.
        let flags = match self.freshness {
            Freshness::Exclusive => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
            Freshness::Shared => FopenFlags::empty(),
        };
        match self.ask(|door| door.open_dir(node.0)) {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let answer = self.ask(|door| {
            door.list(handle.0, from, |entry| {
                reply.add(
                    INodeNo(entry.number),
                    entry.cookie,
                    kind(entry.file_type),
                    OsStr::from_bytes(entry.name),
                )
            })
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let lifetime = self.lifetime();
        let answer = self.ask(|door| {
            door.list_plus(handle.0, from, |entry| {
                let found = entry.found;
                reply.add(
                    INodeNo(found.node),
                    entry.cookie,
                    OsStr::from_bytes(entry.name),
                    &lifetime,
                    &self.attributes(found.node, &found.metadata),
                    Generation(found.generation),
                )
            })
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let answer = self.ask(|door| {
            door.close_dir(handle.0);
            Ok(())
        });
        reply_empty(answer, reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.ask(Door::sync_dir), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.ask(Door::statfs) {
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

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let answer = self.ask(|door| door.set_xattr(node.0, name.as_bytes(), value, mode));
        reply_empty(answer, reply);
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_xattr(self.ask(|door| door.xattr(node.0, name.as_bytes())), size, reply);
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        reply_xattr(self.ask(|door| door.xattrs(node.0)), size, reply);
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.ask(|door| door.remove_xattr(node.0, name.as_bytes())), reply);
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let answer = self.ask(|door| {
            let how = Fallocate::from_mode(mode)?;
            door.allocate(caller(request), handle.0, how, offset, len)
        });
        reply_empty(answer, reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.ask(|door| door.seek(handle.0, offset, what)) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let answer = self.ask(|door| door.copy((from.0, from_offset), (to.0, to_offset), len));
        match answer {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_kernels_form() {
        for (major, minor) in [(0, 0), (1, 3), (8, 255), (259, 256), (4095, 0xfffff)] {
            let device = Device { major, minor };
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
