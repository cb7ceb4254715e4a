//! What users see of a whole tree.

use std::collections::BTreeMap;
use std::fmt::Write;

use stratafs::{FileId, FileSystem, FileType, OpenOptions, VfsPathBuf};

use super::state::Model;
use crate::tools::{contents, entries};

/// What users see of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    file_type: FileType,
    /// Not of symbolic links, which not all hosts keep.
    mode: u32,
    /// Not of directories, which may answer 1.
    links: u32,
    contents: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of the names of one file the first.
    same_as: VfsPathBuf,
}

/// Every name but the root, and what it shows.
pub type Tree = BTreeMap<VfsPathBuf, Look>;

/// Looks at everything, and checks that the ways to ask for it agree.
///
/// # Panics
/// When they do not, and when a call fails.
pub fn look(fs: &dyn FileSystem) -> Tree {
    let mut pending = vec![VfsPathBuf::new()];
    let mut found = BTreeMap::new();
    while let Some(directory) = pending.pop() {
        for (name, file_type) in entries(fs, &directory) {
            let path = directory.join_name(&name).expect("a listed name is valid");
            if file_type.is_dir() {
                pending.push(path.clone());
            }
            found.insert(path, file_type);
        }
    }
    let mut first: BTreeMap<FileId, VfsPathBuf> = BTreeMap::new();
    let look_at = |(path, listed): (VfsPathBuf, FileType)| {
        let known = fs.metadata(&path).unwrap_or_else(|error| panic!("metadata {path:?}: {error}"));
        assert_eq!(known.file_type, listed, "{path:?}");
        assert!(fs.exists(&path).expect("exists"), "{path:?}");
        let contents = match known.file_type {
            FileType::File => {
                let file = fs.open(&path, &OpenOptions::reading());
                let file = file.unwrap_or_else(|error| panic!("open {path:?}: {error}"));
                let open = file.file.metadata().expect("metadata of a handle");
                assert_eq!((open.id, open.links), (known.id, known.links), "{path:?}");
                assert_eq!((open.len, open.mode), (known.len, known.mode), "{path:?}");
                contents(&*file.file)
            }
            FileType::Symlink => fs.read_link(&path).expect("read_link"),
            _ => Vec::new(),
        };
        let names = match known.file_type {
            FileType::File | FileType::Directory => fs.xattrs(&path).expect("xattrs"),
            _ => Vec::new(),
        };
        let value = |name: Vec<u8>| {
            let value = fs.xattr(&path, &name).expect("xattr");
            (name, value)
        };
        let look = Look {
            file_type: known.file_type,
            mode: if known.is_symlink() { 0 } else { known.mode },
            links: if known.is_dir() { 0 } else { known.links },
            contents,
            xattrs: names.into_iter().map(value).collect(),
            same_as: first.entry(known.id).or_insert_with(|| path.clone()).clone(),
        };
        (path, look)
    };
    found.into_iter().map(look_at).collect()
}

pub(super) fn of_model(model: &Model) -> Tree {
    let mut first: BTreeMap<usize, &VfsPathBuf> = BTreeMap::new();
    let names = model.names.iter().filter(|(path, _)| !path.is_root());
    names
        .map(|(path, &number)| {
            let node = &model.nodes[number];
            let look = Look {
                file_type: node.file_type,
                mode: if node.file_type.is_symlink() { 0 } else { node.mode },
                links: if node.file_type.is_dir() { 0 } else { model.links(number) },
                contents: node.contents.clone(),
                xattrs: node.xattrs.clone(),
                same_as: (*first.entry(number).or_insert(path)).clone(),
            };
            (path.clone(), look)
        })
        .collect()
}

/// Compares two trees.
///
/// # Errors
/// What differs, and nothing else.
pub fn difference(found: &Tree, expected: &Tree) -> Result<(), String> {
    let mut text = String::new();
    let missing = expected.keys().filter(|path| !found.contains_key(*path));
    for path in found.keys().chain(missing) {
        let (found, expected) = (found.get(path), expected.get(path));
        if found != expected {
            let _ = write!(text, "\n{path:?}: {found:?}, expected {expected:?}");
        }
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}
