//! Layers over one backend: each changes one thing and forwards the rest.

mod case_fold;
mod read_only;
mod subdir;
mod traced;

pub use case_fold::CaseFoldFs;
pub use read_only::ReadOnlyFs;
pub use subdir::SubdirFs;
pub use traced::TracedFs;
