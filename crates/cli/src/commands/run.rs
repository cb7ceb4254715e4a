//! `strata run`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::StatVfsMountFlags;
use stratafs::{FileSystem, MemoryFs, NativeFs, OverlayFs};
use stratafs_fuse::{Mount, MountOptions};

use crate::exit::{Context, Failure, Outcome, Status};
use crate::output::Output;
use crate::run::decision::{self, Decision};
use crate::run::place::{self, Place};
use crate::run::{child, report};

/// Run a command in a copy-on-write view of the current directory.
///
/// The command sees the directory at its own path and may change anything in it; the
/// directory itself stays as it is, and nothing else on the machine sees the view. When the
/// command has ended, what it changed is listed, and you decide: write it to the directory,
/// drop it, or keep it as a directory of its own.
///
/// The changes are held in memory until then. The exit code is the command's (128 and the
/// number of the signal when one ended it); 125 when strata itself failed, 126 and 127 when
/// the command could not be run.
#[derive(clap::Args, Debug)]
#[command(after_help = "Without a decision given: you are asked, on a terminal; else the
changes are kept in a fresh directory under the temporary files, and its name is printed.

A kept directory is an upper layer: mount it over the directory to look at the result:
  strata mount --layer native:DIRECTORY --layer native:KEPT MOUNTPOINT")]
pub struct Args {
    /// Write the changes to the directory when the command has ended.
    #[arg(long, group = "decision")]
    apply: bool,
    /// Drop the changes.
    #[arg(long, group = "decision")]
    discard: bool,
    /// Save the changes as this directory, which must be new or empty.
    #[arg(long, value_name = "DIR", group = "decision")]
    keep: Option<PathBuf>,
    /// Do not ask, even on a terminal.
    #[arg(long)]
    no_prompt: bool,
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
    let (place, reason) = place::enter(&directory).map_err(own)?;
    if let Some(reason) = reason {
        eprintln!(
            "strata: no namespace to be had ({reason}): the view of {} is at {}, and the \
             command runs there",
            directory.display(),
            place.path().display()
        );
    }
    let open_files = crate::limits::raise_open_files();
    let view = View::open(&directory, &args).map_err(own)?;
    let mount = view.mount(&directory, &place).map_err(own)?;
    let ended = child::run(&args.command, place.path(), open_files);
    take_down(mount);
    drop(place);
    let status = ended?;
    if let Some(signal) = status.signal() {
        eprintln!("strata: the command was ended by signal {signal}");
    }
    view.settle(&args, &directory, output)?;
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
            eprintln!("strata: processes in the background still use the view: they lose it now");
            mount.cut_off();
        }
        Err(error) => eprintln!("strata: {}: {error}", mount.mountpoint().display()),
        Ok(()) => {}
    }
}

/// The directory, and the changes on top of it.
struct View {
    lower: Arc<NativeFs>,
    overlay: Arc<OverlayFs>,
    /// Where `--keep` puts the changes: opened before the view hides the path.
    keep: Option<NativeFs>,
}

impl View {
    fn open(directory: &Path, args: &Args) -> Result<View, Failure> {
        let keep = match &args.keep {
            Some(path) => Some(open_empty(path).context(|| format!("--keep {}", path.display()))?),
            None => None,
        };
        // Opened before anything is mounted over it: from here on it is reached by this
        // descriptor alone.
        let lower = Arc::new(NativeFs::new(directory).context(|| directory.display())?);
        let upper = Arc::new(MemoryFs::new());
        crate::stack::wear(&*upper, &*lower)?;
        let overlay = OverlayFs::builder()
            .upper(upper)
            .lower(Arc::clone(&lower) as Arc<dyn FileSystem>)
            .build()?;
        Ok(View { lower, overlay: Arc::new(overlay), keep })
    }

    fn mount(&self, directory: &Path, place: &Place) -> Result<Mount, Failure> {
        let mut options = MountOptions::new().name("strata-run");
        options.allow_other = match place {
            Place::Namespace(_) => true,
            Place::Temporary(_) => rustix::process::geteuid().is_root(),
        };
        let beneath = rustix::fs::statvfs(directory).map_err(io::Error::from)?.f_flag;
        options.set_user_id = !beneath.contains(StatVfsMountFlags::NOSUID);
        options.devices = !beneath.contains(StatVfsMountFlags::NODEV);
        options.execute = !beneath.contains(StatVfsMountFlags::NOEXEC);
        let tree = Arc::clone(&self.overlay) as Arc<dyn FileSystem>;
        Mount::new(tree, place.path(), &options).map_err(Failure::new)
    }

    /// Tells what changed and does with it what is decided.
    fn settle(&self, args: &Args, directory: &Path, output: &mut Output) -> Result<(), Failure> {
        let changes = self.overlay.changes()?;
        if output.is_json() {
            report::write_json(&changes, output)?;
            output.flush()?;
        }
        if changes.is_empty() {
            eprintln!("strata: nothing was changed");
            return Ok(());
        }
        let list = report::text(&changes);
        eprint!("strata: changed in {}:\n{list}", directory.display());
        let decision = match args.decision() {
            Some(decision) => decision,
            None if !args.no_prompt && decision::can_ask() => decision::ask(directory, &list)?,
            None => Decision::Keep(None),
        };
        match decision {
            Decision::Apply => self.apply(directory),
            Decision::Discard => {
                eprintln!("strata: discarded");
                Ok(())
            }
            Decision::Keep(Some(path)) => match &self.keep {
                Some(target) => self.keep(target, directory, &path),
                None => Err(Failure::new("no directory to keep the changes in")),
            },
            Decision::Keep(None) => self.keep_somewhere(directory),
        }
    }

    fn apply(&self, directory: &Path) -> Result<(), Failure> {
        match self.overlay.apply(&*self.lower) {
            Ok(()) => {
                eprintln!("strata: applied to {}", directory.display());
                Ok(())
            }
            Err(error) => {
                eprintln!("strata: not (wholly) applied: {error}");
                self.keep_somewhere(directory)?;
                Err(Failure::new("the changes could not be applied"))
            }
        }
    }

    fn keep(&self, target: &NativeFs, directory: &Path, path: &Path) -> Result<(), Failure> {
        self.overlay.keep(target)?;
        eprintln!(
            "strata: kept in {path}; look at them with\n  strata mount --layer {lower} --layer \
             {upper} MOUNTPOINT",
            path = path.display(),
            lower = crate::stack::native_spec(directory),
            upper = crate::stack::native_spec(path),
        );
        Ok(())
    }

    fn keep_somewhere(&self, directory: &Path) -> Result<(), Failure> {
        let kept = tempfile::Builder::new()
            .prefix("strata-kept-")
            .tempdir()
            .context(|| "a directory to keep the changes in")?
            .keep();
        let target = NativeFs::new(&kept).context(|| kept.display())?;
        self.keep(&target, directory, &kept)
    }
}

/// Makes the directory, or takes one that is empty.
fn open_empty(path: &Path) -> Result<NativeFs, Failure> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    if std::fs::read_dir(path)?.next().is_some() {
        return Err(Failure::new("the directory is not empty"));
    }
    Ok(NativeFs::new(path)?)
}
