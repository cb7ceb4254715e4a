//! Reports of changes, by the crate `notify`.
//!
//! It works by paths, so it gets one that begins at a descriptor: a mount made over the root's
//! path, or a move of the root, does not lead it elsewhere.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, Flag, ModifyKind, RenameMode};
use notify::{Config, INotifyWatcher, RecursiveMode, Watcher};
use rustix::fs::Mode;

use super::root::NODE;
use super::{Inner, attributes, stat};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::path::{VfsPath, VfsPathBuf};
use crate::watch::{WatchEvent, WatchGuard, WatchKind, WatchSink};

pub(super) const SUPPORTED: bool = true;

/// Watches the node that has the name now, with everything below it.
pub(super) fn start(
    inner: &Inner,
    path: &VfsPath,
    sink: Arc<dyn WatchSink>,
) -> BackendResult<WatchGuard> {
    let fd = inner.open_node(path, NODE, Mode::empty())?;
    let mut base = attributes::proc_path(fd.as_fd());
    if stat::file_type(&stat::of(fd.as_fd(), stat::WANTED)?).is_dir() {
        // The link itself is not followed, what lies behind it is.
        base.push_str("/.");
    }
    let ended = Arc::new(AtomicBool::new(false));
    let base = PathBuf::from(base);
    let reports = Reports { sink, ended: Arc::clone(&ended) };
    let (arrivals, arrived) = channel();
    let reporter = Reporter {
        base: base.clone(),
        path: path.to_owned(),
        reports: reports.clone(),
        arrivals,
        _fd: fd,
    };
    let mut watcher =
        INotifyWatcher::new(move |event| reporter.take(event), config()).map_err(refused)?;
    watcher.watch(&base, RecursiveMode::Recursive).map_err(refused)?;
    let watcher = Arc::new(Mutex::new(watcher));
    let weak = Arc::downgrade(&watcher);
    std::thread::Builder::new()
        .name("stratafs-watch".to_owned())
        .spawn(move || report_arrivals(&arrived, &weak, &reports))
        .map_err(|error| BackendError::new(ErrorKind::Io, error))?;
    Ok(WatchGuard::new(Watch { _watcher: watcher, ended }))
}

fn config() -> Config {
    Config::default().with_follow_symlinks(false)
}

/// Tells of each directory that appeared to look into it, once it is watched: what was made in
/// it before is not reported, and whoever looked earlier would miss it. Ends with the watcher.
fn report_arrivals(
    arrived: &Receiver<VfsPathBuf>,
    watcher: &Weak<Mutex<INotifyWatcher>>,
    reports: &Reports,
) {
    for path in arrived {
        let Some(watcher) = watcher.upgrade() else { return };
        // Changes nothing, but is answered only after the watcher has set all its watches.
        let _ = watcher.lock().unwrap_or_else(PoisonError::into_inner).configure(config());
        drop(watcher);
        reports.report(WatchKind::Overflow, path);
    }
}

fn refused(error: notify::Error) -> BackendError {
    let kind = match &error.kind {
        notify::ErrorKind::PathNotFound => ErrorKind::NotFound,
        notify::ErrorKind::MaxFilesWatch => ErrorKind::TooManyOpenFiles,
        notify::ErrorKind::Io(error) => match error.raw_os_error() {
            Some(errno) => BackendError::from(rustix::io::Errno::from_raw_os_error(errno)).kind(),
            None => ErrorKind::Io,
        },
        _ => ErrorKind::Io,
    };
    BackendError::new(kind, error)
}

struct Watch {
    _watcher: Arc<Mutex<INotifyWatcher>>,
    ended: Arc<AtomicBool>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The watcher's thread ends a little later.
        self.ended.store(true, Ordering::Release);
    }
}

#[derive(Clone)]
struct Reports {
    sink: Arc<dyn WatchSink>,
    ended: Arc<AtomicBool>,
}

impl Reports {
    fn report(&self, kind: WatchKind, path: VfsPathBuf) {
        if !self.ended.load(Ordering::Acquire) {
            self.sink.event(WatchEvent { kind, path });
        }
    }
}

struct Reporter {
    base: PathBuf,
    /// What `base` is called in the backend.
    path: VfsPathBuf,
    reports: Reports,
    /// Directories that have appeared.
    arrivals: Sender<VfsPathBuf>,
    /// `base` is its path.
    _fd: OwnedFd,
}

impl Reporter {
    fn take(&self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if event.flag() == Some(Flag::Rescan) => self.report_overflow(),
            Ok(event) => {
                for path in &event.paths {
                    self.report_all(event.kind, path);
                }
            }
            Err(_) => self.report_overflow(),
        }
    }

    fn report_overflow(&self) {
        self.reports.report(WatchKind::Overflow, self.path.clone());
    }

    fn report_all(&self, event: EventKind, at: &Path) {
        let kind = match event {
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                WatchKind::Created
            }
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                WatchKind::Removed
            }
            // Both halves of it have been reported.
            EventKind::Modify(ModifyKind::Name(_)) => return,
            // What was written to a mapping is reported by nothing else.
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => WatchKind::Modified,
            EventKind::Access(_) => return,
            EventKind::Modify(ModifyKind::Metadata(_)) => WatchKind::Metadata,
            EventKind::Modify(_) => WatchKind::Modified,
            EventKind::Any | EventKind::Other => return self.report_overflow(),
        };
        if kind != WatchKind::Removed && is_nameless(at) {
            // It may have been given a name since.
            let directory = at.parent().and_then(|directory| self.in_backend(directory));
            return directory
                .into_iter()
                .for_each(|at| self.reports.report(WatchKind::Overflow, at));
        }
        let Some(path) = self.in_backend(at) else { return };
        self.reports.report(kind, path.clone());
        let arrived = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        if event == EventKind::Create(CreateKind::Folder) || (event == arrived && is_dir(at)) {
            let _ = self.arrivals.send(path); // refused only when the watch has ended
        }
    }

    fn in_backend(&self, path: &Path) -> Option<VfsPathBuf> {
        let rest: &OsStr = path.strip_prefix(&self.base).ok()?.as_os_str();
        Some(self.path.join(VfsPath::new(rest.as_bytes()).ok()?))
    }
}

fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Whether this is what the host calls a temporary file in reports, also after it was given a
/// name: `#` and its number.
fn is_nameless(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let number = name.strip_prefix(b"#").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit));
    number && path.symlink_metadata().is_err()
}
