//! `strata run`.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use stratafs::NativeFs;
use stratafs_fuse::Mount;

use crate::exit::{Context, Failure, Outcome, Status, tell};
use crate::limits;
use crate::output::Output;
use crate::run::child;
use crate::run::decision::Decision;
use crate::run::place;
use crate::run::settle::Settlement;
use crate::run::view::View;

/// Run a command in a copy-on-write view of the current directory.
///
/// The command sees the directory at its own path and may change anything in it; the
/// directory itself stays as it is, and nothing else on the machine sees the view. When the
/// command has ended, what it changed is listed, and you decide: write it to the directory,
/// drop it, or keep it as a directory of its own.
///
/// The changes are held in memory until then. The exit code is the command's (128 and the
/// number of the signal when one ended it); 125 when strata itself failed, which never drops the
/// changes; 126 and 127 when the command could not be run.
#[derive(clap::Args, Debug)]
#[command(after_help = "Without a decision given: you are asked, on a terminal; else the
changes are kept in a fresh directory under the temporary files, and its name is printed.

Nothing is applied where others changed, made or removed meanwhile what the command changed,
or made something in a directory that it removed: that is listed and the changes are kept,
unless --force is given.

A kept directory is an upper layer: mount it over the directory to look at the result:
  strata mount --layer native:DIRECTORY --layer native:KEPT MOUNTPOINT")]
pub struct Args {
    /// Write the changes to the directory if the command succeeds.
    #[arg(long, group = "decision")]
    apply: bool,
    /// With --apply: also over what others changed in the directory meanwhile.
    #[arg(long, requires = "apply")]
    force: bool,
    /// Drop the changes.
    #[arg(long, group = "decision")]
    discard: bool,
    /// Save the changes as this directory, which must be new or empty.
    #[arg(long, value_name = "DIR", group = "decision")]
    keep: Option<PathBuf>,
    /// The most memory that changes may take, in bytes (K, M and G count in powers of 1024);
    /// half of the machine's (or control group's) when not given. What goes beyond it fails
    /// with "no space left".
    #[arg(long, value_name = "BYTES", value_parser = crate::stack::size)]
    memory: Option<u64>,
    /// Do not ask, even on a terminal.
    #[arg(long)]
    no_prompt: bool,
    /// Show the view at a temporary mount point, which the whole machine sees, as where there
    /// is no mount namespace to be had.
    #[arg(long)]
    no_namespace: bool,
    /// Try whether a user namespace can hold a mount.
    #[arg(long = "probe-namespace", hide = true)]
    probe: bool,
    /// The command and its arguments; your shell when not given.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

impl Args {
    fn decision(&self) -> Option<Decision> {
        match (&self.keep, self.apply, self.discard) {
            (Some(directory), ..) => Some(Decision::Keep(Some(directory.clone()))),
            (None, true, _) if self.force => Some(Decision::Overwrite),
            (None, true, _) => Some(Decision::Apply),
            (None, false, true) => Some(Decision::Discard),
            (None, false, false) => None,
        }
    }
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    if args.probe {
        return place::try_namespace().map(|()| Status::Done);
    }
    // What fails before the command has run is strata's own failure.
    let own = |failure: Failure| Failure::with_code(125, failure);
    let directory = current_directory().map_err(own)?;
    let (place, reason) = place::enter(&directory, args.no_namespace).map_err(own)?;
    if let Some(reason) = reason {
        tell!(
            "no namespace to be had ({reason}): the view of {} is at {}, and the command runs \
             there",
            directory.display(),
            place.path().display()
        );
    }
    let open_files = limits::raise_open_files();
    let keep = args.keep.as_deref().map(open_empty).transpose().map_err(own)?;
    let view =
        View::open(&directory, args.memory.unwrap_or_else(limits::half_of_memory)).map_err(own)?;
    let mount = view.mount(&directory, &place).map_err(own)?;
    if args.command.is_empty() && io::stderr().is_terminal() {
        tell!("a shell in a view of {}: leave it to settle its changes", directory.display());
    }
    let ended = child::run(&args.command, place.path(), open_files);
    take_down(mount);
    drop(place);
    let status = ended?;
    if let Some(signal) = status.signal() {
        tell!("the command was ended by signal {signal}");
    }
    let decision = match args.decision() {
        Some(Decision::Apply | Decision::Overwrite) if !status.success() => {
            tell!("the command failed: what it changed is not applied unasked");
            None
        }
        decision => decision,
    };
    let settlement =
        Settlement { view: &view, directory: &directory, decision, may_ask: !args.no_prompt, keep };
    settlement.settle(output).map_err(own)?;
    Ok(Status::Code(child::exit_code(status)))
}

fn current_directory() -> Result<PathBuf, Failure> {
    let directory = std::env::current_dir().context(|| "the current directory")?;
    if directory == Path::new("/") {
        return Err(Failure::new(
            "a view of the root directory is not possible: go to the directory you work in",
        ));
    }
    Ok(directory)
}

/// Unmounts. Processes that the command left behind are cut off from the view: what they do
/// from now on belongs to nobody.
fn take_down(mut mount: Mount) {
    match mount.unmount() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            tell!("processes in the background still use the view: they lose it now");
            mount.cut_off();
        }
        Err(error) => tell!("{}: {error}", mount.mountpoint().display()),
        Ok(()) => {}
    }
}

/// Makes the directory, or takes one that is empty.
fn open_empty(path: &Path) -> Result<NativeFs, Failure> {
    let open = || {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        if std::fs::read_dir(path)?.next().is_some() {
            return Err(Failure::new("the directory is not empty"));
        }
        Ok(NativeFs::new(path)?)
    };
    open().context(|| format!("--keep {}", path.display()))
}
