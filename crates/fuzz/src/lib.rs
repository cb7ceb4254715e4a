//! What the fuzz targets do with their bytes: one function for each decoder of bytes that a
//! stranger or a user gives. The fuzzer (`fuzz/`, `cargo xtask fuzz`) calls them with inputs
//! that it finds by coverage, the tests with seeded mutations of the same seeds.
//!
//! A body takes any bytes and panics when what must hold for all of them does not. Checksums
//! are made good by the body itself, so that a mutation reaches what lies behind them.

pub mod archive;
pub mod glob;
mod heap;
mod mutate;
mod observe;
pub mod path;
pub mod stack;
pub mod zip;

use stratafs_testkit::tools::Random;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its program.
    pub name: &'static str,
    /// Inputs to begin with: valid ones, of all forms.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Looks at one input.
    ///
    /// # Panics
    /// When something that must hold for every input does not hold for this one.
    pub run: fn(&[u8]),
    /// Changes an input with knowledge of its form.
    pub mutate: fn(&mut Vec<u8>, &mut Random),
}

/// All targets.
pub const TARGETS: &[Target] =
    &[archive::TARGET, zip::TARGET, path::TARGET, stack::TARGET, glob::TARGET];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.iter().find(|target| target.name == name).copied()
    }
}
