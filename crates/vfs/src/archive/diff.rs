//! What differs between two archives.

use std::ops::ControlFlow;

use crate::backend::FileSystem;
use crate::error::{BackendResult, Result};
use crate::kit::PathIndex;
use crate::metadata::{FileType, Metadata};
use crate::options::{Detail, OpenOptions};
use crate::path::{VfsPath, VfsPathBuf};

use super::ArchiveFs;
use super::format::CipherKind;

bitflags::bitflags! {
    /// In what two files of one name differ.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Differences: u8 {
        /// One is a file, the other a directory, say.
        const TYPE = 1 << 0;
        /// Contents, the target of a symbolic link, or the number of a device.
        const CONTENTS = 1 << 1;
        /// Permission bits.
        const MODE = 1 << 2;
        /// User or group.
        const OWNER = 1 << 3;
        /// The time of the last change.
        const TIME = 1 << 4;
        /// Extended attributes.
        const XATTRS = 1 << 5;
    }
}

/// One name that differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Only the second archive has it.
    Added(Metadata),
    /// Only the first has it.
    Removed(Metadata),
    /// Both have it, different.
    Modified {
        /// As it is in the first.
        old: Metadata,
        /// As it is in the second.
        new: Metadata,
        /// In what they differ.
        differences: Differences,
    },
}

/// Calls `visit` for each name that differs, a directory before what is below it, in the order
/// of names, until it breaks. Contents are compared by their hashes in the index; only those
/// of archives with AES-256-GCM-SIV are read.
///
/// # Errors
/// `WrongKey` where encrypted contents must be read and there is no key; `Corrupt`.
pub fn diff(
    old: &ArchiveFs,
    new: &ArchiveFs,
    visit: &mut dyn FnMut(&VfsPath, Change) -> ControlFlow<()>,
) -> Result<()> {
    let mut next = vec![(VfsPathBuf::new(), true, true)];
    while let Some((path, in_old, in_new)) = next.pop() {
        let at = |error: crate::BackendError| error.at("diff", &path);
        let get = |fs: &ArchiveFs, has: bool| has.then(|| fs.metadata(&path)).transpose();
        let (a, b) = (get(old, in_old).map_err(at)?, get(new, in_new).map_err(at)?);
        let change = match (a, b) {
            (Some(a), Some(b)) => {
                let differences = compare(old, new, &path, &a, &b).map_err(at)?;
                (!differences.is_empty()).then_some(Change::Modified {
                    old: a,
                    new: b,
                    differences,
                })
            }
            (Some(a), None) => Some(Change::Removed(a)),
            (None, Some(b)) => Some(Change::Added(b)),
            (None, None) => None,
        };
        if let Some(change) = change
            && visit(&path, change).is_break()
        {
            return Ok(());
        }
        let names = |fs: &ArchiveFs, metadata: Option<Metadata>| match metadata {
            Some(metadata) if metadata.is_dir() => names(fs, &path),
            _ => Ok(Vec::new()),
        };
        let (a, b) = (names(old, a).map_err(at)?, names(new, b).map_err(at)?);
        for (name, in_old, in_new) in merge(&a, &b).into_iter().rev() {
            next.push((path.join_name(name).map_err(at)?, in_old, in_new));
        }
    }
    Ok(())
}

fn names(fs: &ArchiveFs, path: &VfsPath) -> BackendResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    fs.read_dir(path, Detail::Names, &mut |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    })?;
    names.sort_unstable();
    Ok(names)
}

/// The names of two sorted lists, and which of them has each.
fn merge<'a>(a: &'a [Vec<u8>], b: &'a [Vec<u8>]) -> Vec<(&'a [u8], bool, bool)> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut merged = Vec::new();
    loop {
        let (name, in_a, in_b) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => (*x.min(y), x <= y, y <= x),
            (Some(x), None) => (*x, true, false),
            (None, Some(y)) => (*y, false, true),
            (None, None) => return merged,
        };
        if in_a {
            a.next();
        }
        if in_b {
            b.next();
        }
        merged.push((&name[..], in_a, in_b));
    }
}

fn compare(
    old: &ArchiveFs,
    new: &ArchiveFs,
    path: &VfsPath,
    a: &Metadata,
    b: &Metadata,
) -> BackendResult<Differences> {
    let mut differences = Differences::empty();
    differences.set(Differences::MODE, a.mode != b.mode);
    differences.set(Differences::OWNER, a.owner != b.owner);
    differences.set(Differences::TIME, a.modified != b.modified);
    differences.set(Differences::XATTRS, xattrs(old, path)? != xattrs(new, path)?);
    if a.file_type != b.file_type {
        return Ok(differences | Differences::TYPE);
    }
    let differ = match a.file_type {
        FileType::File => a.len != b.len || contents_differ(old, new, path)?,
        FileType::Symlink => old.read_link(path)? != new.read_link(path)?,
        _ => a.device != b.device,
    };
    differences.set(Differences::CONTENTS, differ);
    Ok(differences)
}

fn xattrs(fs: &ArchiveFs, path: &VfsPath) -> BackendResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    for name in fs.xattrs(path)? {
        let value = fs.xattr(path, &name)?;
        all.push((name, value));
    }
    all.sort_unstable();
    Ok(all)
}

fn contents_differ(old: &ArchiveFs, new: &ArchiveFs, path: &VfsPath) -> BackendResult<bool> {
    let keyed = |fs: &ArchiveFs| fs.inner.header.cipher == CipherKind::Aead;
    if !keyed(old) && !keyed(new) {
        let hash = |fs: &ArchiveFs| -> BackendResult<[u8; 32]> {
            let number = fs.inner.resolve(path)?;
            fs.inner.index.content_hash(number).copied()
        };
        return Ok(hash(old)? != hash(new)?);
    }
    let (a, b) = (
        old.open(path, &OpenOptions::reading())?.file,
        new.open(path, &OpenOptions::reading())?.file,
    );
    let (mut a_buf, mut b_buf) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut offset = 0;
    loop {
        // Both handles read whole buffers up to the end of equally long files.
        let n = a.read_at(&mut a_buf, offset)?;
        if n != b.read_at(&mut b_buf, offset)? || a_buf[..n] != b_buf[..n] {
            return Ok(true);
        }
        if n == 0 {
            return Ok(false);
        }
        offset += n as u64;
    }
}
