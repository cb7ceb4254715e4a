//! Opening files.

use std::borrow::Cow;

use crate::backend::{Capabilities, Opened};
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
use super::handle::{ReadOnlyFile, upper_file};
use super::lookup::Probe;
use super::lower_handle::{LowerFile, LowerName};

pub(super) fn open(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Opened> {
    if !options.is_valid() {
        return Err(ErrorKind::InvalidArgument.into());
    }
    if options.reference {
        return open_reference(fs, path, options);
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
                Ok(opened) => return Ok(wrapped(fs, opened, path, options)),
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
) -> BackendResult<Opened> {
    let existing = OpenOptions { create: false, ..*options };
    let opened = match fs.top().open(path, &existing) {
        // A whiteout, by now: to the layer it is a file that cannot be opened.
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            return Err(ErrorKind::NotFound.into());
        }
        opened => opened?,
    };
    if options.truncate {
        fs.watches.report(WatchKind::Modified, path);
    }
    Ok(wrapped(fs, opened, path, options))
}

fn wrapped(fs: &Sharded<State>, opened: Opened, path: &VfsPath, options: &OpenOptions) -> Opened {
    upper_file(fs.share(), opened, options.is_writing().then(|| path.to_owned()), false)
}

/// Holds on to what the path shows, whatever it is.
fn open_reference(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Opened> {
    let _shared = fs.tree.shared();
    let _name = fs.names.lock(path);
    let hit = fs.find(path)?;
    let layer = &*fs.layers[hit.layer].fs;
    if hit.layer == 0 && fs.writable {
        let opened = layer.open(path, options)?;
        // Whatever is changed through it is reported by this name.
        return Ok(upper_file(fs.share(), opened, Some(path.to_owned()), false));
    }
    if hit.file_type() == FileType::File && fs.writable {
        // It follows the file when it is copied up.
        return match open_by_layers(fs, path, options, UNSETTLED)? {
            Found::Top(opened) | Found::Lower(opened) => Ok(opened),
            Found::Missing | Found::Not => Err(ErrorKind::NotFound.into()),
        };
    }
    let opened = layer.open(&hit.path, options)?.map(ReadOnlyFs::guard);
    Ok(read_only_file(opened, hit.layer as u64))
}

fn read_only_file(mut opened: Opened, layer: u64) -> Opened {
    if let Some(metadata) = &mut opened.metadata {
        metadata.id = metadata.id.salted(layer);
    }
    opened.map(|file| Box::new(ReadOnlyFile { file, layer }))
}

fn open_temporary(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
) -> BackendResult<Opened> {
    let _shared = fs.tree.shared();
    let hit = fs.find(path)?;
    match hit.file_type() {
        FileType::Directory => {}
        FileType::Symlink => return Err(ErrorKind::SymlinkInPath.into()),
        _ => return Err(ErrorKind::NotADirectory.into()),
    }
    fs.needs(Capabilities::TEMPORARY)?;
    fs.make_dir(path)?;
    let opened = fs.top().open(path, options)?;
    if fs.ids.any() {
        fs.ids.forget(opened.file.metadata()?.id);
    }
    Ok(upper_file(fs.share(), opened, None, true))
}

/// How a layer answered.
enum Found {
    Top(Opened),
    Lower(Opened),
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
) -> BackendResult<Opened> {
    let begun = fs.tree.begin();
    let seen = fs.copies.settled();
    let opened = open_by_layers(fs, path, options, seen)?;
    // A handle on a lower file counts by now; see `copies` for why this is looked at again.
    let settled = || seen != UNSETTLED && fs.copies.started() == seen && fs.tree.stands(begun);
    match opened {
        Found::Top(opened) => return Ok(opened),
        Found::Lower(opened) if !fs.writable || settled() => return Ok(opened),
        Found::Missing if fs.tree.stands(begun) => return Err(ErrorKind::NotFound.into()),
        _ => {}
    }
    // While the name is held no copy-up of it can be under way.
    let _shared = fs.tree.shared();
    let _name = fs.names.lock(path);
    match open_by_layers(fs, path, options, fs.copies.settled())? {
        Found::Top(opened) | Found::Lower(opened) => Ok(opened),
        Found::Missing => Err(ErrorKind::NotFound.into()),
        Found::Not => Err(why_not(fs, path)),
    }
}

#[inline]
fn open_by_layers(
    fs: &Sharded<State>,
    path: &VfsPath,
    options: &OpenOptions,
    seen: u64,
) -> BackendResult<Found> {
    let mut name = Cow::Borrowed(path);
    for (index, layer) in fs.layers.iter().enumerate() {
        // Beneath the upper layer files are read, whatever the handle is for.
        let reading = OpenOptions::reading().metadata(options.metadata);
        let options_here = if index == 0 && fs.writable { options } else { &reading };
        // The answer is not moved before it is taken apart: that costs more than asking a layer
        // that does not have the name.
        match layer.fs.open(&name, options_here) {
            Ok(opened) if index == 0 && fs.writable => {
                return Ok(Found::Top(match fs.ids.any() || options.is_writing() {
                    true => wrapped(fs, opened, path, options),
                    false => opened,
                }));
            }
            Ok(mut opened) if fs.writable => {
                let Some(beneath) = fs.beneath(path) else { return Ok(Found::Not) };
                if let Some(metadata) = &mut opened.metadata {
                    **metadata = fs.shown(index, **metadata);
                }
                return Ok(Found::Lower(opened.map(|file| {
                    let beneath = LowerName { layer: index, beneath: &beneath };
                    Box::new(LowerFile::new(fs.share(), file, beneath, Some(path), options, seen))
                })));
            }
            Ok(opened) => {
                // Metadata could be changed through the layer's own handle.
                let opened = match layer.fs.capabilities().contains(Capabilities::WRITE) {
                    true => opened.map(ReadOnlyFs::guard),
                    false => opened,
                };
                if index == 0 {
                    return Ok(Found::Top(opened));
                }
                return Ok(Found::Lower(read_only_file(opened, index as u64)));
            }
            Err(error) => match error.kind() {
                ErrorKind::NotFound => {}
                ErrorKind::NotADirectory
                | ErrorKind::SymlinkInPath
                | ErrorKind::IsADirectory
                | ErrorKind::InvalidArgument => return Ok(Found::Not),
                _ => return Err(error),
            },
        }
        match layer.remaps.map(name) {
            Some(beneath) => name = beneath,
            None => break,
        }
    }
    Ok(Found::Missing)
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
