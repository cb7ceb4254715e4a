//! Making, linking and removing names. Renaming is in `rename.rs`.

use smallvec::SmallVec;
use std::sync::RwLockWriteGuard;

use super::life::{AddLink, Dropped};
use super::names::{Found, List, Name};
use super::node::{Birth, NodeId};
use super::store::{Beginning, Hold, Place, Store, Way};
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::{Device, FileType, Metadata, Timestamp};
use crate::options::{NewNode, NodeKind, OpenOptions};
use crate::path::VfsPath;
use crate::watch::WatchKind;

/// What making something answers.
pub(crate) struct Made {
    pub(crate) metadata: Metadata,
    /// Of the directory, for who asks by number.
    pub(crate) parent: Option<Metadata>,
}

/// The locked names of up to three directories, taken in the order of their numbers.
pub(crate) struct Locked<'a>(SmallVec<[(NodeId, RwLockWriteGuard<'a, List>); 3]>);

impl<'a> Locked<'a> {
    /// # Errors
    /// `NotFound` when one of them has been removed.
    pub(crate) fn new(store: &'a Store, directories: &[NodeId]) -> BackendResult<Self> {
        let mut directories: SmallVec<[NodeId; 3]> = directories.into();
        directories.sort_unstable();
        directories.dedup();
        let locked = directories.into_iter().map(|id| Ok((id, store.lock_names(id)?)));
        locked.collect::<BackendResult<_>>().map(Locked)
    }

    /// The names of one of them.
    pub(crate) fn names(&mut self, directory: NodeId) -> &mut List {
        let at = self.0.iter().position(|(id, _)| *id == directory);
        &mut self.0[at.expect("locked when this was made")].1
    }
}

impl Store {
    /// Makes a node that is not a regular file; with `hold`, counts its number.
    pub(crate) fn create(
        &self,
        way: Way<'_>,
        new: &NewNode<'_>,
        hold: bool,
    ) -> BackendResult<Made> {
        let Place { directory, name } = self.place(way)?;
        if way.is_root() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if new.kind == NodeKind::Whiteout {
            return self.create_whiteout(way, new, hold);
        }
        let mut birth = birth(new);
        let now = Timestamp::now();
        let mut list = self.lock_names(directory)?;
        if self.names.find(directory, &name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if new.inherit_group {
            self.node(directory).inherit(&mut birth);
        }
        let id = self.new_node(&birth, &Beginning::Named, now)?.node;
        let node = self.node(id);
        let made = match new.kind {
            NodeKind::Symlink(target) => node.lock().set_target(target, &self.storage),
            _ => Ok(()),
        };
        let made = made.and_then(|()| self.put(&mut list, directory, &name, id, birth.file_type));
        if let Err(error) = made {
            self.drop_link(id, now);
            return Err(error);
        }
        self.node(directory).lock().touch(now);
        // Under the directory's lock nobody can have removed it yet.
        let made = self.made(id, directory, hold);
        drop(list);
        self.report_at(WatchKind::Created, way);
        made
    }

    /// What is known of something new and of its directory; the caller holds the directory's
    /// lock. With `hold`, counts its number.
    fn made(&self, id: NodeId, directory: NodeId, hold: bool) -> BackendResult<Made> {
        let metadata = self.node(id).metadata(id).filter(|_| !hold || self.hold_number(id));
        let metadata = metadata.ok_or(ErrorKind::NotFound)?;
        Ok(Made { metadata, parent: hold.then(|| self.directory(directory)).flatten() })
    }

    /// What is known of a directory.
    pub(crate) fn directory(&self, directory: NodeId) -> Option<Metadata> {
        self.node(directory).metadata(directory)
    }

    /// Makes a whiteout, in place of whatever has the name.
    fn create_whiteout(&self, way: Way<'_>, new: &NewNode<'_>, hold: bool) -> BackendResult<Made> {
        let made = loop {
            let Place { directory, name } = self.place(way)?;
            let taken = self.names.find(directory, &name);
            let Some(mut locked) = self.lock_with_target(directory, &name, taken)? else {
                continue;
            };
            let now = Timestamp::now();
            let replaced_directory = taken.filter(|taken| taken.file_type.is_dir());
            if let Some(taken) = replaced_directory
                && !locked.names(taken.node).is_empty()
            {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            let id = self.new_node(&birth(new), &Beginning::Named, now)?.node;
            let mut old = None;
            match taken {
                Some(taken) => {
                    self.names.replace(taken.entry, id, FileType::Whiteout);
                    self.settle(id, FileType::Whiteout, taken.entry, directory);
                    old = Some((taken.node, self.drop_link_only(taken.node, now)));
                }
                None => {
                    let list = locked.names(directory);
                    let put = self.put(list, directory, &name, id, FileType::Whiteout);
                    put.inspect_err(|_| self.drop_link(id, now))?;
                }
            }
            self.node(directory).lock().touch(now);
            let made = self.made(id, directory, hold);
            drop(locked);
            if let Some((old, Dropped::Free)) = old {
                self.free(old.index());
            }
            break made;
        };
        self.report_at(WatchKind::Created, way);
        made
    }

    /// Locks a directory and, where `taken` is one, the directory that a name in it stands for.
    /// `None` when the name does not stand for that any more.
    pub(crate) fn lock_with_target(
        &self,
        directory: NodeId,
        name: &Name<'_>,
        taken: Option<Found>,
    ) -> BackendResult<Option<Locked<'_>>> {
        let locked = match taken {
            Some(taken) if taken.file_type.is_dir() => {
                // Which of the two has gone shows when the path is looked at again.
                match Locked::new(self, &[directory, taken.node]) {
                    Ok(locked) => locked,
                    Err(_) => return Ok(None),
                }
            }
            _ => Locked::new(self, &[directory])?,
        };
        Ok((self.names.find(directory, name) == taken).then_some(locked))
    }

    /// Makes a regular file and a handle on it; `None` when the name is taken.
    pub(crate) fn create_file(
        &self,
        way: Way<'_>,
        options: &OpenOptions,
    ) -> BackendResult<Option<Hold>> {
        let Place { directory, name } = self.place(way)?;
        let now = Timestamp::now();
        let mut list = self.lock_names(directory)?;
        if self.names.find(directory, &name).is_some() {
            return Ok(None);
        }
        let birth = self.file_in(directory, options);
        let hold = self.new_node(&birth, &Beginning::NamedAndHeld, now)?;
        if let Err(error) = self.put(&mut list, directory, &name, hold.node, FileType::File) {
            self.drop_link(hold.node, now);
            self.close(hold);
            return Err(error);
        }
        self.node(directory).lock().touch(now);
        drop(list);
        self.report_at(WatchKind::Created, way);
        Ok(Some(hold))
    }

    /// Makes a file without a name, for a directory that exists.
    pub(crate) fn create_temporary(
        &self,
        directory: NodeId,
        options: &OpenOptions,
    ) -> BackendResult<Hold> {
        self.new_node(&self.file_in(directory, options), &Beginning::Held, Timestamp::now())
    }

    fn file_in(&self, directory: NodeId, options: &OpenOptions) -> Birth {
        let mut birth = Birth {
            file_type: FileType::File,
            mode: options.mode,
            owner: options.owner.unwrap_or_default(),
            device: Device::default(),
        };
        if options.inherit_group {
            self.node(directory).inherit(&mut birth);
        }
        birth
    }

    /// Gives the file at `from` a second name.
    pub(crate) fn link(&self, from: &VfsPath, to: &VfsPath) -> BackendResult<Metadata> {
        loop {
            let from = self.find(from)?;
            let way = Way::Path(to);
            let place = self.place(way)?;
            let from = from.ok_or(ErrorKind::NotFound)?;
            if from.file_type.is_dir() {
                return Err(ErrorKind::OperationNotPermitted.into());
            }
            if to.is_root() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            // Its last name may have gone between the two steps: look again.
            if let Some(linked) = self.link_node(from.node, from.file_type, way, &place, false)? {
                return Ok(linked);
            }
        }
    }

    /// Gives a file that is held a name, a further one or, with `first`, its first.
    pub(crate) fn link_held(
        &self,
        id: NodeId,
        to: Way<'_>,
        first: bool,
    ) -> BackendResult<Metadata> {
        let place = self.place(to)?;
        let file_type = self.node(id).file_type();
        if file_type.is_dir() {
            return Err(ErrorKind::OperationNotPermitted.into());
        }
        if to.is_root() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let linked = self.link_node(id, file_type, to, &place, first)?;
        linked.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Gives a node a name; `None` when it is gone.
    fn link_node(
        &self,
        id: NodeId,
        file_type: FileType,
        to: Way<'_>,
        place: &Place<'_>,
        from_zero: bool,
    ) -> BackendResult<Option<Metadata>> {
        let now = Timestamp::now();
        let mut list = self.lock_names(place.directory)?;
        if self.names.find(place.directory, &place.name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match self.add_link(id, from_zero) {
            Ok(()) => {}
            Err(AddLink::Gone) => return Ok(None),
            Err(AddLink::TooMany) => return Err(ErrorKind::TooManyLinks.into()),
        }
        self.put(&mut list, place.directory, &place.name, id, file_type)
            .inspect_err(|_| self.drop_link(id, now))?;
        self.node(place.directory).lock().touch(now);
        // Under the directory's lock it has this name.
        let metadata = self.node(id).metadata(id);
        drop(list);
        self.report_at(WatchKind::Created, to);
        Ok(metadata)
    }

    /// Removes a name that is not a directory; answers the directory it was in.
    pub(crate) fn remove_file(&self, way: Way<'_>) -> BackendResult<NodeId> {
        let Place { directory, name } = self.place(way)?;
        if way.is_root() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let now = Timestamp::now();
        let mut list = self.lock_names(directory)?;
        let found = self.names.find(directory, &name).ok_or(ErrorKind::NotFound)?;
        if found.file_type.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.names.remove(&mut list, found.entry);
        self.node(directory).lock().touch(now);
        drop(list);
        self.drop_link(found.node, now);
        self.report_at(WatchKind::Removed, way);
        Ok(directory)
    }

    /// Removes an empty directory; answers the directory it was in.
    pub(crate) fn remove_dir(&self, way: Way<'_>) -> BackendResult<NodeId> {
        if way.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        loop {
            let Place { directory, name } = self.place(way)?;
            let found = self.names.find(directory, &name).ok_or(ErrorKind::NotFound)?;
            if !found.file_type.is_dir() {
                return Err(ErrorKind::NotADirectory.into());
            }
            let Some(mut locked) = self.lock_with_target(directory, &name, Some(found))? else {
                continue;
            };
            let now = Timestamp::now();
            if !locked.names(found.node).is_empty() {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            self.names.remove(locked.names(directory), found.entry);
            self.node(directory).lock().touch(now);
            // Its life ends under its lock, so that nothing is made in it any more.
            let dropped = self.drop_link_only(found.node, now);
            drop(locked);
            if dropped == Dropped::Free {
                self.free(found.node.index());
            }
            self.report_at(WatchKind::Removed, way);
            return Ok(directory);
        }
    }
}

pub(crate) fn birth(new: &NewNode<'_>) -> Birth {
    let (file_type, device) = match new.kind {
        NodeKind::Directory => (FileType::Directory, Device::default()),
        NodeKind::Symlink(_) => (FileType::Symlink, Device::default()),
        NodeKind::Fifo => (FileType::Fifo, Device::default()),
        NodeKind::Socket => (FileType::Socket, Device::default()),
        NodeKind::CharDevice(device) => (FileType::CharDevice, device),
        NodeKind::BlockDevice(device) => (FileType::BlockDevice, device),
        NodeKind::Whiteout => (FileType::Whiteout, Device::default()),
    };
    Birth { file_type, mode: new.mode, owner: new.owner.unwrap_or_default(), device }
}
