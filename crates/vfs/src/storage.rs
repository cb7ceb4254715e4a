//! What becomes of writes when the power goes, and changes that belong together.

use crate::backend::File;
use crate::options::RenameMode;
use crate::path::VfsPath;

/// What a writer may rely on when the power goes in the middle of a write. A database reads it as
/// the characteristics of its device; a layer recomputes it from what it stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storage {
    /// A write changes whole units of this many bytes on the medium: of a unit that is partly
    /// written all may be lost. A power of two, 512 to 65,536.
    pub sector_size: u32,
    /// An aligned write of this many bytes or fewer is all made or not at all; 0: none is.
    pub atomic_write: u32,
    /// A write changes no byte outside its range, whatever happens.
    pub powersafe_overwrite: bool,
    /// What was written first is on the medium no later than what was written after it.
    pub ordered: bool,
    /// A file that grows has its new bytes on the medium before its new length.
    pub safe_append: bool,
}

impl Storage {
    /// Nothing to rely on: what most disks behind most file systems give.
    pub const UNKNOWN: Storage = Storage {
        sector_size: 4096,
        atomic_write: 0,
        powersafe_overwrite: false,
        ordered: false,
        safe_append: false,
    };

    /// What holds of both: for layers over several backends.
    #[must_use]
    pub fn meet(self, other: Storage) -> Storage {
        Storage {
            sector_size: self.sector_size.max(other.sector_size),
            atomic_write: self.atomic_write.min(other.atomic_write),
            powersafe_overwrite: self.powersafe_overwrite && other.powersafe_overwrite,
            ordered: self.ordered && other.ordered,
            safe_append: self.safe_append && other.safe_append,
        }
    }
}

/// One change of a group; see [`FileSystem::commit`](crate::FileSystem::commit).
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// As [`File::write_at`], of all bytes.
    Write {
        /// A handle of the same backend that may write.
        file: &'a dyn File,
        /// Where to.
        offset: u64,
        /// All of them.
        bytes: &'a [u8],
    },
    /// As [`File::set_len`].
    SetLen {
        /// A handle of the same backend that may write.
        file: &'a dyn File,
        /// The new length.
        len: u64,
    },
    /// As [`File::link_to`].
    LinkTo {
        /// A handle on a temporary file of the same backend.
        file: &'a dyn File,
        /// Its name.
        path: &'a VfsPath,
    },
    /// As [`FileSystem::rename`](crate::FileSystem::rename).
    Rename {
        /// The name it has.
        from: &'a VfsPath,
        /// The name it gets.
        to: &'a VfsPath,
        /// What becomes of a taken one.
        mode: RenameMode,
    },
    /// As [`FileSystem::remove_file`](crate::FileSystem::remove_file).
    RemoveFile {
        /// The name.
        path: &'a VfsPath,
    },
}
