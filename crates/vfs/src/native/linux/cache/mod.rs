//! What the backend keeps of its directories, and what proves it.
//!
//! Two things are kept, both for a bounded number of directories: a descriptor, so that a name
//! at any depth costs one system call, and (where asked for) which names are in it, so that a
//! name that is not there costs none.
//!
//! Both are proven by watches, set *before* the fact they prove is looked up: one on the
//! directory itself and one on each above it, so that no directory can leave its path
//! unreported. Changes made through this backend are told directly, before the call returns.
//! In any doubt what is kept is dropped and the disk is asked.
//!
//! Readers borrow an immutable snapshot and write nothing that another thread reads. Whoever
//! changes something holds the one lock ([`Keeper`]) and publishes a new snapshot.

mod filter;
mod host;
mod keeper;
mod misses;
mod names;
mod snapshot;
mod watcher;

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;

use self::host::Host;
pub(super) use self::host::is_local;
use self::keeper::Keeper;
use self::misses::Misses;
use self::names::Names;
pub(super) use self::snapshot::Place;
use self::snapshot::Snapshot;
use crate::native::NativeOptions;
use crate::path::VfsPath;

#[derive(Debug)]
pub(super) struct Cache {
    shared: Arc<Shared>,
    misses: Misses,
    /// How many directories are kept at most.
    limit: usize,
    keeps_names: bool,
}

/// What the watching thread needs of the cache.
#[derive(Debug)]
struct Shared {
    snapshot: ArcSwap<Snapshot>,
    /// Apart from the snapshot: the usual question to an override directory ends here.
    root_names: Names,
    keeper: Mutex<Keeper>,
}

impl Cache {
    /// `None` where nothing is to be kept or nothing can be proven.
    pub(super) fn new(
        root: BorrowedFd<'_>,
        options: NativeOptions,
    ) -> std::io::Result<Option<Self>> {
        let host = Host::of(root)?;
        let keeps_names = options.cache_negative && host.reports_names;
        let limit = match options.cache_directories && host.reports_moves {
            true => options.max_directories.unwrap_or_else(host::default_limit),
            false => 0,
        };
        if limit == 0 && !keeps_names {
            return Ok(None);
        }
        let root = root.try_clone_to_owned()?;
        let snapshot = ArcSwap::from_pointee(Snapshot::empty());
        let root_names = Names::new(keeps_names);
        let keeper = Mutex::new(Keeper::new(root, host.mount, limit, keeps_names));
        let shared = Arc::new(Shared { snapshot, root_names, keeper });
        Ok(Some(Cache { shared, misses: Misses::new(), limit, keeps_names }))
    }

    /// Calls with where to look for `name` in `dir`, which may be that it is missing. `root` is
    /// the root's descriptor.
    #[inline]
    pub(super) fn look<T>(
        &self,
        root: BorrowedFd<'_>,
        dir: &VfsPath,
        name: &[u8],
        call: impl FnOnce(Place<'_>) -> T,
    ) -> T {
        let in_root = dir.split_first().map_or(name, |(first, _)| first);
        if self.shared.root_names.exclude(in_root) {
            return call(Place::Missing);
        }
        if dir.is_root() {
            let learnt = self.shared.root_names.is_unknown() && self.learn(dir, 0);
            return call(match learnt && self.shared.root_names.exclude(name) {
                true => Place::Missing,
                false => Place::In(root),
            });
        }
        let snapshot = self.shared.snapshot.load();
        let (place, could_know_more) = snapshot.place_in(dir, name);
        if !could_know_more || !self.learn(dir, snapshot.nodes.len()) {
            return call(place);
        }
        drop(snapshot);
        if self.shared.root_names.exclude(in_root) {
            return call(Place::Missing);
        }
        call(self.shared.snapshot.load().place_in(dir, name).0)
    }

    /// Calls with the directory itself, where it is kept: [`Place::In`] or [`Place::Unknown`].
    #[inline]
    pub(super) fn look_for_dir<T>(&self, dir: &VfsPath, call: impl FnOnce(Place<'_>) -> T) -> T {
        let snapshot = self.shared.snapshot.load();
        match snapshot.place_of(dir) {
            Place::Unknown if self.learn(dir, snapshot.nodes.len()) => {
                drop(snapshot);
                call(self.shared.snapshot.load().place_of(dir))
            }
            place => call(place),
        }
    }

    /// Keeps what could be known of `dir` from now on, if it is asked for often enough; whether
    /// anything is known that was not.
    #[cold]
    fn learn(&self, dir: &VfsPath, kept: usize) -> bool {
        if !self.misses.is_due(dir, kept > 0 && kept >= self.limit) {
            return false;
        }
        let mut keeper = match self.shared.keeper.try_lock() {
            Ok(keeper) => keeper,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody else learns; this call asks the disk.
            Err(TryLockError::WouldBlock) => {
                self.misses.put_off(dir);
                return false;
            }
        };
        let learnt = keeper.learn(&self.shared, dir);
        if learnt {
            self.misses.forget(dir);
        }
        learnt
    }

    /// A name was made through this backend.
    pub(super) fn made(&self, path: &VfsPath) {
        if self.keeps_names {
            // Under the lock, so that a listing that did not see the name yet is not published
            // after this.
            self.shared.keeper().add_names(&self.shared, path);
        }
    }

    /// What was at `path` may not be there any more, or may be closed to this process.
    pub(super) fn moved(&self, path: &VfsPath) {
        // Under the lock, so that no directory that was looked up before the change is
        // published after this.
        self.shared.keeper().forget(&self.shared, path);
    }

    /// Gives all descriptors back.
    #[cold]
    pub(super) fn clear(&self) {
        self.shared.keeper().clear(&self.shared);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The thread holds `shared`, so it must end first; it may be waiting for the lock.
        let watcher = self.shared.keeper().take_watcher();
        drop(watcher);
    }
}

impl Shared {
    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        // A panic leaves the keeper with at worst a watch too many.
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::Mode;

    use super::super::root::PLACE;
    use super::*;

    fn word(cache: &Cache, root: BorrowedFd<'_>, path: &str) -> &'static str {
        let (dir, name) = VfsPath::new(path.as_bytes()).unwrap().split_last().unwrap();
        cache.look(root, dir, name, |place| match place {
            Place::Missing => "missing",
            Place::In(_) => "in",
            Place::Unknown => "unknown",
        })
    }

    #[test]
    fn what_is_asked_for_twice_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let root = rustix::fs::open(dir.path(), PLACE, Mode::empty()).unwrap();
        let Some(cache) = Cache::new(root.as_fd(), NativeOptions::new()).unwrap() else {
            return; // no watches here
        };
        let ask = |path| word(&cache, root.as_fd(), path);
        // The thread may be busy with the reports of watches that ended.
        let becomes = |path, what| {
            (0..1000).any(|_| {
                std::thread::yield_now();
                ask(path) == what
            })
        };
        assert_eq!([ask("none"), ask("none")], ["in"; 2]);
        assert_eq!(ask("a/b/f"), "unknown");
        assert!(becomes("a/b/f", "in"));
        assert_eq!([ask("a/b/f"), ask("a/f")], ["in"; 2], "what is above is kept too");
        assert!(!becomes("a/none/f", "in"));
        for forget in [|cache: &Cache| cache.moved(VfsPath::new(b"a").unwrap()), Cache::clear] {
            forget(&cache);
            assert_eq!(ask("a/b/f"), "unknown");
            assert!(becomes("a/b/f", "in"));
        }
    }

    #[test]
    fn missing_names_are_known_below_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let root = rustix::fs::open(dir.path(), PLACE, Mode::empty()).unwrap();
        for options in [NativeOptions::new(), NativeOptions::new().cache_directories(false)] {
            let options = options.cache_negative(true);
            let Some(cache) = Cache::new(root.as_fd(), options).unwrap() else {
                return; // no watches here
            };
            let ask = |path| word(&cache, root.as_fd(), path);
            assert_eq!([ask("none/x/y"), ask("none/x/y")], ["unknown", "missing"]);
            assert_eq!([ask("none"), ask("a")], ["missing", "in"]);
            if options.cache_directories {
                assert_eq!([ask("a/none/f"), ask("a/none/f")], ["unknown", "missing"]);
                assert_eq!([ask("a/b/f"), ask("a/b/f")], ["unknown", "missing"]);
                cache.made(VfsPath::new(b"a/b/f").unwrap());
                assert_eq!(ask("a/b/f"), "in");
            }
        }
    }
}
