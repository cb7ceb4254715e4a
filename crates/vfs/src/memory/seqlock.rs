//! A version word that lets readers take a consistent copy of several atomics without a lock.
//!
//! Writers exclude one another by other means. A reader writes nothing, so any number of them
//! share the cache line; it repeats when a writer was at work meanwhile.

use super::sync::{AtomicU32, Ordering, fence, spin_loop, yield_now};

/// How often a reader looks again before it lets other threads run: a writer that lost its
/// processor in the middle of a change needs one.
const SPINS: u32 = 64;

/// The version: odd while a writer is at work.
pub(crate) struct Version(AtomicU32);

impl Version {
    pub(crate) fn new() -> Version {
        Version(AtomicU32::new(0))
    }

    /// Runs `read`, which loads the guarded atomics in any order, until it saw them all as one
    /// writer left them. The guarded loads and stores may be relaxed.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl Fn() -> R) -> R {
        let mut spins = 0;
        loop {
            let before = self.0.load(Ordering::Acquire);
            if before & 1 == 0 {
                let result = read();
                fence(Ordering::Acquire);
                if self.0.load(Ordering::Relaxed) == before {
                    return result;
                }
            }
            spins += 1;
            if spins % SPINS == 0 {
                yield_now();
            } else {
                spin_loop();
            }
        }
    }

    /// Runs `write`, which stores to the guarded atomics. The caller excludes other writers.
    #[inline]
    pub(crate) fn write<R>(&self, write: impl FnOnce() -> R) -> R {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let result = write();
        self.0.store(before.wrapping_add(2), Ordering::Release);
        result
    }
}
