//! Short forms for tests: they panic where the call should have worked, at the caller's line.

use std::ops::{ControlFlow, Range};

use stratafs::{
    BackendResult, Detail, Device, ErrorKind, File, FileSystem, FileType, Metadata, NewNode,
    NodeKind, OpenOptions, RenameMode, Seek, VfsPath, VfsPathBuf,
};

/// A path from text or bytes that are normal.
#[track_caller]
pub fn p<T: AsRef<[u8]> + ?Sized>(path: &T) -> &VfsPath {
    VfsPath::new(path.as_ref()).expect("a normal path")
}

/// The kind of error that the call answered.
#[track_caller]
pub fn kind<T>(result: BackendResult<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("expected an error, but the call worked"),
        Err(error) => error.kind(),
    }
}

/// Asserts that the call answered an error of this kind.
#[track_caller]
pub fn fails<T>(result: BackendResult<T>, expected: ErrorKind) {
    match result {
        Ok(_) => panic!("expected {expected:?}, but the call worked"),
        Err(error) => assert!(
            error.kind() == expected,
            "expected {expected:?}, got {:?} ({error})",
            error.kind()
        ),
    }
}

/// Opens.
#[track_caller]
pub fn open(fs: &dyn FileSystem, path: &str, options: OpenOptions) -> Box<dyn File> {
    fs.open(p(path), &options).unwrap_or_else(|error| panic!("open {path:?}: {error}")).file
}

/// Opens for reading and writing, made where there is none.
#[track_caller]
pub fn edit(fs: &dyn FileSystem, path: &str) -> Box<dyn File> {
    open(fs, path, OpenOptions::new().read(true).write(true).create(true))
}

/// Makes a file with these contents, or replaces them.
#[track_caller]
pub fn put(fs: &dyn FileSystem, path: &str, contents: impl AsRef<[u8]>) {
    let file = open(fs, path, OpenOptions::writing());
    write_all(&*file, contents.as_ref(), 0);
}

/// The whole contents of a file.
#[track_caller]
pub fn get(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    contents(&*open(fs, path, OpenOptions::reading()))
}

/// Writes all of the bytes.
#[track_caller]
pub fn write_all(file: &dyn File, bytes: &[u8], offset: u64) {
    try_write_all(file, bytes, offset).expect("write");
}

/// As [`write_all`], with the error.
#[track_caller]
pub fn try_write_all(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> BackendResult<()> {
    while !bytes.is_empty() {
        let count = file.write_at(bytes, offset)?;
        assert!(count > 0 && count <= bytes.len(), "a write of {} gave {count}", bytes.len());
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Reads up to `len` bytes, fewer only at the end of the file.
#[track_caller]
pub fn read(file: &dyn File, offset: u64, len: usize) -> Vec<u8> {
    try_read(file, offset, len).expect("read")
}

/// As [`read`], with the error.
pub fn try_read(file: &dyn File, offset: u64, len: usize) -> BackendResult<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The whole contents behind a handle.
#[track_caller]
pub fn contents(file: &dyn File) -> Vec<u8> {
    let len = file.metadata().expect("metadata of a handle").len;
    // One byte more than there is: the end must show as the end.
    read(file, 0, len as usize + 1)
}

/// Where a file has data; checks that holes and data take turns, and that holes read as zeros.
#[track_caller]
pub fn data_ranges(file: &dyn File) -> Vec<Range<u64>> {
    let len = file.metadata().expect("metadata of a handle").len;
    let mut ranges = Vec::new();
    let mut offset = 0;
    while offset < len {
        let data = match file.seek(offset, Seek::Data) {
            Ok(data) => data,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSuchOffset);
                len
            }
        };
        assert!((offset..=len).contains(&data), "data at {data}, asked from {offset}");
        let hole = read(file, offset, (data - offset) as usize);
        assert!(hole.iter().all(|&byte| byte == 0), "the hole at {offset} is none");
        if data == len {
            break;
        }
        offset = file.seek(data, Seek::Hole).expect("a hole behind data");
        assert!(data < offset && offset <= len, "a hole at {offset}, asked from {data}");
        ranges.push(data..offset);
    }
    ranges
}

/// Makes a directory.
#[track_caller]
pub fn mkdir(fs: &dyn FileSystem, path: &str) {
    create(fs, path, NodeKind::Directory);
}

/// Makes a symbolic link.
#[track_caller]
pub fn symlink(fs: &dyn FileSystem, target: &str, path: &str) {
    create(fs, path, NodeKind::Symlink(target.as_bytes()));
}

/// Makes a node.
#[track_caller]
pub fn create(fs: &dyn FileSystem, path: &str, kind: NodeKind<'_>) {
    if let Err(error) = fs.create(p(path), &NewNode::new(kind)) {
        panic!("create {path:?} {kind:?}: {error}");
    }
}

/// Renames, replacing.
#[track_caller]
pub fn rename(fs: &dyn FileSystem, from: &str, to: &str) {
    if let Err(error) = fs.rename(p(from), p(to), RenameMode::Replace) {
        panic!("rename {from:?} {to:?}: {error}");
    }
}

/// Makes a hard link.
#[track_caller]
pub fn link(fs: &dyn FileSystem, from: &str, to: &str) {
    if let Err(error) = fs.link(p(from), p(to)) {
        panic!("link {from:?} {to:?}: {error}");
    }
}

/// Removes a file.
#[track_caller]
pub fn unlink(fs: &dyn FileSystem, path: &str) {
    if let Err(error) = fs.remove_file(p(path)) {
        panic!("remove_file {path:?}: {error}");
    }
}

/// What is known of a file.
#[track_caller]
pub fn stat(fs: &dyn FileSystem, path: &str) -> Metadata {
    fs.metadata(p(path)).unwrap_or_else(|error| panic!("metadata {path:?}: {error}"))
}

/// Its type.
#[track_caller]
pub fn type_of(fs: &dyn FileSystem, path: &str) -> FileType {
    stat(fs, path).file_type
}

/// Whether something has this name.
#[track_caller]
pub fn exists(fs: &dyn FileSystem, path: &str) -> bool {
    fs.exists(p(path)).unwrap_or_else(|error| panic!("exists {path:?}: {error}"))
}

/// A directory's names, sorted; each was seen once.
#[track_caller]
pub fn names(fs: &dyn FileSystem, path: &str) -> Vec<String> {
    entries(fs, p(path)).into_iter().map(|(name, _)| name.escape_ascii().to_string()).collect()
}

/// A directory's names and types, sorted; each was seen once.
#[track_caller]
pub fn entries(fs: &dyn FileSystem, path: &VfsPath) -> Vec<(Vec<u8>, FileType)> {
    let mut entries = Vec::new();
    fs.read_dir(path, Detail::Names, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.file_type));
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("read_dir {path:?}: {error}"));
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for pair in entries.windows(2) {
        assert!(pair[0].0 != pair[1].0, "read_dir {path:?} shows {:?} twice", pair[0].0);
    }
    entries
}

/// Removes whatever is at `path`, with all below it.
#[track_caller]
pub fn remove_all(fs: &dyn FileSystem, path: &VfsPath) {
    for (name, file_type) in entries(fs, path) {
        let below: VfsPathBuf = path.join_name(&name).expect("a listed name is valid");
        match file_type {
            FileType::Directory => remove_all(fs, &below),
            _ => fs.remove_file(&below).expect("remove_file"),
        }
    }
    if !path.is_root() {
        fs.remove_dir(path).expect("remove_dir");
    }
}

/// Bytes that no compressor makes smaller and that tell of a shifted or repeated block: the
/// same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Device numbers that mean nothing on any machine: nodes with them are never opened.
pub const ODD_DEVICE: Device = Device { major: 60, minor: 7 };

/// A small generator (SplitMix64): the same numbers for the same seed on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts at this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // never ends, so no iterator
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A size below 2 to the power of `bits`, each order of magnitude as likely as the others.
    pub fn size(&mut self, bits: u64) -> usize {
        let bits = self.below(bits);
        self.below(1 << bits) as usize
    }
}
