//! Finding files by pattern.

use globset::{GlobBuilder, GlobMatcher};

use crate::error::{BackendError, ErrorKind, Result};
use crate::mount::Vfs;
use crate::path::{VfsPath, VfsPathBuf};

use super::walk::Walk;

/// Paths that match a pattern, in the order of a walk. Made by [`Vfs::glob`].
#[derive(Debug)]
pub struct Glob<'a> {
    walk: Option<Walk<'a>>,
    matcher: GlobMatcher,
}

impl Vfs {
    /// Finds what matches a pattern of [`globset`]: `*` and `?` stay within a name, `**`
    /// crosses directories, `[ab]` and `{a,b}` choose. Only directories that the pattern's
    /// literal beginning allows are read. Symbolic links are matched, not followed.
    ///
    /// # Errors
    /// `InvalidArgument` for a pattern that is none; a literal beginning that does not exist,
    /// or leads through a symbolic link, matches nothing.
    pub fn glob(&self, pattern: &str) -> Result<Glob<'_>> {
        let pattern = pattern.trim_start_matches('/');
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| {
            BackendError::new(ErrorKind::InvalidArgument, error)
                .at("glob", VfsPath::unchecked(pattern.as_bytes()))
        })?;
        let start = self.start_of(literal_directory(pattern))?;
        let walk = start.map(|start| self.walk(start)).transpose()?;
        Ok(Glob { walk, matcher: glob.compile_matcher() })
    }

    /// The directory to walk from, if a walk of the whole tree would come to it: what is not
    /// a normal path, not there or behind a symbolic link matches nothing.
    fn start_of<'a>(&self, directory: &'a str) -> Result<Option<&'a VfsPath>> {
        let Ok(start) = VfsPath::new(directory.as_bytes()) else { return Ok(None) };
        for path in start.ancestors().chain([start]) {
            match self.symlink_metadata(path) {
                Ok(metadata) if metadata.is_dir() => {}
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => return Ok(None),
            }
        }
        Ok(Some(start))
    }
}

/// The directories at the beginning of the pattern that have no special character.
fn literal_directory(pattern: &str) -> &str {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    match pattern[..special].rfind('/') {
        Some(slash) => &pattern[..slash],
        None => "",
    }
}

impl Iterator for Glob<'_> {
    type Item = Result<VfsPathBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        for entry in self.walk.as_mut()? {
            match entry {
                Ok(entry) if self.matcher.is_match(lossless(&entry.path)) => {
                    return Some(Ok(entry.path));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

#[cfg(unix)]
fn lossless(path: &VfsPath) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

#[cfg(not(unix))]
fn lossless(path: &VfsPath) -> std::path::PathBuf {
    String::from_utf8_lossy(path.as_bytes()).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_beginnings() {
        for (pattern, expected) in [
            ("*.lua", ""),
            ("scripts/*.lua", "scripts"),
            ("a/b/**/c", "a/b"),
            ("a/b", "a"),
            ("a{b,c}/d", ""),
        ] {
            assert_eq!(literal_directory(pattern), expected);
        }
    }
}
