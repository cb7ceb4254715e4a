//! The mount table: several backends as one tree.
//!
//! A [`Vfs`] owns a table of mount points, an immutable value: a call loads it, finds the
//! longest mount point that is a prefix of its path, and calls that point's file system; it
//! takes no lock and writes nothing that another thread reads. Mounting builds a new table.
//!
//! # Rules
//! - A mount shadows what lies beneath its point, as in a kernel: an ancestor mount is never
//!   asked for a name below a nested mount point, so it costs nothing.
//! - Several backends at one point form a stack: the higher
//!   [`priority`](MountOptions::priority) is asked first, and of equals the later mounted. The
//!   stack is an `OverlayFs` with all that says about whiteouts and
//!   copy-up. It can be written only if one of its backends is the point's
//!   [`write_target`](MountOptions::write_target), which must be on top: a write beneath a
//!   layer that shadows it could not be read back.
//! - A mount point and the directories that lead to it are visible in listings, whether the
//!   backend beneath has them or not, unless the mount is [`hidden`](MountOptions::hidden).
//!   Directories that exist only because a mount needs them are made in the backend beneath
//!   when something is first created in them.
//! - A mount point, and a directory that leads to one, cannot be removed or renamed (`Busy`);
//!   a rename or hard link from one mount to another answers `CrossesMounts`.
//! - Handles outlive unmounting: they keep their backend alive.
//!
//! # Locks
//! In this order: the mutex of the mounts, which orders mounts and unmounts and is held while a
//! stack is built (which asks its backends what they can do); the mutex around the pointer to
//! the current table, held for a pointer copy. A lookup takes the second, once, after each
//! change, and else none.

mod current;
mod handle;
mod options;
pub(crate) mod resolve;
mod table;
mod tree;
mod vfs;
mod watch;

pub use options::{MountId, MountOptions};
pub use vfs::Vfs;
