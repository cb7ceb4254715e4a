//! The contract of [`FileSystem`] as cases: one per promise, and one per line of every
//! `# Errors` list.
//!
//! A case gets an empty file system of its own. [`Capabilities`] choose the cases: one that
//! needs what a backend lacks is left out, and the group `capabilities` checks that the
//! backend answers then as the contract says.

use std::any::Any;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stratafs::{Capabilities, FileSystem};

use crate::Factory;

mod append;
mod capabilities;
mod create;
mod link;
mod metadata;
mod methods;
mod names;
mod open;
mod paths;
mod read_dir;
mod read_only;
mod read_write;
mod remove;
mod rename;
mod rename_modes;
mod set_metadata;
mod sparse;
mod symlinks;
mod temporary;
mod threads;
mod unlinked;
mod watch;
mod xattrs;

pub use read_only::{read_only, read_only_errors};

/// One promise of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is promised, unique within its group.
    pub name: &'static str,
    /// What a backend must have for the promise to hold.
    pub needs: Capabilities,
    /// Checks it on an empty file system; panics when it does not hold.
    pub run: fn(&dyn FileSystem),
}

/// The cases of one method or subject.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its cases.
    pub cases: &'static [Case],
}

/// A list of cases: `name` or `name: NEEDED | CAPABILITIES`. All need `WRITE`.
macro_rules! cases {
    ($($name:ident $(: $($need:ident)|+)?),+ $(,)?) => {
        pub(super) const CASES: &[$crate::conformance::Case] = &[$(
            $crate::conformance::Case {
                name: stringify!($name),
                needs: stratafs::Capabilities::WRITE
                    $($(.union(stratafs::Capabilities::$need))+)?,
                run: $name,
            }
        ),+];
    };
}
use cases;

macro_rules! groups {
    ($($name:ident),+ $(,)?) => {
        /// Every group of the suite.
        pub const GROUPS: &[Group] = &[$(
            Group { name: stringify!($name), cases: $name::CASES }
        ),+];

        /// Makes a module of tests, one per group: `conformance_tests!(name, factory)`, where
        /// `factory` is a function that makes a [`Subject`](crate::Subject). A third argument,
        /// a list of `"group::case"`, leaves these out; say why beside it.
        #[macro_export]
        macro_rules! conformance_tests {
            ($module:ident, $factory:expr) => {
                $crate::conformance_tests!($module, $factory, []);
            };
            ($module:ident, $factory:expr, $without:expr) => {
                mod $module {
                    use super::*;
                    $(
                        #[test]
                        fn $name() {
                            let factory = $factory;
                            $crate::conformance::run_group(
                                stringify!($module),
                                &factory,
                                stringify!($name),
                                &$without,
                            );
                        }
                    )+
                }
            };
        }
    };
}

groups! {
    paths,
    open,
    read_write,
    append,
    metadata,
    read_dir,
    symlinks,
    create,
    link,
    rename,
    rename_modes,
    remove,
    unlinked,
    temporary,
    sparse,
    threads,
    watch,
    set_metadata,
    xattrs,
    names,
    capabilities,
}

/// Runs every case on file systems that `factory` makes.
///
/// # Panics
/// Once, at the end, naming every case that failed.
pub fn run(subject: &str, factory: Factory<'_>) {
    run_except(subject, factory, &[]);
}

/// As [`run`], without the cases named (`"group::case"`).
///
/// # Panics
/// As [`run`]; also for a name that is no case.
pub fn run_except(subject: &str, factory: Factory<'_>, without: &[&str]) {
    for name in without {
        let known = GROUPS.iter().any(|group| {
            group.cases.iter().any(|case| *name == format!("{}::{}", group.name, case.name))
        });
        assert!(known, "no case is named {name:?}");
    }
    report(subject, GROUPS.iter().flat_map(|group| failures(factory, group, without)).collect());
}

/// Runs the cases of one group.
///
/// # Panics
/// As [`run`]; also for a name that is no group.
pub fn run_group(subject: &str, factory: Factory<'_>, name: &str, without: &[&str]) {
    let group = GROUPS.iter().find(|group| group.name == name).expect("a group of the suite");
    report(subject, failures(factory, group, without));
}

/// The names (`"group::case"`) of the cases that need all of `capabilities`.
pub fn needing(capabilities: Capabilities) -> Vec<String> {
    let cases = GROUPS.iter().flat_map(|group| group.cases.iter().map(move |case| (group, case)));
    let needing = cases.filter(|(_, case)| case.needs.contains(capabilities));
    needing.map(|(group, case)| format!("{}::{}", group.name, case.name)).collect()
}

fn failures(factory: Factory<'_>, group: &Group, without: &[&str]) -> Vec<(String, String)> {
    let mut failures = Vec::new();
    for case in group.cases {
        let name = format!("{}::{}", group.name, case.name);
        if without.contains(&name.as_str()) {
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let subject = factory();
            if subject.fs().capabilities().contains(case.needs) {
                (case.run)(subject.fs());
            }
        }));
        if let Err(panic) = outcome {
            failures.push((name, message(&*panic)));
        }
    }
    failures
}

fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (_, Some(text)) => (*text).to_owned(),
        _ => "a panic without text".to_owned(),
    }
}

#[track_caller]
fn report(subject: &str, failures: Vec<(String, String)>) {
    if failures.is_empty() {
        return;
    }
    let mut text = format!("{subject}: {} cases failed", failures.len());
    for (name, message) in failures {
        let _ = write!(text, "\n  {name}: {message}");
    }
    panic!("{text}");
}
