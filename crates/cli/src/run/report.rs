//! What the command changed, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use stratafs::{Change, ChangeKind, FileType, VfsPath, VfsPathBuf};

use crate::exit::Failure;
use crate::output::{JsonName, Output};

/// More lines than this are no help on a terminal.
const MOST_LINES: usize = 200;

/// One change as a JSON object.
#[derive(Serialize)]
struct Record {
    change: &'static str,
    #[serde(flatten)]
    path: JsonName,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_hex: Option<String>,
    #[serde(rename = "type")]
    file_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// Writes every change as data: one JSON object per line.
///
/// # Errors
/// When standard output cannot be written.
pub fn write_json(changes: &[Change], output: &mut Output) -> Result<(), Failure> {
    for change in changes {
        let from = match &change.kind {
            ChangeKind::Renamed { from } => Some(JsonName::new(from.as_bytes())),
            ChangeKind::Added | ChangeKind::Modified | ChangeKind::Deleted => None,
        };
        let (from, from_hex) = from.map_or((None, None), |name| (Some(name.path), name.path_hex));
        let record = Record {
            change: verb(&change.kind),
            path: JsonName::new(change.path.as_bytes()),
            from,
            from_hex,
            file_type: type_name(change.file_type),
            old_size: change.old_len,
            size: change.new_len,
        };
        output.record("", &record)?;
    }
    Ok(())
}

/// The changes as text: one line each, but one for a whole added directory.
pub fn text(changes: &[Change]) -> String {
    let mut text = String::new();
    let whole = whole_directories(changes);
    let lines = changes.iter().filter(|change| {
        let inside = change.path.ancestors().any(|above| whole.contains_key(above));
        !(inside && change.kind == ChangeKind::Added)
    });
    let mut left = 0;
    for (index, change) in lines.enumerate() {
        if index < MOST_LINES {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", line(change, whole.get(&*change.path)));
        } else {
            left += 1;
        }
    }
    if left > 0 {
        let _ = writeln!(text, "  ... and {left} more; --json lists them all");
    }
    text
}

/// How much an added directory holds.
#[derive(Default)]
struct Content {
    files: u64,
    bytes: u64,
}

/// The topmost added directories, and what was added in them.
fn whole_directories(changes: &[Change]) -> BTreeMap<VfsPathBuf, Content> {
    let mut whole: BTreeMap<VfsPathBuf, Content> = BTreeMap::new();
    let mut by_depth: Vec<&Change> =
        changes.iter().filter(|change| change.kind == ChangeKind::Added).collect();
    by_depth.sort_by_key(|change| change.path.components().count());
    for change in by_depth {
        let top: Option<&VfsPath> =
            change.path.ancestors().find(|above| whole.contains_key(*above));
        match top.map(VfsPath::to_owned) {
            Some(top) => {
                let content = whole.entry(top).or_default();
                content.files += u64::from(change.file_type != FileType::Directory);
                content.bytes += change.new_len.unwrap_or(0);
            }
            None if change.file_type == FileType::Directory => {
                whole.insert(change.path.clone(), Content::default());
            }
            None => {}
        }
    }
    whole
}

fn line(change: &Change, content: Option<&Content>) -> String {
    let name = |path: &VfsPath| {
        if path.is_root() {
            return "./".to_owned();
        }
        let slash = if change.file_type == FileType::Directory { "/" } else { "" };
        format!("{}{slash}", path.display().to_string().trim_start_matches('/'))
    };
    let path = match &change.kind {
        ChangeKind::Renamed { from } => format!("{} -> {}", name(from), name(&change.path)),
        ChangeKind::Added | ChangeKind::Modified | ChangeKind::Deleted => name(&change.path),
    };
    let size = match (content, change.old_len, change.new_len) {
        (Some(Content { files: 0, .. }), ..) => "  empty".to_owned(),
        (Some(content), ..) => {
            let files = if content.files == 1 { "file" } else { "files" };
            format!("  {} {files}, {}", content.files, size(content.bytes))
        }
        _ if change.kind == ChangeKind::Modified && !change.contents => "  attributes".to_owned(),
        (_, Some(old), Some(new)) if old != new => format!("  {}, was {}", size(new), size(old)),
        (_, _, Some(len)) | (_, Some(len), None) => format!("  {}", size(len)),
        (_, None, None) => String::new(),
    };
    let attributes = match change.kind {
        ChangeKind::Renamed { .. } if change.attributes => "  attributes",
        ChangeKind::Modified if change.contents && change.attributes => "  attributes",
        _ => "",
    };
    format!("  {:<9} {path}{size}{attributes}", verb(&change.kind))
}

fn verb(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Renamed { .. } => "renamed",
    }
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharDevice => "char-device",
        FileType::BlockDevice => "block-device",
        FileType::Whiteout => "whiteout",
    }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, path: &str, file_type: FileType, len: u64) -> Change {
        let old = matches!(kind, ChangeKind::Deleted).then_some(len);
        let new =
            (!matches!(kind, ChangeKind::Deleted) && file_type == FileType::File).then_some(len);
        let path = VfsPath::new(path.as_bytes()).unwrap().to_owned();
        Change {
            kind,
            path,
            file_type,
            old_len: old,
            new_len: new,
            attributes: false,
            contents: false,
        }
    }

    #[test]
    fn an_added_directory_is_one_line() {
        let file = FileType::File;
        let from = VfsPath::new(b"old").unwrap().to_owned();
        let changes = [
            change(ChangeKind::Deleted, "gone", file, 7),
            change(ChangeKind::Added, "new", FileType::Directory, 0),
            change(ChangeKind::Added, "new-x", file, 10),
            change(ChangeKind::Added, "new/a", file, 1024),
            change(ChangeKind::Added, "new/sub", FileType::Directory, 0),
            change(ChangeKind::Added, "new/sub/b", file, 512),
            change(ChangeKind::Renamed { from }, "other", file, 3),
        ];
        assert_eq!(
            text(&changes),
            "  deleted   gone  7 B\n  added     new/  2 files, 1.5 KiB\n  added     new-x  10 B\n  \
             renamed   old -> other  3 B\n"
        );
    }

    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB")]
        {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size((1 << 20) - 1), "1.0 MiB");
    }
}
