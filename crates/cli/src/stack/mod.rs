//! Layers of a stack: their text form, what they are made of, and the tree of several.
//!
//! ```text
//! KIND:ARGUMENT[,OPTION...][@/MOUNT/POINT]
//! ```
//!
//! The kinds are those of [`kinds`], a file each, and what a program adds with [`register`];
//! `strata mount --help` lists them with their options. Each takes `ro` (nothing can be changed
//! through this layer), `any-case` (names are found whatever their case) and `hidden` (the
//! mount point does not show in its parent's listing).
//!
//! The mount point is where in the tree the layer stands; the root when it is not given. Of
//! several layers at one point the later is on top, and the topmost takes the changes if it
//! can.
//!
//! In every part a backslash makes the next character mean itself, so a comma in a path is
//! written `\,`, a backslash `\\`, an `@` before a `/` is written `\@`, and a `!` in the name
//! of an archive `\!`. Nothing else is special: `native:/a@b:c` is the directory `/a@b:c`.

pub mod grammar;
mod kind;
pub mod kinds;
mod spec;
mod tree;

pub use grammar::size;
pub use kind::{LayerKind, LayerSource, Line, Parsed};
pub use kinds::native::native_spec;
pub use kinds::{help, register};
pub use spec::LayerSpec;
pub use tree::{build, wear};
