//! Only what changed: the tree is reduced to what differs from an older archive.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::archive::cipher::Cipher;
use crate::archive::format::flag;
use crate::archive::{ArchiveFs, Compression};
use crate::backend::FileSystem;
use crate::error::{BackendError, BackendResult, ErrorKind, Result};
use crate::metadata::{FileType, Metadata};
use crate::options::{Detail, OpenOptions};
use crate::path::{VfsPath, VfsPathBuf};

use super::PackOptions;
use super::rules::Treatment;
use super::scan::{Node, Tree};

pub(crate) fn reduce(
    tree: &mut Tree,
    source: &dyn FileSystem,
    old: &ArchiveFs,
    options: &PackOptions<'_>,
) -> Result<()> {
    if old.inner.header.flags & (flag::WHITEOUTS | flag::PATCH) != 0 {
        let reason = "a patch can only be made from an archive that is itself no patch";
        return Err(BackendError::new(ErrorKind::Unsupported, reason).at("pack", VfsPath::root()));
    }
    if matches!(old.inner.cipher, Cipher::Locked(_)) {
        // Without the key every encrypted file would seem to have changed.
        return Err(Cipher::locked().at("pack", VfsPath::root()));
    }
    let mut keep = changed(tree, source, old, options)?;
    let gone = gone(tree, old)?;
    for (number, _) in &gone {
        keep[*number as usize] = true;
    }
    // What is kept needs its directories, whose numbers are smaller.
    for number in (1..tree.nodes.len()).rev() {
        if keep[number] {
            keep[tree.nodes[number].parent as usize] = true;
        }
    }
    keep[0] = true;
    rebuild(tree, &keep, gone);
    Ok(())
}

/// Which nodes differ from the old archive.
fn changed(
    tree: &Tree,
    source: &dyn FileSystem,
    old: &ArchiveFs,
    options: &PackOptions<'_>,
) -> Result<Vec<bool>> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(node) = tree.nodes.get(number) else { return Ok(found) };
            match differs(node, source, old) {
                Ok(true) => found.push(number),
                Ok(false) => {}
                Err(error) => {
                    next.store(tree.nodes.len(), Ordering::Relaxed);
                    return Err(error.at("pack", &node.path));
                }
            }
        }
    };
    let jobs = options.job_count().clamp(1, tree.nodes.len());
    let results: Vec<Result<Vec<usize>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let mut keep = vec![false; tree.nodes.len()];
    for result in results {
        for number in result? {
            keep[number] = true;
        }
    }
    Ok(keep)
}

fn differs(node: &Node, source: &dyn FileSystem, old: &ArchiveFs) -> BackendResult<bool> {
    let inner = &*old.inner;
    let number = match node.path.is_root() {
        true => Some(crate::archive::index::ROOT),
        false => inner.index.find(&node.path)?,
    };
    let Some(number) = number else { return Ok(true) };
    let entry = inner.index.entry(number)?;
    let (new, known) = (&node.metadata, inner.index.metadata(number)?);
    if new.file_type != known.file_type
        || new.mode != known.mode
        || new.owner != known.owner
        || new.device != known.device
    {
        return Ok(true);
    }
    let mut xattrs = Vec::new();
    if let Some(extra) = inner.index.extra(number, entry)? {
        extra.xattrs(|name, value| {
            xattrs.push((name.to_vec(), value.to_vec()));
            true
        })?;
    }
    if xattrs != node.xattrs {
        return Ok(true);
    }
    match new.file_type {
        FileType::Symlink => Ok(inner.index.link_target(number, entry)? != node.target),
        FileType::File => Ok(new.len != known.len
            || hash(source, node, inner.cipher.content_hasher())?
                != *inner.index.content_hash(number)?),
        _ => Ok(false),
    }
}

fn hash(
    source: &dyn FileSystem,
    node: &Node,
    mut hasher: blake3::Hasher,
) -> BackendResult<[u8; 32]> {
    let file = source.open(&node.path, &OpenOptions::reading())?.file;
    let mut buf = vec![0; node.metadata.len.clamp(1, 1 << 20) as usize];
    let mut offset = 0;
    loop {
        let n = file.read_at(&mut buf, offset)?;
        if n == 0 {
            return Ok(*hasher.finalize().as_bytes());
        }
        hasher.update(&buf[..n]);
        offset += n as u64;
    }
}

/// The highest names of the old archive that are no more, each with the number of the directory
/// of the new tree that had it.
fn gone(tree: &Tree, old: &ArchiveFs) -> Result<Vec<(u32, VfsPathBuf)>> {
    let numbers: HashMap<&VfsPath, u32> =
        tree.nodes.iter().enumerate().map(|(n, node)| (&*node.path, n as u32)).collect();
    let mut gone = Vec::new();
    let mut directories = vec![VfsPathBuf::new()];
    while let Some(directory) = directories.pop() {
        let Some(&number) = numbers.get(&*directory) else { continue };
        let mut failed = None;
        let visit = &mut |entry: crate::DirEntry<'_>| {
            match directory.join_name(entry.name) {
                Err(error) => failed = Some(error),
                Ok(path) => match numbers.get(&*path) {
                    None => gone.push((number, path)),
                    Some(&new) if entry.file_type.is_dir() => {
                        // A directory that became a file hides what was in it.
                        if tree.nodes[new as usize].metadata.is_dir() {
                            directories.push(path);
                        }
                    }
                    Some(_) => {}
                },
            }
            ControlFlow::Continue(())
        };
        let listed = old.read_dir(&directory, Detail::Names, visit);
        if let Err(error) = listed.and_then(|()| failed.map_or(Ok(()), Err)) {
            return Err(error.at("pack", &directory));
        }
    }
    Ok(gone)
}

/// The tree of the kept nodes and a whiteout for each name that is gone.
fn rebuild(tree: &mut Tree, keep: &[bool], gone: Vec<(u32, VfsPathBuf)>) {
    let mut whiteouts: HashMap<u32, Vec<VfsPathBuf>> = HashMap::new();
    for (directory, path) in gone {
        whiteouts.entry(directory).or_default().push(path);
    }
    let mut old: Vec<Option<Node>> =
        std::mem::take(&mut tree.nodes).into_iter().map(Some).collect();
    let mut files: HashMap<u32, u32> = HashMap::new();
    // The old number of each node of the new tree; none for whiteouts.
    let mut numbers = vec![Some(0)];
    let mut nodes: Vec<Node> = old[0].take().into_iter().collect();
    let mut next = 0;
    while next < nodes.len() {
        if let (Some(number), true) = (numbers[next], nodes[next].metadata.is_dir()) {
            let kept = nodes[next].children.clone().filter(|&child| keep[child as usize]);
            let mut children: Vec<(Option<u32>, Node)> =
                kept.filter_map(|child| Some((Some(child), old[child as usize].take()?))).collect();
            let gone = whiteouts.remove(&number).unwrap_or_default();
            children.extend(gone.into_iter().map(|path| (None, whiteout(path))));
            children.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
            let first = nodes.len() as u32;
            for (number, mut node) in children {
                let new = nodes.len() as u32;
                node.parent = next as u32;
                let file = match number {
                    Some(_) => *files.entry(node.file).or_insert(new),
                    None => new,
                };
                (node.file, node.links) = (file, 1);
                if file != new {
                    nodes[file as usize].links += 1;
                }
                nodes.push(node);
                numbers.push(number);
            }
            nodes[next].children = first..nodes.len() as u32;
        }
        next += 1;
    }
    tree.nodes = nodes;
}

fn whiteout(path: VfsPathBuf) -> Node {
    Node {
        path,
        parent: 0,
        metadata: Metadata::new(FileType::Whiteout, 0),
        children: 0..0,
        target: Vec::new(),
        xattrs: Vec::new(),
        file: 0,
        links: 1,
        treatment: Treatment { compression: Compression::Store, encrypted: false },
        first_block: 0,
        plain_at: None,
        hash: [0; 32],
    }
}
