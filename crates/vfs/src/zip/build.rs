//! The index: names made safe, directories made whole.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::metadata::{FileType, Timestamp};
use crate::path::{VfsPath, VfsPathBuf};
use crate::source::Source;

use super::inflate::InflateCache;
use super::{Data, Inner, Method, Node, Nodes, SkippedEntry};

pub(super) fn build(source: Source, source_len: u64, cache: InflateCache) -> BackendResult<Inner> {
    let reader = BufReader::new(SourceReader { source: &source, position: 0, len: source_len });
    let mut zip = ZipArchive::new(reader).map_err(from_zip)?;
    let mut tree = Builder::new();
    for nth in 0..zip.len() {
        let entry = zip.by_index_raw(nth).map_err(from_zip)?;
        let method = match entry.compression() {
            _ if entry.encrypted() => Method::Encrypted,
            zip::CompressionMethod::Stored => Method::Stored,
            zip::CompressionMethod::Deflated => Method::Deflated,
            _ => Method::Unknown,
        };
        let data = Data {
            offset: entry.data_start().unwrap_or(u64::MAX),
            stored_len: entry.compressed_size(),
            len: entry.size(),
            crc: entry.crc32(),
            method,
        };
        let modified = modified(&entry);
        tree.add(entry.name_raw(), entry.is_dir(), entry.unix_mode(), modified, data);
    }
    drop(zip);
    let Builder { mut nodes, by_path, skipped } = tree;
    for number in 0..nodes.all.len() {
        let mut children = std::mem::take(&mut nodes.all[number].children);
        children.sort_unstable_by_key(|&child| nodes.path_bytes(child));
        nodes.all[number].children = children;
    }
    let has_symlinks = nodes.all.iter().any(|node| node.kind == FileType::Symlink);
    Ok(Inner { source, source_len, nodes, by_path, has_symlinks, cache, skipped })
}

struct Builder {
    nodes: Nodes,
    by_path: HashTable<u32>,
    skipped: Vec<SkippedEntry>,
}

impl Builder {
    fn new() -> Builder {
        let nodes = Nodes { all: Vec::new(), paths: Vec::new() };
        let mut builder = Builder { nodes, by_path: HashTable::new(), skipped: Vec::new() };
        builder.directory(0, 0);
        builder
    }

    /// A new directory whose path lies there in the paths of all.
    fn directory(&mut self, path_start: usize, path_len: usize) -> Option<u32> {
        let number = u32::try_from(self.nodes.all.len()).ok()?;
        self.nodes.all.push(Node {
            path_start,
            path_len,
            kind: FileType::Directory,
            mode: 0o755,
            modified: Timestamp::default(),
            data: Data::default(),
            children: Vec::new(),
        });
        let nodes = &self.nodes;
        let hash = |&number: &u32| xxh3_64(nodes.path_bytes(number));
        self.by_path.insert_unique(hash(&number), number, hash);
        Some(number)
    }

    fn find(&self, path: &VfsPath) -> Option<u32> {
        let path = path.as_bytes();
        let same = |&number: &u32| self.nodes.path_bytes(number) == path;
        self.by_path.find(xxh3_64(path), same).copied()
    }

    fn add(
        &mut self,
        name: &[u8],
        is_dir: bool,
        unix_mode: Option<u32>,
        modified: Timestamp,
        data: Data,
    ) {
        let mut skip = |reason| self.skipped.push(SkippedEntry { name: name.to_vec(), reason });
        let path = match safe_path(name) {
            Ok(path) => path,
            Err(reason) => return skip(reason),
        };
        let type_bits = unix_mode.unwrap_or(0) & 0o170_000;
        let kind = match type_bits {
            _ if is_dir || path.is_root() => FileType::Directory,
            0 | 0o100_000 => FileType::File,
            0o040_000 => FileType::Directory,
            0o120_000 => FileType::Symlink,
            _ => return skip("neither a file nor a directory nor a symbolic link"),
        };
        let default_mode = match kind {
            FileType::Directory => 0o755,
            FileType::Symlink => 0o777,
            _ => 0o644,
        };
        // Tools of other systems write no permission bits, which would lock everybody out.
        let mode = match unix_mode.unwrap_or(0) & 0o7777 {
            0 => default_mode,
            mode => mode,
        };
        let Some(number) = self.place(&path) else {
            return self.skipped.push(SkippedEntry {
                name: name.to_vec(),
                reason: "below something that is not a directory",
            });
        };
        let node = &mut self.nodes.all[number as usize];
        if kind != FileType::Directory && !node.children.is_empty() {
            return self.skipped.push(SkippedEntry {
                name: name.to_vec(),
                reason: "other entries take it for a directory",
            });
        }
        (node.kind, node.mode, node.modified) = (kind, mode, modified);
        node.data = if kind == FileType::Directory { Data::default() } else { data };
    }

    /// The node of a path, made with its directories where they are missing. `None` when one of
    /// them is there and no directory.
    fn place(&mut self, path: &VfsPath) -> Option<u32> {
        let mut directory = 0;
        let mut start = None;
        for prefix in path.ancestors().chain([path]).filter(|prefix| !prefix.is_root()) {
            if self.nodes.get(directory).kind != FileType::Directory {
                return None;
            }
            directory = match self.find(prefix) {
                Some(number) => number,
                None => {
                    let paths = &mut self.nodes.paths;
                    let start = *start.get_or_insert_with(|| {
                        let start = paths.len();
                        paths.extend_from_slice(path.as_bytes());
                        start
                    });
                    let number = self.directory(start, prefix.len())?;
                    self.nodes.all[directory as usize].children.push(number);
                    number
                }
            };
        }
        Some(directory)
    }
}

/// A path that cannot leave the tree, whatever the name says.
fn safe_path(name: &[u8]) -> Result<VfsPathBuf, &'static str> {
    let mut path = VfsPathBuf::new();
    for part in name.split(|&byte| matches!(byte, b'/' | b'\\')) {
        match part {
            b"" | b"." => {}
            b".." => return Err("its name has `..`"),
            part => path.push(part).map_err(|error| match error.kind() {
                ErrorKind::NameTooLong => "its name is too long",
                _ => "its name has a NUL byte",
            })?,
        }
    }
    match path.len() > crate::path::MAX_PATH_LEN {
        true => Err("its name is too long"),
        false => Ok(path),
    }
}

fn modified<R: Read>(entry: &zip::read::ZipFile<'_, R>) -> Timestamp {
    let extended = entry.extra_data_fields().find_map(|field| match field {
        zip::ExtraField::ExtendedTimestamp(times) => times.mod_time(),
        _ => None,
    });
    if let Some(seconds) = extended {
        return Timestamp { seconds: seconds.into(), nanoseconds: 0 };
    }
    let seconds = entry.last_modified().map_or(0, |time| {
        let days = days_since_1970(time.year().into(), time.month().into(), time.day().into());
        let (hour, minute) = (i64::from(time.hour()), i64::from(time.minute()));
        days * 86_400 + hour * 3_600 + minute * 60 + i64::from(time.second())
    });
    Timestamp { seconds, nanoseconds: 0 }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, years counted from March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

fn from_zip(error: ZipError) -> BackendError {
    let kind = match &error {
        ZipError::Io(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => ErrorKind::Corrupt,
            _ => ErrorKind::Io,
        },
        ZipError::UnsupportedArchive(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Corrupt,
    };
    BackendError::new(kind, error)
}

/// A source as the zip crate wants it.
struct SourceReader<'a> {
    source: &'a Source,
    position: u64,
    len: u64,
}

impl Read for SourceReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let rest = self.len.saturating_sub(self.position);
        let n = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.source
            .read_exact_at(&mut buf[..n], self.position)
            .map_err(|error| io::Error::new(error.kind().to_io(), error))?;
        self.position += n as u64;
        Ok(n)
    }
}

impl Seek for SourceReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.len.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(2000, 3, 1), 11_017);
        assert_eq!(days_since_1970(2024, 2, 29), 19_782);
        assert_eq!(days_since_1970(1980, 1, 1), 3_652);
    }

    #[test]
    fn names_stay_inside() {
        let ok = |name: &[u8]| safe_path(name).map(|path| path.as_bytes().to_vec());
        assert_eq!(ok(b"a/b").unwrap(), b"a/b");
        assert_eq!(ok(b"/etc//./passwd").unwrap(), b"etc/passwd");
        assert_eq!(ok(b"C:\\x\\y").unwrap(), b"C:/x/y");
        assert_eq!(ok(b"").unwrap(), b"");
        for bad in [&b"../x"[..], b"a/..", b"..\\x", b"a\0b", &[b'x'; 256], &b"ab/".repeat(2000)] {
            assert!(ok(bad).is_err());
        }
    }
}
