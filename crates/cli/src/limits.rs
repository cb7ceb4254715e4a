//! Limits of this process and machine.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files as it may: each file that is open through a mount is
/// open here too. Gives the limit as it was, for processes that are started from here: many
/// programs do not expect a high one.
pub fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where it cannot be raised, it stays as it is.
    let _ =
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before
}

/// Half of the machine's memory, in bytes: what a tmpfs holds by default, too.
pub fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(info.mem_unit.into()) / 2
}
