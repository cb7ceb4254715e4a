//! The `fuser` crate's protocol, translated into calls of the door.
//!
//! `requests.rs` takes what the kernel asks, `replies.rs` says what it is told, `convert.rs`
//! turns one type into another. Nothing else in this crate knows the protocol library.

mod convert;
mod operations;
mod replies;
mod requests;

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, Errno, Session, SessionACL};
use stratafs::Capabilities;
use stratafs::kit::Tally;

use crate::door::Door;
use crate::errno::Answer;
use crate::notify::Notifier;
use crate::options::MountOptions;
use crate::watch::{self, Lifetimes};
use operations::Operation;

pub(crate) use operations::NAMES;

/// Serves a mounted device on threads of its own. When this returns, the kernel and the door
/// have agreed on how to talk.
pub(crate) fn start(
    door: Arc<Door>,
    device: OwnedFd,
    kept: &Arc<OwnedFd>,
    mountpoint: &Path,
    options: &MountOptions,
    tally: Option<Arc<Tally>>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let exclusive = door.is_exclusive();
    let lifetimes = Arc::new(Lifetimes::new(exclusive));
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let transport = Transport {
        owner: (!door.keeps_owners()).then_some(owner),
        door: Arc::clone(&door),
        lifetimes: Arc::clone(&lifetimes),
        tally,
    };
    let mut config = Config::default();
    config.n_threads = Some(options.thread_count(door.capabilities()));
    // Who may come in is the kernel's decision: the mount option says it.
    let session = Session::from_fd(transport, device, SessionACL::All, config)?;
    let (end, reports) = watch::channel();
    let serving = std::thread::Builder::new().name("strata-fuse".to_owned()).spawn(move || {
        let answer = session.run();
        drop(end);
        answer
    })?;
    if !exclusive && door.capabilities().contains(Capabilities::WATCH) {
        // The kernel begins with a root that lets nobody in, and an invalidation voids the
        // attributes that are under way: it must have them before there can be one.
        let _ = mountpoint.metadata();
        watch::start(door, Notifier::new(Arc::clone(kept)), lifetimes, reports)?;
    }
    Ok(serving)
}

struct Transport {
    door: Arc<Door>,
    lifetimes: Arc<Lifetimes>,
    /// Counts requests, if somebody wants to know.
    tally: Option<Arc<Tally>>,
    /// Whose the files are where the backend keeps no owners.
    owner: Option<(u32, u32)>,
}

impl Transport {
    /// Calls the door. Whatever happens in a backend, the kernel gets an answer.
    fn ask<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&Door) -> Answer<T>,
    ) -> Result<T, Errno> {
        watch::serve_for(&self.door);
        let Some(_answering) = self.door.begin() else { return Err(Errno::ENOTCONN) };
        let call = || match catch_unwind(AssertUnwindSafe(|| call(&self.door))) {
            Ok(answer) => answer.map_err(|error| Errno::from_i32(error.raw_os_error())),
            Err(_) => Err(Errno::EIO),
        };
        match &self.tally {
            Some(tally) => tally.time(operation as usize, call),
            None => call(),
        }
    }
}
