//! The FUSE door: shows any [`FileSystem`](stratafs::FileSystem) to the kernel as a mount.
//!
//! ```no_run
//! use std::sync::Arc;
//! use stratafs::MemoryFs;
//! use stratafs_fuse::{Mount, MountOptions};
//!
//! let mount = Mount::new(Arc::new(MemoryFs::new()), "/mnt/scratch", &MountOptions::new())?;
//! // ... the tree is at /mnt/scratch until `mount` is dropped or somebody unmounts it:
//! mount.join()?;
//! # Ok::<(), stratafs_fuse::MountError>(())
//! ```
//!
//! # Shape
//! `door/` answers the kernel's questions in its own types and knows no protocol;
//! `transport/` translates one protocol library into calls of it. Another transport (FUSE
//! over `io_uring`) would be a second folder beside it. `device.rs` opens `/dev/fuse` and mounts.
//!
//! The kernel asks by inode number. A tree that knows its files by number
//! ([`stratafs::NodeSystem`]) is asked so, and an adapter ([`stratafs::PathNodes`]) gives every other
//! tree numbers: one stands for a file from its lookup until the kernel forgets it, whatever
//! becomes of its names.
//!
//! Permissions are checked by the kernel (`default_permissions`) from the owners and modes the
//! tree shows. Locks (`flock`, POSIX) are kept by the kernel and hold within one mount.
//!
//! What the kernel keeps of a tree that others change as well is made untrue by reports of the
//! tree (`watch.rs`), which `notify.rs` passes on.
//!
//! The thread that serves a mount must never touch a path on it: it would wait for itself.
#![cfg(target_os = "linux")]

mod device;
mod directory;
mod door;
mod errno;
mod handles;
mod ids;
mod mount;
mod notify;
mod options;
mod transport;
mod watch;

pub use device::{MountError, unmount};
pub use mount::Mount;
pub use options::{Freshness, MountOptions};
