//! What makes a backend or a layer short: the parts that those of this crate are made of, for
//! backends and layers of others. The page `docs/backends.md` shows them at work.
//!
//! - [`refuse_changes!`](crate::refuse_changes) writes the methods of a backend that cannot be
//!   changed, [`refuse`] is the answer that a layer gives to them.
//! - [`PathIndex`], [`FixedContents`] and [`ImmutableFile`] make a backend of anything that has
//!   an index of all its paths and never changes.
//! - [`wrap_file!`](crate::wrap_file) declares a handle around another.
//! - [`Watches`](crate::Watches) is the list of who watches.
//! - [`FileId::salted`](crate::FileId::salted) keeps ids of several backends apart.
//! - [`Tally`] counts calls and how long they take.
//! - [`Sharded`] lends pointers to one value without a shared counter, for handles that keep
//!   their backend alive.

mod handle;
mod indexed;
mod refuse;
mod tally;

pub use bytes::Bytes;

pub use crate::sharded::{Sharded, Shared};
pub use indexed::{FixedContents, ImmutableFile, PathIndex};
pub use refuse::refuse;
pub use tally::{Tally, Trace, TraceRow};

pub(crate) use handle::wrap_file;
pub(crate) use refuse::refuse_changes;
