//! The naive file system: a map of paths, and what each method answers.

use std::collections::BTreeMap;

use stratafs::{ErrorKind, FileType, OpenOptions, RenameMode, VfsPath, VfsPathBuf, XattrMode};

use super::operation::{Kind, Operation};
use crate::tools::p;

/// In what a file system differs from the plain contract.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Names that differ only in the case of ASCII letters are one name.
    pub fold: bool,
    /// Directories at which other file systems are mounted.
    pub mounts: &'static [&'static str],
}

/// What an operation answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum Answer {
    Done,
    Type(FileType),
    Exists(bool),
    Names(Vec<Vec<u8>>),
    Target(Vec<u8>),
}

pub(super) type Outcome = Result<Answer, ErrorKind>;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) file_type: FileType,
    pub(super) mode: u32,
    pub(super) contents: Vec<u8>,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) node: usize,
    pub(super) options: OpenOptions,
    /// The mount that it was opened in.
    mount: &'static str,
}

/// The naive file system. Nodes are never freed, so that a handle always finds its own.
#[derive(Debug)]
pub struct Model {
    rules: Rules,
    pub(super) nodes: Vec<Node>,
    pub(super) names: BTreeMap<VfsPathBuf, usize>,
    pub(super) handles: [Option<Handle>; Operation::HANDLES],
}

impl Model {
    /// Empty but for the mount points and the directories that lead to them.
    pub fn new(rules: Rules) -> Self {
        let (nodes, names) = (Vec::new(), BTreeMap::new());
        let mut model = Model { rules, nodes, names, handles: [None; Operation::HANDLES] };
        for mount in [""].iter().chain(rules.mounts) {
            for directory in p(mount).ancestors().chain([p(mount)]) {
                if model.at(directory).is_none() {
                    model.add(directory, FileType::Directory, 0o755);
                }
            }
        }
        model
    }

    fn add(&mut self, path: &VfsPath, file_type: FileType, mode: u32) -> usize {
        let node = self.unnamed(file_type, mode);
        self.names.insert(path.to_owned(), node);
        node
    }

    fn unnamed(&mut self, file_type: FileType, mode: u32) -> usize {
        let (contents, xattrs) = (Vec::new(), BTreeMap::new());
        self.nodes.push(Node { file_type, mode, contents, xattrs });
        self.nodes.len() - 1
    }

    pub(super) fn links(&self, node: usize) -> u32 {
        self.names.values().filter(|&&other| other == node).count() as u32
    }

    /// The node of a path, without a word about the way there.
    fn at(&self, path: &VfsPath) -> Option<usize> {
        self.names.get(path).copied()
    }

    /// The type of what has the name.
    pub fn type_of(&self, path: &VfsPath) -> Option<FileType> {
        self.at(&self.spelled(path)).map(|node| self.nodes[node].file_type)
    }

    /// The path as its names are spelled, where they are there.
    fn spelled(&self, path: &VfsPath) -> VfsPathBuf {
        let mut spelled = VfsPathBuf::new();
        for name in path.components() {
            let mut exact = spelled.clone();
            exact.push(name).expect("a name");
            let other = self.names.keys().find(|known| {
                self.rules.fold
                    && known.parent() == Some(&*spelled)
                    && known.file_name().is_some_and(|known| known.eq_ignore_ascii_case(name))
            });
            spelled = match other {
                Some(other) if !self.names.contains_key(&exact) => other.clone(),
                _ => exact,
            };
        }
        spelled
    }

    /// Whether the way to the path's last name is there.
    fn way(&self, path: &VfsPath) -> Result<(), ErrorKind> {
        for directory in path.ancestors() {
            match self.at(directory).map(|node| self.nodes[node].file_type) {
                Some(FileType::Directory) => {}
                Some(FileType::Symlink) => return Err(ErrorKind::SymlinkInPath),
                Some(_) => return Err(ErrorKind::NotADirectory),
                None => return Err(ErrorKind::NotFound),
            }
        }
        Ok(())
    }

    fn find(&self, path: &VfsPath) -> Result<usize, ErrorKind> {
        self.way(path)?;
        self.at(path).ok_or(ErrorKind::NotFound)
    }

    /// For something new: the way is there and the name is free.
    fn free(&self, path: &VfsPath) -> Result<(), ErrorKind> {
        self.way(path)?;
        if self.at(path).is_some() { Err(ErrorKind::AlreadyExists) } else { Ok(()) }
    }

    fn is_dir(&self, node: usize) -> bool {
        self.nodes[node].file_type.is_dir()
    }

    fn is_empty(&self, directory: &VfsPath) -> bool {
        !self.names.keys().any(|path| path.parent() == Some(directory))
    }

    /// A mount point, or a directory that leads to one.
    fn is_pinned(&self, path: &VfsPath) -> bool {
        !path.is_root() && self.rules.mounts.iter().any(|mount| p(mount).starts_with(path))
    }

    fn mount_of(&self, path: &VfsPath) -> &'static str {
        let mut mounts = self.rules.mounts.iter().filter(|mount| path.starts_with(p(mount)));
        mounts.next().copied().unwrap_or("")
    }

    /// What a file system answers to the operation, which is carried out.
    pub(super) fn apply(&mut self, operation: &Operation) -> Outcome {
        use Operation as Op;
        match operation {
            Op::Metadata(path) => {
                let node = self.find(&self.spelled(path))?;
                Ok(Answer::Type(self.nodes[node].file_type))
            }
            Op::Exists(path) => match self.find(&self.spelled(path)) {
                Err(ErrorKind::SymlinkInPath) => Err(ErrorKind::SymlinkInPath),
                found => Ok(Answer::Exists(found.is_ok())),
            },
            Op::ReadDir(path) => {
                let path = self.spelled(path);
                if !self.is_dir(self.find(&path)?) {
                    return Err(ErrorKind::NotADirectory);
                }
                let names = self.names.keys().filter(|name| name.parent() == Some(&*path));
                let names = names.filter_map(|name| Some(name.file_name()?.to_vec()));
                Ok(Answer::Names(names.collect()))
            }
            Op::ReadLink(path) => {
                let node = self.find(&self.spelled(path))?;
                match self.nodes[node].file_type {
                    FileType::Symlink => Ok(Answer::Target(self.nodes[node].contents.clone())),
                    _ => Err(ErrorKind::InvalidArgument),
                }
            }
            Op::Write(path, options, bytes, offset) => {
                let handle = self.open(&self.spelled(path), *options)?;
                self.write(handle, bytes, *offset)
            }
            Op::Create(path, kind) => self.create(&self.spelled(path), *kind),
            Op::RemoveFile(path) => self.remove_file(&self.spelled(path)),
            Op::RemoveDir(path) => self.remove_dir(&self.spelled(path)),
            Op::Rename(from, to, mode) => self.rename(from, to, *mode),
            Op::Link(from, to) => self.link(&self.spelled(from), &self.spelled(to)),
            Op::SetMode(path, mode) => {
                let node = self.find(&self.spelled(path))?;
                self.nodes[node].mode = *mode;
                Ok(Answer::Done)
            }
            Op::SetXattr(path, name, value, mode) => {
                let node = self.find(&self.spelled(path))?;
                let xattrs = &mut self.nodes[node].xattrs;
                match (mode, xattrs.contains_key(name.as_bytes())) {
                    (XattrMode::Create, true) => return Err(ErrorKind::AlreadyExists),
                    (XattrMode::Replace, false) => return Err(ErrorKind::NoAttribute),
                    _ => {}
                }
                xattrs.insert(name.as_bytes().to_vec(), value.clone());
                Ok(Answer::Done)
            }
            Op::RemoveXattr(path, name) => {
                let node = self.find(&self.spelled(path))?;
                let removed = self.nodes[node].xattrs.remove(name.as_bytes());
                removed.map(|_| Answer::Done).ok_or(ErrorKind::NoAttribute)
            }
            Op::Open(slot, path, options) => {
                self.handles[*slot] = None;
                self.handles[*slot] = Some(self.open(&self.spelled(path), *options)?);
                Ok(Answer::Done)
            }
            Op::Close(slot) => {
                self.handles[*slot] = None;
                Ok(Answer::Done)
            }
            Op::WriteAt(slot, bytes, offset) => {
                self.by(*slot, |model, handle| model.write(handle, bytes, *offset))
            }
            Op::SetLen(slot, len) => self.by(*slot, |model, handle| {
                model.writable(handle)?.resize(*len as usize, 0);
                Ok(Answer::Done)
            }),
            Op::SetModeOf(slot, mode) => self.by(*slot, |model, handle| {
                model.nodes[handle.node].mode = *mode;
                Ok(Answer::Done)
            }),
            Op::Punch(slot, offset, len) => self.by(*slot, |model, handle| {
                let contents = model.writable(handle)?;
                let end = contents.len().min((offset + len) as usize);
                let start = end.min(*offset as usize);
                contents[start..end].fill(0);
                Ok(Answer::Done)
            }),
            Op::Reserve(slot, offset, len) => self.by(*slot, |model, handle| {
                let contents = model.writable(handle)?;
                let len = contents.len().max((offset + len) as usize);
                contents.resize(len, 0);
                Ok(Answer::Done)
            }),
            Op::LinkTo(slot, path) => self.by(*slot, |model, handle| model.link_to(handle, path)),
        }
    }

    /// On the handle, if there is one.
    fn by(&mut self, slot: usize, act: impl FnOnce(&mut Self, Handle) -> Outcome) -> Outcome {
        match self.handles[slot] {
            Some(handle) => act(self, handle),
            None => Ok(Answer::Done),
        }
    }

    fn open(&mut self, path: &VfsPath, options: OpenOptions) -> Result<Handle, ErrorKind> {
        self.way(path)?;
        let found = self.at(path).map(|node| (node, self.nodes[node].file_type));
        let node = match found {
            Some((_, FileType::Symlink)) if !options.create_new => {
                return Err(ErrorKind::SymlinkInPath);
            }
            Some((_, FileType::Directory)) if options.temporary => {
                self.unnamed(FileType::File, options.mode)
            }
            Some(_) if options.temporary => return Err(ErrorKind::NotADirectory),
            Some(_) if options.create_new => return Err(ErrorKind::AlreadyExists),
            Some((node, FileType::File)) => node,
            Some((_, FileType::Directory)) => return Err(ErrorKind::IsADirectory),
            Some(_) => return Err(ErrorKind::InvalidArgument),
            None if options.create || options.create_new => {
                self.add(path, FileType::File, options.mode)
            }
            None => return Err(ErrorKind::NotFound),
        };
        if options.truncate {
            self.nodes[node].contents.clear();
        }
        Ok(Handle { node, options, mount: self.mount_of(path) })
    }

    fn writable(&mut self, handle: Handle) -> Result<&mut Vec<u8>, ErrorKind> {
        match handle.options.write || handle.options.append {
            true => Ok(&mut self.nodes[handle.node].contents),
            false => Err(ErrorKind::BadHandle),
        }
    }

    fn write(&mut self, handle: Handle, bytes: &[u8], offset: u64) -> Outcome {
        let contents = self.writable(handle)?;
        let start = if handle.options.append { contents.len() } else { offset as usize };
        contents.resize(contents.len().max(start + bytes.len()), 0);
        contents[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(Answer::Done)
    }

    /// A temporary file gets its first name; what a second one would do is not promised.
    fn link_to(&mut self, handle: Handle, path: &VfsPath) -> Outcome {
        if self.mount_of(path) != handle.mount {
            return Err(ErrorKind::CrossesMounts);
        }
        self.free(path)?;
        self.names.insert(path.to_owned(), handle.node);
        for other in self.handles.iter_mut().flatten().filter(|other| other.node == handle.node) {
            other.options.temporary = false;
        }
        Ok(Answer::Done)
    }

    fn create(&mut self, path: &VfsPath, kind: Kind) -> Outcome {
        self.free(path)?;
        match kind {
            Kind::Directory => self.add(path, FileType::Directory, 0o755),
            Kind::Fifo => self.add(path, FileType::Fifo, 0o644),
            Kind::Symlink => {
                let node = self.add(path, FileType::Symlink, 0o777);
                self.nodes[node].contents = b"nowhere".to_vec();
                node
            }
        };
        Ok(Answer::Done)
    }

    fn remove_file(&mut self, path: &VfsPath) -> Outcome {
        if self.is_dir(self.find(path)?) {
            return Err(ErrorKind::IsADirectory);
        }
        self.names.remove(path);
        Ok(Answer::Done)
    }

    fn remove_dir(&mut self, path: &VfsPath) -> Outcome {
        if self.is_pinned(path) {
            return Err(ErrorKind::Busy);
        }
        if !self.is_dir(self.find(path)?) {
            return Err(ErrorKind::NotADirectory);
        }
        if !self.is_empty(path) {
            return Err(ErrorKind::DirectoryNotEmpty);
        }
        self.names.remove(path);
        Ok(Answer::Done)
    }

    fn link(&mut self, from: &VfsPath, to: &VfsPath) -> Outcome {
        if self.mount_of(from) != self.mount_of(to) {
            self.find(from)?;
            return Err(ErrorKind::CrossesMounts);
        }
        self.way(from)?;
        self.way(to)?;
        let node = self.find(from)?;
        if self.is_dir(node) {
            return Err(ErrorKind::OperationNotPermitted);
        }
        self.free(to)?;
        self.names.insert(to.to_owned(), node);
        Ok(Answer::Done)
    }

    fn rename(&mut self, from: &VfsPath, to: &VfsPath, mode: RenameMode) -> Outcome {
        let from = self.spelled(from);
        let spelled = self.spelled(to);
        if self.is_pinned(&from) || self.is_pinned(&spelled) {
            return Err(ErrorKind::Busy);
        }
        if self.mount_of(&from) != self.mount_of(&spelled) {
            self.find(&from)?;
            return Err(ErrorKind::CrossesMounts);
        }
        self.way(&from)?;
        self.way(&spelled)?;
        let node = self.find(&from)?;
        let old = self.at(&spelled);
        let below = |path: &VfsPath, above: &VfsPath| path != above && path.starts_with(above);
        if mode == RenameMode::Exchange {
            let old = old.ok_or(ErrorKind::NotFound)?;
            if below(&spelled, &from) || below(&from, &spelled) {
                return Err(ErrorKind::InvalidArgument);
            }
            if old != node {
                let (one, other) = (self.take(&from), self.take(&spelled));
                self.put(&spelled, one);
                self.put(&from, other);
            }
            return Ok(Answer::Done);
        }
        if below(&spelled, &from) {
            return Err(ErrorKind::InvalidArgument);
        }
        // Another case of its own name is a new name.
        let own = self.rules.fold && spelled == from && to.file_name() != from.file_name();
        let to = match (own, spelled.parent(), to.file_name()) {
            (true, Some(parent), Some(name)) => parent.join_name(name).expect("a name"),
            _ => spelled,
        };
        if let Some(old) = old.filter(|_| !own) {
            if mode == RenameMode::NoReplace {
                return Err(ErrorKind::AlreadyExists);
            }
            if old == node {
                return Ok(Answer::Done);
            }
            match (self.is_dir(node), self.is_dir(old)) {
                (false, true) => return Err(ErrorKind::IsADirectory),
                (true, false) => return Err(ErrorKind::NotADirectory),
                (true, true) if !self.is_empty(&to) => return Err(ErrorKind::DirectoryNotEmpty),
                _ => {}
            }
        }
        let moved = self.take(&from);
        self.put(&to, moved);
        Ok(Answer::Done)
    }

    /// Takes a name away with all below it: what is left of each path, and its node.
    fn take(&mut self, path: &VfsPath) -> Vec<(VfsPathBuf, usize)> {
        let mut taken = Vec::new();
        self.names.retain(|name, node| match name.strip_prefix(path) {
            Some(rest) => {
                taken.push((rest.to_owned(), *node));
                false
            }
            None => true,
        });
        taken
    }

    fn put(&mut self, path: &VfsPath, taken: Vec<(VfsPathBuf, usize)>) {
        self.names.extend(taken.into_iter().map(|(rest, node)| (path.join(&rest), node)));
    }
}
