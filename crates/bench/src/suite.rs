//! Running everything that was asked for.

use std::env;
use std::io;
use std::time::Duration;

use crate::cipher;
use crate::contestant::{Contestant, Writable};
use crate::dataset::{LARGE_FILE, Sizes, medium_path, small_path};
use crate::disk;
use crate::latency;
use crate::machine::Heading;
use crate::options::Options;
use crate::report::{Report, Row};
use crate::runner::{Measurement, Rules, measure};
use crate::scenario::Scenario;
use crate::targets::{TARGETS, Target, Visitor};
use crate::workload::{
    Append, Churn, Create, List, Miss, Open, Overwrite, ReadFiles, ReadRandomly, ReadThrough, Stat,
    Workload, WriteThrough,
};
use crate::world::World;

/// What a run tells while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Before anything is measured.
    Start(&'a Heading),
    /// One combination was measured.
    Row(&'a Row),
    /// Something else worth telling.
    Note(&'a str),
}

/// How long an iteration lasts at least, at scale 1 and above.
const SHORTEST: Duration = Duration::from_millis(100);
/// A round that would last longer is cut.
const LONGEST: Duration = Duration::from_secs(2);

/// Makes the data, measures every combination that the filter lets through, writes the files
/// that the options name, and removes the data.
///
/// # Errors
/// When the options make no sense, the data cannot be made, or a target fails; the error says
/// which.
pub fn run(
    options: &Options,
    tell: &mut dyn FnMut(Event<'_>) -> io::Result<()>,
) -> io::Result<Report> {
    let wrong = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
    options.check().map_err(wrong)?;
    let wanted = |target: &Target, scenario: Scenario| {
        takes_part(target, scenario) && options.filter.matches(scenario.name(), target.name)
    };
    if !Scenario::ALL.iter().any(|&scenario| TARGETS.iter().any(|target| wanted(target, scenario)))
    {
        return Err(wrong("the filter lets no scenario and target through; see --list".to_owned()));
    }
    // Better now than after everything was measured.
    Report::check_outputs(options)?;
    let parent = options.dir.clone().unwrap_or_else(env::temp_dir);
    let heading = Heading::new(options, &parent);
    tell(Event::Start(&heading))?;
    if cfg!(debug_assertions) {
        tell(Event::Note("this is a debug build: its numbers mean nothing"))?;
    }
    let world = World::create(&parent, Sizes::scaled(options.scale))?;
    let mut report = Report::new(heading);
    let clock = latency::clock_overhead();
    for scenario in Scenario::ALL {
        for target in TARGETS {
            if !wanted(target, scenario) {
                continue;
            }
            let job = Job { options, world: &world, clock, scenario };
            let measured = target.visit(&world, job).map_err(|error| {
                let text = format!("{} on {}: {error}", scenario.name(), target.name);
                io::Error::new(error.kind(), text)
            })?;
            for (threads, measurement) in measured {
                let row = report.add(scenario.name(), target.name, threads, &measurement);
                tell(Event::Row(row))?;
            }
        }
    }
    let encrypted = |row: &Row| ["vfs:archive-xor", "vfs:archive-aead"].contains(&row.target);
    if report.rows().iter().any(encrypted) {
        let ciphers = cipher::measure(SHORTEST.mul_f64(options.scale.min(1.0)))?;
        for speed in &ciphers {
            let (name, block, mib) = (speed.name, speed.block, speed.mib_per_s);
            tell(Event::Note(&format!("{name}, {block} bytes at once: {mib:.0} MiB/s")))?;
        }
        report.set_ciphers(ciphers);
    }
    report.save(options)?;
    if options.keep {
        let kept = world.keep();
        tell(Event::Note(&format!("the data is kept in {}", kept.display())))?;
    }
    Ok(report)
}

/// The scenarios and the targets, each with a line about it.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let scenarios = Scenario::ALL.iter().map(|scenario| (scenario.name(), scenario.operation()));
    scenarios.chain(TARGETS.iter().map(|target| (target.name, target.about)))
}

fn takes_part(target: &Target, scenario: Scenario) -> bool {
    !scenario.is_write() || target.is_writable()
}

/// One scenario on one target, with every number of threads.
struct Job<'a> {
    options: &'a Options,
    world: &'a World,
    clock: Duration,
    scenario: Scenario,
}

type Measured = Vec<(usize, Measurement)>;

impl Job<'_> {
    fn measure<C: Contestant, W: Workload<C>>(
        &self,
        build: impl Fn() -> io::Result<C>,
        workload: impl Fn(&C, &Sizes) -> W,
    ) -> io::Result<Measured> {
        let chill = || disk::drop_cached(self.world.dir());
        let settle = || disk::settle(self.world.dir());
        let rules = Rules {
            iterations: self.options.iterations,
            shortest: SHORTEST.mul_f64(self.options.scale.min(1.0)),
            longest: LONGEST,
            clock: self.clock,
            chill: self.options.cold.then_some(&chill),
            settle: self.scenario.is_write().then_some(&settle),
        };
        let make = || {
            let contestant = build()?;
            let workload = workload(&contestant, self.world.sizes());
            Ok((contestant, workload))
        };
        check_data(&build()?, self.world)?;
        let threads = self.options.threads.as_slice().iter();
        threads.map(|&threads| Ok((threads, measure(&rules, threads, &make)?))).collect()
    }
}

/// A fast contestant that reads something else is no contestant.
fn check_data<C: Contestant>(contestant: &C, world: &World) -> io::Result<()> {
    let sizes = world.sizes();
    let last = [small_path(sizes.small_files - 1), medium_path(sizes.medium_files - 1)];
    for (path, len) in [
        (&last[0], Sizes::SMALL),
        (&last[1], Sizes::MEDIUM),
        (&LARGE_FILE.to_owned(), sizes.large_chunk()),
    ] {
        let expected = std::fs::read(world.data().join(path))?;
        let mut buf = vec![0; len];
        C::read_next(&mut contestant.open(&contestant.name(path))?, &mut buf, 0)?;
        if buf != expected[..len] {
            return Err(io::Error::other(format!("{path}: the wrong bytes")));
        }
    }
    Ok(())
}

impl Visitor for Job<'_> {
    type Outcome = Measured;

    fn readable<C: Contestant>(self, build: impl Fn() -> io::Result<C>) -> io::Result<Measured> {
        let names = |contestant: &C, count: usize, path: fn(usize) -> String| {
            (0..count).map(|index| contestant.name(&path(index))).collect()
        };
        match self.scenario {
            Scenario::ReadSmall => self.measure(build, |contestant, sizes| {
                let names = names(contestant, sizes.small_files, small_path);
                ReadFiles::new(names, Sizes::SMALL, Sizes::SMALL)
            }),
            Scenario::ReadMedium => self.measure(build, |contestant, sizes| {
                let names = names(contestant, sizes.medium_files, medium_path);
                ReadFiles::new(names, Sizes::MEDIUM, Sizes::MEDIUM_CHUNK)
            }),
            Scenario::ReadLargeSequential => self.measure(build, ReadThrough::new),
            Scenario::ReadLargeRandom => self.measure(build, ReadRandomly::new),
            Scenario::MetaOpen => self.measure(build, Open::new),
            Scenario::MetaStat => self.measure(build, Stat::new),
            Scenario::MetaMiss => self.measure(build, Miss::new),
            Scenario::MetaList => self.measure(build, List::new),
            Scenario::WriteCreate
            | Scenario::WriteChurn
            | Scenario::WriteLargeSequential
            | Scenario::WriteOverwrite
            | Scenario::WriteAppend => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    fn writable<C: Writable>(self, build: impl Fn() -> io::Result<C>) -> io::Result<Measured> {
        match self.scenario {
            Scenario::WriteCreate => self.measure(build, Create::new),
            Scenario::WriteChurn => self.measure(build, Churn::new),
            Scenario::WriteLargeSequential => self.measure(build, WriteThrough::new),
            Scenario::WriteOverwrite => self.measure(build, Overwrite::new),
            Scenario::WriteAppend => self.measure(build, Append::new),
            _ => self.readable(build),
        }
    }
}
