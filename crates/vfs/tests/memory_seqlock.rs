//! The sequence lock under a model checker: the very file of the memory backend, compiled
//! against loom's atomics. It rests on the order of accesses weaker than sequentially
//! consistent ones, which is what loom explores.

mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU32, Ordering, fence};
    pub use loom::thread::yield_now;
}

#[path = "../src/memory/seqlock.rs"]
mod seqlock;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;
use seqlock::Version;

#[test]
fn a_reader_sees_one_writers_state() {
    loom::model(|| {
        let shared = Arc::new((Version::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (version, a, b) = &*shared;
                version.write(|| {
                    a.store(1, Relaxed);
                    b.store(1, Relaxed);
                });
            })
        };
        let (version, a, b) = &*shared;
        let (a, b) = version.read(|| (a.load(Relaxed), b.load(Relaxed)));
        assert_eq!(a, b);
        writer.join().unwrap();
    });
}
