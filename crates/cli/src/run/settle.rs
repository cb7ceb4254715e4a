//! What becomes of the changes. Whatever fails here, they are not dropped unless somebody said
//! so: what cannot be applied, shown or kept where it should be is kept elsewhere.

use std::error::Error as _;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use stratafs::{Change, Conflicts, ErrorKind, FileSystem, NativeFs};

use super::decision::{self, Decision};
use super::mounts;
use super::place::{is_inside, temporary_places};
use super::report;
use super::view::View;
use crate::exit::{Context, Failure, tell};
use crate::output::Output;
use crate::progress::Meter;

/// How the changes of a view are settled.
#[derive(Debug)]
pub struct Settlement<'a> {
    /// The view, which nobody uses any more.
    pub view: &'a View,
    /// The directory that it is a view of.
    pub directory: &'a Path,
    /// What was decided before; `None`: whoever is there is asked.
    pub decision: Option<Decision>,
    /// Whether somebody may be asked.
    pub may_ask: bool,
    /// The directory of [`Decision::Keep`]: opened before the view hid its path.
    pub keep: Option<NativeFs>,
}

impl Settlement<'_> {
    /// Tells what changed and does with it what is decided.
    ///
    /// # Errors
    /// What failed; unless the changes were dropped on demand, they are kept then.
    pub fn settle(self, output: &mut Output) -> Result<(), Failure> {
        let changes = match self.view.overlay.changes() {
            Ok(changes) => changes,
            Err(error) => {
                let failure = Failure::new(format_args!("what changed is not known: {error}"));
                return Err(match self.decision {
                    Some(Decision::Discard) => failure,
                    _ => self.rescue(failure),
                });
            }
        };
        // Data that nobody reads must not cost anybody the changes.
        let told = match output.is_json() {
            true => report::write_json(&changes, output).and_then(|()| output.flush()),
            false => Ok(()),
        };
        if changes.is_empty() {
            tell!("nothing was changed");
            return told;
        }
        let list = report::text(&changes);
        tell!("changed in {}:\n{}", self.directory.display(), list.trim_end_matches('\n'));
        self.decide(&changes, &list)?;
        told
    }

    fn decide(self, changes: &[Change], list: &str) -> Result<(), Failure> {
        let can_ask = self.may_ask && decision::can_ask();
        let mut decision = match &self.decision {
            Some(decision) => decision.clone(),
            None if can_ask => decision::ask(self.directory, list, false),
            None => Decision::Keep(None),
        };
        if can_ask
            && decision == Decision::Apply
            && let Ok(conflicts) = self.view.overlay.conflicts()
            && !conflicts.is_empty()
        {
            tell!("{}", self.contested(&Conflicts(conflicts)));
            decision = decision::ask(self.directory, list, true);
        }
        let total = changes.iter().filter_map(|change| change.new_len).sum();
        let done = match (&decision, &self.keep) {
            (Decision::Discard, _) => {
                tell!("discarded");
                return Ok(());
            }
            (Decision::Apply | Decision::Overwrite, _) => {
                self.apply(changes, total, decision == Decision::Overwrite)
            }
            (Decision::Keep(Some(path)), Some(target)) => self.keep(target, path, total),
            (Decision::Keep(_), _) => self.keep_somewhere(total),
        };
        done.map_err(|failure| self.rescue(failure))
    }

    fn contested(&self, conflicts: &dyn std::fmt::Display) -> String {
        let directory = self.directory.display();
        format!("not applied to {directory}, where others changed the same meanwhile:{conflicts}")
    }

    fn apply(&self, changes: &[Change], total: u64, overwrite: bool) -> Result<(), Failure> {
        if let Some(mount) = mounts::met(changes, self.directory) {
            return Err(Failure::new(format_args!(
                "not applied: {} is another mount, which the changes do not fit",
                mount.display()
            )));
        }
        let meter = Meter::new("applying", total);
        let progress = |bytes| meter.advance(bytes);
        let (overlay, lower) = (&self.view.overlay, &*self.view.lower);
        let applied = match overwrite {
            true => overlay.apply_over(lower, &progress),
            false => overlay.apply_with(lower, &progress),
        };
        applied.map_err(|error| match error.source() {
            Some(conflicts) if error.kind() == ErrorKind::Conflict => {
                Failure::new(self.contested(conflicts))
            }
            cause => {
                let path = self.directory.join(OsStr::from_bytes(error.path().as_bytes()));
                let failure = Failure::new(error.kind());
                let failure = match cause {
                    Some(cause) => Failure::new(cause).context(failure),
                    None => failure,
                };
                failure.context(path.display()).context("not applied")
            }
        })?;
        drop(meter);
        tell!("applied to {}", self.directory.display());
        Ok(())
    }

    fn keep(&self, target: &dyn FileSystem, path: &Path, total: u64) -> Result<(), Failure> {
        let meter = Meter::new("keeping", total);
        self.view
            .overlay
            .keep_with(target, &|bytes| meter.advance(bytes))
            .context(|| format!("not kept in {}", path.display()))?;
        drop(meter);
        tell!(
            "kept in {path}; look at them with\n  strata mount --layer {lower} --layer {upper} \
             MOUNTPOINT",
            path = path.display(),
            lower = crate::stack::native_spec(self.directory),
            upper = crate::stack::native_spec(path),
        );
        Ok(())
    }

    /// Keeps the changes in the first of the places for temporary files that takes them.
    fn keep_somewhere(&self, total: u64) -> Result<(), Failure> {
        let mut reasons = Vec::new();
        let mut places = temporary_places();
        // The directory stays as it is, unless there is no other place.
        places.sort_by_key(|place| is_inside(place, self.directory));
        for place in places {
            let kept = fresh_directory(&place).and_then(|kept| {
                let target = NativeFs::new(&kept)?;
                match self.keep(&target, &kept, total) {
                    Ok(()) => Ok(()),
                    Err(failure) => {
                        // A part of the changes is of no use, and may have filled the disk.
                        let _ = std::fs::remove_dir_all(&kept);
                        Err(failure)
                    }
                }
            });
            match kept {
                Ok(()) => return Ok(()),
                Err(failure) => reasons.push(format!("{}: {failure}", place.display())),
            }
        }
        Err(Failure::new(reasons.join("\n  ")))
    }

    /// Keeps the changes after a failure, for which it waits if it must, and gives the failure
    /// back.
    fn rescue(&self, failure: Failure) -> Failure {
        tell!("{failure}");
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Without the handler only a stronger signal ends the waiting.
            let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
        }
        let mut told = false;
        while let Err(nowhere) = self.keep_somewhere(0) {
            if !told {
                tell!(
                    "the changes can be kept nowhere:\n  {nowhere}\nThey are in the memory of \
                     this process ({}), which tries again until there is room; ending it drops \
                     them",
                    std::process::id()
                );
                told = true;
            }
            for _ in 0..20 {
                if stop.load(Ordering::Relaxed) {
                    return Failure::new("ended: the changes are dropped");
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Failure::new("the changes were not settled as wanted: they are kept as said above")
    }
}

fn fresh_directory(place: &Path) -> Result<PathBuf, Failure> {
    Ok(tempfile::Builder::new().prefix("strata-kept-").tempdir_in(place)?.keep())
}
