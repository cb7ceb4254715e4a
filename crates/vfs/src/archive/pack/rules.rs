//! Which files are compressed, encrypted or left out.

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};

use crate::error::{BackendError, BackendResult, ErrorKind};
use crate::path::{VfsPath, VfsPathBuf};

use super::PackOptions;
use crate::archive::{CipherKind, Compression};

/// One rule of the packer: a pattern of [`globset`] over full paths, and what to do with files
/// that match it. `*` crosses directories.
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
    compression: Patterns<Compression>,
    encrypt: Patterns<()>,
    exclude: Patterns<()>,
}

struct Patterns<T> {
    set: GlobSet,
    values: Vec<T>,
}

impl<T: Copy> Patterns<T> {
    fn new(patterns: Vec<(&str, T)>) -> BackendResult<Self> {
        let mut builder = GlobSetBuilder::new();
        let mut values = Vec::new();
        for (pattern, value) in patterns {
            let pattern = pattern.trim_start_matches('/');
            let bad = |error| BackendError::new(ErrorKind::InvalidArgument, error);
            builder.add(Glob::new(pattern).map_err(bad)?);
            values.push(value);
        }
        let set = builder.build().map_err(|e| BackendError::new(ErrorKind::InvalidArgument, e))?;
        Ok(Patterns { set, values })
    }

    /// The value of the last pattern that matches.
    fn last(&self, path: &Candidate<'_>) -> Option<T> {
        self.set.matches_candidate(path).last().map(|&nth| self.values[nth])
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

    pub(crate) fn excludes(&self, path: &VfsPath) -> bool {
        self.exclude_paths.contains(&path)
            || with_candidate(path, |path| self.exclude.last(path).is_some())
    }

    pub(crate) fn treatment(&self, path: &VfsPath) -> Treatment {
        with_candidate(path, |path| Treatment {
            compression: self.compression.last(path).unwrap_or(Compression::Store),
            encrypted: self.encrypt.last(path).is_some(),
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
