//! Opening files.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::backend::{Capabilities, File};
use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::layers::ReadOnlyFs;
use crate::metadata::FileType;
use crate::options::OpenOptions;
use crate::path::VfsPath;
use crate::sharded::Sharded;
use crate::watch::WatchKind;

use super::State;
use super::copies::UNSETTLED;
use super::copy_up::Contents;
use super::handle::{ReadOnlyFile, UpperFile};
use super::lookup::Probe;
use super::lower_handle::LowerFile;

pub(super) fn open(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    if !options.is_valid() {
        return Err(ErrorKind::InvalidArgument.into());
    }
    if !options.needs_writable() {
        return open_to_read(fs, path, options);
    }
    fs.upper(path)?;
    if options.temporary {
        return open_temporary(fs, path, options);
    }
    loop {
        let Some(hit) = fs.lookup_any(path)? else {
            if !(options.create || options.create_new) {
                return Err(ErrorKind::NotFound.into());
            }
            match fs.create_file(path, options) {
                Ok(file) => return Ok(upper_file(fs, file, path, options)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !options.create_new => {
                    continue; // somebody else made it
                }
                Err(error) => return Err(error),
            }
        };
        if options.create_new {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match hit.file_type() {
            FileType::File => {}
            FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
            FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
            _ => return Err(ErrorKind::InvalidArgument.into()),
        }
        if hit.layer > 0 && options.truncate {
            fs.copy_up(path, Contents::Nothing)?;
            continue;
        }
        let opened = match hit.layer {
            0 => open_in_upper(fs, path, options),
            _ => open_to_read(fs, path, &OpenOptions { create: false, ..*options }),
        };
        match opened {
            // Gone meanwhile, or no longer where it was: look again.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
}

fn open_in_upper(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    let existing = OpenOptions { create: false, ..*options };
    let file = match fs.top().open(path, &existing) {
        // A whiteout, by now: to the layer it is a file that cannot be opened.
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            return Err(ErrorKind::NotFound.into());
        }
        opened => opened?,
    };
    if options.truncate {
        fs.watches.report(WatchKind::Modified, path);
    }
    Ok(upper_file(fs, file, path, options))
}

fn upper_file(
    fs: &Sharded<State>,
    file: Box<dyn File>,
    path: &VfsPath,
    options: &OpenOptions,
) -> Box<dyn File> {
    let named = (options.is_writing() && !options.temporary).then(|| path.to_owned());
    Box::new(UpperFile {
        fs: fs.share(),
        file,
        path: named.map(OnceLock::from).unwrap_or_default(),
        temporary: options.temporary,
    })
}

fn open_temporary(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    let _shared = fs.tree.shared();
    let hit = fs.find(path)?;
    match hit.file_type() {
        FileType::Directory => {}
        FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
        _ => return Err(ErrorKind::NotADirectory.into()),
    }
    fs.needs(Capabilities::TEMPORARY)?;
    fs.make_dir(path)?;
    let file = fs.top().open(path, options)?;
    if fs.ids.any() {
        fs.ids.forget(file.metadata()?.id);
    }
    Ok(upper_file(fs, file, path, options))
}

/// How a layer answered.
enum Opened {
    Top(Box<dyn File>),
    Lower(Box<dyn File>),
    /// No layer has the name, and nothing is in the way.
    Missing,
    /// Nothing to open there; a look at what there is tells the error.
    Not,
}

/// Opens what is there without making anything: for reading, or a lower file for writing.
fn open_to_read(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Box<dyn File>> {
    let begun = fs.tree.begin();
    let seen = fs.copies.settled();
    let opened = open_by_layers(fs, path, options, seen)?;
    // A handle on a lower file counts by now; see `copies` for why this is looked at again.
    let settled = || seen != UNSETTLED && fs.copies.started() == seen && fs.tree.stands(begun);
    match opened {
        Opened::Top(file) => return Ok(file),
        Opened::Lower(file) if !fs.writable || settled() => return Ok(file),
        Opened::Missing if fs.tree.stands(begun) => return Err(ErrorKind::NotFound.into()),
        _ => {}
    }
    // While the name is held no copy-up of it can be under way.
    let _shared = fs.tree.shared();
    let _name = fs.names.lock(path);
    match open_by_layers(fs, path, options, fs.copies.settled())? {
        Opened::Top(file) | Opened::Lower(file) => Ok(file),
        Opened::Missing => Err(ErrorKind::NotFound.into()),
        Opened::Not => Err(why_not(fs, path)),
    }
}

#[inline]
fn open_by_layers(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
    seen: u64,
) -> BackendResult<Opened> {
    let mut name = Cow::Borrowed(path);
    for (index, layer) in fs.layers.iter().enumerate() {
        // Beneath the upper layer files are read, whatever the handle is for.
        let reading = OpenOptions::reading();
        let options_here = if index == 0 && fs.writable { options } else { &reading };
        // The answer is not moved before it is taken apart: that costs more than asking a layer
        // that does not have the name.
        match layer.fs.open(&name, options_here) {
            Ok(file) if index == 0 && fs.writable => {
                return Ok(Opened::Top(match fs.ids.any() || options.is_writing() {
                    true => upper_file(fs, file, path, options),
                    false => file,
                }));
            }
            Ok(file) if fs.writable => {
                let Some(beneath) = fs.beneath(path) else { return Ok(Opened::Not) };
                let handle = LowerFile::new(fs.share(), file, index, &beneath, path, options, seen);
                return Ok(Opened::Lower(Box::new(handle)));
            }
            Ok(file) => {
                // Metadata could be changed through the layer's own handle.
                let file = match layer.fs.capabilities().contains(Capabilities::WRITE) {
                    true => ReadOnlyFs::guard(file),
                    false => file,
                };
                if index == 0 {
                    return Ok(Opened::Top(file));
                }
                return Ok(Opened::Lower(Box::new(ReadOnlyFile { file, layer: index as u64 })));
            }
            Err(error) => match error.kind() {
                ErrorKind::NotFound => {}
                ErrorKind::NotADirectory
                | ErrorKind::SymlinkInPath
                | ErrorKind::IsADirectory
                | ErrorKind::InvalidArgument => return Ok(Opened::Not),
                _ => return Err(error),
            },
        }
        match layer.remaps.map(name) {
            Some(beneath) => name = beneath,
            None => break,
        }
    }
    Ok(Opened::Missing)
}

/// Why there was nothing to open. The caller holds the tree.
#[cold]
fn why_not(fs: &State, path: &VfsPath) -> BackendError {
    match fs.probe(path) {
        Ok(Probe::Hit(hit)) => match hit.file_type() {
            FileType::Directory => ErrorKind::IsADirectory.into(),
            FileType::Symlink => ErrorKind::SymlinkInPath.into(),
            // It was not there a moment ago, and the name is held.
            FileType::File => ErrorKind::NotFound.into(),
            _ => ErrorKind::InvalidArgument.into(),
        },
        Ok(Probe::Missing { .. }) => ErrorKind::NotFound.into(),
        Ok(Probe::Blocked) => fs.explain(path),
        Err(error) => error,
    }
}
