//! What time it is: the host's clock, or one that the program gives.

use std::sync::OnceLock;
use std::time::Duration;

use crate::metadata::Timestamp;

/// A clock. A target without one (a browser's WebAssembly) has to be given one; until then it is
/// 1970 there, and nothing takes any time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time of day, for the times of files.
    pub now: fn() -> Timestamp,
    /// The time since some moment, which never goes back, for how long something took.
    pub elapsed: fn() -> Duration,
}

static GIVEN: OnceLock<Clock> = OnceLock::new();

impl Clock {
    /// Makes this the clock of the whole process; `false` when there was one given already, which
    /// stays.
    pub fn install(self) -> bool {
        GIVEN.set(self).is_ok()
    }

    #[inline]
    pub(crate) fn current() -> Clock {
        GIVEN.get().copied().unwrap_or(HOST)
    }
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
const HOST: Clock =
    Clock { now: || Timestamp { seconds: 0, nanoseconds: 0 }, elapsed: || Duration::ZERO };

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
const HOST: Clock = {
    use std::time::{Instant, SystemTime};

    fn elapsed() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
    Clock { now: || SystemTime::now().into(), elapsed }
};
