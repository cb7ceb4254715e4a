//! The table between numbers and paths.
//!
//! A node lives while somebody counts it, or while a known name below it needs it for its path.
//! Its number is the backend's file id where that is free, so that what a listing shows agrees
//! with it; else one of a range of its own.
//!
//! # Paths that stay true
//! A path is used outside of the lock, by a call of the backend that may take long. So whoever
//! uses one *pins* the node and every directory above it, and whoever renames or removes a node
//! marks it as *moving* first, which waits until nobody pins it and makes who wants to pin it
//! wait. Calls that have nothing to do with each other never wait for each other, and no lock is
//! held while a backend works. All marks of one call are set in one step, so that two calls cannot
//! each wait for the other.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::{NodeId, Stale};
use crate::backend::File;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{FileId, FileType, Metadata};
use crate::path::{VfsPath, VfsPathBuf};

/// Numbers that are no file ids start here.
const OWN_NUMBERS: u64 = 1 << 62;

#[derive(Debug)]
pub(super) struct Table {
    nodes: Mutex<Nodes>,
    /// Told when a node is not pinned or not moving any more.
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Nodes {
    all: HashMap<NodeId, Node>,
    /// The node of a file that is not a directory.
    by_file: HashMap<FileId, NodeId>,
    next_number: u64,
}

#[derive(Debug)]
struct Node {
    /// Known names: none for the root and for what was removed, several for hard links.
    names: SmallVec<[(NodeId, Arc<[u8]>); 1]>,
    /// Known names in this directory.
    children: HashMap<Arc<[u8]>, NodeId>,
    id: FileId,
    file_type: FileType,
    counts: u64,
    /// Calls under way that use a path through it.
    pins: u32,
    moving: bool,
    /// What serves it once its name is gone.
    held: Option<Arc<dyn File>>,
}

/// How a node is reached.
pub(super) enum Route<'t> {
    Path(Pinned<'t>),
    /// It has no name any more.
    Held(Arc<dyn File>),
}

/// The path of a node, which is its path while this lives.
pub(super) struct Pinned<'t> {
    table: &'t Table,
    chain: Chain,
    pub(super) path: VfsPathBuf,
}

/// A node and the directories above it, without the root, which never moves.
type Chain = SmallVec<[NodeId; 12]>;

/// Nodes that are renamed or removed: nobody uses a path through them while this lives.
pub(super) struct Moving<'t> {
    table: &'t Table,
    nodes: SmallVec<[NodeId; 2]>,
}

impl Table {
    pub(super) fn new(root: &Metadata) -> Self {
        let mut nodes =
            Nodes { all: HashMap::new(), by_file: HashMap::new(), next_number: OWN_NUMBERS };
        nodes.all.insert(NodeId::ROOT, Node { counts: 1, ..Node::new(root) });
        Table { nodes: Mutex::new(nodes), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'t>(&'t self, nodes: MutexGuard<'t, Nodes>) -> MutexGuard<'t, Nodes> {
        self.changed.wait(nodes).unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins a node's path.
    ///
    /// # Errors
    /// `Stale` when the number is not known, or the name is gone and nothing is held.
    pub(super) fn route(&self, node: NodeId) -> BackendResult<Route<'_>> {
        let mut nodes = self.lock();
        loop {
            let Some(chain) = nodes.chain(node) else {
                let held = nodes.all.get(&node).and_then(|node| node.held.clone());
                return held.map(Route::Held).ok_or_else(|| ErrorKind::Stale.into());
            };
            if !nodes.any_moving(&chain) {
                let path = nodes.path(&chain)?;
                nodes.pin(&chain);
                return Ok(Route::Path(Pinned { table: self, chain, path }));
            }
            nodes = self.wait(nodes);
        }
    }

    /// Pins a directory's path, to make or find a name in it.
    ///
    /// # Errors
    /// `NotFound` for one that was removed.
    pub(super) fn directory(&self, node: NodeId) -> BackendResult<Pinned<'_>> {
        match self.route(node)? {
            Route::Path(pinned) => Ok(pinned),
            Route::Held(_) => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Pins the directories of names that are to be renamed or removed, and marks what has the
    /// names as moving.
    ///
    /// # Errors
    /// As [`directory`](Self::directory).
    pub(super) fn moving<const N: usize>(
        &self,
        names: [(NodeId, &[u8]); N],
    ) -> BackendResult<([Pinned<'_>; N], Moving<'_>)> {
        let mut nodes = self.lock();
        loop {
            let mut chains: [Chain; N] = std::array::from_fn(|_| Chain::new());
            for (chain, (directory, _)) in chains.iter_mut().zip(&names) {
                *chain = nodes.chain(*directory).ok_or(ErrorKind::NotFound)?;
            }
            let mut marked: SmallVec<[NodeId; 2]> = SmallVec::new();
            for child in names.iter().filter_map(|name| nodes.child(*name)) {
                // A directory that is to go below itself: the backend refuses, nothing moves.
                let contains_itself = chains.iter().any(|chain| chain.contains(&child));
                if !contains_itself && !marked.contains(&child) {
                    marked.push(child);
                }
            }
            let busy = chains.iter().any(|chain| nodes.any_moving(chain))
                || marked.iter().any(|node| nodes.is_busy(*node));
            if busy {
                nodes = self.wait(nodes);
                continue;
            }
            let mut paths: [VfsPathBuf; N] = std::array::from_fn(|_| VfsPathBuf::new());
            for (path, chain) in paths.iter_mut().zip(&chains) {
                *path = nodes.path(chain)?;
            }
            chains.iter().for_each(|chain| nodes.pin(chain));
            nodes.set_moving(&marked, true);
            let mut both = chains.into_iter().zip(paths);
            let pinned = std::array::from_fn(|_| {
                let (chain, path) = both.next().unwrap_or_default();
                Pinned { table: self, chain, path }
            });
            return Ok((pinned, Moving { table: self, nodes: marked }));
        }
    }

    /// Gives counts back; what is dropped with the node is dropped without the lock.
    pub(super) fn forget(&self, node: NodeId, count: u64) {
        let mut nodes = self.lock();
        if node == NodeId::ROOT {
            return;
        }
        if let Some(node) = nodes.all.get_mut(&node) {
            node.counts = node.counts.saturating_sub(count);
        }
        let dropped = nodes.drop_unneeded(node);
        drop(nodes);
        drop(dropped);
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let mut nodes = self.table.lock();
        let mut dropped = Vec::new();
        let mut somebody_may_wait = false;
        for &id in &self.chain {
            if let Some(node) = nodes.all.get_mut(&id) {
                node.pins -= 1;
                somebody_may_wait |= node.pins == 0;
            }
        }
        if let Some(&lowest) = self.chain.first() {
            dropped = nodes.drop_unneeded(lowest);
        }
        drop(nodes);
        drop(dropped);
        if somebody_may_wait {
            self.table.changed.notify_all();
        }
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let mut nodes = self.table.lock();
        nodes.set_moving(&self.nodes, false);
        let dropped: Vec<_> =
            self.nodes.iter().flat_map(|node| nodes.drop_unneeded(*node)).collect();
        drop(nodes);
        drop(dropped);
        self.table.changed.notify_all();
    }
}

impl Node {
    fn new(metadata: &Metadata) -> Self {
        Node {
            names: SmallVec::new(),
            children: HashMap::new(),
            id: metadata.id,
            file_type: metadata.file_type,
            counts: 0,
            pins: 0,
            moving: false,
            held: None,
        }
    }
}

impl Nodes {
    /// The node and the directories above it; `None` when one has no name.
    fn chain(&self, node: NodeId) -> Option<Chain> {
        let mut chain = Chain::new();
        let mut at = node;
        while at != NodeId::ROOT {
            chain.push(at);
            at = self.all.get(&at)?.names.first()?.0;
        }
        Some(chain)
    }

    fn path(&self, chain: &Chain) -> BackendResult<VfsPathBuf> {
        let mut path = VfsPathBuf::new();
        for node in chain.iter().rev() {
            if let Some((_, name)) = self.all.get(node).and_then(|node| node.names.first()) {
                path.push(name)?;
            }
        }
        Ok(path)
    }

    fn any_moving(&self, chain: &Chain) -> bool {
        chain.iter().any(|node| self.all.get(node).is_some_and(|node| node.moving))
    }

    fn is_busy(&self, node: NodeId) -> bool {
        self.all.get(&node).is_some_and(|node| node.moving || node.pins > 0)
    }

    fn pin(&mut self, chain: &Chain) {
        for id in chain {
            if let Some(node) = self.all.get_mut(id) {
                node.pins += 1;
            }
        }
    }

    fn set_moving(&mut self, nodes: &[NodeId], moving: bool) {
        for id in nodes {
            if let Some(node) = self.all.get_mut(id) {
                node.moving = moving;
            }
        }
    }

    /// The directory's parent; the root is its own.
    pub(super) fn parent(&self, node: NodeId) -> NodeId {
        let name = self.all.get(&node).and_then(|node| node.names.first());
        name.map_or(NodeId::ROOT, |(parent, _)| *parent)
    }

    /// The node that a name leads to, made where there is none, counted once.
    pub(super) fn enter(&mut self, parent: NodeId, name: &[u8], metadata: &Metadata) -> NodeId {
        let number = self.number_of(parent, name, metadata);
        self.count(number)
    }

    /// A node without a name, held by a handle, counted once.
    pub(super) fn enter_nameless(&mut self, metadata: &Metadata, held: Arc<dyn File>) -> NodeId {
        let number = self.insert(metadata);
        self.hold(number, held);
        self.count(number)
    }

    fn count(&mut self, number: NodeId) -> NodeId {
        if let Some(node) = self.all.get_mut(&number) {
            node.counts += 1;
        }
        number
    }

    fn number_of(&mut self, parent: NodeId, name: &[u8], metadata: &Metadata) -> NodeId {
        if let Some(number) = self.child((parent, name)) {
            if self.is(number, metadata) {
                return number;
            }
            self.take_name(parent, name); // replaced underneath
        }
        // An id alone may have been given to another file since. It is the same file when it has
        // several names.
        let same = |number: &NodeId| {
            let node = self.all.get(number);
            node.is_some_and(|node| node.file_type == metadata.file_type && metadata.links > 1)
        };
        let number = self.by_file.get(&metadata.id).copied().filter(same);
        let number = number.unwrap_or_else(|| self.insert(metadata));
        self.give_name(parent, name, number);
        number
    }

    fn insert(&mut self, metadata: &Metadata) -> NodeId {
        let mut number = NodeId(metadata.id.0);
        while number <= NodeId::ROOT || number.0 == u64::MAX || self.all.contains_key(&number) {
            number = NodeId(self.next_number);
            self.next_number += 1;
        }
        self.all.insert(number, Node::new(metadata));
        if !metadata.is_dir() {
            self.by_file.insert(metadata.id, number);
        }
        number
    }

    fn give_name(&mut self, parent: NodeId, name: &[u8], number: NodeId) {
        let name: Arc<[u8]> = name.into();
        let Some(directory) = self.all.get_mut(&parent) else { return };
        directory.children.insert(Arc::clone(&name), number);
        if let Some(node) = self.all.get_mut(&number) {
            node.names.push((parent, name));
        }
    }

    /// Takes a name away from the node that has it; gives the node. The caller drops what is
    /// unneeded by the end of its call.
    pub(super) fn take_name(&mut self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let number = self.all.get_mut(&parent)?.children.remove(name)?;
        if let Some(node) = self.all.get_mut(&number) {
            node.names.retain(|(at, known)| !(*at == parent && **known == *name));
        }
        Some(number)
    }

    /// Adds a name to a node that has one already, or none; counts it.
    pub(super) fn link(&mut self, number: NodeId, parent: NodeId, name: &[u8]) {
        self.take_name(parent, name);
        self.give_name(parent, name, number);
        self.count(number);
    }

    /// Moves a name; what had the new name loses it.
    pub(super) fn rename(&mut self, from: (NodeId, &[u8]), to: (NodeId, &[u8])) {
        self.take_name(to.0, to.1);
        if let Some(number) = self.take_name(from.0, from.1) {
            self.give_name(to.0, to.1, number);
        }
    }

    /// Lets two names change places.
    pub(super) fn exchange(&mut self, one: (NodeId, &[u8]), other: (NodeId, &[u8])) {
        let (first, second) = (self.take_name(one.0, one.1), self.take_name(other.0, other.1));
        if let Some(number) = first {
            self.give_name(other.0, other.1, number);
        }
        if let Some(number) = second {
            self.give_name(one.0, one.1, number);
        }
    }

    pub(super) fn child(&self, (parent, name): (NodeId, &[u8])) -> Option<NodeId> {
        self.all.get(&parent)?.children.get(name).copied()
    }

    /// The node that a path leads to, as far as it is known.
    pub(super) fn at_path(&self, path: &VfsPath) -> Option<NodeId> {
        path.components().try_fold(NodeId::ROOT, |at, name| self.child((at, name)))
    }

    /// The node of a file that is no directory, by whatever name it is known.
    pub(super) fn of_file(&self, id: FileId) -> Option<NodeId> {
        self.by_file.get(&id).copied()
    }

    /// Whether this is what the node is known for.
    pub(super) fn is(&self, number: NodeId, metadata: &Metadata) -> bool {
        let node = self.all.get(&number);
        node.is_some_and(|node| node.id == metadata.id && node.file_type == metadata.file_type)
    }

    /// Whether the name that is about to go is the last known one, and nothing is held yet.
    pub(super) fn needs_holding(&self, number: NodeId) -> bool {
        let node = self.all.get(&number);
        node.is_some_and(|node| node.held.is_none() && node.counts > 0 && node.names.len() <= 1)
    }

    /// What serves the node once its name is gone.
    pub(super) fn hold(&mut self, number: NodeId, held: Arc<dyn File>) {
        if let Some(node) = self.all.get_mut(&number) {
            node.held = Some(held);
        }
    }

    /// Everything known at and below a path.
    pub(super) fn all_below(&self, path: &VfsPath, stale: &mut Vec<Stale>) {
        let mut pending: Vec<NodeId> = self.at_path(path).into_iter().collect();
        while let Some(number) = pending.pop() {
            stale.push(Stale::Contents(number));
            let Some(node) = self.all.get(&number) else { continue };
            for (name, child) in &node.children {
                stale.push(Stale::Entry(number, name.to_vec()));
                pending.push(*child);
            }
        }
    }

    /// Takes out a node that nobody needs, and the directories that were kept only for its path.
    /// Gives what they held, which must be dropped without the lock.
    fn drop_unneeded(&mut self, number: NodeId) -> Vec<Arc<dyn File>> {
        let mut dropped = Vec::new();
        let mut candidates: SmallVec<[NodeId; 8]> = SmallVec::new();
        candidates.push(number);
        while let Some(number) = candidates.pop() {
            let needed = self.all.get(&number).is_none_or(|node| {
                node.counts > 0 || !node.children.is_empty() || node.pins > 0 || node.moving
            });
            if needed {
                continue;
            }
            let Some(node) = self.all.remove(&number) else { continue };
            dropped.extend(node.held);
            if self.by_file.get(&node.id) == Some(&number) {
                self.by_file.remove(&node.id);
            }
            for (parent, name) in node.names {
                if let Some(directory) = self.all.get_mut(&parent) {
                    directory.children.remove(&name);
                }
                candidates.push(parent);
            }
        }
        dropped
    }
}
