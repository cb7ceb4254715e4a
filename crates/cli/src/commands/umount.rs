//! `strata umount`.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::exit::{Context, Failure, Outcome, Status};
use crate::output::Output;

/// Unmount what `strata mount` mounted.
///
/// The serving process ends by itself once its mount is gone.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// Detach it now, even when files on it are open; it goes when the last one is closed.
    #[arg(long)]
    lazy: bool,
}

/// The type of everything that this project mounts.
const OWN_TYPE: &str = "fuse.stratafs";

pub(crate) fn execute(args: Args, _: &mut Output) -> Outcome {
    let mountpoint = args.mountpoint.display();
    match mounted_type(&args.mountpoint)? {
        Some(kind) if kind == OWN_TYPE => {}
        Some(kind) => {
            let text = format!("{mountpoint}: the {kind} that is mounted here is not strata's");
            return Err(Failure::new(text));
        }
        None => return Err(Failure::new(format_args!("{mountpoint}: nothing is mounted here"))),
    }
    match stratafs_fuse::unmount(&args.mountpoint, args.lazy) {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::new(match error.kind() {
            ErrorKind::ResourceBusy => format!(
                "{mountpoint}: in use: a file on it is open, or it is somebody's working \
                 directory (--lazy detaches it all the same)"
            ),
            _ => format!("{mountpoint}: {error}"),
        })),
    }
}

/// The type of what is mounted at the very path, if anything is.
fn mounted_type(path: &Path) -> Result<Option<String>, Failure> {
    // A mount whose server is gone cannot be looked at, its parent can.
    let place = match (path.file_name(), path.parent()) {
        (Some(name), Some(parent)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            parent.canonicalize().map(|parent| parent.join(name))
        }
        _ => path.canonicalize(),
    };
    let place = place.context(|| path.display())?;
    let mounts = std::fs::read("/proc/self/mountinfo").context(|| "the table of mounts")?;
    // Of several at one point the last is on top.
    Ok(mounts.rsplit(|&byte| byte == b'\n').find_map(|line| mount_at(line, &place)))
}

/// The type in a line of the table of mounts, if it is one at the place.
fn mount_at(line: &[u8], place: &Path) -> Option<String> {
    let mut words = line.split(|&byte| byte == b' ');
    let point = unescape(words.nth(4)?);
    let kind = words.skip_while(|&word| word != b"-").nth(1)?;
    (point == place.as_os_str()).then(|| OsStr::from_bytes(kind).to_string_lossy().into_owned())
}

/// The kernel writes blanks and backslashes in octal: `\040`.
fn unescape(word: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (byte, behind.get(..3).and_then(octal)) {
            (b'\\', Some(value)) => {
                plain.push(value);
                rest = &behind[3..];
            }
            _ => {
                plain.push(byte);
                rest = behind;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_from_the_table() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134 rw shared:1 master:2 - fuse.stratafs none rw";
        assert_eq!(mount_at(line, Path::new(r"/a b\")).as_deref(), Some("fuse.stratafs"));
        assert_eq!(mount_at(line, Path::new("/a")), None);
        assert_eq!(mount_at(b"", Path::new("/a")), None);
    }
}
