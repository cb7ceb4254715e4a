//! The bytes of a file, in one of three forms, and the operations on them.
//!
//! - Nothing: an empty file.
//! - A small value, up to [`SMALL`] bytes without a hole: immutable and shared. A write makes
//!   a new one, so readers take no lock, and one may keep what it has read.
//! - [`Segments`] under a lock whose reading side is spread over the threads, so that readers
//!   do not write one shared cache line. Its writing side is dear in turn, and taken only for
//!   what changes more than bytes. A file that has become large stays so until it is cut to
//!   nothing.
//!
//! Changes are made under the node's lock ([`Changing`]); what they need is charged first, so
//! that a refused change has changed nothing.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use sdd::{Guard, Shared, Tag};

use super::block::{PAGE, Pool};
use super::epochs::guarded;
use super::node::{Changing, Node};
use super::quota::Quota;
use super::segments::Segments;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileType, MetadataChange, Timestamp};
use crate::options::{Allocation, Seek};

/// Up to here contents are one immutable value.
pub(crate) const SMALL: usize = 16 << 10;

/// The longest file: what a signed 64-bit offset reaches.
const MAX_LEN: u64 = i64::MAX as u64;

/// The most that one call reserves on a file system without a quota: somebody must say no
/// before the machine is out of memory.
const MAX_RESERVATION: u64 = 64 << 30;

pub(crate) enum Contents {
    Small(Bytes),
    Large(ShardedLock<Segments>),
}

/// What changes of contents take from and give back to.
pub(crate) struct Storage {
    pub(crate) bytes: Quota,
    pub(crate) pool: Pool,
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    At(u64),
    End,
}

/// What a small value of this length is charged: units of 512 bytes, as metadata counts.
fn small_size(len: usize) -> u64 {
    (len as u64).next_multiple_of(512)
}

impl Node {
    /// The contents, for as long as the guard is kept: what a writer puts in their place
    /// meanwhile does not free them. Taking a guard writes only this thread's own memory.
    #[inline]
    fn contents<'g>(&self, guard: &'g Guard) -> Option<&'g Contents> {
        self.contents.load(Ordering::Acquire, guard).as_ref()
    }

    fn set_contents(&self, new: Contents) {
        self.contents.swap((Some(Shared::new(new)), Tag::None), Ordering::AcqRel);
    }

    /// Copies what there is at `offset`.
    #[inline]
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        guarded(|guard| match self.contents(guard) {
            None => 0,
            Some(Contents::Small(bytes)) => {
                let rest = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
                let rest = rest.unwrap_or_default();
                let count = rest.len().min(buf.len());
                buf[..count].copy_from_slice(&rest[..count]);
                count
            }
            Some(Contents::Large(segments)) => read_locked(segments).read(buf, offset),
        })
    }

    /// The bytes of the range, shared, if that costs no copy.
    pub(crate) fn bytes(&self, range: Range<u64>) -> Option<Bytes> {
        guarded(|guard| match self.contents(guard) {
            None => Some(Bytes::new()),
            Some(Contents::Small(bytes)) => {
                let len = bytes.len() as u64;
                let (start, end) = (range.start.min(len), range.end.min(len));
                Some(bytes.slice(start as usize..end.max(start) as usize))
            }
            Some(Contents::Large(_)) => None,
        })
    }

    /// Finds data or a hole.
    pub(crate) fn seek(&self, offset: u64, what: Seek) -> BackendResult<u64> {
        let found = guarded(|guard| match self.contents(guard) {
            None => None,
            Some(Contents::Small(bytes)) => {
                let len = bytes.len() as u64;
                let found = if what == Seek::Data { offset } else { len };
                (offset < len).then_some(found)
            }
            Some(Contents::Large(segments)) => read_locked(segments).seek(offset, what),
        });
        found.ok_or_else(|| ErrorKind::NoSuchOffset.into())
    }
}

impl Changing<'_> {
    /// Writes all of `buf`.
    pub(crate) fn write(
        &self,
        buf: &[u8],
        position: Position,
        storage: &Storage,
    ) -> BackendResult<()> {
        guarded(|guard| self.write_guarded(buf, position, storage, guard))
    }

    fn write_guarded(
        &self,
        buf: &[u8],
        position: Position,
        storage: &Storage,
        guard: &Guard,
    ) -> BackendResult<()> {
        let contents = self.node.contents(guard);
        let old = match contents {
            None => &[],
            Some(Contents::Small(bytes)) => &bytes[..],
            Some(Contents::Large(segments)) => {
                if let Position::At(offset) = position
                    && read_locked(segments).overwrite(buf, offset)
                {
                    self.touch(Timestamp::now());
                    return Ok(());
                }
                let mut segments = write_locked(segments);
                let range = target(buf, position, segments.len())?;
                storage.bytes.charge(segments.missing(range.clone()))?;
                segments.write(buf, range.start, &storage.pool);
                self.set_contents_size(segments.len(), segments.allocated());
                return Ok(());
            }
        };
        let range = target(buf, position, old.len() as u64)?;
        let leaves_hole = range.start > (old.len().next_multiple_of(PAGE)) as u64;
        if range.end > SMALL as u64 || leaves_hole {
            return self.become_large(old, storage, range.clone(), |segments| {
                segments.write(buf, range.start, &storage.pool);
            });
        }
        let (start, end) = (range.start as usize, range.end as usize);
        let len = old.len().max(end);
        self.charge_small(len, storage)?;
        let mut new = Vec::with_capacity(len);
        new.extend_from_slice(&old[..old.len().min(start)]);
        new.resize(start, 0);
        new.extend_from_slice(buf);
        new.extend_from_slice(old.get(end..).unwrap_or_default());
        self.set_small(new);
        Ok(())
    }

    /// Makes a change of metadata, the length first, which alone can be refused.
    pub(crate) fn change(&self, change: &MetadataChange, storage: &Storage) -> BackendResult<()> {
        if let Some(len) = change.len {
            self.recharge(storage);
            match self.node.file_type() {
                FileType::File => self.set_len(len, storage)?,
                FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
                _ => return Err(ErrorKind::InvalidArgument.into()),
            }
        }
        self.apply(change);
        Ok(())
    }

    /// Cuts, or lengthens by a hole.
    pub(crate) fn set_len(&self, len: u64, storage: &Storage) -> BackendResult<()> {
        if len > MAX_LEN {
            return Err(ErrorKind::FileTooLarge.into());
        }
        if len == 0 {
            self.empty(storage);
            self.set_contents_size(0, 0);
            return Ok(());
        }
        guarded(|guard| self.set_len_guarded(len, storage, guard))
    }

    fn set_len_guarded(&self, len: u64, storage: &Storage, guard: &Guard) -> BackendResult<()> {
        let contents = self.node.contents(guard);
        let old = match contents {
            None => &[],
            Some(Contents::Small(bytes)) => &bytes[..],
            Some(Contents::Large(segments)) => {
                let mut segments = write_locked(segments);
                let before = segments.allocated();
                segments.set_len(len, &storage.pool);
                storage.bytes.release(before - segments.allocated());
                self.set_contents_size(len, segments.allocated());
                return Ok(());
            }
        };
        if len > old.len().next_multiple_of(PAGE) as u64 {
            return self.become_large(old, storage, 0..0, |segments| {
                segments.set_len(len, &storage.pool);
            });
        }
        let len = len as usize;
        self.charge_small(len, storage)?;
        let mut new = Vec::with_capacity(len);
        new.extend_from_slice(&old[..old.len().min(len)]);
        new.resize(len, 0);
        self.set_small(new);
        Ok(())
    }

    /// Reserves or gives back storage.
    pub(crate) fn allocate(
        &self,
        what: Allocation,
        range: Range<u64>,
        storage: &Storage,
    ) -> BackendResult<()> {
        if range.is_empty() {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if range.end > MAX_LEN {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let reserves = matches!(what, Allocation::Reserve | Allocation::ReserveKeepLen);
        let grows = matches!(what, Allocation::Reserve | Allocation::Zero);
        let charged = if reserves { range.clone() } else { 0..0 };
        let change = |segments: &mut Segments| {
            let before = segments.allocated();
            if reserves {
                segments.reserve(range.clone(), &storage.pool);
            } else {
                segments.clear(range.clone(), &storage.pool);
                storage.bytes.release(before - segments.allocated());
            }
            if grows && range.end > segments.len() {
                segments.set_len(range.end, &storage.pool);
            }
        };
        guarded(|guard| match self.node.contents(guard) {
            None => self.become_large(&[], storage, charged, change),
            Some(Contents::Small(bytes)) => self.become_large(bytes, storage, charged, change),
            Some(Contents::Large(segments)) => {
                let mut segments = write_locked(segments);
                let missing = segments.missing(charged);
                if storage.bytes.limit().is_none() && missing > MAX_RESERVATION {
                    return Err(ErrorKind::NoSpace.into());
                }
                storage.bytes.charge(missing)?;
                change(&mut segments);
                self.set_contents_size(segments.len(), segments.allocated());
                Ok(())
            }
        })
    }

    /// Gives back what the contents were charged, which stay: a kernel that removes a file and has
    /// it open nowhere says only later that it has forgotten it.
    pub(crate) fn uncharge(&self, storage: &Storage) {
        if !self.node.uncharged.swap(true, Ordering::Relaxed) {
            storage.bytes.release(self.node.allocated());
        }
    }

    /// Charges them again: somebody uses the file after all.
    pub(crate) fn recharge(&self, storage: &Storage) {
        if self.node.uncharged.swap(false, Ordering::Relaxed) {
            storage.bytes.take(self.node.allocated());
        }
    }

    /// Takes the contents away and gives back what they were charged.
    pub(crate) fn empty(&self, storage: &Storage) {
        if self.node.contents.is_null(Ordering::Relaxed) {
            return;
        }
        guarded(|_| {
            let (contents, _) = self.node.contents.swap((None, Tag::None), Ordering::AcqRel);
            if !self.node.uncharged.swap(false, Ordering::Relaxed) {
                storage.bytes.release(self.node.allocated());
            }
            if let Some(Contents::Large(segments)) = contents.as_deref() {
                // A reader that has them in hand finds them empty.
                let segments = std::mem::replace(&mut *write_locked(segments), Segments::new());
                segments.recycle(&storage.pool);
            }
        });
    }

    /// Gives a node that has none its first, small contents, a symbolic link's target.
    pub(crate) fn set_target(&self, target: &[u8], storage: &Storage) -> BackendResult<()> {
        self.charge_small(target.len(), storage)?;
        guarded(|_| self.set_small(target.to_vec()));
        Ok(())
    }

    fn charge_small(&self, len: usize, storage: &Storage) -> BackendResult<()> {
        storage.bytes.change(self.node.allocated(), small_size(len))
    }

    fn set_small(&self, bytes: Vec<u8>) {
        let len = bytes.len();
        self.node.set_contents(Contents::Small(bytes.into()));
        self.set_contents_size(len as u64, small_size(len));
    }

    /// Changes small contents into segments, and these, with the pages of `needs` charged.
    fn become_large(
        &self,
        old: &[u8],
        storage: &Storage,
        needs: Range<u64>,
        change: impl FnOnce(&mut Segments),
    ) -> BackendResult<()> {
        let mut segments = Segments::new();
        if !old.is_empty() {
            segments.write(old, 0, &storage.pool);
        }
        let missing = segments.missing(needs);
        if storage.bytes.limit().is_none() && missing > MAX_RESERVATION {
            return Err(ErrorKind::NoSpace.into());
        }
        storage.bytes.change(self.node.allocated(), segments.allocated() + missing)?;
        change(&mut segments);
        let (len, allocated) = (segments.len(), segments.allocated());
        self.node.set_contents(Contents::Large(ShardedLock::new(segments)));
        self.set_contents_size(len, allocated);
        Ok(())
    }
}

/// Which bytes of the file a write changes.
fn target(buf: &[u8], position: Position, len: u64) -> BackendResult<Range<u64>> {
    let start = match position {
        Position::At(offset) => offset,
        Position::End => len,
    };
    match start.checked_add(buf.len() as u64) {
        Some(end) if end <= MAX_LEN => Ok(start..end),
        _ => Err(ErrorKind::FileTooLarge.into()),
    }
}

#[inline]
fn read_locked(segments: &ShardedLock<Segments>) -> ShardedLockReadGuard<'_, Segments> {
    segments.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_locked(segments: &ShardedLock<Segments>) -> ShardedLockWriteGuard<'_, Segments> {
    segments.write().unwrap_or_else(PoisonError::into_inner)
}
