//! What callers do with a tree: the calls of `std::fs`, and a few more.

mod calls;
mod copy;
mod file;
#[cfg(feature = "glob")]
mod glob;
mod list;
mod stream;
mod walk;

pub use file::VfsFile;
#[cfg(feature = "glob")]
pub use glob::Glob;
pub use list::DirList;
pub use stream::FileStream;
pub use walk::{Walk, WalkEntry};
