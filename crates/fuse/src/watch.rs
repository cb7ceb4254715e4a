//! Keeps the kernel's caches true while others change the tree.
//!
//! A thread listens to the reports of the tree and makes the kernel ask again for what they
//! concern. While that works the kernel may keep things long; without reports, and for a moment
//! after some were lost, only for a second.
//!
//! Reports of changes that come through this mount and are made by the thread that answers the
//! kernel (memory, overlays) are not needed. Of a host's reports nobody can say who made the
//! change; those mostly say what the kernel knows already.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use stratafs::{ErrorKind, Metadata, Stale, WatchEvent, WatchGuard, WatchKind};

use crate::door::Door;
use crate::notify::Notifier;

/// For trees that change only through the mount.
const EXCLUSIVE: Duration = Duration::from_secs(3600);

/// For trees whose changes are reported. Not longer, since some things are never reported: a
/// write by a name outside the tree, a change on a server that is mounted in it.
const WATCHED: Duration = Duration::from_secs(60);

/// For all others.
const UNWATCHED: Duration = Duration::from_secs(1);

/// How long nothing may be lost before reports are relied on again. By then the kernel has
/// dropped what it was told before the watch stood.
const SETTLE: Duration = UNWATCHED;

/// Reports are gathered for so long: a program at work makes many of the same thing.
const GATHER: Duration = Duration::from_millis(2);

/// How many are gathered at most.
const AT_ONCE: usize = 1000;

/// When to try again where watching failed (for want of inotify watches, say).
const RETRY: Duration = Duration::from_secs(60);

thread_local! {
    /// The door that this thread answers for, by its address.
    static SERVING: Cell<usize> = const { Cell::new(0) };
}

fn address(door: &Door) -> usize {
    std::ptr::from_ref(door).addr()
}

/// The calling thread answers the kernel for this door.
pub(crate) fn serve_for(door: &Door) {
    SERVING.set(address(door));
}

/// How long the kernel may keep what it is told.
#[derive(Debug)]
pub(crate) struct Lifetimes {
    exclusive: bool,
    /// Reports can be relied on.
    watched: AtomicBool,
    /// That nothing has a name can be taken back, even when it is not known which.
    epochs: AtomicBool,
    reports: AtomicU64,
}

impl Lifetimes {
    pub(crate) fn new(exclusive: bool) -> Self {
        Lifetimes {
            exclusive,
            watched: AtomicBool::new(false),
            epochs: AtomicBool::new(false),
            reports: AtomicU64::new(0),
        }
    }

    /// Whether nobody else changes the tree.
    pub(crate) fn are_exclusive(&self) -> bool {
        self.exclusive
    }

    /// To be called before the tree is asked: what was reported since then may have made the
    /// answer untrue.
    pub(crate) fn begin(&self) -> u64 {
        self.reports.load(Ordering::Acquire)
    }

    /// Of what a name leads to and its attributes. A file of several names may be changed by
    /// one that is not known here.
    pub(crate) fn of(&self, metadata: &Metadata, begun: u64) -> Duration {
        self.lifetime(begun, metadata.is_dir() || metadata.links <= 1)
    }

    /// Of the knowledge that nothing has a name.
    pub(crate) fn of_nothing(&self, begun: u64) -> Duration {
        self.lifetime(begun, self.epochs.load(Ordering::Relaxed))
    }

    fn lifetime(&self, begun: u64, can_be_reported: bool) -> Duration {
        if self.exclusive {
            EXCLUSIVE
        } else if can_be_reported
            && self.watched.load(Ordering::Acquire)
            && self.reports.load(Ordering::Acquire) == begun
        {
            WATCHED
        } else {
            UNWATCHED
        }
    }
}

enum Message {
    Report(WatchEvent),
    End,
}

/// Where reports are to go.
pub(crate) struct Reports {
    sender: Sender<Message>,
    messages: Receiver<Message>,
}

/// Ends the thread when dropped.
pub(crate) struct End(Sender<Message>);

impl Drop for End {
    fn drop(&mut self) {
        // It may have ended by itself, or never have been started.
        let _ = self.0.send(Message::End);
    }
}

pub(crate) fn channel() -> (End, Reports) {
    let (sender, messages) = mpsc::channel();
    (End(sender.clone()), Reports { sender, messages })
}

/// Starts the thread. It does not delay the mount: until the watch stands, which on a large
/// tree of the host takes a walk over it, lifetimes are short.
pub(crate) fn start(
    door: Arc<Door>,
    notifier: Notifier,
    lifetimes: Arc<Lifetimes>,
    reports: Reports,
) -> io::Result<()> {
    let Reports { sender, messages } = reports;
    let work = Work { door, notifier, lifetimes, sender };
    let thread = std::thread::Builder::new().name("strata-watch".to_owned());
    thread.spawn(move || work.run(&messages)).map(drop)
}

struct Work {
    door: Arc<Door>,
    notifier: Notifier,
    lifetimes: Arc<Lifetimes>,
    sender: Sender<Message>,
}

impl Work {
    fn run(&self, messages: &Receiver<Message>) {
        self.lifetimes.epochs.store(self.notifier.advance_epoch(), Ordering::Relaxed);
        let mut guard = None;
        let mut settle_at = Some(Instant::now());
        loop {
            let message = match settle_at {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match message {
                Ok(Message::Report(first)) => {
                    std::thread::sleep(GATHER);
                    let mut stale = HashSet::new();
                    for message in
                        iter::once(Message::Report(first)).chain(messages.try_iter().take(AT_ONCE))
                    {
                        let Message::Report(report) = message else { return };
                        if report.kind == WatchKind::Overflow {
                            self.distrust();
                            if report.path.is_root() {
                                // It may have lost what it watches.
                                drop(guard.take());
                            }
                            settle_at = Some(Instant::now() + SETTLE);
                        }
                        stale.extend(self.door.stale(&report));
                    }
                    self.forget(stale);
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if guard.is_none() {
                        match self.watch() {
                            Ok(new) => guard = Some(new),
                            Err(ErrorKind::Unsupported) => return,
                            Err(_) => {
                                settle_at = Some(Instant::now() + RETRY);
                                continue;
                            }
                        }
                    }
                    // What was learnt before now is not for long.
                    self.lifetimes.reports.fetch_add(1, Ordering::AcqRel);
                    self.lifetimes.watched.store(true, Ordering::Release);
                    settle_at = None;
                }
            }
        }
    }

    fn watch(&self) -> Result<WatchGuard, ErrorKind> {
        let (sender, lifetimes) = (self.sender.clone(), Arc::clone(&self.lifetimes));
        let own = address(&self.door);
        let sink = move |report| {
            // A thread that is being torn down answers for no door.
            if SERVING.try_with(Cell::get).unwrap_or(0) != own {
                lifetimes.reports.fetch_add(1, Ordering::AcqRel);
                // Who listened is gone.
                let _ = sender.send(Message::Report(report));
            }
        };
        self.door.watch(Arc::new(sink)).map_err(|error| error.kind())
    }

    fn distrust(&self) {
        if self.lifetimes.watched.swap(false, Ordering::AcqRel) {
            self.notifier.advance_epoch();
        }
    }

    fn forget(&self, stale: HashSet<Stale>) {
        for stale in stale {
            match stale {
                Stale::Entry(parent, name) => self.notifier.expire_entry(parent, &name),
                Stale::Metadata(node) => self.notifier.invalidate_node(node, false),
                Stale::Contents(node) => self.notifier.invalidate_node(node, true),
            }
        }
    }
}
