//! The watches, and the thread that reads what they report.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, Result};

use super::super::attributes::proc_path;

/// The directory itself moves or goes.
pub(super) const ITSELF: WatchFlags = WatchFlags::MOVE_SELF.union(WatchFlags::DELETE_SELF);

/// A directory in it goes or is replaced. Needed beside [`ITSELF`] of that directory: the host
/// reports a removal there only when the last descriptor is closed, and we hold one.
pub(super) const DIRECTORIES: WatchFlags = WatchFlags::DELETE.union(WatchFlags::MOVED_TO);

/// A name appears in it.
pub(super) const NEW_NAMES: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO);

/// What the thread tells. Watches are named by their numbers.
pub(super) enum Report {
    /// What was at the watched directory's path may not be there any more.
    Gone(i32),
    /// What had this name in the watched directory may not be there any more.
    ChildGone(i32, Vec<u8>),
    /// A name appeared in the watched directory.
    NewName(i32, Vec<u8>),
    /// The watch is over.
    Ended(i32),
    /// Reports were lost.
    Lost,
    /// There will be no more reports.
    Broken,
}

#[derive(Debug)]
pub(super) struct Watcher {
    inotify: OwnedFd,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread, which hands over reports until the watcher is dropped.
    pub(super) fn start(take: impl Fn(Vec<Report>) + Send + 'static) -> std::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (reads, stops) = (inotify.try_clone()?, stop.try_clone()?);
        let thread = std::thread::Builder::new()
            .name("stratafs-watch".into())
            .stack_size(128 * 1024)
            .spawn(move || run(&reads, &stops, &take))?;
        Ok(Watcher { inotify, stop, thread: Some(thread) })
    }

    /// Watches the directory that `fd` holds, in addition to what it is watched for already.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, what: WatchFlags) -> Result<i32> {
        let flags = what | WatchFlags::MASK_ADD | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.inotify, proc_path(fd), flags)
    }

    /// Ends a watch; reports of it may still come.
    pub(super) fn remove(&self, watch: i32) {
        // It may have ended by itself already.
        let _ = inotify::remove_watch(&self.inotify, watch);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // An eventfd takes eight bytes, and wakes the thread's poll.
        let told = rustix::io::write(&self.stop, &1u64.to_le_bytes()).is_ok();
        if let Some(thread) = self.thread.take()
            && told
        {
            // A thread that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }
}

fn run(inotify: &OwnedFd, stop: &OwnedFd, take: &dyn Fn(Vec<Report>)) {
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(inotify.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return take(vec![Report::Broken]),
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        match read_reports(inotify, &mut buffer) {
            Ok(reports) => take(reports),
            Err(_) => return take(vec![Report::Broken]),
        }
    }
}

/// Reads what is there, up to one buffer full.
fn read_reports(inotify: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    let mut reader = Reader::new(inotify, buffer);
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(reports),
            Err(errno) => return Err(errno),
        };
        let (watch, what) = (event.wd(), event.events());
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            reports.push(Report::Lost);
        }
        if what.intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT) {
            reports.push(Report::Gone(watch));
        }
        if what.contains(ReadFlags::IGNORED) {
            reports.push(Report::Ended(watch));
        }
        if let Some(name) = event.file_name().map(CStr::to_bytes) {
            if what.contains(ReadFlags::MOVED_TO)
                || what.contains(ReadFlags::DELETE | ReadFlags::ISDIR)
            {
                reports.push(Report::ChildGone(watch, name.to_vec()));
            }
            if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                reports.push(Report::NewName(watch, name.to_vec()));
            }
        }
        if reader.is_buffer_empty() {
            return Ok(reports);
        }
    }
}
