//! The atomics of the lock-free parts, in one place so that their tests can put a model
//! checker's in.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;
