//! What the user chooses.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

/// What to run and where results go. The default is the full suite, as documented for each
/// field.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Multiplier for the amounts of data and of work. Default 1.
    pub scale: f64,
    /// Numbers of threads, each measured. Default 1, 2, 4, 8 and the hardware's.
    pub threads: ThreadList,
    /// Repetitions of each combination; the one with the median elapsed time is kept.
    /// Default 3.
    pub iterations: usize,
    /// Which combinations run. Default all.
    pub filter: Filter,
    /// Where to write the results as CSV.
    pub csv: Option<PathBuf>,
    /// Where to write the results as Markdown.
    pub markdown: Option<PathBuf>,
    /// Where to draw the results.
    pub svg: Option<PathBuf>,
    /// The directory to work in. Default the system's directory for temporary files.
    pub dir: Option<PathBuf>,
    /// Keep the data when finished.
    pub keep: bool,
    /// Drop the data from the page cache before each iteration.
    pub cold: bool,
    /// How the program was called, for the heading of the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            scale: 1.0,
            threads: ThreadList::default(),
            iterations: 3,
            filter: Filter::default(),
            csv: None,
            markdown: None,
            svg: None,
            dir: None,
            keep: false,
            cold: false,
            command: "strata bench".to_owned(),
        }
    }
}

impl Options {
    /// Why these options cannot be used, if so.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(self.scale.is_finite() && self.scale > 0.0 && self.scale <= 1000.0) {
            return Err(format!("scale {}: must be above 0 and at most 1000", self.scale));
        }
        if self.iterations == 0 {
            return Err("iterations: at least one is needed".to_owned());
        }
        Ok(())
    }
}

/// Numbers of threads to measure with, in the order given, each once.
///
/// Parsed from a list such as `1,2,N`, where `N` is the number of hardware threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadList(Vec<usize>);

/// More than any machine needs; a typing error should not start a million threads.
const MOST_THREADS: usize = 4096;

impl ThreadList {
    /// The numbers, none of them 0.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    fn parse(text: &str, hardware: usize) -> Result<Self, String> {
        let mut counts = Vec::new();
        for item in text.split(',').map(str::trim) {
            let count = match item {
                "N" | "n" => hardware,
                digits => match digits.parse() {
                    Ok(count) if (1..=MOST_THREADS).contains(&count) => count,
                    _ => {
                        return Err(format!(
                            "{item:?} is not a number of threads (1 to {MOST_THREADS}, or N)"
                        ));
                    }
                },
            };
            if !counts.contains(&count) {
                counts.push(count);
            }
        }
        Ok(ThreadList(counts))
    }
}

impl Default for ThreadList {
    fn default() -> Self {
        let mut counts = vec![1, 2, 4, 8];
        let hardware = hardware_threads();
        if !counts.contains(&hardware) {
            counts.push(hardware);
        }
        ThreadList(counts)
    }
}

impl FromStr for ThreadList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, hardware_threads())
    }
}

impl fmt::Display for ThreadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, count) in self.0.iter().enumerate() {
            write!(f, "{}{count}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

pub(crate) fn hardware_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Which combinations run: those whose `scenario/target` contains any of the substrings; all
/// when there is none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter(Vec<String>);

impl Filter {
    /// Whether the combination is to run.
    pub fn matches(&self, scenario: &str, target: &str) -> bool {
        let name = format!("{scenario}/{target}");
        self.0.is_empty() || self.0.iter().any(|part| name.contains(part))
    }
}

impl FromStr for Filter {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(Filter(parts.map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(text: &str) -> Result<Vec<usize>, String> {
        ThreadList::parse(text, 6).map(|list| list.0)
    }

    #[test]
    fn thread_lists() {
        assert_eq!(threads("1,2,4,8,N").unwrap(), [1, 2, 4, 8, 6]);
        assert_eq!(threads("N, 6,1,1").unwrap(), [6, 1]);
        for wrong in ["", "0", "1,,2", "x", "-1", "5000"] {
            assert!(threads(wrong).is_err(), "{wrong:?}");
        }
        let default = ThreadList::default();
        assert!(default.as_slice().starts_with(&[1, 2, 4, 8]));
        assert!(default.as_slice().contains(&hardware_threads()));
        assert_eq!(ThreadList(vec![1, 2]).to_string(), "1,2");
    }

    #[test]
    fn filters() {
        let filter = |text: &str| text.parse::<Filter>().unwrap();
        assert!(filter("").matches("read.small", "vfs:native"));
        assert!(filter("read.").matches("read.small", "vfs:native"));
        assert!(!filter("read.").matches("meta.open", "vfs:native"));
        assert!(filter("stat,small/vfs:na").matches("read.small", "vfs:native"));
        assert!(!filter("stat,small/vfs:me").matches("read.small", "vfs:native"));
    }

    #[test]
    fn options_that_make_no_sense() {
        let with_scale = |scale| Options { scale, ..Options::default() };
        assert!(Options::default().check().is_ok());
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(with_scale(scale).check().is_err(), "{scale}");
        }
        assert!(Options { iterations: 0, ..Options::default() }.check().is_err());
    }
}
