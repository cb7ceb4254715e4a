//! Carries operations out on a file system and on the model, and compares.

use stratafs::{
    Allocation, BackendError, BackendResult, Capabilities, Detail, ErrorKind, File, FileSystem,
    FileType, MetadataChange, NewNode, NodeKind, RenameMode,
};

use super::look::{self, difference};
use super::operation::{Kind, Operation};
use super::state::{Answer, Model, Outcome, Rules};
use crate::tools::{contents, entries, try_write_all};

/// How often everything is compared: each so many operations.
const LOOK_EVERY: usize = 8;

/// A model, and the handles that a file system gave for its own.
#[derive(Debug)]
pub struct Driver {
    model: Model,
    handles: [Option<Box<dyn File>>; Operation::HANDLES],
}

impl Driver {
    /// For an empty file system.
    pub fn new(rules: Rules) -> Self {
        Driver { model: Model::new(rules), handles: Default::default() }
    }

    /// Carries the operations out, and compares each answer, each handle, and the whole tree
    /// now and then and at the end. Operations that the file system does not claim to know are
    /// left out.
    ///
    /// # Errors
    /// What differs.
    pub fn drive(&mut self, fs: &dyn FileSystem, operations: &[Operation]) -> Result<(), String> {
        for (number, operation) in operations.iter().enumerate() {
            if !self.applies(fs.capabilities(), operation) {
                continue;
            }
            let expected = self.model.apply(operation);
            let answer = self.carry_out(fs, operation);
            let context = || format!("step {number}, {operation:?}");
            if answer != expected {
                return Err(format!("{}: {answer:?}, expected {expected:?}", context()));
            }
            self.compare_handles().map_err(|text| format!("{}: {text}", context()))?;
            if number % LOOK_EVERY == LOOK_EVERY - 1 {
                self.compare(fs).map_err(|text| format!("{}: {text}", context()))?;
            }
        }
        self.compare(fs).map_err(|text| format!("at the end: {text}"))
    }

    /// Closes every handle.
    pub fn close(&mut self) {
        self.handles = Default::default();
        self.model.handles = Default::default();
    }

    /// Compares the whole tree.
    ///
    /// # Errors
    /// What differs.
    pub fn compare(&self, fs: &dyn FileSystem) -> Result<(), String> {
        difference(&look::look(fs), &look::of_model(&self.model))
    }

    /// Whether the file system claims to know the operation, and hosts agree on what it does.
    fn applies(&self, capabilities: Capabilities, operation: &Operation) -> bool {
        use Operation as Op;
        let has = |needed| capabilities.contains(needed);
        let type_of = |path| self.model.type_of(path);
        match operation {
            Op::Create(_, Kind::Symlink) => has(Capabilities::SYMLINKS),
            Op::Create(_, Kind::Fifo) => has(Capabilities::SPECIAL_NODES),
            Op::Link(..) => has(Capabilities::HARD_LINKS),
            Op::Rename(_, _, RenameMode::Exchange) => has(Capabilities::EXCHANGE),
            Op::SetMode(path, _) => {
                has(Capabilities::MODES) && type_of(path) != Some(FileType::Symlink)
            }
            // Hosts have them on files and directories only.
            Op::SetXattr(path, ..) | Op::RemoveXattr(path, _) => {
                let known =
                    matches!(type_of(path), None | Some(FileType::File | FileType::Directory));
                has(Capabilities::XATTRS) && known
            }
            Op::Open(_, _, options) => !options.temporary || has(Capabilities::TEMPORARY),
            Op::Punch(..) | Op::Reserve(..) => has(Capabilities::SPARSE),
            Op::LinkTo(slot, _) => {
                self.model.handles[*slot].is_some_and(|handle| handle.options.temporary)
            }
            _ => true,
        }
    }

    fn carry_out(&mut self, fs: &dyn FileSystem, operation: &Operation) -> Outcome {
        use Operation as Op;
        let done = |answer: BackendResult<()>| answer.map(|()| Answer::Done).map_err(kind);
        match operation {
            Op::Metadata(path) => {
                fs.metadata(path).map(|known| Answer::Type(known.file_type)).map_err(kind)
            }
            Op::Exists(path) => fs.exists(path).map(Answer::Exists).map_err(kind),
            Op::ReadDir(path) => {
                // Asked first for the error, which the helper would not forgive.
                fs.read_dir(path, Detail::Names, &mut |_| std::ops::ControlFlow::Break(()))
                    .map_err(kind)?;
                let names = entries(fs, path).into_iter().map(|(name, _)| name);
                Ok(Answer::Names(names.collect()))
            }
            Op::ReadLink(path) => fs.read_link(path).map(Answer::Target).map_err(kind),
            Op::Write(path, options, bytes, offset) => {
                let file = fs.open(path, options).map_err(kind)?;
                done(try_write_all(&*file.file, bytes, *offset))
            }
            Op::Create(path, made) => {
                let node = match made {
                    Kind::Directory => NewNode::directory(),
                    Kind::Symlink => NewNode::symlink(b"nowhere"),
                    Kind::Fifo => NewNode::new(NodeKind::Fifo),
                };
                let mode = if *made == Kind::Directory { 0o755 } else { 0o644 };
                done(fs.create(path, &node.mode(mode)).map(drop))
            }
            Op::RemoveFile(path) => done(fs.remove_file(path)),
            Op::RemoveDir(path) => done(fs.remove_dir(path)),
            Op::Rename(from, to, mode) => done(fs.rename(from, to, *mode).map(drop)),
            Op::Link(from, to) => done(fs.link(from, to).map(drop)),
            Op::SetMode(path, mode) => {
                done(fs.set_metadata(path, &MetadataChange::new().mode(*mode)).map(drop))
            }
            Op::SetXattr(path, name, value, mode) => {
                done(fs.set_xattr(path, name.as_bytes(), value, *mode))
            }
            Op::RemoveXattr(path, name) => done(fs.remove_xattr(path, name.as_bytes())),
            Op::Open(slot, path, options) => {
                self.handles[*slot] = None;
                self.handles[*slot] = Some(fs.open(path, options).map_err(kind)?.file);
                Ok(Answer::Done)
            }
            Op::Close(slot) => {
                self.handles[*slot] = None;
                Ok(Answer::Done)
            }
            Op::WriteAt(slot, bytes, offset) => {
                done(self.by(*slot, |file| try_write_all(file, bytes, *offset)))
            }
            Op::SetLen(slot, len) => done(self.by(*slot, |file| file.set_len(*len))),
            Op::SetModeOf(slot, mode) => {
                let change = MetadataChange::new().mode(*mode);
                done(self.by(*slot, |file| file.set_metadata(&change).map(drop)))
            }
            Op::Punch(slot, at, len) => {
                done(self.by(*slot, |file| file.allocate(Allocation::PunchHole, *at..at + len)))
            }
            Op::Reserve(slot, at, len) => {
                done(self.by(*slot, |file| file.allocate(Allocation::Reserve, *at..at + len)))
            }
            Op::LinkTo(slot, path) => done(self.by(*slot, |file| file.link_to(path))),
        }
    }

    fn by(
        &self,
        slot: usize,
        act: impl FnOnce(&dyn File) -> BackendResult<()>,
    ) -> BackendResult<()> {
        self.handles[slot].as_deref().map_or(Ok(()), act)
    }

    fn compare_handles(&self) -> Result<(), String> {
        for (file, handle) in self.handles.iter().zip(&self.model.handles) {
            let (Some(file), Some(handle)) = (file, handle) else { continue };
            let node = &self.model.nodes[handle.node];
            let known =
                file.metadata().map_err(|error| format!("metadata of a handle: {error}"))?;
            let shown = (known.len, known.mode, known.links, contents(&**file));
            let links = self.model.links(handle.node);
            let expected = (node.contents.len() as u64, node.mode, links, node.contents.clone());
            if shown != expected {
                return Err(format!("a handle shows {shown:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }
}

fn kind(error: BackendError) -> ErrorKind {
    error.kind()
}
