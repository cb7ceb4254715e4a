//! How to open, create and rename.

use crate::metadata::{Device, Owner};

/// How to open a file. At least one of `read`, `write`, `append` is set, or `reference` alone.
///
/// ```
/// use stratafs::OpenOptions;
/// let in_place = OpenOptions::new().read(true).write(true); // read-write, nothing truncated
/// let log = OpenOptions::new().append(true).create(true);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// Allow reading.
    pub read: bool,
    /// Allow writing at offsets.
    pub write: bool,
    /// Every write goes to the end of the file as it then is, atomically among all appenders.
    pub append: bool,
    /// Cut the file to length 0. Needs `write` or `append`.
    pub truncate: bool,
    /// Make the file where there is none. Needs `write` or `append`.
    pub create: bool,
    /// Make the file, and fail where the name is taken. Needs `write` or `append`.
    pub create_new: bool,
    /// Make a file without a name in the directory that the path names; it goes when its last
    /// handle does, unless [`File::link_to`](crate::File::link_to) names it. Needs `write`.
    pub temporary: bool,
    /// Permission bits of a file that this call makes, taken as they are (no umask).
    pub mode: u32,
    /// Owner of a file that this call makes; `None`: the process (or 0 where there is none).
    pub owner: Option<Owner>,
    /// A file that this call makes in a set-group-id directory gets the directory's group, as
    /// on Unix, whatever `owner` says.
    pub inherit_group: bool,
    /// A handle on whatever has the name, a directory and a symbolic link included, that neither
    /// reads nor writes contents: metadata and extended attributes are asked and changed through
    /// it, and [`File::reopen`](crate::File::reopen) opens it, also when its name is gone.
    pub reference: bool,
    /// Ask for [`Opened::metadata`](crate::Opened::metadata).
    pub metadata: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing allowed yet; new files get mode 0o644.
    pub const fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            temporary: false,
            mode: 0o644,
            owner: None,
            inherit_group: false,
            reference: false,
            metadata: false,
        }
    }

    /// For reading only.
    pub const fn reading() -> Self {
        let mut options = Self::new();
        options.read = true;
        options
    }

    /// For [holding on](Self::reference) to whatever has the name.
    pub const fn referring() -> Self {
        let mut options = Self::new();
        options.reference = true;
        options
    }

    /// For writing: made where there is none, else cut to length 0.
    pub const fn writing() -> Self {
        let mut options = Self::new();
        options.write = true;
        options.create = true;
        options.truncate = true;
        options
    }

    /// Allow reading.
    #[must_use]
    pub const fn read(mut self, yes: bool) -> Self {
        self.read = yes;
        self
    }

    /// Allow writing at offsets.
    #[must_use]
    pub const fn write(mut self, yes: bool) -> Self {
        self.write = yes;
        self
    }

    /// Send every write to the end.
    #[must_use]
    pub const fn append(mut self, yes: bool) -> Self {
        self.append = yes;
        self
    }

    /// Cut the file to length 0.
    #[must_use]
    pub const fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// Make the file where there is none.
    #[must_use]
    pub const fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Make the file, and fail where the name is taken.
    #[must_use]
    pub const fn create_new(mut self, yes: bool) -> Self {
        self.create_new = yes;
        self
    }

    /// Make a file without a name.
    #[must_use]
    pub const fn temporary(mut self, yes: bool) -> Self {
        self.temporary = yes;
        self
    }

    /// Permission bits of a file that this call makes.
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Owner of a file that this call makes.
    #[must_use]
    pub const fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Take the group of a set-group-id directory.
    #[must_use]
    pub const fn inherit_group(mut self, yes: bool) -> Self {
        self.inherit_group = yes;
        self
    }

    /// Ask for metadata with the handle.
    #[must_use]
    pub const fn metadata(mut self, yes: bool) -> Self {
        self.metadata = yes;
        self
    }

    /// The same for a file that exists: nothing is made, cut or given a name.
    #[must_use]
    pub const fn existing(mut self) -> Self {
        self.create = false;
        self.create_new = false;
        self.truncate = false;
        self.temporary = false;
        self
    }

    /// Whether the handle could change the file: `write` or `append`.
    #[inline]
    pub const fn is_writing(&self) -> bool {
        self.write || self.append
    }

    /// Whether this call could change the tree or the handle the file.
    #[inline]
    pub const fn needs_writable(&self) -> bool {
        self.is_writing() || self.truncate || self.create || self.create_new || self.temporary
    }

    /// Whether the combination makes sense, as the fields state.
    #[inline]
    pub const fn is_valid(&self) -> bool {
        (self.read || self.is_writing() || self.reference)
            && !(self.reference && (self.read || self.is_writing() || self.temporary))
            && (self.is_writing() || !(self.truncate || self.create || self.create_new))
            && (self.write || !self.temporary)
    }
}

/// A node to make that is not a regular file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind<'a> {
    /// An empty directory.
    Directory,
    /// A symbolic link with this target, kept byte for byte and not checked.
    Symlink(&'a [u8]),
    /// A named pipe.
    Fifo,
    /// A Unix-domain socket.
    Socket,
    /// A character device. To a backend that stores whiteouts as device 0:0 the two are one.
    CharDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A whiteout: needs [`Capabilities::WHITEOUTS`](crate::Capabilities::WHITEOUTS), and, unlike the others,
    /// atomically takes the place of whatever file or *empty* directory has the name.
    Whiteout,
}

/// A node to make: kind, permission bits (as they are, no umask; a symbolic link and a
/// whiteout have none of their own), owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewNode<'a> {
    /// What to make.
    pub kind: NodeKind<'a>,
    /// Permission bits.
    pub mode: u32,
    /// Owner; `None`: the process (or 0 where there is none).
    pub owner: Option<Owner>,
    /// In a set-group-id directory it gets the directory's group, and a directory also the bit,
    /// as on Unix, whatever `owner` and `mode` say.
    pub inherit_group: bool,
}

impl<'a> NewNode<'a> {
    /// A node of this kind: mode 0o755 for a directory, 0o777 for a symbolic link, else 0o644.
    pub const fn new(kind: NodeKind<'a>) -> Self {
        let mode = match kind {
            NodeKind::Directory => 0o755,
            NodeKind::Symlink(_) => 0o777,
            _ => 0o644,
        };
        NewNode { kind, mode, owner: None, inherit_group: false }
    }

    /// A directory.
    pub const fn directory() -> Self {
        NewNode::new(NodeKind::Directory)
    }

    /// A symbolic link.
    pub const fn symlink(target: &'a [u8]) -> Self {
        NewNode::new(NodeKind::Symlink(target))
    }

    /// Sets the permission bits.
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the owner.
    #[must_use]
    pub const fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Take the group of a set-group-id directory.
    #[must_use]
    pub const fn inherit_group(mut self, yes: bool) -> Self {
        self.inherit_group = yes;
        self
    }
}

/// What of each entry a listing brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// Name, type and file id.
    #[default]
    Names,
    /// Metadata as well.
    Metadata,
}

/// What a caller knows of its reads to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// The range will be read soon.
    WillNeed,
    /// The range will not be read soon.
    DontNeed,
    /// It will be read from its beginning to its end.
    Sequential,
    /// It will be read here and there.
    Random,
}

/// What a rename does with a taken destination, and what it leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameMode {
    /// The destination is replaced, atomically.
    #[default]
    Replace,
    /// A taken destination is an error (`RENAME_NOREPLACE`).
    NoReplace,
    /// Both must exist and change places (`RENAME_EXCHANGE`).
    Exchange,
    /// As `Replace`, and a whiteout takes the source's place in the same step
    /// (`RENAME_WHITEOUT`). Needs [`Capabilities::WHITEOUTS`](crate::Capabilities::WHITEOUTS).
    Whiteout,
}

/// Which of a file's state must be on the medium when a sync returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncScope {
    /// Contents, and the metadata needed to read them back (`fdatasync`).
    Data,
    /// Contents and all metadata (`fsync`).
    All,
}

/// What to do with storage behind a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// Reserve storage; the length grows to cover the range (`fallocate` mode 0).
    Reserve,
    /// Reserve storage; the length stays (`FALLOC_FL_KEEP_SIZE`).
    ReserveKeepLen,
    /// Give storage back; the range reads as zeros, the length stays
    /// (`FALLOC_FL_PUNCH_HOLE`).
    PunchHole,
    /// The range reads as zeros; the length grows to cover it (`FALLOC_FL_ZERO_RANGE`).
    Zero,
    /// The range reads as zeros; the length stays.
    ZeroKeepLen,
}

/// What to look for in a sparse file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// The first offset at or after the given one that holds data (`SEEK_DATA`).
    Data,
    /// The first offset at or after the given one in a hole; the end counts as one
    /// (`SEEK_HOLE`).
    Hole,
}

/// What setting an extended attribute does with one of that name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XattrMode {
    /// Make or replace it.
    #[default]
    Set,
    /// Only make: taken is [`AlreadyExists`](crate::ErrorKind::AlreadyExists).
    Create,
    /// Only replace: missing is [`NoAttribute`](crate::ErrorKind::NoAttribute).
    Replace,
}
