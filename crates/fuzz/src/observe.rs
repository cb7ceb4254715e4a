//! Looking at all that a read-only tree of untrusted bytes shows, in bounded time.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use stratafs::{
    BackendResult, Detail, ErrorKind, File, FileSystem, Metadata, OpenOptions, Seek, VfsPath,
    VfsPathBuf,
};
use stratafs_testkit::tools::try_read;
use xxhash_rust::xxh3::xxh3_64;

/// One answer of the tree: to which question, and what it was.
pub type Answer = (VfsPathBuf, &'static str, String);

/// How far to look.
const NODES: usize = 400;
const BYTES_OF_A_FILE: u64 = 64 << 10;
const BYTES: usize = 1 << 20;

/// Everything that the tree answered.
#[derive(Debug, Default)]
pub struct Seen {
    /// In the order in which it was asked for.
    pub answers: Vec<Answer>,
    /// Whether nothing was left out for its size.
    pub complete: bool,
    bytes: usize,
}

impl Seen {
    fn note<T>(
        &mut self,
        path: &VfsPath,
        question: &'static str,
        answer: &BackendResult<T>,
        text: impl FnOnce(&T) -> String,
    ) {
        let text = match answer {
            Ok(value) => text(value),
            Err(error) => format!("{:?}", error.kind()),
        };
        self.answers.push((path.to_owned(), question, text));
    }

    /// The answers that were this kind of error.
    pub fn errors(&self, kind: ErrorKind) -> Vec<&Answer> {
        let name = format!("{kind:?}");
        self.answers.iter().filter(|(.., text)| *text == name).collect()
    }
}

/// Asserts that the same tree, read in another way, answered the same.
pub fn assert_same(seen: &Seen, other: &Seen) {
    let differ = seen.answers.iter().zip(&other.answers).find(|(one, other)| one != other);
    assert!(differ.is_none(), "{differ:?}");
    assert_eq!(seen.answers.len(), other.answers.len());
}

/// Looks at everything below the root.
///
/// # Panics
/// When the tree contradicts itself or the contract.
pub fn observe(fs: &dyn FileSystem) -> Seen {
    let mut seen = Seen { complete: true, ..Seen::default() };
    let mut next = vec![VfsPath::root().to_owned()];
    let mut nodes = 0;
    while let Some(path) = next.pop() {
        nodes += 1;
        if nodes > NODES {
            seen.complete = false;
            break;
        }
        let metadata = fs.metadata(&path);
        seen.note(&path, "metadata", &metadata, |metadata| format!("{metadata:?}"));
        let Ok(metadata) = metadata else { continue };
        assert!(fs.exists(&path).expect("what has metadata can be asked for"));
        look_at_names(fs, &path, &metadata, &mut next, &mut seen);
        let file = fs.open(&path, &OpenOptions::reading());
        seen.note(&path, "open", &file, |_| String::new());
        if let Ok(file) = file {
            assert_eq!(file.file.metadata().expect("metadata of a handle"), metadata);
            look_at_contents(&*file.file, &path, &metadata, &mut seen);
        }
    }
    seen
}

fn look_at_names(
    fs: &dyn FileSystem,
    path: &VfsPath,
    metadata: &Metadata,
    next: &mut Vec<VfsPathBuf>,
    seen: &mut Seen,
) {
    let mut names = BTreeSet::new();
    let mut count = 0;
    let listed = fs.read_dir(path, Detail::Names, &mut |entry| {
        next.push(path.join_name(entry.name).expect("a listed name is a name"));
        assert!(names.insert(entry.name.to_vec()), "{:?} is listed twice", entry.name);
        count += 1;
        if count < NODES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(listed.is_err() || metadata.is_dir());
    seen.note(path, "read_dir", &listed, |()| format!("{names:?}"));
    let link = fs.read_link(path);
    assert!(link.is_err() || metadata.is_symlink());
    seen.note(path, "read_link", &link, |target| format!("{target:?}"));
    let xattrs = fs.xattrs(path);
    for name in xattrs.iter().flatten().take(20) {
        let value = fs.xattr(path, name).expect("an attribute that is listed");
        seen.answers.push((path.to_owned(), "xattr", format!("{:x}", xxh3_64(&value))));
    }
    seen.note(path, "xattrs", &xattrs, |names| format!("{}", names.len()));
}

fn look_at_contents(file: &dyn File, path: &VfsPath, metadata: &Metadata, seen: &mut Seen) {
    let len = metadata.len;
    if seen.bytes >= BYTES {
        seen.complete = false;
        return;
    }
    let wanted = len.min(BYTES_OF_A_FILE) as usize;
    seen.complete &= wanted as u64 == len;
    seen.bytes += wanted;
    let whole = try_read(file, 0, wanted);
    seen.note(path, "read", &whole, |bytes| format!("{:x}", xxh3_64(bytes)));
    if let Ok(whole) = &whole {
        assert_eq!(whole.len(), wanted, "a read ends before the end of the file");
    }
    for start in [1, 100, 4095, 4096, 9000, len.saturating_sub(3), len, u64::MAX - 5] {
        let part = try_read(file, start, 100);
        seen.note(path, "part", &part, |bytes| format!("{:x}", xxh3_64(bytes)));
        let lent = file.bytes_at(start..start.saturating_add(100));
        if let (Ok(part), Ok(Some(lent))) = (&part, &lent) {
            assert_eq!(lent, part, "{path:?} from {start}");
        }
        let (Ok(whole), Ok(part)) = (&whole, &part) else { continue };
        let end = start.saturating_add(part.len() as u64);
        if end <= whole.len() as u64 {
            assert_eq!(whole[start as usize..end as usize], part[..], "{path:?} from {start}");
        }
    }
    let hole = file.seek(0, Seek::Hole);
    seen.note(path, "hole", &hole, |at| format!("{at}"));
}
