//! One file in memory, and its metadata read without a lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use arc_swap::ArcSwap;

use crate::metadata::MetadataChange;
use crate::metadata::{Device, FileId, FileType, Metadata, Owner, TimeChange, Timestamp};

use super::contents::Body;
use super::dir::Directory;

/// Which node, and which of those that used its slot one after another: a slot whose node is
/// gone is used again, and a stale number must not reach the new node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(super) struct NodeId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl NodeId {
    pub(super) const ROOT: NodeId = NodeId { index: 0, generation: 0 };

    pub(super) fn file_id(self) -> FileId {
        // Index 0 is the root; doors like ids that are not 0.
        FileId((u64::from(self.generation) << 32 | u64::from(self.index)) + 1)
    }
}

/// Name and value of an extended attribute.
type Xattr = (Box<[u8]>, Box<[u8]>);

/// A slot of the slab.
#[derive(Default)]
pub(super) struct Node {
    /// Written only under `guard`, read by anyone.
    facts: Facts,
    /// Orders changes of contents and metadata.
    pub(super) guard: Mutex<()>,
    pub(super) body: ArcSwap<Body>,
    pub(super) directory: Directory,
    pub(super) xattrs: Mutex<Vec<Xattr>>,
}

/// Metadata behind a sequence lock made of atomics: a reader copies the words and starts again
/// if the sequence number was odd or has moved. Readers write nothing.
#[derive(Default)]
struct Facts {
    sequence: AtomicU32,
    generation: AtomicU32,
    kind_and_mode: AtomicU32,
    links: AtomicU32,
    user: AtomicU32,
    group: AtomicU32,
    device: AtomicU64,
    len: AtomicU64,
    allocated: AtomicU64,
    times: [(AtomicU64, AtomicU32); 4],
}

const KINDS: [FileType; 8] = [
    FileType::File,
    FileType::Directory,
    FileType::Symlink,
    FileType::Fifo,
    FileType::Socket,
    FileType::CharDevice,
    FileType::BlockDevice,
    FileType::Whiteout,
];

fn kind_code(kind: FileType) -> u32 {
    KINDS.iter().position(|&known| known == kind).unwrap_or_default() as u32
}

impl Node {
    /// Metadata, if the slot still holds this node.
    #[inline]
    pub(super) fn metadata(&self, id: NodeId) -> Option<Metadata> {
        let facts = &self.facts;
        loop {
            let before = facts.sequence.load(Ordering::Acquire);
            if before & 1 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let kind_and_mode = facts.kind_and_mode.load(Ordering::Relaxed);
            let time = |at: usize| Timestamp {
                seconds: facts.times[at].0.load(Ordering::Relaxed) as i64,
                nanoseconds: facts.times[at].1.load(Ordering::Relaxed),
            };
            let device = facts.device.load(Ordering::Relaxed);
            let metadata = Metadata {
                id: id.file_id(),
                file_type: KINDS[(kind_and_mode >> 16) as usize & 7],
                mode: kind_and_mode & 0o7777,
                links: facts.links.load(Ordering::Relaxed),
                owner: Owner {
                    user: facts.user.load(Ordering::Relaxed),
                    group: facts.group.load(Ordering::Relaxed),
                },
                len: facts.len.load(Ordering::Relaxed),
                allocated: facts.allocated.load(Ordering::Relaxed),
                accessed: time(0),
                modified: time(1),
                changed: time(2),
                created: Some(time(3)),
                device: Device { major: (device >> 32) as u32, minor: device as u32 },
            };
            let generation = facts.generation.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if facts.sequence.load(Ordering::Relaxed) == before {
                return (generation == id.generation).then_some(metadata);
            }
        }
    }

    /// Whether the slot holds this node and it has a name. Sequentially consistent: pairs with
    /// [`set_links`](Self::set_links) in the protocol of open counts.
    pub(super) fn is_linked(&self, id: NodeId) -> bool {
        self.facts.generation.load(Ordering::SeqCst) == id.generation
            && self.facts.links.load(Ordering::SeqCst) > 0
    }

    pub(super) fn links(&self) -> u32 {
        self.facts.links.load(Ordering::SeqCst)
    }

    pub(super) fn generation(&self) -> u32 {
        self.facts.generation.load(Ordering::SeqCst)
    }

    /// Changes the metadata. Callers hold `guard`, or are the only ones to know the node.
    pub(super) fn change(&self, change: impl FnOnce(&mut FactsMut<'_>)) {
        let facts = &self.facts;
        let before = facts.sequence.load(Ordering::Relaxed);
        facts.sequence.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        change(&mut FactsMut(facts));
        facts.sequence.store(before.wrapping_add(2), Ordering::Release);
    }

    /// Fills a free slot: everything is new but the generation.
    pub(super) fn init(&self, kind: FileType, mode: u32, owner: Owner, device: Device) {
        let now = Timestamp::now();
        self.change(|facts| {
            facts.kind(kind, mode);
            facts.0.links.store(1, Ordering::SeqCst);
            facts.0.user.store(owner.user, Ordering::Relaxed);
            facts.0.group.store(owner.group, Ordering::Relaxed);
            let device = u64::from(device.major) << 32 | u64::from(device.minor);
            facts.0.device.store(device, Ordering::Relaxed);
            facts.len(0);
            facts.allocated(0);
            for at in 0..4 {
                facts.time(at, now);
            }
        });
    }

    /// Ends the node: whoever still has its id finds another generation.
    pub(super) fn retire(&self) {
        self.change(|facts| {
            let next = facts.0.generation.load(Ordering::Relaxed).wrapping_add(1);
            facts.0.generation.store(next, Ordering::SeqCst);
        });
    }

    /// Sets the number of names; see [`is_linked`](Self::is_linked).
    pub(super) fn set_links(&self, links: u32) {
        let now = Timestamp::now();
        self.change(|facts| {
            facts.0.links.store(links, Ordering::SeqCst);
            facts.time(CHANGED, now);
        });
    }

    pub(super) fn len(&self) -> u64 {
        self.facts.len.load(Ordering::Relaxed)
    }

    pub(super) fn allocated(&self) -> u64 {
        self.facts.allocated.load(Ordering::Relaxed)
    }

    pub(super) fn apply(&self, change: &MetadataChange) {
        let now = Timestamp::now();
        let pick = |time| match time {
            TimeChange::Now => now,
            TimeChange::At(time) => time,
        };
        self.change(|facts| {
            if let Some(mode) = change.mode {
                let kind = facts.0.kind_and_mode.load(Ordering::Relaxed) & !0xffff;
                facts.0.kind_and_mode.store(kind | (mode & 0o7777), Ordering::Relaxed);
            }
            if let Some(user) = change.user {
                facts.0.user.store(user, Ordering::Relaxed);
            }
            if let Some(group) = change.group {
                facts.0.group.store(group, Ordering::Relaxed);
            }
            if let Some(time) = change.accessed {
                facts.time(ACCESSED, pick(time));
            }
            if let Some(time) = change.modified {
                facts.time(MODIFIED, pick(time));
            }
            facts.time(CHANGED, now);
        });
    }

    /// Contents of a file or directory changed.
    pub(super) fn touch(&self) {
        let now = Timestamp::now();
        self.change(|facts| {
            facts.time(MODIFIED, now);
            facts.time(CHANGED, now);
        });
    }

    /// Only the metadata changed.
    pub(super) fn touch_changed(&self) {
        let now = Timestamp::now();
        self.change(|facts| facts.time(CHANGED, now));
    }
}

const ACCESSED: usize = 0;
pub(super) const MODIFIED: usize = 1;
pub(super) const CHANGED: usize = 2;

/// Facts while they change.
pub(super) struct FactsMut<'a>(&'a Facts);

impl FactsMut<'_> {
    pub(super) fn kind(&mut self, kind: FileType, mode: u32) {
        let packed = kind_code(kind) << 16 | (mode & 0o7777);
        self.0.kind_and_mode.store(packed, Ordering::Relaxed);
    }

    pub(super) fn len(&mut self, len: u64) {
        self.0.len.store(len, Ordering::Relaxed);
    }

    pub(super) fn allocated(&mut self, bytes: u64) {
        self.0.allocated.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn time(&mut self, which: usize, time: Timestamp) {
        self.0.times[which].0.store(time.seconds as u64, Ordering::Relaxed);
        self.0.times[which].1.store(time.nanoseconds, Ordering::Relaxed);
    }
}
