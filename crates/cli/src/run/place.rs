//! Where the command sees its view: at the directory's own path inside a mount namespace, or,
//! where there is none to be had, at a temporary mount point.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use stratafs::MemoryFs;
use stratafs_fuse::{Mount, MountOptions};

use crate::exit::{Context, Failure};

/// The hidden argument that makes `strata run` try a namespace and nothing else.
pub const PROBE: &str = "--probe-namespace";

/// Where the view is mounted.
#[derive(Debug)]
pub enum Place {
    /// At this path, inside a namespace that only this process and its children see.
    Namespace(PathBuf),
    /// In a fresh directory that the whole machine sees.
    Temporary(tempfile::TempDir),
}

impl Place {
    /// The path that the view is mounted at.
    pub fn path(&self) -> &Path {
        match self {
            Place::Namespace(path) => path,
            Place::Temporary(directory) => directory.path(),
        }
    }
}

/// Why there is no namespace.
#[derive(Debug)]
pub struct NoNamespace(String);

impl fmt::Display for NoNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Puts this process into a mount namespace of its own, if it can. Must be called while it has
/// one thread only. Not if it is `unwanted`.
///
/// # Errors
/// A failure when there is neither a namespace nor a temporary directory.
pub fn enter(directory: &Path, unwanted: bool) -> Result<(Place, Option<NoNamespace>), Failure> {
    let namespace = (!unwanted).then(|| unshare(UnshareFlags::NEWNS));
    let reason = match namespace {
        None => NoNamespace("none is wanted".to_owned()),
        Some(Ok(())) => return Ok((Place::Namespace(directory.to_owned()), None)),
        Some(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => {
            NoNamespace(error.to_string())
        }
        // Without the privilege, a user namespace gives it for everything inside. One cannot
        // be left again, so another process tries first whether a mount works in it.
        Some(Err(_)) => match probe() {
            Ok(()) => {
                enter_user_namespace().context(|| "a user namespace")?;
                return Ok((Place::Namespace(directory.to_owned()), None));
            }
            Err(reason) => reason,
        },
    };
    let mut failed = Failure::new("no place for temporary files is outside of the directory");
    // Within the directory the view would contain itself.
    for place in temporary_places().into_iter().filter(|place| !is_inside(place, directory)) {
        match tempfile::Builder::new().prefix("strata-run-").tempdir_in(&place) {
            Ok(point) => return Ok((Place::Temporary(point), Some(reason))),
            Err(error) => failed = Failure::from(error).context(place.display()),
        }
    }
    Err(failed.context("a temporary mount point"))
}

/// Where temporary things may be put, the best place first.
pub fn temporary_places() -> Vec<PathBuf> {
    let mut places = vec![std::env::temp_dir()];
    for place in ["/var/tmp", "/tmp", "/dev/shm"].map(PathBuf::from) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Whether a place is the directory or lies in it.
pub fn is_inside(place: &Path, directory: &Path) -> bool {
    match (place.canonicalize(), directory.canonicalize()) {
        (Ok(place), Ok(directory)) => place.starts_with(directory),
        _ => false,
    }
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: what makes this call dangerous is unsharing descriptors or memory that other
    // code counts on; a mount or user namespace changes neither.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    // Nothing that is mounted in here reaches the rest of the machine.
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok(())
}

/// A user namespace in which everybody is who they are outside, as far as an unprivileged
/// process can say so: its own user and group.
fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: as in `unshare`.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    // Without this the kernel does not let an unprivileged process map its group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok(())
}

/// Lets a process of its own try a user namespace and a mount in it.
fn probe() -> Result<(), NoNamespace> {
    let output = std::env::current_exe()
        .and_then(|program| {
            Command::new(program)
                .args(["run", PROBE])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .output()
        })
        .map_err(|error| NoNamespace(format!("cannot try one: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(NoNamespace(words.trim().trim_start_matches("strata: ").to_owned()))
}

/// What the probing process does.
///
/// # Errors
/// What stands in the way.
pub fn try_namespace() -> Result<(), Failure> {
    enter_user_namespace().context(|| "user namespaces are not allowed")?;
    let directory = tempfile::tempdir().context(|| "a temporary directory")?;
    let options = MountOptions::new().allow_other(true);
    let mount = Mount::new(Arc::new(MemoryFs::new()), directory.path(), &options)
        .map_err(|error| Failure::new(format_args!("in a user namespace: {error}")))?;
    drop(mount);
    Ok(())
}
