//! Nodes and names, and the operations on them.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard};

use crate::backend::DirEntry;
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{Device, FileType, Metadata, MetadataChange, Owner, Statfs};
use crate::options::{NewNode, NodeKind, RenameMode, XattrMode};
use crate::path::VfsPath;
use crate::sharded::MAX_SHARDS;
use crate::watch::WatchKind;

use super::contents::Body;
use super::dir::{Entry, State};
use super::names::Names;
use super::node::{Node, NodeId};
use super::slab::Slab;
use super::watches::Watches;
use super::{MemoryOptions, kind_of};

/// Longest value of an extended attribute, bytes.
const MAX_XATTR: usize = 65_536;

pub(super) struct Store {
    options: MemoryOptions,
    nodes: Slab<Node>,
    names: Names,
    /// Handles open on each node, by thread group; see the module documentation.
    counts: [Slab<AtomicU32>; MAX_SHARDS],
    free: Mutex<Free>,
    trees: Mutex<()>,
    used_bytes: AtomicU64,
    used_files: AtomicU64,
    pub(super) watches: Watches,
}

#[derive(Default)]
struct Free {
    slots: Vec<u32>,
    next: u32,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    pub(super) fn new(options: MemoryOptions) -> Self {
        let store = Store {
            options,
            nodes: Slab::new(),
            names: Names::new(),
            counts: std::array::from_fn(|_| Slab::new()),
            free: Mutex::new(Free { slots: Vec::new(), next: 1 }),
            trees: Mutex::default(),
            used_bytes: AtomicU64::new(0),
            used_files: AtomicU64::new(0),
            watches: Watches::default(),
        };
        let root = store.nodes.get(0);
        root.init(FileType::Directory, 0o755, Owner::default(), Device::default());
        root.set_links(2);
        store
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.index)
    }

    // Lookup

    /// What the path names; `None` when only the last name is missing.
    #[inline]
    pub(super) fn find(&self, path: &VfsPath) -> BackendResult<Option<Entry>> {
        let mut at = Entry { id: NodeId::ROOT, kind: FileType::Directory };
        if path.is_root() {
            return Ok(Some(at));
        }
        let guard = self.names.guard();
        let mut rest = path.as_bytes();
        loop {
            let (name, next) = match memchr::memchr(b'/', rest) {
                Some(slash) => (&rest[..slash], Some(&rest[slash + 1..])),
                None => (rest, None),
            };
            let found = self.names.get(at.id, name, &guard);
            let Some(next) = next else { return Ok(found) };
            at = found.ok_or(ErrorKind::NotFound)?;
            match at.kind {
                FileType::Directory => {}
                FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
                _ => return Err(ErrorKind::NotADirectory.into()),
            }
            rest = next;
        }
    }

    pub(super) fn existing(&self, path: &VfsPath) -> BackendResult<Entry> {
        self.find(path)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Calls with the node that the path names, again while the node is gone between the
    /// lookup and the look at it (`None` from `read`).
    #[inline]
    pub(super) fn with_node<T>(
        &self,
        path: &VfsPath,
        read: impl Fn(NodeId, &Node) -> Option<T>,
    ) -> BackendResult<T> {
        loop {
            let entry = self.existing(path)?;
            if let Some(answer) = read(entry.id, self.node(entry.id)) {
                return Ok(answer);
            }
        }
    }

    pub(super) fn metadata_of(&self, path: &VfsPath) -> BackendResult<Metadata> {
        self.with_node(path, |id, node| node.metadata(id))
    }

    /// The directory that holds the last name, and that name.
    pub(super) fn parent<'p>(&self, path: &'p VfsPath) -> BackendResult<(NodeId, &'p [u8])> {
        let Some((parent, name)) = path.split_last() else {
            return Err(ErrorKind::AlreadyExists.into());
        };
        let entry = self.existing(parent)?;
        match entry.kind {
            FileType::Directory => Ok((entry.id, name)),
            FileType::Symlink => Err(ErrorKind::SymlinkInPath.into()),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Locks a directory for a change; one that was removed meanwhile is not found.
    pub(super) fn alive(&self, id: NodeId) -> BackendResult<RwLockWriteGuard<'_, State>> {
        let node = self.node(id);
        let state = node.directory.write();
        if state.dead || node.generation() != id.generation {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(state)
    }

    pub(super) fn read_dir(
        &self,
        path: &VfsPath,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> BackendResult<()> {
        let entry = self.existing(path)?;
        if entry.kind != FileType::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        // Copied, so that no lock is held while the visitor runs: it may take its time, or
        // wait for a thread that wants to change this directory.
        let entries: Vec<(Arc<[u8]>, Entry)> = {
            let state = self.node(entry.id).directory.read();
            state.entries.iter().map(|(name, entry)| (Arc::clone(name), *entry)).collect()
        };
        for (name, entry) in &entries {
            let entry = DirEntry { name, file_type: entry.kind, id: entry.id.file_id() };
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    // Nodes

    /// A new node without a name. The caller gives it one, or counts a handle on it.
    pub(super) fn allocate(
        &self,
        kind: FileType,
        mode: u32,
        owner: Option<Owner>,
        device: Device,
    ) -> BackendResult<NodeId> {
        let limit = self.options.quota_files.unwrap_or(u64::MAX);
        let count = |used: u64| (used < limit).then_some(used + 1);
        if self.used_files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_err() {
            return Err(ErrorKind::NoSpace.into());
        }
        let index = {
            let mut free = lock(&self.free);
            free.slots.pop().or_else(|| {
                let next = free.next;
                free.next = next.checked_add(1)?;
                Some(next)
            })
        };
        let Some(index) = index else {
            self.used_files.fetch_sub(1, Ordering::Relaxed);
            return Err(ErrorKind::NoSpace.into());
        };
        let node = self.nodes.get(index);
        node.init(kind, mode, owner.unwrap_or_default(), device);
        Ok(NodeId { index, generation: node.generation() })
    }

    /// Takes bytes of the quota.
    pub(super) fn reserve(&self, bytes: u64) -> BackendResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let limit = self.options.quota_bytes.unwrap_or(u64::MAX);
        let take = |used: u64| used.checked_add(bytes).filter(|&used| used <= limit);
        match self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(ErrorKind::NoSpace.into()),
        }
    }

    /// Gives bytes of the quota back.
    pub(super) fn release(&self, bytes: u64) {
        if bytes > 0 {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Counts a handle of the thread group `shard`.
    pub(super) fn count_open(&self, id: NodeId, shard: usize) {
        self.counts[shard].get(id.index).fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a handle's count back, and frees the node if that was all that kept it.
    pub(super) fn count_close(&self, id: NodeId, shard: usize) {
        self.counts[shard].get(id.index).fetch_sub(1, Ordering::SeqCst);
        if self.node(id).links() == 0 {
            self.free_if_unused(id);
        }
    }

    fn is_open(&self, id: NodeId) -> bool {
        self.counts
            .iter()
            .filter_map(|counts| counts.peek(id.index))
            .any(|count| count.load(Ordering::SeqCst) > 0)
    }

    /// Frees a node that has neither name nor handle. Whoever comes second finds another
    /// generation.
    #[cold]
    pub(super) fn free_if_unused(&self, id: NodeId) {
        let node = self.node(id);
        let guard = lock(&node.guard);
        if node.generation() != id.generation || node.links() > 0 || self.is_open(id) {
            return;
        }
        node.retire();
        let bytes = node.allocated();
        node.body.store(Arc::default());
        lock(&node.xattrs).clear();
        *node.directory.write() = State::default();
        drop(guard);
        self.release(bytes);
        self.used_files.fetch_sub(1, Ordering::Relaxed);
        lock(&self.free).slots.push(id.index);
    }

    /// Takes one name from a node.
    fn unlink_node(&self, id: NodeId) {
        let node = self.node(id);
        let left = {
            let _guard = lock(&node.guard);
            let left = node.links().saturating_sub(1);
            node.set_links(left);
            left
        };
        if left == 0 {
            self.free_if_unused(id);
        }
    }

    /// Ends a directory that has just lost its name.
    fn end_directory(&self, id: NodeId) {
        self.with_guard(id, |node| node.set_links(0));
        self.free_if_unused(id);
    }

    fn with_guard(&self, id: NodeId, change: impl FnOnce(&Node)) {
        let node = self.node(id);
        let _guard = lock(&node.guard);
        change(node);
    }

    /// A subdirectory's `..` is one more link of its parent.
    fn add_links(&self, id: NodeId, by: i32) {
        self.with_guard(id, |node| node.set_links(node.links().saturating_add_signed(by)));
    }

    // Entries; callers hold the directory's lock

    pub(super) fn put(&self, directory: NodeId, state: &mut State, name: &[u8], entry: Entry) {
        let name: Arc<[u8]> = name.into();
        self.names.insert(directory, Arc::clone(&name), entry);
        state.entries.insert(name, entry);
        self.with_guard(directory, Node::touch);
    }

    fn take(&self, directory: NodeId, state: &mut State, name: &[u8]) {
        self.names.remove(directory, name);
        state.entries.remove(name);
        self.with_guard(directory, Node::touch);
    }

    // Operations

    pub(super) fn create(&self, path: &VfsPath, new: &NewNode<'_>) -> BackendResult<Metadata> {
        if let NodeKind::Whiteout = new.kind {
            return self.create_whiteout(path, new);
        }
        let (parent, name) = self.parent(path)?;
        let mut state = self.alive(parent)?;
        if state.entries.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let id = self.allocate_new(new)?;
        let metadata = self.node(id).metadata(id).ok_or(ErrorKind::NotFound)?;
        self.put(parent, &mut state, name, Entry { id, kind: metadata.file_type });
        if metadata.is_dir() {
            self.add_links(parent, 1);
        }
        drop(state);
        self.watches.report(WatchKind::Created, path);
        Ok(metadata)
    }

    fn allocate_new(&self, new: &NewNode<'_>) -> BackendResult<NodeId> {
        let device = match new.kind {
            NodeKind::CharDevice(device) | NodeKind::BlockDevice(device) => device,
            _ => Device::default(),
        };
        let id = self.allocate(kind_of(new), new.mode, new.owner, device)?;
        let node = self.node(id);
        if let NodeKind::Symlink(target) = new.kind {
            node.body.store(Arc::new(Body::Link(target.into())));
            node.change(|facts| facts.len(target.len() as u64));
        }
        if let NodeKind::Directory = new.kind {
            node.set_links(2);
        }
        Ok(id)
    }

    fn create_whiteout(&self, path: &VfsPath, new: &NewNode<'_>) -> BackendResult<Metadata> {
        let trees = lock(&self.trees);
        let (parent, name) = self.parent(path)?;
        let mut state = self.alive(parent)?;
        let old = state.entries.get(name).copied();
        if let Some(old) = old {
            self.must_be_empty(old)?;
        }
        let id = self.allocate_new(new)?;
        let metadata = self.node(id).metadata(id).ok_or(ErrorKind::NotFound)?;
        self.put(parent, &mut state, name, Entry { id, kind: FileType::Whiteout });
        if old.is_some_and(|old| old.kind == FileType::Directory) {
            self.add_links(parent, -1);
        }
        drop(state);
        drop(trees);
        if let Some(old) = old {
            self.drop_replaced(old);
            self.watches.report(WatchKind::Removed, path);
        }
        Ok(metadata)
    }

    /// Checks that a directory has no entries, and lets none be made any more. For anything
    /// else there is nothing to do.
    fn must_be_empty(&self, entry: Entry) -> BackendResult<()> {
        if entry.kind != FileType::Directory {
            return Ok(());
        }
        let mut state = self.node(entry.id).directory.write();
        if !state.entries.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        state.dead = true;
        Ok(())
    }

    fn drop_replaced(&self, entry: Entry) {
        match entry.kind {
            FileType::Directory => self.end_directory(entry.id),
            _ => self.unlink_node(entry.id),
        }
    }

    pub(super) fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<()> {
        let source = self.existing(from)?;
        if source.kind == FileType::Directory {
            return Err(ErrorKind::OperationNotPermitted.into());
        }
        let (parent, name) = self.parent(to)?;
        let mut state = self.alive(parent)?;
        if state.entries.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = self.node(source.id);
        {
            let _guard = lock(&node.guard);
            if !node.is_linked(source.id) {
                return Err(ErrorKind::NotFound.into());
            }
            node.set_links(node.links().checked_add(1).ok_or(ErrorKind::TooManyLinks)?);
        }
        self.put(parent, &mut state, name, source);
        drop(state);
        self.watches.report(WatchKind::Created, to);
        Ok(())
    }

    pub(super) fn remove_file(&self, path: &VfsPath) -> BackendResult<()> {
        if path.is_root() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let (parent, name) = self.parent(path)?;
        let mut state = self.alive(parent)?;
        let entry = *state.entries.get(name).ok_or(ErrorKind::NotFound)?;
        if entry.kind == FileType::Directory {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.take(parent, &mut state, name);
        drop(state);
        self.unlink_node(entry.id);
        self.watches.report(WatchKind::Removed, path);
        Ok(())
    }

    pub(super) fn remove_dir(&self, path: &VfsPath) -> BackendResult<()> {
        if path.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        let trees = lock(&self.trees);
        let (parent, name) = self.parent(path)?;
        let mut state = self.alive(parent)?;
        let entry = *state.entries.get(name).ok_or(ErrorKind::NotFound)?;
        if entry.kind != FileType::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        self.must_be_empty(entry)?;
        self.take(parent, &mut state, name);
        self.add_links(parent, -1);
        drop(state);
        drop(trees);
        self.end_directory(entry.id);
        self.watches.report(WatchKind::Removed, path);
        Ok(())
    }

    pub(super) fn rename(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<()> {
        if from.is_root() || to.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        let trees = lock(&self.trees);
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let mut locked = Pair::lock(self, from_dir, to_dir)?;
        let source = *locked.from().entries.get(from_name).ok_or(ErrorKind::NotFound)?;
        let target = locked.to().entries.get(to_name).copied();
        if mode == RenameMode::Exchange && target.is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        let below = |a: &VfsPath, b: &VfsPath| a != b && a.starts_with(b);
        if below(to, from) || (mode == RenameMode::Exchange && below(from, to)) {
            return Err(ErrorKind::InvalidArgument.into());
        }
        if mode == RenameMode::NoReplace && target.is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if target.is_some_and(|target| target.id == source.id) {
            return Ok(());
        }
        let is_dir = |entry: Entry| i32::from(entry.kind == FileType::Directory);
        let mut replaced = None;
        if let Some(target) = target {
            if mode == RenameMode::Exchange {
                self.put(from_dir, locked.from(), from_name, target);
                self.put(to_dir, locked.to(), to_name, source);
                let moved = is_dir(source) - is_dir(target);
                if from_dir != to_dir && moved != 0 {
                    self.add_links(to_dir, moved);
                    self.add_links(from_dir, -moved);
                }
                drop(locked);
                drop(trees);
                self.with_guard(source.id, Node::touch_changed);
                self.with_guard(target.id, Node::touch_changed);
                for path in [from, to] {
                    self.watches.report(WatchKind::Removed, path);
                    self.watches.report(WatchKind::Created, path);
                }
                return Ok(());
            }
            match (is_dir(source), is_dir(target)) {
                (0, 1) => return Err(ErrorKind::IsADirectory.into()),
                (1, 0) => return Err(ErrorKind::NotADirectory.into()),
                _ => self.must_be_empty(target)?,
            }
            replaced = Some(target);
        }
        let whiteout = match mode {
            RenameMode::Whiteout => {
                Some(self.allocate_new(&NewNode::new(NodeKind::Whiteout)).inspect_err(|_| {
                    if let Some(target) = replaced {
                        self.node(target.id).directory.write().dead = false;
                    }
                })?)
            }
            _ => None,
        };
        // The new name first: a lookup between the two steps finds the file at least once.
        self.put(to_dir, locked.to(), to_name, source);
        match whiteout {
            Some(id) => {
                let entry = Entry { id, kind: FileType::Whiteout };
                self.put(from_dir, locked.from(), from_name, entry);
            }
            None => self.take(from_dir, locked.from(), from_name),
        }
        self.add_links(from_dir, -is_dir(source));
        self.add_links(to_dir, is_dir(source) - replaced.map_or(0, is_dir));
        drop(locked);
        drop(trees);
        self.with_guard(source.id, Node::touch_changed);
        if let Some(replaced) = replaced {
            self.drop_replaced(replaced);
        }
        self.watches.report(WatchKind::Removed, from);
        self.watches.report(WatchKind::Created, to);
        Ok(())
    }

    /// Changes a node that has a name.
    fn change<T>(
        &self,
        path: &VfsPath,
        change: impl Fn(&Node) -> BackendResult<T>,
    ) -> BackendResult<T> {
        let answer = self.with_node(path, |id, node| {
            let _guard = lock(&node.guard);
            node.is_linked(id).then(|| change(node))
        })?;
        if answer.is_ok() {
            self.watches.report(WatchKind::Metadata, path);
        }
        answer
    }

    pub(super) fn set_metadata(
        &self,
        path: &VfsPath,
        change: &MetadataChange,
    ) -> BackendResult<()> {
        self.change(path, |node| {
            node.apply(change);
            Ok(())
        })
    }

    pub(super) fn xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.with_node(path, |id, node| {
            let xattrs = lock(&node.xattrs);
            let value = xattrs.iter().find(|(known, _)| **known == *name);
            let value = value.map(|(_, value)| value.to_vec());
            (node.generation() == id.generation).then_some(value)
        })?
        .ok_or_else(|| ErrorKind::NoAttribute.into())
    }

    pub(super) fn xattrs(&self, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
        self.with_node(path, |id, node| {
            let names = lock(&node.xattrs).iter().map(|(name, _)| name.to_vec()).collect();
            (node.generation() == id.generation).then_some(names)
        })
    }

    pub(super) fn set_xattr(
        &self,
        path: &VfsPath,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.change(path, |node| {
            if name.is_empty() || name.len() > 255 || value.len() > MAX_XATTR {
                return Err(BackendError::from(ErrorKind::TooLarge));
            }
            let mut xattrs = lock(&node.xattrs);
            match xattrs.iter_mut().find(|(known, _)| **known == *name) {
                Some(_) if mode == XattrMode::Create => {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                None if mode == XattrMode::Replace => return Err(ErrorKind::NoAttribute.into()),
                Some((_, old)) => *old = value.into(),
                None => xattrs.push((name.into(), value.into())),
            }
            node.touch_changed();
            Ok(())
        })
    }

    pub(super) fn remove_xattr(&self, path: &VfsPath, name: &[u8]) -> BackendResult<()> {
        self.change(path, |node| {
            let mut xattrs = lock(&node.xattrs);
            let Some(index) = xattrs.iter().position(|(known, _)| **known == *name) else {
                return Err(ErrorKind::NoAttribute.into());
            };
            xattrs.swap_remove(index);
            node.touch_changed();
            Ok(())
        })
    }

    pub(super) fn statfs(&self) -> Statfs {
        // Without a bound, as much as a signed count of bytes holds: callers add and multiply.
        let total = self.options.quota_bytes.unwrap_or(i64::MAX as u64);
        let files = self.options.quota_files.unwrap_or(u32::MAX.into());
        let free = total.saturating_sub(self.used_bytes.load(Ordering::Relaxed));
        let files_free = files.saturating_sub(self.used_files.load(Ordering::Relaxed));
        Statfs { total, free, available: free, files, files_free, block_size: 4096 }
    }
}

/// One or two locked directories.
struct Pair<'a> {
    first: RwLockWriteGuard<'a, State>,
    second: Option<RwLockWriteGuard<'a, State>>,
    from_is_first: bool,
}

impl<'a> Pair<'a> {
    fn lock(store: &'a Store, from: NodeId, to: NodeId) -> BackendResult<Self> {
        let from_is_first = from <= to;
        let (first, second) = if from_is_first { (from, to) } else { (to, from) };
        let first_state = store.alive(first)?;
        let second = if first == second { None } else { Some(store.alive(second)?) };
        Ok(Pair { first: first_state, second, from_is_first })
    }

    fn from(&mut self) -> &mut State {
        match &mut self.second {
            Some(second) if !self.from_is_first => second,
            _ => &mut self.first,
        }
    }

    fn to(&mut self) -> &mut State {
        match &mut self.second {
            Some(second) if self.from_is_first => second,
            _ => &mut self.first,
        }
    }
}
