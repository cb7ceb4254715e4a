//! How much memory a body takes.

use std::sync::{Mutex, PoisonError};

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Runs `work`, and panics if at any moment it held more than `limit` bytes beside what was
/// held before. One at a time, as the count is the process's.
pub fn bounded<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let result = work();
    let held = HEAP.peak_usage().saturating_sub(before);
    drop(guard);
    assert!(held <= limit, "{held} bytes of memory were held, {limit} are allowed");
    result
}
