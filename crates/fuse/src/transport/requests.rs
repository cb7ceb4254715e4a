//! What the kernel asks.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use stratafs::{NodeKind, RenameMode, Seek, XattrMode};

use crate::door::{AttributeChange, Door, Fallocate, Opening};
use crate::ids::{Cookie, DirHandle, FileHandle as OpenFile};

use super::Transport;
use super::convert::{caller, decode_device, id, kind, time_change};
use super::operations::Operation as Op;

/// The largest read and write in one request; the kernel's own limit by default.
const MAX_WRITE: u32 = 1 << 20;

/// Requests that may wait in the background (reading ahead, writing back).
const MAX_BACKGROUND: u16 = 64;

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
        if !self.lifetimes.are_exclusive() {
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
        self.reply_lookup(Op::Lookup, reply, |door| door.lookup(id(parent), name.as_bytes()));
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.door.forget(id(node), count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let handle = handle.map(|handle| OpenFile(handle.0));
        self.reply_attributes(Op::Getattr, node, reply, |door| door.metadata(id(node), handle));
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
        let handle = handle.map(|handle| OpenFile(handle.0));
        self.reply_attributes(Op::Setattr, node, reply, |door| {
            door.set_metadata(caller(request), id(node), handle, change)
        });
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.ask(Op::Readlink, |door| door.read_link(id(node))) {
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
        self.reply_entry(Op::Mknod, reply, |door| {
            door.make_node(caller(request), id(parent), name.as_bytes(), mode, device)
        });
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
        self.reply_entry(Op::Mkdir, reply, |door| {
            door.create_node(caller(request), id(parent), name.as_bytes(), kind, mode)
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reply_empty(Op::Unlink, reply, |door| door.unlink(id(parent), name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reply_empty(Op::Rmdir, reply, |door| door.remove_dir(id(parent), name.as_bytes()));
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
        self.reply_entry(Op::Symlink, reply, |door| {
            door.create_node(caller(request), id(parent), name.as_bytes(), kind, 0o777)
        });
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
        // Leaving a whiteout behind is for layers, not for programs.
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((id(parent), name.as_bytes()), (id(new_parent), new_name.as_bytes()));
        self.reply_empty(Op::Rename, reply, |door| door.rename(from, to, mode));
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(Op::Link, reply, |door| {
            door.hard_link(id(node), id(parent), name.as_bytes())
        });
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let how = Opening::from_flags(flags.0);
        let flags = self.open_flags();
        self.reply_open(Op::Open, flags, reply, |door| Ok(door.open(id(node), how)?.0));
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
        let begun = self.lifetimes.begin();
        let answer = self.ask(Op::Create, |door| {
            door.create(caller(request), id(parent), name.as_bytes(), mode, how)
        });
        match answer {
            Ok((found, handle)) => reply.created(
                &self.lifetimes.of(&found.metadata, begun),
                &self.attributes(found.node, &found.metadata),
                Generation(0),
                FileHandle(handle.0),
                self.open_flags(),
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
        let answer = self.ask(Op::Read, |door| {
            door.read(OpenFile(handle.0), offset, size as usize, |bytes| {
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
        self.reply_written(Op::Write, reply, |door| {
            door.write(OpenFile(handle.0), offset, data, clear)
        });
    }

    /// Asked for only where an error may come as late as this; see `open_flags`.
    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.reply_empty(Op::Flush, reply, |door| door.flush(OpenFile(handle.0)));
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
        self.reply_empty(Op::Release, reply, |door| door.close(OpenFile(handle.0)));
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.reply_empty(Op::Fsync, reply, |door| door.sync_file(OpenFile(handle.0), data_only));
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // In a tree of our own the kernel may keep listings too: it drops them when a name
        // comes or goes.
        let flags = match self.lifetimes.are_exclusive() {
            true => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::empty(),
        };
        self.reply_open(Op::Opendir, flags, reply, |door| Ok(door.open_dir(id(node)).0));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let begun = self.lifetimes.begin();
        let answer = self.ask(Op::Readdir, |door| {
            door.list(DirHandle(handle.0), Cookie(from), begun, |entry| {
                reply.add(
                    INodeNo(entry.number),
                    entry.cookie.0,
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
        let begun = self.lifetimes.begin();
        let answer = self.ask(Op::Readdirplus, |door| {
            door.list_plus(DirHandle(handle.0), Cookie(from), begun, |entry| {
                let found = entry.entry;
                reply.add(
                    INodeNo(found.node.0),
                    entry.cookie.0,
                    OsStr::from_bytes(entry.name),
                    &self.lifetimes.of(&found.metadata, entry.begun),
                    &self.attributes(found.node, &found.metadata),
                    Generation(0),
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
        self.reply_empty(Op::Releasedir, reply, |door| door.close_dir(DirHandle(handle.0)));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.reply_empty(Op::Fsyncdir, reply, |door| door.sync_dir(id(node)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.reply_statfs(Op::Statfs, reply, Door::statfs);
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
        self.reply_empty(Op::Setxattr, reply, |door| {
            door.set_xattr(id(node), name.as_bytes(), value, mode)
        });
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.reply_xattr(Op::Getxattr, size, reply, |door| door.xattr(id(node), name.as_bytes()));
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.reply_xattr(Op::Listxattr, size, reply, |door| door.xattrs(id(node)));
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reply_empty(Op::Removexattr, reply, |door| {
            door.remove_xattr(id(node), name.as_bytes())
        });
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
        self.reply_empty(Op::Fallocate, reply, |door| {
            let how = Fallocate::from_mode(mode)?;
            door.allocate(caller(request), OpenFile(handle.0), how, offset, len)
        });
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
        match self.ask(Op::Lseek, |door| door.seek(OpenFile(handle.0), offset, what)) {
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
        self.reply_written(Op::CopyFileRange, reply, |door| {
            door.copy((OpenFile(from.0), from_offset), (OpenFile(to.0), to_offset), len)
        });
    }
}
