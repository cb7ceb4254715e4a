//! One file, directory or other node.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, RwLock};

use sdd::AtomicShared;

use super::contents::Contents;
use super::life::Life;
use super::locked;
use super::names::List;
use super::seqlock::Version;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use crate::metadata::{
    Device, FileId, FileType, Metadata, MetadataChange, Owner, SET_GROUP_ID, TimeChange, Timestamp,
};

pub(crate) use crate::nodes::NodeId;

/// Never used twice: the index of a node's cell in the low half, and in the high half which of
/// the nodes that had this cell it is.
impl NodeId {
    /// No node has this.
    pub(crate) const NONE: NodeId = NodeId(0);

    pub(crate) fn new(index: u32, generation: u32) -> NodeId {
        NodeId(u64::from(generation) << 32 | u64::from(index))
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn file_id(self) -> FileId {
        FileId(self.0)
    }
}

const TYPES: [FileType; 8] = [
    FileType::File,
    FileType::Directory,
    FileType::Symlink,
    FileType::Fifo,
    FileType::Socket,
    FileType::CharDevice,
    FileType::BlockDevice,
    FileType::Whiteout,
];

#[inline]
pub(crate) fn type_of_code(code: u32) -> FileType {
    TYPES[code as usize & 7]
}

#[inline]
pub(crate) fn type_code(file_type: FileType) -> u32 {
    match file_type {
        FileType::File => 0,
        FileType::Directory => 1,
        FileType::Symlink => 2,
        FileType::Fifo => 3,
        FileType::Socket => 4,
        FileType::CharDevice => 5,
        FileType::BlockDevice => 6,
        FileType::Whiteout => 7,
    }
}

/// Extended attributes by name.
pub(crate) type Attributes = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// A cell of the slab of nodes. The first cache line is all that an open and a read need, the
/// second is the rest of the metadata.
///
/// The atomics from `type_and_mode` on are guarded by `version`; they are written under
/// `changes`.
#[repr(C, align(64))]
pub(crate) struct Node {
    pub(crate) life: Life,
    version: Version,
    type_and_mode: AtomicU32,
    /// The entry that last gave the node a name; not exact for files with several.
    pub(crate) entry: AtomicU32,
    /// How many extended attributes there are, to answer without a lock that there are none.
    pub(crate) attribute_count: AtomicU32,
    /// The bytes of a file, the target of a symbolic link. Changed under `changes`.
    pub(crate) contents: AtomicShared<Contents>,
    len: AtomicU64,
    allocated: AtomicU64,
    owner: AtomicU64,
    changes: Mutex<()>,

    /// Accessed, modified, changed, created.
    seconds: [AtomicU64; 4],
    nanoseconds: [AtomicU32; 4],
    device: AtomicU64,
    /// The directory that holds this directory. Changed under its lock and the lock of moves.
    pub(crate) parent: AtomicU64,

    pub(crate) attributes: Mutex<Option<Box<Attributes>>>,
    /// The names in a directory.
    pub(crate) list: RwLock<List>,
    /// How many of them are directories.
    pub(crate) subdirectories: AtomicU32,
    /// Nobody but a number keeps it, and its contents are not charged any more. Changed under
    /// `changes`.
    pub(crate) uncharged: AtomicBool,
}

/// Which time of a node.
#[derive(Clone, Copy)]
enum Time {
    Accessed = 0,
    Modified = 1,
    Changed = 2,
    Created = 3,
}

/// What a node is at first.
pub(crate) struct Birth {
    pub(crate) file_type: FileType,
    pub(crate) mode: u32,
    pub(crate) owner: Owner,
    pub(crate) device: Device,
}

impl Node {
    pub(crate) fn empty() -> Node {
        Node {
            life: Life::dead(),
            version: Version::new(),
            type_and_mode: AtomicU32::new(0),
            entry: AtomicU32::new(0),
            attribute_count: AtomicU32::new(0),
            subdirectories: AtomicU32::new(0),
            contents: AtomicShared::null(),
            len: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            changes: Mutex::new(()),
            seconds: std::array::from_fn(|_| AtomicU64::new(0)),
            nanoseconds: std::array::from_fn(|_| AtomicU32::new(0)),
            device: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            attributes: Mutex::new(None),
            list: RwLock::new(List::default()),
            uncharged: AtomicBool::new(false),
        }
    }

    /// A directory's links are its own name, its `.`, and the `..` of each directory in it.
    fn shown_links(&self, links: u32, file_type: FileType) -> u32 {
        match file_type {
            FileType::Directory if links > 0 => 2 + self.subdirectories.load(Ordering::Relaxed),
            _ => links,
        }
    }

    /// The metadata, or `None` when node `id` is gone. Takes no lock and writes nothing.
    #[inline]
    pub(crate) fn metadata(&self, id: NodeId) -> Option<Metadata> {
        self.version.read(|| {
            let state = self.life.state();
            let type_and_mode = self.type_and_mode.load(Ordering::Relaxed);
            let owner = self.owner.load(Ordering::Relaxed);
            let device = self.device.load(Ordering::Relaxed);
            state.is(id.generation()).then(|| Metadata {
                id: id.file_id(),
                file_type: type_of_code(type_and_mode >> 16),
                mode: type_and_mode & 0o7777,
                links: self.shown_links(state.links, type_of_code(type_and_mode >> 16)),
                owner: Owner { user: (owner >> 32) as u32, group: owner as u32 },
                len: self.len(),
                allocated: self.allocated(),
                accessed: self.time(Time::Accessed),
                modified: self.time(Time::Modified),
                changed: self.time(Time::Changed),
                created: Some(self.time(Time::Created)),
                device: Device { major: (device >> 32) as u32, minor: device as u32 },
            })
        })
    }

    /// Owner and mode of something new in this directory, as a set-group-id one has it.
    pub(crate) fn inherit(&self, birth: &mut Birth) {
        if self.type_and_mode.load(Ordering::Relaxed) & SET_GROUP_ID != 0 {
            birth.owner.group = self.owner.load(Ordering::Relaxed) as u32;
            if birth.file_type.is_dir() {
                birth.mode |= SET_GROUP_ID;
            }
        }
    }

    pub(crate) fn file_type(&self) -> FileType {
        type_of_code(self.type_and_mode.load(Ordering::Relaxed) >> 16)
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    #[inline]
    fn time(&self, which: Time) -> Timestamp {
        Timestamp {
            seconds: self.seconds[which as usize].load(Ordering::Relaxed) as i64,
            nanoseconds: self.nanoseconds[which as usize].load(Ordering::Relaxed),
        }
    }

    /// Excludes other changes of contents and metadata.
    #[inline]
    pub(crate) fn lock(&self) -> Changing<'_> {
        Changing { node: self, _alone: locked(&self.changes) }
    }
}

/// A node whose contents and metadata only this thread may change.
pub(crate) struct Changing<'a> {
    pub(crate) node: &'a Node,
    _alone: MutexGuard<'a, ()>,
}

impl Changing<'_> {
    /// Makes a free cell this node; `begin` brings its life to the new state meanwhile.
    pub(crate) fn be_born<R>(&self, birth: &Birth, now: Timestamp, begin: impl FnOnce() -> R) -> R {
        let node = self.node;
        node.entry.store(0, Ordering::Relaxed);
        node.parent.store(0, Ordering::Relaxed);
        node.subdirectories.store(0, Ordering::Relaxed);
        node.version.write(|| {
            let type_and_mode = type_code(birth.file_type) << 16 | birth.mode & 0o7777;
            node.type_and_mode.store(type_and_mode, Ordering::Relaxed);
            self.set_owner(birth.owner);
            let device = u64::from(birth.device.major) << 32 | u64::from(birth.device.minor);
            node.device.store(device, Ordering::Relaxed);
            node.len.store(0, Ordering::Relaxed);
            node.allocated.store(0, Ordering::Relaxed);
            for which in [Time::Accessed, Time::Modified, Time::Changed, Time::Created] {
                self.set_time(which, now);
            }
            begin()
        })
    }

    /// The contents have a new length and take so much storage: they were changed.
    pub(crate) fn set_contents_size(&self, len: u64, allocated: u64) {
        let now = Timestamp::now();
        self.node.version.write(|| {
            self.node.len.store(len, Ordering::Relaxed);
            self.node.allocated.store(allocated, Ordering::Relaxed);
            self.set_time(Time::Modified, now);
            self.set_time(Time::Changed, now);
        });
    }

    /// The names in this directory were changed.
    pub(crate) fn touch(&self, now: Timestamp) {
        self.node.version.write(|| {
            self.set_time(Time::Modified, now);
            self.set_time(Time::Changed, now);
        });
    }

    /// The metadata was changed, `with` that which a reader must see in the same step.
    pub(crate) fn touch_changed<R>(&self, now: Timestamp, with: impl FnOnce() -> R) -> R {
        self.node.version.write(|| {
            self.set_time(Time::Changed, now);
            with()
        })
    }

    /// Makes a change of anything but the length.
    pub(crate) fn apply(&self, change: &MetadataChange) {
        let now = Timestamp::now();
        let when = |time| match time {
            TimeChange::Now => now,
            TimeChange::At(time) => time,
        };
        let node = self.node;
        node.version.write(|| {
            let type_and_mode = node.type_and_mode.load(Ordering::Relaxed);
            let mode = change.mode_after(type_of_code(type_and_mode >> 16), type_and_mode & 0o7777);
            node.type_and_mode.store(type_and_mode & !0xffff | mode, Ordering::Relaxed);
            let owner = node.owner.load(Ordering::Relaxed);
            self.set_owner(Owner {
                user: change.user.unwrap_or((owner >> 32) as u32),
                group: change.group.unwrap_or(owner as u32),
            });
            if let Some(time) = change.accessed {
                self.set_time(Time::Accessed, when(time));
            }
            if let Some(time) = change.modified {
                self.set_time(Time::Modified, when(time));
            }
            self.set_time(Time::Changed, now);
        });
    }

    fn set_owner(&self, owner: Owner) {
        let packed = u64::from(owner.user) << 32 | u64::from(owner.group);
        self.node.owner.store(packed, Ordering::Relaxed);
    }

    fn set_time(&self, which: Time, time: Timestamp) {
        self.node.seconds[which as usize].store(time.seconds as u64, Ordering::Relaxed);
        self.node.nanoseconds[which as usize].store(time.nanoseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn what_an_open_needs_is_one_cache_line() {
        assert_eq!(size_of::<Node>() % 64, 0);
        if size_of::<usize>() == 8 {
            assert!(size_of::<Node>() <= 192);
            assert!(offset_of!(Node, owner) + 8 <= 64);
            assert!(offset_of!(Node, device) + 8 <= 128);
        }
    }
}
