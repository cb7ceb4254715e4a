//! `/dev/fuse`: opened and mounted, directly or by the setuid helper; unmounted likewise.

use std::ffi::CString;
use std::fmt;
use std::fmt::Write as _;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use stratafs::BackendError;

use crate::options::MountOptions;

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";

/// Why there is no mount.
#[derive(Debug)]
pub enum MountError {
    /// The kernel's side is missing: no `/dev/fuse`.
    NoDevice,
    /// `/dev/fuse` cannot be opened, and neither can the helper.
    DeviceRefused(io::Error),
    /// The mount point is not a directory that can be mounted on.
    Mountpoint(PathBuf, io::Error),
    /// The kernel refused to mount.
    Refused(io::Error),
    /// This user may not mount, and the helper that could (`fusermount3`) cannot be run.
    NoHelper(io::Error),
    /// The helper refused; its own words.
    Helper(String),
    /// The backend's root cannot be read.
    Backend(BackendError),
    /// The kernel and the door could not agree on a protocol, or the session broke.
    Session(io::Error),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NoDevice => f.write_str(
                "/dev/fuse is missing: load the kernel module (modprobe fuse), or pass the \
                 device into the container (--device /dev/fuse --cap-add SYS_ADMIN)",
            ),
            MountError::DeviceRefused(error) => write!(f, "/dev/fuse cannot be opened: {error}"),
            MountError::Mountpoint(path, error) => {
                write!(f, "{} cannot be mounted on: {error}", path.display())
            }
            MountError::Refused(error) => write!(f, "the kernel refused to mount: {error}"),
            MountError::NoHelper(error) => write!(
                f,
                "this user may not mount, and fusermount3 (package fuse3) cannot be run: {error}"
            ),
            MountError::Helper(text) => f.write_str(text),
            MountError::Backend(error) => write!(f, "the tree's root cannot be read: {error}"),
            MountError::Session(error) => write!(f, "the mount broke: {error}"),
        }
    }
}

impl std::error::Error for MountError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MountError::NoDevice | MountError::Helper(_) => None,
            MountError::Backend(error) => Some(error),
            MountError::DeviceRefused(error)
            | MountError::Mountpoint(_, error)
            | MountError::Refused(error)
            | MountError::NoHelper(error)
            | MountError::Session(error) => Some(error),
        }
    }
}

/// Mounts at an absolute, resolved path. Gives the descriptor that the kernel's requests come
/// from.
pub(crate) fn mount(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = match rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(device) => device,
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Err(MountError::NoDevice),
        // The helper opens the device as root.
        Err(Errno::ACCESS | Errno::PERM) if !rustix::process::geteuid().is_root() => {
            return mount_by_helper(mountpoint, options);
        }
        Err(error) => return Err(MountError::DeviceRefused(error.into())),
    };
    match mount_directly(&device, mountpoint, options) {
        Ok(()) => Ok(device),
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => {
            mount_by_helper(mountpoint, options)
        }
        Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS)) => {
            Err(MountError::Mountpoint(mountpoint.to_owned(), error.into()))
        }
        Err(error) => Err(MountError::Refused(error.into())),
    }
}

fn mount_directly(
    device: &OwnedFd,
    mountpoint: &Path,
    options: &MountOptions,
) -> Result<(), Errno> {
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if options.default_permissions {
        data.push_str(",default_permissions");
    }
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.set_user_id);
    flags.set(MountFlags::NODEV, !options.devices);
    flags.set(MountFlags::NOEXEC, !options.execute);
    let kind = format!("fuse.{}", options.subtype);
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(options.name.as_str(), mountpoint, kind.as_str(), flags, &*data)
}

/// Asks `fusermount3`, which is setuid root: it mounts and sends the descriptor over a socket.
fn mount_by_helper(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    // The socket is the helper's standard input: no other number needs to be inherited.
    let (ours, theirs) = UnixStream::pair().map_err(MountError::Session)?;
    let mut helper = Command::new(HELPER)
        .arg("-o")
        .arg(helper_options(options))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MountError::NoHelper)?;
    let device = receive_descriptor(&ours);
    let mut words = String::new();
    if let Some(mut stderr) = helper.stderr.take() {
        // What cannot be read is not worth another error: the exit code says enough.
        let _ = stderr.read_to_string(&mut words);
    }
    let status = helper.wait().map_err(MountError::NoHelper)?;
    match device {
        Ok(Some(device)) if status.success() => Ok(device),
        Ok(_) if !words.trim().is_empty() => Err(MountError::Helper(words.trim().to_owned())),
        Ok(_) => Err(MountError::Helper(format!("{HELPER} failed ({status})"))),
        Err(error) => Err(MountError::Session(error.into())),
    }
}

fn helper_options(options: &MountOptions) -> String {
    let mut text = String::from("fsname=");
    for character in options.name.chars() {
        if matches!(character, ',' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    // Writing to a string cannot fail.
    let _ = write!(text, ",subtype={}", options.subtype);
    for (wanted, option) in [
        (options.read_only, ",ro"),
        (options.default_permissions, ",default_permissions"),
        (options.allow_other, ",allow_other"),
        (!options.execute, ",noexec"),
    ] {
        if wanted {
            text.push_str(option);
        }
    }
    text
}

fn receive_descriptor(socket: &UnixStream) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = loop {
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            answer => break answer?,
        }
    };
    if received.bytes == 0 || received.flags.contains(ReturnFlags::CTRUNC) {
        return Ok(None);
    }
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return Ok(descriptors.next());
        }
    }
    Ok(None)
}

/// Unmounts what is mounted at `mountpoint`, as root directly, as a user through the helper.
/// With `lazy` it goes from the tree now and ends when the last file on it is closed.
///
/// # Errors
/// `ResourceBusy` when files on it are open or it is somebody's working directory (not with
/// `lazy`); `InvalidInput` when nothing is mounted there; `PermissionDenied` when it is
/// somebody else's.
pub fn unmount(mountpoint: &Path, lazy: bool) -> io::Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(mountpoint, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => unmount_by_helper(mountpoint, lazy),
        answer => answer.map_err(io::Error::from),
    }
}

fn unmount_by_helper(mountpoint: &Path, lazy: bool) -> io::Result<()> {
    let mut helper = Command::new(HELPER);
    helper.arg("-u");
    if lazy {
        helper.arg("-z");
    }
    let output = helper
        .arg("--")
        .arg(mountpoint)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{HELPER}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if words.ends_with("busy") {
        io::ErrorKind::ResourceBusy
    } else {
        io::ErrorKind::PermissionDenied
    };
    Err(io::Error::new(kind, words))
}

/// Whether `path` is something that can be mounted on: made absolute and free of links before
/// anything is mounted there, since looking at it afterwards asks the door itself.
pub(crate) fn resolve(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let refused = |error| MountError::Mountpoint(mountpoint.to_owned(), error);
    let resolved = mountpoint.canonicalize().map_err(refused)?;
    if !resolved.metadata().map_err(refused)?.is_dir() {
        return Err(refused(io::ErrorKind::NotADirectory.into()));
    }
    if resolved.as_os_str().as_bytes().contains(&0) {
        return Err(refused(io::ErrorKind::InvalidInput.into()));
    }
    Ok(resolved)
}
