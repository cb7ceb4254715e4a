//! Which files are compressed, encrypted or left out.

use std::cell::Cell;

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};

use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::path::{VfsPath, VfsPathBuf};

use super::PackOptions;
use crate::archive::{CipherKind, Compression};

/// One rule of the packer: a pattern of [`globset`] over full paths, and what to do with files
/// that match it. `*` crosses directories; a slash at the end means a directory and everything in
/// it. A pattern that matches nothing is an error where it encrypts, else a [`Warning`].
///
/// [`Warning`]: crate::archive::Warning
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Compress so (with [`Compression::Store`] as [`Rule::Store`]).
    Compress(String, Compression),
    /// Do not compress.
    Store(String),
    /// Encrypt with the key of the options.
    Encrypt(String),
    /// Leave out; a directory with everything below it.
    Exclude(String),
    /// Leave out this very path; a directory with everything below it.
    ExcludePath(VfsPathBuf),
}

/// What the rules say of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Treatment {
    pub compression: Compression,
    pub encrypted: bool,
}

pub(crate) struct Rules<'a> {
    exclude_paths: Vec<&'a VfsPath>,
    compression: Patterns<'a, Compression>,
    encrypt: Patterns<'a, ()>,
    exclude: Patterns<'a, ()>,
}

struct Patterns<'a, T> {
    set: GlobSet,
    /// Of each glob of the set: the pattern that it is of, whether it is of directories only, and
    /// its value.
    globs: Vec<(usize, bool, T)>,
    /// The patterns, and whether anything matched.
    patterns: Vec<(&'a str, Cell<bool>)>,
}

impl<'a, T: Copy> Patterns<'a, T> {
    fn new(patterns: Vec<(&'a str, T)>) -> BackendResult<Self> {
        let bad = |error| BackendError::new(ErrorKind::InvalidArgument, error);
        let mut builder = GlobSetBuilder::new();
        let mut globs = Vec::new();
        for (number, &(pattern, value)) in patterns.iter().enumerate() {
            // Written as paths are: from the root or from here, and a directory, which means
            // everything in it, with a slash at its end.
            let path = pattern.trim_start_matches("./").trim_start_matches('/');
            let whole = path.trim_end_matches('/');
            let is_directory = whole.len() < path.len();
            builder.add(Glob::new(whole).map_err(bad)?);
            globs.push((number, is_directory, value));
            if is_directory {
                builder.add(Glob::new(&format!("{whole}/**")).map_err(bad)?);
                globs.push((number, false, value));
            }
        }
        let set = builder.build().map_err(bad)?;
        let patterns = patterns.into_iter().map(|(text, _)| (text, Cell::new(false))).collect();
        Ok(Patterns { set, globs, patterns })
    }

    /// The value of the last pattern that matches.
    fn last(&self, path: &Candidate<'_>, is_directory: bool) -> Option<T> {
        let mut last = None;
        for nth in self.set.matches_candidate(path) {
            let (pattern, of_directories, value) = self.globs[nth];
            if is_directory || !of_directories {
                self.patterns[pattern].1.set(true);
                last = Some(value);
            }
        }
        last
    }

    /// The patterns that nothing has matched so far.
    fn unused(&self) -> impl Iterator<Item = &'a str> {
        self.patterns.iter().filter(|(_, used)| !used.get()).map(|&(text, _)| text)
    }
}

impl<'a> Rules<'a> {
    pub(crate) fn new(options: &'a PackOptions<'_>) -> BackendResult<Self> {
        let mut exclude_paths = Vec::new();
        let (mut compression, mut encrypt, mut exclude) = (Vec::new(), Vec::new(), Vec::new());
        for rule in &options.rules {
            match rule {
                Rule::Compress(pattern, how) => {
                    if let Compression::Zstd(level) = how
                        && !(1..=22).contains(level)
                    {
                        return Err(invalid(format!("Zstandard has levels 1 to 22, not {level}")));
                    }
                    compression.push((&**pattern, *how));
                }
                Rule::Store(pattern) => compression.push((&**pattern, Compression::Store)),
                Rule::Encrypt(pattern) => encrypt.push((&**pattern, ())),
                Rule::Exclude(pattern) => exclude.push((&**pattern, ())),
                Rule::ExcludePath(path) => exclude_paths.push(&**path),
            }
        }
        match (&options.key, encrypt.is_empty()) {
            (None, false) => Err(invalid("a rule encrypts, and there is no key".into())),
            (Some(_), true) => Err(invalid("there is a key, and no rule encrypts".into())),
            _ => Ok(Rules {
                exclude_paths,
                compression: Patterns::new(compression)?,
                encrypt: Patterns::new(encrypt)?,
                exclude: Patterns::new(exclude)?,
            }),
        }
    }

    /// The patterns that matched nothing of what was packed: most likely they are not what was
    /// meant.
    ///
    /// # Errors
    /// When something was to be encrypted and is not.
    pub(crate) fn unused(&self) -> BackendResult<Vec<&'a str>> {
        let missed = |pattern: &&str| !matches!(*pattern, "*" | "**");
        if let Some(pattern) = self.encrypt.unused().find(missed) {
            return Err(invalid(format!("`{pattern}` is to be encrypted, and nothing matches it")));
        }
        Ok(self.compression.unused().chain(self.exclude.unused()).filter(missed).collect())
    }

    pub(crate) fn excludes(&self, path: &VfsPath, is_directory: bool) -> bool {
        self.exclude_paths.contains(&path)
            || with_candidate(path, |path| self.exclude.last(path, is_directory).is_some())
    }

    pub(crate) fn treatment(&self, path: &VfsPath, is_directory: bool) -> Treatment {
        with_candidate(path, |path| Treatment {
            compression: self.compression.last(path, is_directory).unwrap_or(Compression::Store),
            encrypted: self.encrypt.last(path, is_directory).is_some(),
        })
    }
}

#[cfg(unix)]
fn with_candidate<R>(path: &VfsPath, f: impl FnOnce(&Candidate<'_>) -> R) -> R {
    use std::os::unix::ffi::OsStrExt;
    f(&Candidate::new(std::ffi::OsStr::from_bytes(path.as_bytes())))
}

#[cfg(not(unix))]
fn with_candidate<R>(path: &VfsPath, f: impl FnOnce(&Candidate<'_>) -> R) -> R {
    f(&Candidate::new(&*String::from_utf8_lossy(path.as_bytes())))
}

pub(crate) fn invalid(reason: String) -> BackendError {
    BackendError::new(ErrorKind::InvalidArgument, reason)
}

/// The cipher that the options ask for.
pub(crate) fn cipher_kind(options: &PackOptions<'_>) -> CipherKind {
    options.key.as_ref().map_or(CipherKind::None, |key| key.cipher())
}
