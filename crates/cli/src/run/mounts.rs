//! Changes that meet another mount in the directory: neither it nor what is
//! above it can be removed or moved, and nothing can be renamed into it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use stratafs::{Change, ChangeKind, FileType, VfsPath};

/// A mount in the directory that applying the changes would meet, if there is one.
pub fn met(changes: &[Change], directory: &Path) -> Option<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    mount_points(&table).find(|point| {
        let Ok(inside) = point.strip_prefix(directory) else { return false };
        let Ok(inside) = VfsPath::new(inside.as_os_str().as_encoded_bytes()) else { return false };
        !inside.is_root() && changes.iter().any(|change| meets(change, inside))
    })
}

/// Names may go from another mount, but none can be put into it in one step.
fn meets(change: &Change, mount: &VfsPath) -> bool {
    let holds = |name: &VfsPath| mount.starts_with(name);
    let path = &*change.path;
    match &change.kind {
        ChangeKind::Deleted => holds(path),
        ChangeKind::Modified if change.file_type == FileType::Directory => false,
        ChangeKind::Renamed { from } if holds(from) => true,
        _ => holds(path) || path.starts_with(mount),
    }
}

fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = table.split(|&byte| byte == b'\n');
    lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4)).map(unescape)
}

/// Space, tab, line feed and backslash stand as three octal digits in the table.
fn unescape(field: &[u8]) -> PathBuf {
    let (mut name, mut rest) = (Vec::new(), field);
    while let [first, tail @ ..] = rest {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                name.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                name.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = b"1 2 0:3 / / rw - x y rw\n4 1 0:5 / /a\\040b\\134 rw - x y rw\n";
        let points: Vec<_> = mount_points(table).collect();
        assert_eq!(points, [Path::new("/"), Path::new("/a b\\")]);
    }
}
