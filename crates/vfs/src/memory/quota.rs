//! How much is used, and whether more may be.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::{BackendResult, ErrorKind};
use crate::sharded::{MAX_SHARDS, shard_index};

/// A counter with an optional limit. A limit has to be exact, so it is kept in one shared word;
/// without one, each shard of threads counts for itself.
pub(crate) enum Quota {
    Limited { limit: u64, used: CachePadded<AtomicU64> },
    Free(Box<[CachePadded<AtomicI64>; MAX_SHARDS]>),
}

impl Quota {
    pub(crate) fn new(limit: Option<u64>) -> Quota {
        match limit {
            Some(limit) => Quota::Limited { limit, used: CachePadded::default() },
            None => Quota::Free(Box::new(std::array::from_fn(|_| CachePadded::default()))),
        }
    }

    /// Takes `amount`.
    ///
    /// # Errors
    /// `NoSpace` when that is more than is left; nothing is taken then.
    #[inline]
    pub(crate) fn charge(&self, amount: u64) -> BackendResult<()> {
        match self {
            Quota::Limited { limit, used } => used
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                    used.checked_add(amount).filter(|sum| sum <= limit)
                })
                .map(drop)
                .map_err(|_| ErrorKind::NoSpace.into()),
            Quota::Free(shards) => {
                shards[shard_index()].fetch_add(amount as i64, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Takes `amount`, also where that is more than is left.
    pub(crate) fn take(&self, amount: u64) {
        match self {
            Quota::Limited { used, .. } => {
                used.fetch_add(amount, Ordering::Relaxed);
            }
            Quota::Free(shards) => {
                shards[shard_index()].fetch_add(amount as i64, Ordering::Relaxed);
            }
        }
    }

    /// Gives `amount` back.
    #[inline]
    pub(crate) fn release(&self, amount: u64) {
        match self {
            Quota::Limited { used, .. } => {
                used.fetch_sub(amount, Ordering::Relaxed);
            }
            Quota::Free(shards) => {
                shards[shard_index()].fetch_sub(amount as i64, Ordering::Relaxed);
            }
        }
    }

    /// Changes what one holder has from `old` to `new`.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub(crate) fn change(&self, old: u64, new: u64) -> BackendResult<()> {
        match new.checked_sub(old) {
            Some(0) => Ok(()),
            Some(more) => self.charge(more),
            None => {
                self.release(old - new);
                Ok(())
            }
        }
    }

    /// What is used now.
    pub(crate) fn used(&self) -> u64 {
        match self {
            Quota::Limited { used, .. } => used.load(Ordering::Relaxed),
            Quota::Free(shards) => {
                shards.iter().map(|shard| shard.load(Ordering::Relaxed)).sum::<i64>().max(0) as u64
            }
        }
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        match self {
            Quota::Limited { limit, .. } => Some(*limit),
            Quota::Free(_) => None,
        }
    }
}
