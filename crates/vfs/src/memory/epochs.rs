//! Looking at contents that another thread may replace meanwhile.
//!
//! What is replaced is freed once no thread that might look at it still does; the crate `sdd`
//! keeps the account, by epochs. Its account of a thread is one of the thread's own variables,
//! and using it after that has been torn down would end the process. A file may well be closed
//! as late as that, by a variable of the thread that holds it.

use std::panic::resume_unwind;
use std::thread;

use sdd::Guard;

/// Torn down before the thread's account is, as it is made after it.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

thread_local! {
    static ALIVE: Alive = {
        drop(Guard::new());
        Alive
    };
}

/// Calls with a guard, while which nothing that is reached through it is freed. On a thread
/// that is being torn down it borrows another thread.
#[inline]
pub(crate) fn guarded<R: Send>(call: impl FnOnce(&Guard) -> R + Send) -> R {
    match ALIVE.try_with(|_| ()) {
        Ok(()) => call(&Guard::new()),
        Err(_) => on_another_thread(call),
    }
}

#[cold]
fn on_another_thread<R: Send>(call: impl FnOnce(&Guard) -> R + Send) -> R {
    let call = || call(&Guard::new());
    thread::scope(|scope| scope.spawn(call).join()).unwrap_or_else(|panic| resume_unwind(panic))
}
