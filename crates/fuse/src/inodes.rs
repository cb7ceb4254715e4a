//! The table between the kernel's inode numbers and the backend's paths.
//!
//! A node lives while the kernel may ask for it (`lookups`), while a known name below it needs
//! it for its path, or while a file is open on it. Its number is the backend's file id where
//! that is free, so that what `stat` shows is stable and listings agree with it; else a number
//! from a range of its own.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::io::Errno;
use smallvec::SmallVec;
use stratafs::{FileId, Metadata, VfsPath, VfsPathBuf};

use crate::door::Stale;
use crate::errno::{Answer, of};
use crate::handles::OpenFile;

/// The number of the root, by protocol.
pub(crate) const ROOT: u64 = 1;

/// Numbers that are no file ids start here.
const OWN_NUMBERS: u64 = 1 << 62;

#[derive(Debug)]
pub(crate) struct Inodes {
    nodes: HashMap<u64, Node>,
    /// The node of a file that is not a directory.
    by_file: HashMap<FileId, u64>,
    next_number: u64,
    next_generation: u64,
}

#[derive(Debug)]
struct Node {
    /// Known names: none for the root and for what was removed, several for hard links.
    names: SmallVec<[(u64, Arc<[u8]>); 1]>,
    /// Known names in this directory.
    children: HashMap<Arc<[u8]>, u64>,
    /// What the kernel was told last. what it is told once the file can no longer be asked.
    last: Metadata,
    generation: u64,
    lookups: u64,
    /// How many names it has lost: a path taken before stands only while this is unchanged.
    losses: u32,
    open: Vec<Arc<OpenFile>>,
    /// A handle of the door's own, on a file that was replaced while the kernel knew it.
    kept: Option<Arc<OpenFile>>,
}

/// A path and the state of the table it was true in.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) path: VfsPathBuf,
    losses: u32,
}

impl Inodes {
    pub(crate) fn new(root: Metadata) -> Self {
        let mut inodes = Inodes {
            nodes: HashMap::new(),
            by_file: HashMap::new(),
            next_number: OWN_NUMBERS,
            next_generation: 0,
        };
        let mut node = inodes.new_node(root);
        node.lookups = 1; // never forgotten
        inodes.nodes.insert(ROOT, node);
        inodes
    }

    fn new_node(&mut self, metadata: Metadata) -> Node {
        self.next_generation += 1;
        Node {
            names: SmallVec::new(),
            children: HashMap::new(),
            last: metadata,
            generation: self.next_generation,
            lookups: 0,
            losses: 0,
            open: Vec::new(),
            kept: None,
        }
    }

    /// The path of a node.
    ///
    /// # Errors
    /// `ESTALE` when it has no name any more, which makes the kernel look the name up again.
    pub(crate) fn locate(&self, number: u64) -> Answer<Located> {
        let mut names: SmallVec<[&[u8]; 16]> = SmallVec::new();
        let mut at = number;
        while at != ROOT {
            let (parent, name) =
                self.nodes.get(&at).and_then(|node| node.names.first()).ok_or(Errno::STALE)?;
            names.push(name);
            at = *parent;
        }
        let mut path = VfsPathBuf::new();
        for name in names.iter().rev() {
            path.push(name).map_err(of)?;
        }
        let losses = self.nodes.get(&number).map_or(0, |node| node.losses);
        Ok(Located { path, losses })
    }

    /// Whether a path taken before still is this node's.
    pub(crate) fn stands(&self, number: u64, located: &Located) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.losses == located.losses)
    }

    /// The directory's parent; the root is its own.
    pub(crate) fn parent(&self, number: u64) -> u64 {
        let name = self.nodes.get(&number).and_then(|node| node.names.first());
        name.map_or(ROOT, |(parent, _)| *parent)
    }

    /// The node a name leads to, made where there is none, counted once for the kernel. Gives
    /// its number and generation.
    pub(crate) fn enter(&mut self, parent: u64, name: &[u8], metadata: &Metadata) -> (u64, u64) {
        let number = self.number_of(parent, name, metadata);
        let generation = match self.nodes.get_mut(&number) {
            Some(node) => {
                node.lookups += 1;
                node.last = *metadata;
                node.generation
            }
            None => 0,
        };
        (number, generation)
    }

    fn number_of(&mut self, parent: u64, name: &[u8], metadata: &Metadata) -> u64 {
        let known = self.nodes.get(&parent).and_then(|node| node.children.get(name)).copied();
        if let Some(number) = known {
            if self.is(number, metadata) {
                return number;
            }
            self.take_name(parent, name); // replaced underneath
        }
        let number = self.by_file.get(&metadata.id).copied().filter(|number| {
            self.nodes.get(number).is_some_and(|node| {
                let same_type = node.last.file_type == metadata.file_type;
                // An id alone may have been given to another file since. It is the same file
                // when it has several names, or is still open.
                same_type && !metadata.is_dir() && (metadata.links > 1 || !node.open.is_empty())
            })
        });
        let number = number.unwrap_or_else(|| self.insert(metadata));
        self.give_name(parent, name, number);
        number
    }

    fn insert(&mut self, metadata: &Metadata) -> u64 {
        let mut number = metadata.id.0;
        while number <= ROOT || number == u64::MAX || self.nodes.contains_key(&number) {
            number = self.next_number;
            self.next_number += 1;
        }
        let node = self.new_node(*metadata);
        self.nodes.insert(number, node);
        if !metadata.is_dir() {
            self.by_file.insert(metadata.id, number);
        }
        number
    }

    fn give_name(&mut self, parent: u64, name: &[u8], number: u64) {
        let name: Arc<[u8]> = name.into();
        let Some(directory) = self.nodes.get_mut(&parent) else { return };
        directory.children.insert(Arc::clone(&name), number);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.names.push((parent, name));
        }
    }

    /// Takes a name away from the node that has it; gives the node.
    pub(crate) fn take_name(&mut self, parent: u64, name: &[u8]) -> Option<u64> {
        let number = self.nodes.get_mut(&parent)?.children.remove(name)?;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.names.retain(|(at, known)| !(*at == parent && **known == *name));
            node.losses = node.losses.wrapping_add(1);
            node.last.links = node.last.links.saturating_sub(1);
            if node.last.is_dir() {
                node.last.links = 0;
            }
        }
        self.drop_unneeded(number);
        self.drop_unneeded(parent);
        Some(number)
    }

    /// Adds a name to a known node and counts it for the kernel (a new hard link).
    pub(crate) fn link(&mut self, number: u64, parent: u64, name: &[u8], metadata: &Metadata) {
        self.take_name(parent, name);
        self.give_name(parent, name, number);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups += 1;
            node.last = *metadata;
        }
    }

    /// Moves a name; what had the new name loses it.
    pub(crate) fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) {
        self.take_name(to.0, to.1);
        let Some(number) = self.child(from) else { return };
        self.move_name(number, from, to);
        self.drop_unneeded(from.0);
    }

    /// Lets two names change places.
    pub(crate) fn exchange(&mut self, one: (u64, &[u8]), other: (u64, &[u8])) {
        let (first, second) = (self.child(one), self.child(other));
        if let Some(number) = first {
            self.move_name(number, one, other);
        }
        if let Some(number) = second {
            // The entry at `one` is gone already; only the node still says that name.
            self.move_name(number, other, one);
            if let (Some(number), Some(directory)) = (first, self.nodes.get_mut(&other.0)) {
                directory.children.insert(other.1.into(), number);
            }
        }
        self.drop_unneeded(one.0);
        self.drop_unneeded(other.0);
    }

    /// The node that a path leads to, as far as it is known.
    pub(crate) fn at_path(&self, path: &VfsPath) -> Option<u64> {
        path.components().try_fold(ROOT, |at, name| self.child((at, name)))
    }

    /// The node of a file that is no directory, by whatever name it is known.
    pub(crate) fn of_file(&self, id: FileId) -> Option<u64> {
        self.by_file.get(&id).copied()
    }

    /// Whether this is what the kernel knows the node for.
    pub(crate) fn is(&self, number: u64, metadata: &Metadata) -> bool {
        self.nodes.get(&number).is_some_and(|node| {
            node.last.id == metadata.id && node.last.file_type == metadata.file_type
        })
    }

    /// Everything known at and below a path, to be asked for again.
    pub(crate) fn all_below(&self, path: &VfsPath) -> Vec<Stale> {
        let mut stale = Vec::new();
        let mut pending: Vec<u64> = self.at_path(path).into_iter().collect();
        while let Some(number) = pending.pop() {
            stale.push(Stale::Contents(number));
            let Some(node) = self.nodes.get(&number) else { continue };
            for (name, child) in &node.children {
                stale.push(Stale::Entry(number, name.to_vec()));
                pending.push(*child);
            }
        }
        stale
    }

    pub(crate) fn child(&self, (parent, name): (u64, &[u8])) -> Option<u64> {
        self.nodes.get(&parent)?.children.get(name).copied()
    }

    fn move_name(&mut self, number: u64, from: (u64, &[u8]), to: (u64, &[u8])) {
        if let Some(directory) = self.nodes.get_mut(&from.0) {
            directory.children.remove(from.1);
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.names.retain(|(at, known)| !(*at == from.0 && **known == *from.1));
            node.losses = node.losses.wrapping_add(1);
        }
        self.give_name(to.0, to.1, number);
    }

    /// The kernel forgets `count` lookups. Gives a kept handle, to be closed without the lock.
    pub(crate) fn forget(&mut self, number: u64, count: u64) -> Option<Arc<OpenFile>> {
        if number == ROOT {
            return None;
        }
        let mut kept = None;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(count);
            if node.lookups == 0 {
                kept = node.kept.take();
            }
        }
        self.drop_unneeded(number);
        kept
    }

    /// Keeps a handle on a node until the kernel forgets it.
    pub(crate) fn keep(&mut self, file: OpenFile) {
        if let Some(node) = self.nodes.get_mut(&file.node) {
            node.kept = Some(Arc::new(file));
        }
    }

    /// Drops a node that nobody needs, and the directories that were kept only for its path.
    fn drop_unneeded(&mut self, number: u64) {
        let mut candidates: SmallVec<[u64; 8]> = SmallVec::new();
        candidates.push(number);
        while let Some(number) = candidates.pop() {
            let needed = self.nodes.get(&number).is_none_or(|node| {
                node.lookups > 0 || !node.children.is_empty() || !node.open.is_empty()
            });
            if needed {
                continue;
            }
            let Some(node) = self.nodes.remove(&number) else { continue };
            if self.by_file.get(&node.last.id) == Some(&number) {
                self.by_file.remove(&node.last.id);
            }
            for (parent, name) in node.names {
                self.remove_entry(parent, &name);
                candidates.push(parent);
            }
        }
    }

    fn remove_entry(&mut self, parent: u64, name: &[u8]) {
        if let Some(directory) = self.nodes.get_mut(&parent) {
            directory.children.remove(name);
        }
    }

    /// Remembers what the kernel is told.
    pub(crate) fn remember(&mut self, number: u64, metadata: &Metadata) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.last = *metadata;
        }
    }

    /// The generation of a node.
    pub(crate) fn generation(&self, number: u64) -> u64 {
        self.nodes.get(&number).map_or(0, |node| node.generation)
    }

    /// What the kernel was told last.
    pub(crate) fn last(&self, number: u64) -> Option<Metadata> {
        self.nodes.get(&number).map(|node| node.last)
    }

    pub(crate) fn opened(&mut self, file: &Arc<OpenFile>) {
        if let Some(node) = self.nodes.get_mut(&file.node) {
            node.open.push(Arc::clone(file));
        }
    }

    pub(crate) fn closed(&mut self, file: &Arc<OpenFile>) {
        if let Some(node) = self.nodes.get_mut(&file.node)
            && let Some(at) = node.open.iter().position(|open| Arc::ptr_eq(open, file))
        {
            node.open.swap_remove(at);
        }
        self.drop_unneeded(file.node);
    }

    /// Any handle open on the node that allows this.
    pub(crate) fn open_handle(
        &self,
        number: u64,
        read: bool,
        write: bool,
    ) -> Option<Arc<OpenFile>> {
        let node = self.nodes.get(&number)?;
        node.open.iter().chain(&node.kept).find(|file| file.covers(read, write)).cloned()
    }
}

/// A path with one more name.
pub(crate) fn child(path: &VfsPath, name: &[u8]) -> Answer<VfsPathBuf> {
    path.join_name(name).map_err(of)
}
