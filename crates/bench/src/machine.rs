//! What a report says of the machine and the build.

use std::fs;
use std::path::Path;

use crate::options::{Options, hardware_threads};

/// Where, how and with what a run was made.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The command line.
    pub command: String,
    /// `release` or `debug`, and the features that bring targets. Numbers of a debug build mean
    /// nothing.
    pub build: String,
    /// The compiler.
    pub compiler: &'static str,
    /// The version of the suite and the library.
    pub version: &'static str,
    /// The processor and its hardware threads.
    pub cpu: String,
    /// Main memory.
    pub memory: String,
    /// The distribution.
    pub system: String,
    /// The kernel and its release.
    pub kernel: String,
    /// The file system that holds the data.
    pub disk: String,
    /// Warm or cold cache, iterations, scale.
    pub method: String,
}

impl Heading {
    pub(crate) fn new(options: &Options, dir: &Path) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let model = field(&cpuinfo, "model name", ':').unwrap_or("unknown processor");
        let meminfo = read("/proc/meminfo");
        let kib = field(&meminfo, "MemTotal", ':')
            .and_then(|text| text.split(' ').next())
            .and_then(|digits| digits.parse::<f64>().ok())
            .unwrap_or(0.0);
        let release = read("/etc/os-release");
        let uname = rustix::system::uname();
        let kernel = [uname.sysname(), uname.release(), uname.machine()];
        let kernel = kernel.map(|text| text.to_string_lossy().into_owned()).join(" ");
        Heading {
            command: options.command.clone(),
            build: build(),
            compiler: env!("BENCH_RUSTC"),
            version: env!("CARGO_PKG_VERSION"),
            cpu: format!("{model}, {} hardware threads", hardware_threads()),
            memory: format!("{:.0} GiB", kib / 1024.0 / 1024.0),
            system: field(&release, "PRETTY_NAME", '=').unwrap_or("unknown").replace('"', ""),
            kernel,
            disk: disk(dir),
            method: format!(
                "{} cache, scale {}, median of {}",
                if options.cold { "cold" } else { "warm" },
                options.scale,
                options.iterations
            ),
        }
    }

    /// Name and value of each line.
    pub fn lines(&self) -> [(&'static str, &str); 10] {
        [
            ("command", &self.command),
            ("build", &self.build),
            ("version", self.version),
            ("compiler", self.compiler),
            ("cpu", &self.cpu),
            ("memory", &self.memory),
            ("system", &self.system),
            ("kernel", &self.kernel),
            ("disk", &self.disk),
            ("method", &self.method),
        ]
    }
}

fn build() -> String {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let features = [("peers", cfg!(feature = "peers")), ("physfs", cfg!(feature = "physfs"))];
    let features = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name);
    match features.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => profile.to_owned(),
        features => format!("{profile}, --features {features}"),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line with this key.
fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(separator));
    lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// Type and device of the file system that holds `dir`: of all mounts above it the one with
/// the longest path, and of equals the last mounted.
fn disk(dir: &Path) -> String {
    let Ok(dir) = dir.canonicalize() else { return "unknown".to_owned() };
    let mounts = read("/proc/self/mounts");
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        dir.starts_with(point).then_some((point.len(), kind, device))
    });
    above
        .max_by_key(|&(len, ..)| len)
        .map_or_else(|| "unknown".to_owned(), |(_, kind, device)| format!("{kind} on {device}"))
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_of_system_files() {
        assert_eq!(field("a : 1\nb\t: x: y\n", "b", ':'), Some("x: y"));
        assert_eq!(field("a : 1\n", "c", ':'), None);
    }
}
