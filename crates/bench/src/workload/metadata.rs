//! Asking about names.

use std::hint::black_box;
use std::io;

use crate::contestant::{Contestant, Listing};
use crate::dataset::{SMALL_DIR, Sizes, missing_path, small_path};
use crate::latency::Recorder;

use super::{Round, Workload};

/// The names of all small files.
pub(crate) fn small_names<C: Contestant>(contestant: &C, sizes: &Sizes) -> Vec<C::Name> {
    (0..sizes.small_files).map(|index| contestant.name(&small_path(index))).collect()
}

/// A workload that asks one question for each of a list of names.
macro_rules! question {
    ($(#[$doc:meta])* $workload:ident, $names:expr, |$contestant:ident, $name:ident| $ask:expr) => {
        $(#[$doc])*
        pub(crate) struct $workload<C: Contestant> {
            names: Vec<C::Name>,
        }

        impl<C: Contestant> $workload<C> {
            pub(crate) fn new(contestant: &C, sizes: &Sizes) -> Self {
                $workload { names: $names(contestant, sizes) }
            }
        }

        impl<C: Contestant> Workload<C> for $workload<C> {
            type Thread = Round;

            fn operations(&self) -> usize {
                self.names.len()
            }

            fn bytes(&self) -> usize {
                0
            }

            fn thread(&self, _: &C, number: usize, threads: usize) -> io::Result<Round> {
                Ok(Round::new(self.names.len(), number, threads))
            }

            fn work<R: Recorder>(
                &self,
                $contestant: &C,
                round: &mut Round,
                operations: usize,
                recorder: &mut R,
            ) -> io::Result<()> {
                for _ in 0..operations {
                    let $name = &self.names[round.next()];
                    recorder.operation(|| $ask)?;
                }
                Ok(())
            }
        }
    };
}

question!(
    /// Opens small files and closes them.
    Open,
    small_names,
    |contestant, name| {
        black_box(&contestant.open(name)?);
        io::Result::Ok(())
    }
);

question!(
    /// Asks for the metadata of small files.
    Stat,
    small_names,
    |contestant, name| match contestant.stat(name)? as usize {
        Sizes::SMALL => Ok(()),
        other => Err(io::Error::other(format!("a small file of {other} bytes"))),
    }
);

fn missing_names<C: Contestant>(contestant: &C, sizes: &Sizes) -> Vec<C::Name> {
    (0..sizes.small_files).map(|index| contestant.name(&missing_path(sizes, index))).collect()
}

question!(
    /// Asks whether names exist that do not.
    Miss,
    missing_names,
    |contestant, name| match contestant.exists(name)? {
        false => Ok(()),
        true => Err(io::Error::other("a missing name exists")),
    }
);

/// Lists the directory of the small files.
pub(crate) struct List<C: Contestant> {
    name: C::Name,
    expected: Listing,
}

impl<C: Contestant> List<C> {
    pub(crate) fn new(contestant: &C, sizes: &Sizes) -> Self {
        let name_bytes = |index| small_path(index).len() - SMALL_DIR.len() - 1;
        List {
            name: contestant.name(SMALL_DIR),
            expected: Listing {
                files: sizes.small_files,
                name_bytes: (0..sizes.small_files).map(name_bytes).sum(),
            },
        }
    }
}

impl<C: Contestant> Workload<C> for List<C> {
    type Thread = ();

    fn operations(&self) -> usize {
        Sizes::LISTINGS
    }

    fn bytes(&self) -> usize {
        0
    }

    fn thread(&self, _: &C, _: usize, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (): &mut (),
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        for _ in 0..operations {
            let listing = recorder.operation(|| contestant.list(&self.name))?;
            if listing != self.expected {
                return Err(io::Error::other(format!("a wrong listing: {listing:?}")));
            }
        }
        Ok(())
    }
}
