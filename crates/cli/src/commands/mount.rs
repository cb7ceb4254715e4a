//! `strata mount`.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::builder::OsStringValueParser;
use clap::builder::TypedValueParser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stratafs_fuse::{Mount, MountOptions};

use crate::exit::{Context, Failure, Outcome, Status, tell};
use crate::output::Output;
use crate::stack::{self, LayerSpec};

/// Mount a stack of layers at a directory.
///
/// Layers are given from the bottom up: of several at one place the later is on top, and the
/// topmost takes the changes if it can.
///
/// Without `--foreground` the command returns as soon as the mount answers, and a process in
/// the background serves it until `strata umount`, a signal (TERM, INT, HUP) or the idle
/// timeout unmounts it.
#[derive(clap::Args, Debug)]
#[command(after_help = stack::help() + EXAMPLES)]
pub struct Args {
    /// A layer of the stack; may be given several times, from the bottom up.
    #[arg(long = "layer", value_name = "SPEC", required = true,
          value_parser = OsStringValueParser::new().try_map(|text| LayerSpec::parse(&text)))]
    layers: Vec<LayerSpec>,
    /// The directory to mount at.
    mountpoint: PathBuf,
    /// Refuse every change.
    #[arg(long)]
    read_only: bool,
    /// Mount even where the directory holds something, which is hidden then.
    #[arg(long)]
    nonempty: bool,
    /// Serve in this process until unmounted.
    #[arg(long)]
    foreground: bool,
    /// Unmount after so many seconds without use.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle_timeout: Option<u64>,
    /// Let other users in, as the permission bits allow.
    #[arg(long)]
    allow_other: bool,
    /// Serve for a parent that waits for a line on standard output.
    #[arg(long, hide = true)]
    detached: bool,
}

const EXAMPLES: &str = "

  strata mount --layer native:/srv/base --layer memory: /mnt/scratch
  strata mount --layer native:/srv/game --layer native:/srv/maps,ro@/data/maps /mnt/game";

/// What the serving process says once the mount answers.
const READY: &str = "ready";

pub(crate) fn execute(args: Args, _: &mut Output) -> Outcome {
    if args.foreground || args.detached { serve(&args) } else { detach() }
}

fn serve(args: &Args) -> Outcome {
    if args.detached {
        // Ctrl-C and the hang-up of this terminal are not meant for it.
        rustix::process::setsid().map_err(io::Error::from)?;
    }
    check_mountpoint(args)?;
    crate::limits::raise_open_files();
    let tree = stack::build(&args.layers)?;
    let options = MountOptions::new()
        .read_only(args.read_only)
        .allow_other(args.allow_other)
        .idle_timeout(args.idle_timeout.map(Duration::from_secs))
        .name("strata");
    // Before the mount: from then on a signal must unmount.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let mount = Mount::new(tree, &args.mountpoint, &options)
        .map_err(|error| Failure::new(format_args!("{}: {error}", args.mountpoint.display())))?;
    unmount_on_signal(signals, mount.mountpoint().to_owned())?;
    if args.detached {
        let_go()?;
    } else {
        tell!("serving {}; Ctrl-C unmounts", mount.mountpoint().display());
    }
    mount.join().map_err(Failure::new)?;
    Ok(Status::Done)
}

/// What is at the mount point would be hidden, unless it is a layer of the mount itself.
///
/// A layer of a directory that contains the mount point would lead back into the mount, and the
/// serving process would wait for itself. At the very directory it is no harm: the layer is
/// opened before, and stays beneath the mount.
fn check_mountpoint(args: &Args) -> Result<(), Failure> {
    let mountpoint = args.mountpoint.canonicalize().context(|| args.mountpoint.display())?;
    let holds_something = std::fs::read_dir(&mountpoint)
        .map(|mut entries| entries.next().is_some())
        .context(|| args.mountpoint.display())?;
    let mut is_layer = false;
    for layer in &args.layers {
        if let Some(directory) = layer.source.host_directory() {
            let directory = directory.canonicalize().context(|| directory.display())?;
            is_layer |= mountpoint == directory;
            if mountpoint != directory && mountpoint.starts_with(&directory) {
                return Err(Failure::new(format_args!(
                    "{} lies inside the layer {}: the mount would contain itself",
                    mountpoint.display(),
                    directory.display()
                )));
            }
        }
    }
    if holds_something && !is_layer && !args.nonempty {
        return Err(Failure::new(format_args!(
            "{} is not empty: what it holds would be hidden (--nonempty allows it)",
            args.mountpoint.display()
        )));
    }
    Ok(())
}

/// The first signal unmounts, or when files are open takes the mount out of the tree and goes
/// on serving those; a second one ends the process.
fn unmount_on_signal(mut signals: Signals, mountpoint: PathBuf) -> io::Result<()> {
    let watch = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(2);
            }
            if stratafs_fuse::unmount(&mountpoint, false).is_err()
                && let Err(error) = stratafs_fuse::unmount(&mountpoint, true)
            {
                tell!("{}: {error}", mountpoint.display());
            }
        }
    };
    std::thread::Builder::new().name("strata-signals".to_owned()).spawn(watch)?;
    Ok(())
}

/// Runs this command again as a process of its own, and waits until it serves.
fn detach() -> Outcome {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    command.args(insert_flag(arguments)).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context(|| "starting the serving process")?;
    let stdout = child.stdout.take().ok_or_else(|| Failure::new("no pipe to the child"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.trim_end() == READY {
        return Ok(Status::Done);
    }
    // It has said why on standard error, which it shares with us.
    let status = child.wait()?;
    Ok(Status::Code(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

/// The flag goes before a `--`, after which everything is an operand.
fn insert_flag(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let at = arguments.iter().position(|argument| argument == "mount").map_or(0, |at| at + 1);
    arguments.insert(at, "--detached".into());
    arguments
}

/// Tells the parent, then lets go of its pipes and directory.
fn let_go() -> Result<(), Failure> {
    println!("{READY}");
    std::env::set_current_dir(Path::new("/"))?;
    let nowhere = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(io::Error::from)?;
    rustix::stdio::dup2_stdout(&nowhere).map_err(io::Error::from)?;
    rustix::stdio::dup2_stderr(&nowhere).map_err(io::Error::from)?;
    Ok(())
}
