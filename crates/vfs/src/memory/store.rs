//! Nodes and names together: lookups, and the nodes' beginning and end.

use std::sync::{Mutex, PoisonError, RwLockReadGuard, RwLockWriteGuard};

use super::MemoryOptions;
use super::block::Pool;
use super::contents::Storage;
use super::epochs::guarded;
use super::life::{AddLink, Dropped};
use super::locked;
use super::names::{Found, List, Name, Names};
use super::node::{Birth, Changing, Node, NodeId};
use super::quota::Quota;
use super::slab::{Chunked, Slab};
use super::sync::{AtomicU32, Ordering};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Device, FileType, Metadata, MetadataChange, Owner, Statfs, Timestamp};
use crate::path::{VfsPath, VfsPathBuf};
use crate::sharded::{MAX_SHARDS, shard_index};
use crate::watch::{WatchKind, Watches};

/// What a file system without a quota says that it can hold: more than any machine can, and
/// little enough that nobody's sums overflow.
const UNLIMITED_BYTES: u64 = 1 << 50;

/// How often to look whether contents that were taken away can be freed until they are, where
/// no thread is reading any.
const EPOCHS: usize = 8;

/// What a whole file system holds.
pub(crate) struct Store {
    pub(crate) names: Names,
    nodes: Slab<Node>,
    /// Open handles on each node, for each shard of threads, and the counts of its number; see
    /// `life.rs`.
    handles: Box<[Chunked<AtomicU32>; MAX_SHARDS + 1]>,
    /// Held while a node moves between directories, so that the tree keeps its shape meanwhile.
    pub(crate) moves: Mutex<()>,
    files: Quota,
    pub(crate) storage: Storage,
    pub(crate) watches: Watches,
}

/// What an operation is about: a name in a directory, however that is said.
#[derive(Clone, Copy)]
pub(crate) enum Way<'p> {
    Path(&'p VfsPath),
    Name(NodeId, &'p [u8]),
}

impl Way<'_> {
    /// The root has no name.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Way::Path(path) if path.is_root())
    }
}

/// One name of one directory.
pub(crate) struct Place<'p> {
    pub(crate) directory: NodeId,
    pub(crate) name: Name<'p>,
}

/// What an operation on a file is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'p> {
    Path(&'p VfsPath),
    Node(NodeId),
}

/// The shard of handles that counts who knows a node by its number. A count is given back from
/// any thread, so there is one for all.
const NUMBERS: usize = MAX_SHARDS;

/// A counted handle on a node; whoever has it gives it back by [`Store::close`].
#[derive(Clone, Copy)]
pub(crate) struct Hold {
    pub(crate) node: NodeId,
    shard: u32,
}

/// How a new node begins.
pub(crate) enum Beginning {
    /// With one name, which the caller gives it.
    Named,
    /// With one name and a handle.
    NamedAndHeld,
    /// With a handle, and no name yet.
    Held,
}

impl Store {
    pub(crate) fn new(options: &MemoryOptions) -> Store {
        let mut store = Store {
            names: Names::new(),
            nodes: Slab::new(Node::empty),
            handles: Box::new(std::array::from_fn(|_| Chunked::new(|| AtomicU32::new(0)))),
            moves: Mutex::new(()),
            files: Quota::new(None),
            storage: Storage {
                bytes: Quota::new(options.quota_bytes),
                pool: Pool::new(options.recycled_bytes),
            },
            watches: Watches::default(),
        };
        let birth = Birth {
            file_type: FileType::Directory,
            mode: 0o755,
            owner: Owner::default(),
            device: Device::default(),
        };
        let root = store.new_node(&birth, &Beginning::Named, Timestamp::now());
        debug_assert!(root.is_ok_and(|root| root.node == NodeId::ROOT));
        // The root counts for nothing.
        store.files = Quota::new(options.quota_files);
        store
    }

    // Lookups

    /// The directory that holds the last name of the path, and that name, which is empty for
    /// the root.
    #[inline]
    pub(crate) fn locate<'p>(&self, path: &'p VfsPath) -> BackendResult<(NodeId, Name<'p>)> {
        let mut directory = NodeId::ROOT;
        let mut rest = path.as_bytes();
        while let Some(slash) = memchr::memchr(b'/', rest) {
            let found = self.names.find(directory, &Name::new(&rest[..slash]));
            directory = as_directory(found.ok_or(ErrorKind::NotFound)?)?;
            rest = &rest[slash + 1..];
        }
        Ok((directory, Name::new(rest)))
    }

    /// As [`locate`](Self::locate), for either way to say it.
    #[inline]
    pub(crate) fn place<'p>(&self, way: Way<'p>) -> BackendResult<Place<'p>> {
        match way {
            Way::Path(path) => {
                let (directory, name) = self.locate(path)?;
                Ok(Place { directory, name })
            }
            Way::Name(directory, name) => {
                if name.len() > crate::path::MAX_NAME_LEN {
                    return Err(ErrorKind::NameTooLong.into());
                }
                let node = self.known(directory)?;
                match node.file_type().is_dir() {
                    true => Ok(Place { directory, name: Name::new(name) }),
                    false => Err(ErrorKind::NotADirectory.into()),
                }
            }
        }
    }

    /// What has the name; `None` when nothing has.
    #[inline]
    pub(crate) fn find_at(&self, way: Way<'_>) -> BackendResult<Option<Found>> {
        match way {
            Way::Path(path) => self.find(path),
            Way::Name(..) => {
                let place = self.place(way)?;
                Ok(self.names.find(place.directory, &place.name))
            }
        }
    }

    /// A node by a number that somebody knows.
    #[inline]
    pub(crate) fn known(&self, id: NodeId) -> BackendResult<&Node> {
        let index = id.index();
        if index == 0 || index >= self.nodes.end() {
            return Err(ErrorKind::Stale.into());
        }
        let node = self.node(id);
        match node.life.state().is(id.generation()) {
            true => Ok(node),
            false => Err(ErrorKind::Stale.into()),
        }
    }

    /// What the path names; `None` when the last name is missing.
    #[inline]
    pub(crate) fn find(&self, path: &VfsPath) -> BackendResult<Option<Found>> {
        if path.is_root() {
            return Ok(Some(Found {
                entry: 0,
                node: NodeId::ROOT,
                file_type: FileType::Directory,
            }));
        }
        let (directory, name) = self.locate(path)?;
        Ok(self.names.find(directory, &name))
    }

    /// What the path names.
    #[inline]
    pub(crate) fn existing(&self, path: &VfsPath) -> BackendResult<Found> {
        match self.find(path)? {
            Some(found) => Ok(found),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Calls with the node, again while `call` finds that it is gone, which it says by `None`:
    /// then the name was taken away or given to another between the two. A number that is gone
    /// was not known.
    #[inline]
    pub(crate) fn with_node<R>(
        &self,
        subject: Subject<'_>,
        mut call: impl FnMut(NodeId, &Node) -> Option<R>,
    ) -> BackendResult<R> {
        let path = match subject {
            Subject::Path(path) => path,
            Subject::Node(id) => {
                return call(id, self.known(id)?).ok_or_else(|| ErrorKind::Stale.into());
            }
        };
        loop {
            let id = self.existing(path)?.node;
            if let Some(result) = call(id, self.node(id)) {
                return Ok(result);
            }
        }
    }

    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.index())
    }

    pub(crate) fn read_link(&self, subject: Subject<'_>) -> BackendResult<Vec<u8>> {
        self.with_node(subject, |id, node| {
            let target = match node.file_type() {
                FileType::Symlink => Ok(node.bytes(0..u64::MAX).map_or_else(Vec::new, Vec::from)),
                _ => Err(ErrorKind::InvalidArgument.into()),
            };
            // Looked at last, so that all of it was this node's.
            node.life.state().is(id.generation()).then_some(target)
        })?
    }

    pub(crate) fn set_metadata(
        &self,
        subject: Subject<'_>,
        change: &MetadataChange,
    ) -> BackendResult<Metadata> {
        let answer = self.with_node(subject, |id, node| {
            let changing = node.lock();
            // Under the lock, because freeing takes it too.
            if !node.life.state().is(id.generation()) {
                return None;
            }
            let changed = changing.change(change, &self.storage);
            changed.map(|()| node.metadata(id)).transpose()
        })??;
        let kind = if change.len.is_some() { WatchKind::Modified } else { WatchKind::Metadata };
        self.report_of(kind, subject);
        Ok(answer)
    }

    // Directories

    /// Locks the names of a directory.
    ///
    /// # Errors
    /// `NotFound` when it has been removed.
    pub(crate) fn lock_names(
        &self,
        directory: NodeId,
    ) -> BackendResult<RwLockWriteGuard<'_, List>> {
        let node = self.node(directory);
        let list = node.list.write().unwrap_or_else(PoisonError::into_inner);
        match node.life.state().is_named(directory.generation()) {
            true => Ok(list),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// As [`lock_names`](Self::lock_names), to read them only.
    pub(crate) fn read_names(&self, directory: NodeId) -> BackendResult<RwLockReadGuard<'_, List>> {
        let node = self.node(directory);
        let list = node.list.read().unwrap_or_else(PoisonError::into_inner);
        match node.life.state().is_named(directory.generation()) {
            true => Ok(list),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Gives a node a name that is not taken, in a directory whose lock the caller holds.
    pub(crate) fn put(
        &self,
        list: &mut List,
        directory: NodeId,
        name: &Name<'_>,
        id: NodeId,
        file_type: FileType,
    ) -> BackendResult<()> {
        let entry = self.names.insert(list, directory, name, id, file_type)?;
        self.settle(id, file_type, entry, directory);
        Ok(())
    }

    /// Notes where a node has its name now.
    pub(crate) fn settle(&self, id: NodeId, file_type: FileType, entry: u32, directory: NodeId) {
        let node = self.node(id);
        node.entry.store(entry, Ordering::Relaxed);
        if file_type.is_dir() {
            self.set_parent(id, directory);
        }
    }

    /// Notes which directory a directory is in; `NONE` when its life is over. The caller holds
    /// the locks of both that it was in and that it is in.
    fn set_parent(&self, id: NodeId, directory: NodeId) {
        let before = NodeId(self.node(id).parent.swap(directory.0, Ordering::Relaxed));
        for (parent, change) in [(before, 1u32.wrapping_neg()), (directory, 1)] {
            if parent != NodeId::NONE {
                self.node(parent).subdirectories.fetch_add(change, Ordering::Relaxed);
            }
        }
    }

    /// A path of the node, for reports. `None` when it has no name, or names changed meanwhile.
    pub(crate) fn path_of(&self, id: NodeId) -> Option<VfsPathBuf> {
        let mut names = Vec::new();
        let mut at = id;
        while at != NodeId::ROOT {
            let known = self.node(at).entry.load(Ordering::Relaxed);
            let is_its = |entry: &u32| {
                *entry != 0 && self.names.whole(*entry).is_some_and(|whole| whole.node == at)
            };
            let entry = Some(known).filter(is_its).or_else(|| self.names.search(at))?;
            let whole = self.names.whole(entry).filter(|whole| whole.node == at)?;
            names.push(whole.name);
            at = whole.parent;
        }
        let mut path = VfsPathBuf::new();
        names.iter().rev().try_for_each(|name| path.push(name)).ok()?;
        Some(path)
    }

    /// Reports a change at a name.
    #[inline]
    pub(crate) fn report_at(&self, kind: WatchKind, way: Way<'_>) {
        if !self.watches.any() {
            return;
        }
        match way {
            Way::Path(path) => self.watches.report(kind, path),
            Way::Name(directory, name) => {
                if let Some(path) = self.path_of(directory).and_then(|at| at.join_name(name).ok()) {
                    self.watches.report(kind, &path);
                }
            }
        }
    }

    /// Reports a change of a file.
    #[inline]
    pub(crate) fn report_of(&self, kind: WatchKind, subject: Subject<'_>) {
        match subject {
            Subject::Path(path) => self.watches.report(kind, path),
            Subject::Node(id) => self.report_node(kind, id),
        }
    }

    /// Reports a change to a node that was made by a handle.
    #[inline]
    pub(crate) fn report_node(&self, kind: WatchKind, id: NodeId) {
        if self.watches.any()
            && let Some(path) = self.path_of(id)
        {
            self.watches.report(kind, &path);
        }
    }

    // Nodes

    /// A new node.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn new_node(
        &self,
        birth: &Birth,
        beginning: &Beginning,
        now: Timestamp,
    ) -> BackendResult<Hold> {
        self.files.charge(1)?;
        let index = self.nodes.allocate().inspect_err(|_| self.files.release(1))?;
        let shard = shard_index();
        // Before it comes to life; see `life.rs`.
        if !matches!(beginning, Beginning::Named) {
            self.count(shard, index).fetch_add(1, Ordering::SeqCst);
        }
        let node = self.nodes.get(index);
        let links = u32::from(!matches!(beginning, Beginning::Held));
        let state = node.lock().be_born(birth, now, || node.life.begin(links));
        Ok(Hold { node: NodeId::new(index, state.generation), shard: shard as u32 })
    }

    /// Counts a handle on a node that was found by name; `None` when it is gone.
    #[inline]
    pub(crate) fn hold(&self, id: NodeId) -> Option<Hold> {
        let shard = shard_index();
        let hold = Hold { node: id, shard: shard as u32 };
        if self.node(id).life.acquire(self.count(shard, id.index()), id.generation()) {
            return Some(hold);
        }
        self.close(hold);
        None
    }

    /// Counts a further handle on a node that is kept already, named or not.
    pub(crate) fn hold_again(&self, id: NodeId) -> BackendResult<Hold> {
        let shard = shard_index();
        let hold = Hold { node: id, shard: shard as u32 };
        self.count(shard, id.index()).fetch_add(1, Ordering::SeqCst);
        match self.known(id) {
            Ok(node) => {
                // Whoever uncharges it under this lock looks at the count first.
                if node.life.state().links == 0 {
                    node.lock().recharge(&self.storage);
                }
                Ok(hold)
            }
            Err(error) => {
                self.close(hold);
                Err(error)
            }
        }
    }

    /// Counts somebody who knows a node by its number; whether it is there.
    pub(crate) fn hold_number(&self, id: NodeId) -> bool {
        let hold = Hold { node: id, shard: NUMBERS as u32 };
        let held = self.node(id).life.acquire(self.count(NUMBERS, id.index()), id.generation());
        if !held {
            self.close(hold);
        }
        held
    }

    /// Counts a number of a node that the caller holds, named or not.
    pub(crate) fn hold_number_too(&self, hold: Hold) {
        self.count(NUMBERS, hold.node.index()).fetch_add(1, Ordering::SeqCst);
    }

    /// Gives counts of a number back.
    pub(crate) fn forget_number(&self, id: NodeId, count: u64) {
        let known = self.known(id).is_ok() && id != NodeId::ROOT;
        let of = self.count(NUMBERS, id.index());
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if !known || of.load(Ordering::SeqCst) < count || count == 0 {
            return; // nobody's mistake may free what somebody uses
        }
        of.fetch_sub(count - 1, Ordering::SeqCst);
        self.close(Hold { node: id, shard: NUMBERS as u32 });
    }

    /// Gives a handle back; frees the node where that was the last that kept it.
    #[inline]
    pub(crate) fn close(&self, hold: Hold) {
        let index = hold.node.index();
        let count = self.count(hold.shard as usize, index);
        let life = &self.node(hold.node).life;
        let dropped = life.release(count, || self.has_no_handles(index));
        if dropped == Dropped::Free {
            self.free(index);
        } else if life.state().links == 0 {
            self.uncharge_unused(hold.node, &self.node(hold.node).lock(), dropped);
        }
    }

    /// Gives a node one more name.
    pub(crate) fn add_link(&self, id: NodeId, from_zero: bool) -> Result<(), AddLink> {
        let node = self.node(id);
        let now = Timestamp::now();
        node.lock().touch_changed(now, || node.life.add_link(id.generation(), from_zero))
    }

    /// Takes a name from a node; the caller has made it that nobody finds it by that name.
    pub(crate) fn drop_link(&self, id: NodeId, now: Timestamp) {
        if self.drop_link_only(id, now) == Dropped::Free {
            self.free(id.index());
        }
    }

    /// As [`drop_link`](Self::drop_link), but leaves it to the caller to [`free`](Self::free).
    #[must_use]
    pub(crate) fn drop_link_only(&self, id: NodeId, now: Timestamp) -> Dropped {
        let node = self.node(id);
        let index = id.index();
        // Only a directory has a parent, and only one name.
        if node.parent.load(Ordering::Relaxed) != NodeId::NONE.0 {
            self.set_parent(id, NodeId::NONE);
        }
        let changing = node.lock();
        let no_handles = || self.has_no_handles(index);
        let dropped = changing.touch_changed(now, || node.life.drop_link(no_handles));
        self.uncharge_unused(id, &changing, dropped);
        dropped
    }

    /// What nobody has open and has no name, but is known by its number, is charged to nobody.
    fn uncharge_unused(&self, id: NodeId, changing: &Changing<'_>, dropped: Dropped) {
        let state = changing.node.life.state();
        if dropped == Dropped::Lives
            && state.is(id.generation())
            && state.links == 0
            && self.handles[..NUMBERS].iter().all(|counts| has_none(counts, id.index()))
        {
            changing.uncharge(&self.storage);
        }
    }

    /// Takes back what a node had whose life has just ended.
    pub(crate) fn free(&self, index: u32) {
        let node = self.nodes.get(index);
        node.lock().empty(&self.storage);
        if node.attribute_count.load(Ordering::Relaxed) != 0 {
            super::attributes::forget(node, &self.storage.bytes);
        }
        self.nodes.release(index);
        self.files.release(1);
    }

    #[inline]
    fn count(&self, shard: usize, index: u32) -> &AtomicU32 {
        self.handles[shard].get_or_make(index)
    }

    /// Whether no shard has a handle on the node.
    fn has_no_handles(&self, index: u32) -> bool {
        self.handles.iter().all(|counts| has_none(counts, index))
    }

    pub(crate) fn statfs(&self) -> Statfs {
        let total = self.storage.bytes.limit().unwrap_or(UNLIMITED_BYTES);
        let free = total.saturating_sub(self.storage.bytes.used());
        let files = self.files.limit().unwrap_or(u64::MAX);
        Statfs {
            total,
            free,
            available: free,
            files,
            files_free: files.saturating_sub(self.files.used()),
            block_size: super::block::PAGE as u32,
        }
    }

    pub(crate) fn lock_moves(&self) -> std::sync::MutexGuard<'_, ()> {
        locked(&self.moves)
    }
}

impl Drop for Store {
    /// Frees contents now. Left to themselves they would wait until this thread reads or
    /// writes again in some other file system: they are kept for readers that may still look.
    fn drop(&mut self) {
        for index in 1..self.nodes.end() {
            self.nodes.get(index).lock().empty(&self.storage);
        }
        for _ in 0..EPOCHS {
            guarded(|guard| guard.accelerate());
        }
    }
}

fn has_none(counts: &Chunked<AtomicU32>, index: u32) -> bool {
    counts.get(index).is_none_or(|count| count.load(Ordering::SeqCst) == 0)
}

/// The node, where it is one that a path can go through.
#[inline]
pub(crate) fn as_directory(found: Found) -> BackendResult<NodeId> {
    match found.file_type {
        FileType::Directory => Ok(found.node),
        FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
        _ => Err(ErrorKind::NotADirectory.into()),
    }
}
