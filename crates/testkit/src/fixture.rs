//! A standard tree, to be put into a writable file system and found again in whatever is made
//! of it: an archive, a zip, a layer.

use std::collections::BTreeMap;

use stratafs::{
    Capabilities, FileSystem, FileType, MetadataChange, NewNode, OpenOptions, TimeChange,
    Timestamp, VfsPath, VfsPathBuf,
};

use crate::tools::{contents, entries, noise, p, write_all};

/// What one name of a tree is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A directory with these permission bits.
    Directory(u32),
    /// A file with these permission bits and contents.
    File(u32, Vec<u8>),
    /// A symbolic link to this target.
    Symlink(Vec<u8>),
    /// Another name of the file of this path.
    HardLink(VfsPathBuf),
}

/// Names and what they are, parents before what is in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    items: BTreeMap<VfsPathBuf, Item>,
}

/// The time of the last change of every file and directory of a standard tree. Even, for
/// formats that count in steps of two seconds.
pub const MODIFIED: Timestamp = Timestamp { seconds: 1_500_000_000, nanoseconds: 0 };

impl Tree {
    /// Nothing but the root.
    pub fn empty() -> Self {
        Tree { items: BTreeMap::new() }
    }

    /// Directories and files with names in UTF-8: what every backend and format can hold.
    pub fn plain() -> Self {
        let mut tree = Self::empty();
        for dir in ["empty", "a", "a/b", "a/b/c", "a-b", "many", "sizes", "Data Files"] {
            tree.add(dir.as_bytes(), Item::Directory(0o755));
        }
        let mut file = |path: &str, mode, contents| {
            tree.add(path.as_bytes(), Item::File(mode, contents));
        };
        file("readme.txt", 0o644, b"The standard tree.\n".to_vec());
        file("run.sh", 0o755, b"#!/bin/sh\nexit 0\n".to_vec());
        file("secret", 0o600, b"for the owner".to_vec());
        file("a/b/c/deep.txt", 0o644, b"deep".to_vec());
        file("a/file", 0o644, b"in a".to_vec());
        file("a-b/file", 0o644, b"in a-b: sorted between a and what is in a".to_vec());
        file("Data Files/with space.txt", 0o644, b"space".to_vec());
        file("Data Files/\u{e9}t\u{e9}.txt", 0o644, "\u{e9}t\u{e9}".into());
        for size in [0, 1, 100, 4095, 4096, 4097, 65_535, 65_536, 65_537, 200_000, 1 << 20] {
            file(&format!("sizes/noise-{size}"), 0o644, noise(size as u64, size));
            let text = b"All work and no play makes Jack a dull boy.\n";
            let text = text.iter().copied().cycle().take(size).collect();
            file(&format!("sizes/text-{size}"), 0o644, text);
        }
        file("sizes/zeros", 0o644, vec![0; 300_000]);
        for i in 0..500 {
            file(&format!("many/file-{i:03}.dat"), 0o644, format!("contents {i}").into());
        }
        tree
    }

    /// The plain tree and everything else a backend with all capabilities holds.
    pub fn standard() -> Self {
        let mut tree = Self::plain();
        for (path, target) in [
            ("link", "readme.txt"),
            ("a/up", "../readme.txt"),
            ("dir-link", "a/b"),
            ("dangling", "no/such/file"),
            ("absolute", "/readme.txt"),
            ("loop", "loop"),
        ] {
            tree.add(path.as_bytes(), Item::Symlink(target.into()));
        }
        tree.add(b"a/hard", Item::HardLink(p("run.sh").to_owned()));
        tree.add(b"not-utf8-\xff\xfe", Item::File(0o644, b"bytes".to_vec()));
        tree.add(&[b'n'; 255], Item::File(0o644, b"longest name".to_vec()));
        tree.add(b"private", Item::Directory(0o700));
        tree.add(b"private/key", Item::File(0o400, b"key".to_vec()));
        tree
    }

    /// The standard tree for a backend with these capabilities.
    pub fn for_capabilities(capabilities: Capabilities) -> Self {
        let mut tree = Self::standard();
        tree.retain(|_, item| match item {
            Item::Symlink(_) => capabilities.contains(Capabilities::SYMLINKS),
            Item::HardLink(_) => capabilities.contains(Capabilities::HARD_LINKS),
            Item::Directory(_) | Item::File(..) => true,
        });
        tree
    }

    /// Keeps only the names for which `keep` holds, which says the same of all hard links.
    pub fn retain(&mut self, mut keep: impl FnMut(&VfsPath, &Item) -> bool) {
        self.items.retain(|path, item| keep(path, item));
    }

    /// Adds or replaces one name. The directory above must be there.
    pub fn add(&mut self, path: &[u8], item: Item) {
        let path = VfsPath::new(path).expect("a normal path").to_owned();
        self.items.insert(path, item);
    }

    /// All names, parents first.
    pub fn items(&self) -> impl Iterator<Item = (&VfsPath, &Item)> {
        self.items.iter().map(|(path, item)| (&**path, item))
    }

    /// What has this name.
    pub fn get(&self, path: &VfsPath) -> Option<&Item> {
        self.items.get(path)
    }

    /// The contents of the file of this name, also of a hard link.
    pub fn file(&self, path: &VfsPath) -> Option<&[u8]> {
        match self.get(path)? {
            Item::File(_, contents) => Some(contents),
            Item::HardLink(other) => self.file(other),
            Item::Directory(_) | Item::Symlink(_) => None,
        }
    }

    /// The names in a directory and their types, sorted.
    pub fn entries(&self, dir: &VfsPath) -> Vec<(Vec<u8>, FileType)> {
        let mut entries: Vec<_> = self
            .items()
            .filter(|(path, _)| path.parent() == Some(dir))
            .map(|(path, item)| {
                let file_type = match item {
                    Item::Directory(_) => FileType::Directory,
                    Item::Symlink(_) => FileType::Symlink,
                    Item::File(..) | Item::HardLink(_) => FileType::File,
                };
                (path.file_name().expect("no item is the root").to_vec(), file_type)
            })
            .collect();
        entries.sort_by(|a: &(Vec<u8>, FileType), b| a.0.cmp(&b.0));
        entries
    }
}

/// Makes the standard tree, as far as the capabilities reach, and says what it made.
///
/// # Panics
/// When a call fails.
pub fn populate(fs: &dyn FileSystem) -> Tree {
    let tree = Tree::for_capabilities(fs.capabilities());
    write(fs, &tree);
    tree
}

/// Makes a tree in an empty file system.
///
/// # Panics
/// When a call fails.
pub fn write(fs: &dyn FileSystem, tree: &Tree) {
    // Paths sort parents first, but a hard link may come before its file.
    let (links, others): (Vec<_>, Vec<_>) =
        tree.items().partition(|(_, item)| matches!(item, Item::HardLink(_)));
    for (path, item) in others.iter().chain(&links) {
        match item {
            Item::Directory(mode) => {
                fs.create(path, &NewNode::directory().mode(*mode)).expect("create a directory");
            }
            Item::File(mode, contents) => {
                let options = OpenOptions::new().write(true).create_new(true).mode(*mode);
                let file = fs.open(path, &options).expect("create a file").file;
                write_all(&*file, contents, 0);
            }
            Item::Symlink(target) => {
                fs.create(path, &NewNode::symlink(target)).expect("create a symbolic link");
            }
            Item::HardLink(other) => drop(fs.link(other, path).expect("link")),
        }
    }
    // Children before parents: a change inside moves a directory's time.
    let times =
        MetadataChange::new().accessed(TimeChange::At(MODIFIED)).modified(TimeChange::At(MODIFIED));
    for (path, _) in others.iter().rev() {
        fs.set_metadata(path, &times).expect("set the times");
    }
}

/// Checks that a file system holds exactly this tree.
///
/// # Panics
/// At the first difference.
pub fn check(fs: &dyn FileSystem, tree: &Tree) {
    check_dir(fs, tree, VfsPath::root());
    for (path, item) in tree.items() {
        check_item(fs, tree, path, item);
    }
}

fn check_dir(fs: &dyn FileSystem, tree: &Tree, dir: &VfsPath) {
    assert_eq!(entries(fs, dir), tree.entries(dir), "entries of {dir:?}");
    for (path, item) in tree.items() {
        if path.parent() == Some(dir) && matches!(item, Item::Directory(_)) {
            check_dir(fs, tree, path);
        }
    }
}

fn check_item(fs: &dyn FileSystem, tree: &Tree, path: &VfsPath, item: &Item) {
    let known = fs.metadata(path).unwrap_or_else(|error| panic!("metadata {path:?}: {error}"));
    assert!(fs.exists(path).expect("exists"), "{path:?}");
    let modes = fs.capabilities().contains(Capabilities::MODES);
    match item {
        Item::Directory(mode) => {
            assert_eq!(known.file_type, FileType::Directory, "{path:?}");
            assert!(!modes || known.mode == *mode, "{path:?}: mode {:o}", known.mode);
        }
        Item::File(mode, expected) => {
            assert_eq!(known.file_type, FileType::File, "{path:?}");
            assert!(!modes || known.mode == *mode, "{path:?}: mode {:o}", known.mode);
            assert_eq!(known.len, expected.len() as u64, "length of {path:?}");
            let file = fs
                .open(path, &OpenOptions::reading())
                .unwrap_or_else(|error| panic!("open {path:?}: {error}"))
                .file;
            assert!(contents(&*file) == *expected, "contents of {path:?}");
        }
        Item::Symlink(target) => {
            assert_eq!(known.file_type, FileType::Symlink, "{path:?}");
            assert_eq!(fs.read_link(path).expect("read_link"), *target, "{path:?}");
            assert_eq!(known.len, target.len() as u64, "length of {path:?}");
        }
        Item::HardLink(other) => {
            let item = tree.get(other).expect("a hard link's file is in the tree");
            check_item(fs, tree, path, item);
            if fs.capabilities().contains(Capabilities::HARD_LINKS) {
                assert_eq!(known.id, fs.metadata(other).expect("metadata").id, "{path:?}");
            }
        }
    }
}
