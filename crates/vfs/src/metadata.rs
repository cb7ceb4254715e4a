//! What is known of a file: type, size, owner, times, and how to change them.

use crate::clock::Clock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix-domain socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Hides the same name in the layers below. Only layers that hold whiteouts show it; an
    /// overlay heeds it and never shows one, and to all others it means nothing. Where it must
    /// be stored or shown as something else it is character device 0:0.
    Whiteout,
}

impl FileType {
    /// Whether this is [`FileType::File`].
    pub fn is_file(self) -> bool {
        self == FileType::File
    }

    /// Whether this is [`FileType::Directory`].
    pub fn is_dir(self) -> bool {
        self == FileType::Directory
    }

    /// Whether this is [`FileType::Symlink`].
    pub fn is_symlink(self) -> bool {
        self == FileType::Symlink
    }
}

/// A point in time: seconds and nanoseconds since 1970-01-01 00:00 UTC. Negative seconds lie
/// before it; the nanoseconds (0 to 999,999,999) always count forwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Now, by the host's clock or the one that was [given](crate::Clock).
    #[inline]
    pub fn now() -> Self {
        (Clock::current().now)()
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => {
                Timestamp { seconds: after.as_secs() as i64, nanoseconds: after.subsec_nanos() }
            }
            Err(before) => {
                let before = before.duration();
                let nanos = before.subsec_nanos();
                let seconds = -(before.as_secs() as i64);
                match nanos {
                    0 => Timestamp { seconds, nanoseconds: 0 },
                    _ => Timestamp { seconds: seconds - 1, nanoseconds: 1_000_000_000 - nanos },
                }
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    /// Saturates at the ends of what the host's clock can say.
    fn from(time: Timestamp) -> SystemTime {
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let base = if time.seconds >= 0 {
            UNIX_EPOCH.checked_add(whole)
        } else {
            UNIX_EPOCH.checked_sub(whole)
        };
        base.and_then(|base| base.checked_add(Duration::from_nanos(time.nanoseconds.into())))
            .unwrap_or(UNIX_EPOCH)
    }
}

/// Tells files of one backend apart: two names with the same id are hard links of one file.
/// Meaningful only within its backend and, where the backend lacks
/// [`Capabilities::STABLE_IDS`](crate::Capabilities::STABLE_IDS), only until it is reopened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileId(pub u64);

impl FileId {
    /// The id as one of several backends' that are shown as one tree: ids of different salts do
    /// not meet (but for a 64-bit accident), and those of one salt stay apart. 0 changes nothing.
    #[inline]
    #[must_use]
    pub const fn salted(self, salt: u64) -> FileId {
        if salt == 0 {
            return self;
        }
        // An odd multiplier keeps it a bijection; the constant is 2^64 divided by the golden
        // ratio.
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        FileId((self.0 ^ salt.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER))
    }
}

/// User and group that own a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Owner {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

/// A device number of a device node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Device {
    /// Which driver.
    pub major: u32,
    /// Which device of it.
    pub minor: u32,
}

/// What is known of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Which file it is, within its backend.
    pub id: FileId,
    /// Its type.
    pub file_type: FileType,
    /// Permission bits with set-user-id, set-group-id and sticky: 0 to 0o7777.
    pub mode: u32,
    /// How many names it has; 0 once all are removed. For a directory 2, and 1 more for each
    /// directory in it; or 1 where nobody counts.
    pub links: u32,
    /// Who owns it.
    pub owner: Owner,
    /// Length in bytes; of a symbolic link, of its target.
    pub len: u64,
    /// Bytes that storage holds for it, in whole 512-byte units: less than `len` where there
    /// are holes or compression.
    pub allocated: u64,
    /// Last read, as exact as the backend keeps it.
    pub accessed: Timestamp,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last change of contents or metadata.
    pub changed: Timestamp,
    /// Creation, if the backend keeps it.
    pub created: Option<Timestamp>,
    /// For device nodes.
    pub device: Device,
}

impl Metadata {
    /// A file of this type and mode, length 0, one link, owned by user and group 0, all times
    /// 1970: a start for backends to fill in.
    pub fn new(file_type: FileType, mode: u32) -> Self {
        Metadata {
            id: FileId(0),
            file_type,
            mode,
            links: 1,
            owner: Owner::default(),
            len: 0,
            allocated: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            created: None,
            device: Device::default(),
        }
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type.is_file()
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type.is_dir()
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type.is_symlink()
    }
}

/// A new value of a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeChange {
    /// The time at which the backend carries the change out.
    Now,
    /// This time.
    At(Timestamp),
}

/// The set-user-id bit of a mode.
pub(crate) const SET_USER_ID: u32 = 0o4000;
/// The set-group-id bit of a mode.
pub(crate) const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// Which metadata to change; what is `None` stays. The whole change is made or none of it.
/// The time of change (`ctime`) moves to now.
///
/// In the order of the fields, so that a new owner does not lose bits that `mode` sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataChange {
    /// New user id.
    pub user: Option<u32>,
    /// New group id.
    pub group: Option<u32>,
    /// Of a regular file: set-user-id goes, and set-group-id where the group may execute, as
    /// when somebody without privileges changes contents or owner.
    pub clear_set_id: bool,
    /// New permission bits (0 to 0o7777).
    pub mode: Option<u32>,
    /// New length of a regular file: cut, or lengthened by a hole. Moves the time of the last
    /// change of contents too, unless that is given.
    pub len: Option<u64>,
    /// New time of the last read.
    pub accessed: Option<TimeChange>,
    /// New time of the last change of contents.
    pub modified: Option<TimeChange>,
}

impl MetadataChange {
    /// No change; a start for the setters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the permission bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets user and group.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.user = Some(owner.user);
        self.group = Some(owner.group);
        self
    }

    /// Takes set-id bits away.
    #[must_use]
    pub fn clear_set_id(mut self) -> Self {
        self.clear_set_id = true;
        self
    }

    /// Sets the length.
    #[must_use]
    pub fn len(mut self, len: u64) -> Self {
        self.len = Some(len);
        self
    }

    /// The bits that a file of this type and mode has after the change.
    pub fn mode_after(&self, file_type: FileType, mode: u32) -> u32 {
        if let Some(mode) = self.mode {
            return mode & 0o7777;
        }
        if !self.clear_set_id || file_type.is_dir() {
            return mode;
        }
        let cleared = mode & !SET_USER_ID;
        if mode & GROUP_EXECUTE != 0 { cleared & !SET_GROUP_ID } else { cleared }
    }

    /// Sets the time of the last read.
    #[must_use]
    pub fn accessed(mut self, time: TimeChange) -> Self {
        self.accessed = Some(time);
        self
    }

    /// Sets the time of the last change of contents.
    #[must_use]
    pub fn modified(mut self, time: TimeChange) -> Self {
        self.modified = Some(time);
        self
    }

    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Room of a whole backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statfs {
    /// Bytes in all.
    pub total: u64,
    /// Bytes not in use.
    pub free: u64,
    /// Bytes that an unprivileged user may still fill.
    pub available: u64,
    /// Files in all (`u64::MAX` where there is no limit).
    pub files: u64,
    /// Files that may still be made.
    pub files_free: u64,
    /// The unit the backend allocates in, bytes.
    pub block_size: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive() {
        for (seconds, nanoseconds) in [(0, 0), (5, 7), (-1, 999_999_999), (-10, 0), (-3, 1)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }
}
