//! The results, and how they are written.

mod csv;
mod markdown;
mod numbers;
mod svg;

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::cipher::CipherSpeed;
use crate::dataset::MIB;
use crate::machine::Heading;
use crate::options::Options;
use crate::runner::Measurement;
use crate::targets::BASELINE;

use numbers::{optional, short, significant};

/// One combination of scenario, target and number of threads.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The target's name.
    pub target: &'static str,
    /// How many threads worked at once.
    pub threads: usize,
    /// Operations of all threads for each second of the clock on the wall.
    pub ops_per_s: f64,
    /// Bytes read or written, in MiB, for each second; `None` where only metadata is asked for.
    pub mib_per_s: Option<f64>,
    /// Half of all operations took no longer, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 operations took no longer, in microseconds.
    pub p99_us: f64,
    /// Throughput relative to `base:stdio` in the same scenario with as many threads; `None`
    /// where that was not measured.
    pub vs_stdio: Option<f64>,
}

/// The line of a table on a terminal; [`Row::CONSOLE_HEADING`] names the columns.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<16} {:<28} {:>7} {:>9} {:>9} {:>10} {:>10} {:>8}",
            self.scenario,
            self.target,
            self.threads,
            short(self.ops_per_s),
            optional(self.mib_per_s, |value| format!("{value:.0}")),
            significant(self.p50_us, 3),
            significant(self.p99_us, 3),
            optional(self.vs_stdio, |value| significant(value, 3)),
        )
    }
}

impl Row {
    /// The names of the columns, as wide as the columns.
    pub const CONSOLE_HEADING: &'static str = "scenario         target                       threads     ops/s     MiB/s     p50 us     p99 us vs stdio";
}

/// All results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    heading: Heading,
    rows: Vec<Row>,
    ciphers: Vec<CipherSpeed>,
}

impl Report {
    pub(crate) fn new(heading: Heading) -> Self {
        Report { heading, rows: Vec::new(), ciphers: Vec::new() }
    }

    /// Where and how they were measured.
    pub fn heading(&self) -> &Heading {
        &self.heading
    }

    /// The results, in the order they were measured.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The speed of the ciphers by themselves; empty when no encrypted archive was read.
    pub fn ciphers(&self) -> &[CipherSpeed] {
        &self.ciphers
    }

    pub(crate) fn set_ciphers(&mut self, ciphers: Vec<CipherSpeed>) {
        self.ciphers = ciphers;
    }

    pub(crate) fn add(
        &mut self,
        scenario: &'static str,
        target: &'static str,
        threads: usize,
        measured: &Measurement,
    ) -> &Row {
        let seconds = measured.elapsed.as_secs_f64().max(1e-9);
        let ops_per_s = measured.operations as f64 / seconds;
        let baseline = match target {
            BASELINE => Some(ops_per_s),
            _ => self.find(scenario, BASELINE, threads).map(|row| row.ops_per_s),
        };
        self.rows.push(Row {
            scenario,
            target,
            threads,
            ops_per_s,
            mib_per_s: (measured.bytes > 0).then(|| ops_per_s * measured.bytes as f64 / MIB as f64),
            p50_us: measured.latency.quantile(0.5) / 1000.0,
            p99_us: measured.latency.quantile(0.99) / 1000.0,
            vs_stdio: baseline.map(|baseline| ops_per_s / baseline),
        });
        &self.rows[self.rows.len() - 1]
    }

    /// The result of one combination, if it was measured.
    pub fn find(&self, scenario: &str, target: &str, threads: usize) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| (row.scenario, row.target, row.threads) == (scenario, target, threads))
    }

    /// The numbers of threads that were measured, in order.
    fn thread_counts(&self) -> Vec<usize> {
        distinct(self.rows.iter().map(|row| row.threads))
    }

    fn scenarios(&self) -> Vec<&'static str> {
        distinct(self.rows.iter().map(|row| row.scenario))
    }

    fn targets(&self) -> Vec<&'static str> {
        // In the suite's order, also of targets that the first scenarios did not run on.
        let measured = |name: &&'static str| self.rows.iter().any(|row| row.target == *name);
        crate::targets::TARGETS.iter().map(|target| target.name).filter(measured).collect()
    }

    /// The results as CSV, with a line for the names of the columns.
    pub fn to_csv(&self) -> String {
        csv::write(self)
    }

    /// The results as a page of Markdown.
    pub fn to_markdown(&self) -> String {
        markdown::write(self)
    }

    /// The results as bar charts of the ratios to `base:stdio`.
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// Finds out whether the files that the options name can be written; those that are there stay
    /// as they are until there is something to write.
    pub(crate) fn check_outputs(options: &Options) -> io::Result<()> {
        for path in [&options.csv, &options.markdown, &options.svg].into_iter().flatten() {
            let open = fs::OpenOptions::new().append(true).create(true).open(path);
            open.map_err(|error| named(path, &error))?;
        }
        Ok(())
    }

    pub(crate) fn save(&self, options: &Options) -> io::Result<()> {
        let save = |path: &Option<std::path::PathBuf>, text: &dyn Fn() -> String| match path {
            Some(path) => write_file(path, &text()),
            None => Ok(()),
        };
        save(&options.csv, &|| self.to_csv())?;
        save(&options.markdown, &|| self.to_markdown())?;
        save(&options.svg, &|| self.to_svg())
    }
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// Results to test the writers with.
#[cfg(test)]
fn example() -> Report {
    use crate::latency::Histogram;
    use std::time::Duration;
    let mut report = Report::new(Heading::new(&Options::default(), Path::new("/")));
    let mut latency = Histogram::new();
    latency.record(2_000);
    for (scenario, target, threads, operations, bytes) in [
        ("read.small", "base:stdio", 1, 400_000, 4096),
        ("read.small", "base:stdio", 2, 700_000, 4096),
        ("read.small", "vfs:memory", 1, 2_000_000, 4096),
        ("read.small", "vfs:memory", 2, 3_500_000, 4096),
        ("meta.miss", "vfs:memory", 1, 10, 0),
    ] {
        let latency = latency.clone();
        let elapsed = Duration::from_secs(1);
        let measured = Measurement { operations, elapsed, bytes, latency };
        report.add(scenario, target, threads, &measured);
    }
    let xor = CipherSpeed { name: "base:cipher-xor", block: 65536, mib_per_s: 9000.0 };
    report.set_ciphers(vec![xor]);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_baseline_with_as_many_threads() {
        let report = example();
        let ratio =
            |scenario, target, threads| report.find(scenario, target, threads).unwrap().vs_stdio;
        assert_eq!(ratio("read.small", "base:stdio", 2), Some(1.0));
        assert_eq!(ratio("read.small", "vfs:memory", 1), Some(5.0));
        assert_eq!(ratio("read.small", "vfs:memory", 2), Some(5.0));
        assert_eq!(ratio("meta.miss", "vfs:memory", 1), None);
        assert!(report.find("meta.miss", "vfs:memory", 2).is_none());
    }

    #[test]
    fn the_console_heading_fits_its_columns() {
        assert_eq!(example().rows()[0].to_string().len(), Row::CONSOLE_HEADING.len());
    }
}
