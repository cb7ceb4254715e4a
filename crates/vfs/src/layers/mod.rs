//! Layers over one backend: each changes one thing and forwards the rest.

mod read_only;
mod subdir;

pub use read_only::ReadOnlyFs;
pub use subdir::SubdirFs;
