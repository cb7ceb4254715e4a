//! A running mount.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stratafs::kit::Tally;
use stratafs::{FileSystem, Trace};

use crate::device::{self, MountError};
use crate::door::Door;
use crate::options::{Freshness, MountOptions};
use crate::transport;

/// A tree, shown to the kernel at a directory. Served by threads of this process until
/// somebody unmounts it or this value is dropped, which unmounts it.
pub struct Mount {
    mountpoint: PathBuf,
    device: Arc<OwnedFd>,
    door: Arc<Door>,
    session: Option<JoinHandle<io::Result<()>>>,
    tally: Option<Arc<Tally>>,
    /// Dropping it ends the thread that watches for idleness.
    _idle: Option<Sender<()>>,
}

impl Mount {
    /// Mounts `fs` at a directory. When this returns the mount answers.
    ///
    /// No thread that the backend itself needs may touch a path on the mount, and no backend
    /// may lie under it by path: open such a backend (its root descriptor) before.
    ///
    /// # Errors
    /// See [`MountError`]; nothing is left mounted.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        mountpoint: impl AsRef<Path>,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let door = Arc::new(
            Door::new(fs, options.freshness == Freshness::Exclusive)
                .map_err(MountError::Backend)?,
        );
        let mountpoint = device::resolve(mountpoint.as_ref())?;
        let device = device::mount(&mountpoint, options)?;
        let answer = Self::serve(&door, &mountpoint, device, options);
        if answer.is_err() {
            // The error that led here is the one to tell.
            let _ = device::unmount(&mountpoint, true);
        }
        answer
    }

    fn serve(
        door: &Arc<Door>,
        mountpoint: &Path,
        device: OwnedFd,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let kept = Arc::new(device.try_clone().map_err(MountError::Session)?);
        let tally = options.stats.then(|| Arc::new(Tally::new(transport::NAMES)));
        let counted = tally.clone();
        let session =
            transport::start(Arc::clone(door), device, &kept, mountpoint, options, counted)
                .map_err(MountError::Session)?;
        let idle = match options.idle_timeout {
            None => None,
            Some(timeout) => {
                let (sender, ended) = channel();
                let (door, mountpoint) = (Arc::clone(door), mountpoint.to_owned());
                let device = Arc::clone(&kept);
                std::thread::Builder::new()
                    .name("strata-idle".to_owned())
                    .spawn(move || unmount_when_idle(&door, &device, &mountpoint, timeout, &ended))
                    .map_err(MountError::Session)?;
                Some(sender)
            }
        };
        Ok(Mount {
            mountpoint: mountpoint.to_owned(),
            device: kept,
            door: Arc::clone(door),
            session: Some(session),
            tally,
            _idle: idle,
        })
    }

    /// Where it is mounted: absolute, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What the kernel has asked for so far, where [`MountOptions::stats`] says to count it.
    pub fn requests(&self) -> Option<Trace> {
        self.tally.as_ref().map(|tally| tally.snapshot())
    }

    /// Whether it still is mounted (or, unmounted lazily, still in use).
    pub fn is_mounted(&self) -> bool {
        is_connected(&self.device)
    }

    /// Waits until somebody unmounts it.
    ///
    /// # Errors
    /// [`MountError::Session`] when serving ended for another reason.
    pub fn join(mut self) -> Result<(), MountError> {
        self.wait()
    }

    /// Unmounts it and waits until the kernel's last request is answered.
    ///
    /// # Errors
    /// As [`unmount`](crate::unmount), not lazily; it then stays mounted and served.
    pub fn unmount(&mut self) -> io::Result<()> {
        if self.is_mounted() {
            device::unmount(&self.mountpoint, false)?;
        }
        self.wait().map_err(io::Error::other)
    }

    /// Takes the mount out of the tree and stops serving it, whoever uses it: what is written
    /// already reaches the backend, and every later request on a file that is still open is
    /// answered by "not connected".
    pub fn cut_off(&mut self) {
        if !self.is_mounted() {
            return;
        }
        // Pages that were changed through a mapping. What cannot be written is lost to its
        // user in any case.
        if let Ok(root) = std::fs::File::open(&self.mountpoint) {
            let _ = rustix::fs::syncfs(&root);
        }
        let _ = device::unmount(&self.mountpoint, true);
        self.door.stop();
        self.session = None;
    }

    fn wait(&mut self) -> Result<(), MountError> {
        match self.session.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(MountError::Session(error)),
            Some(Err(_)) => Err(MountError::Session(io::Error::other("a serving thread panicked"))),
        }
    }
}

impl Drop for Mount {
    /// Unmounts. What is in use is detached: it vanishes from the tree at once, and whoever
    /// has files open on it is served until they are closed or the process ends.
    fn drop(&mut self) {
        if self.session.is_none() || !self.is_mounted() {
            return;
        }
        match device::unmount(&self.mountpoint, false) {
            Ok(()) => {
                let _ = self.wait();
            }
            Err(_) => {
                // Nobody is left to tell an error to.
                let _ = device::unmount(&self.mountpoint, true);
            }
        }
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("mountpoint", &self.mountpoint).finish_non_exhaustive()
    }
}

/// The kernel raises an error on the device once the mount is gone.
fn is_connected(device: &OwnedFd) -> bool {
    let mut waiting = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::empty())];
    match poll(&mut waiting, Some(&Timespec::default())) {
        Ok(_) => !waiting[0].revents().contains(PollFlags::ERR),
        Err(_) => true,
    }
}

/// Unmounts after `timeout` without a request, as long as nothing is open. A mount that is
/// somebody's working directory refuses, and the wait begins again.
fn unmount_when_idle(
    door: &Door,
    device: &OwnedFd,
    mountpoint: &Path,
    timeout: Duration,
    ended: &Receiver<()>,
) {
    let tick = (timeout / 4).max(Duration::from_millis(10));
    let mut idle_since = Instant::now();
    while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        if !is_connected(device) {
            return;
        }
        if !door.was_idle() {
            idle_since = Instant::now();
        } else if idle_since.elapsed() >= timeout {
            if device::unmount(mountpoint, false).is_ok() {
                return;
            }
            idle_since = Instant::now();
        }
    }
}
