//! How far long work has come, for whoever waits at a terminal.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on standard error, where that is a terminal and the work takes over a second;
/// gone again when it is dropped. Any thread may report to it.
pub struct Meter {
    start: Instant,
    verb: &'static str,
    bar: OnceLock<ProgressBar>,
    total: u64,
    shown: bool,
}

impl Meter {
    /// A bar for so many bytes; 0: not known.
    pub fn new(verb: &'static str, total: u64) -> Meter {
        let shown = io::stderr().is_terminal();
        Meter { start: Instant::now(), verb, bar: OnceLock::new(), total, shown }
    }

    /// So many bytes are done, of so many (0: not known).
    pub fn set(&self, done: u64, total: u64) {
        if !self.shown || self.start.elapsed() < Duration::from_secs(1) {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = bar(self.verb, total);
            bar.set_position(done);
            // The speed counts from here: nobody knows how the first second went.
            bar.reset_eta();
            bar
        });
        bar.set_position(done);
    }

    /// So many bytes are done.
    pub fn advance(&self, done: u64) {
        self.set(done, self.total);
    }
}

fn bar(verb: &'static str, total: u64) -> ProgressBar {
    let (bar, template) = match total {
        0 => (ProgressBar::no_length(), "{msg} {spinner} {bytes} {bytes_per_sec}"),
        _ => (
            ProgressBar::new(total),
            "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        ),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(verb);
    bar
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
