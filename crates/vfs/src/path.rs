//! Paths inside a tree of layers.
//!
//! A [`VfsPath`] is a byte string, relative to the root of the tree, with `/` between
//! components. It is *normal*: no empty, `.` or `..` component, no NUL byte, no leading or
//! trailing `/`, no component over [`MAX_NAME_LEN`] bytes. The empty path is the root. Callers'
//! strings are normalised once, at the public surface ([`normalize`]); nothing behind it parses
//! a path again. Names need not be UTF-8.

use std::borrow::{Borrow, Cow};
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use ref_cast::RefCast;

use crate::error::{BackendError, ErrorKind};

/// The longest name of one file, in bytes (`NAME_MAX` of Linux).
pub const MAX_NAME_LEN: usize = 255;

/// The longest whole path a caller may pass, in bytes (`PATH_MAX` of Linux).
pub const MAX_PATH_LEN: usize = 4096;

/// A normal path, borrowed. See the [module documentation](self).
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, RefCast)]
#[repr(transparent)]
pub struct VfsPath([u8]);

/// A normal path, owned.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VfsPathBuf(Vec<u8>);

impl VfsPath {
    /// The root of the tree: the empty path.
    #[inline]
    pub fn root() -> &'static VfsPath {
        VfsPath::ref_cast(&[])
    }

    /// Takes bytes that are already normal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPath`] or [`ErrorKind::NameTooLong`] when they are not.
    pub fn new(bytes: &[u8]) -> Result<&VfsPath, BackendError> {
        match check(bytes)? {
            Form::Normal => Ok(VfsPath::ref_cast(bytes)),
            Form::NeedsWork => Err(ErrorKind::InvalidPath.into()),
        }
    }

    /// Takes bytes that are known to be normal: a part of a normal path.
    #[inline]
    pub(crate) fn from_normal(bytes: &[u8]) -> &VfsPath {
        debug_assert!(matches!(check(bytes), Ok(Form::Normal)));
        VfsPath::ref_cast(bytes)
    }

    /// For messages about a caller's path that is not normal: its bytes as they are.
    pub(crate) fn unchecked(bytes: &[u8]) -> &VfsPath {
        VfsPath::ref_cast(bytes.strip_prefix(b"/").unwrap_or(bytes))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the path has no bytes, which is the root. The same as [`is_root`](Self::is_root).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        self.0.split(|&b| b == b'/').filter(|name| !name.is_empty())
    }

    /// The last name, or `None` for the root.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.split_last().map(|(_, name)| name)
    }

    /// The directory that holds this name, or `None` for the root.
    pub fn parent(&self) -> Option<&VfsPath> {
        self.split_last().map(|(parent, _)| parent)
    }

    /// Parent directory and last name, or `None` for the root.
    pub fn split_last(&self) -> Option<(&VfsPath, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match memchr::memrchr(b'/', &self.0) {
            Some(i) => (VfsPath::ref_cast(&self.0[..i]), &self.0[i + 1..]),
            None => (VfsPath::root(), &self.0[..]),
        })
    }

    /// First name and the rest below it, or `None` for the root.
    pub fn split_first(&self) -> Option<(&[u8], &VfsPath)> {
        if self.0.is_empty() {
            return None;
        }
        Some(match memchr::memchr(b'/', &self.0) {
            Some(i) => (&self.0[..i], VfsPath::ref_cast(&self.0[i + 1..])),
            None => (&self.0[..], VfsPath::root()),
        })
    }

    /// Every directory above this path, the root first, the path itself not included.
    pub fn ancestors(&self) -> impl Iterator<Item = &VfsPath> {
        let root = (!self.0.is_empty()).then(VfsPath::root);
        root.into_iter()
            .chain(memchr::memchr_iter(b'/', &self.0).map(|i| VfsPath::ref_cast(&self.0[..i])))
    }

    /// The rest of this path below `base`, the root when they are equal, `None` when this path
    /// is not at or below `base`.
    pub fn strip_prefix(&self, base: &VfsPath) -> Option<&VfsPath> {
        if base.0.is_empty() {
            return Some(self);
        }
        let rest = self.0.strip_prefix(&base.0)?;
        match rest.first() {
            None => Some(VfsPath::root()),
            Some(b'/') => Some(VfsPath::ref_cast(&rest[1..])),
            Some(_) => None,
        }
    }

    /// Whether this path is `base` or lies below it.
    pub fn starts_with(&self, base: &VfsPath) -> bool {
        self.strip_prefix(base).is_some()
    }

    /// This path with `rest` below it.
    pub fn join(&self, rest: &VfsPath) -> VfsPathBuf {
        let mut joined = self.to_owned();
        joined.push_path(rest);
        joined
    }

    /// This path with one more name below it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPath`] when `name` is empty, `.`, `..` or has a `/` or NUL;
    /// [`ErrorKind::NameTooLong`] when it is over [`MAX_NAME_LEN`] bytes.
    pub fn join_name(&self, name: &[u8]) -> Result<VfsPathBuf, BackendError> {
        let mut joined = self.to_owned();
        joined.push(name)?;
        Ok(joined)
    }

    /// For messages: `/` in front, lossy where the bytes are not UTF-8, and control characters
    /// escaped, so that no name forges a line or steers a terminal.
    pub fn display(&self) -> impl fmt::Display + '_ {
        struct Display<'a>(&'a VfsPath);
        impl fmt::Display for Display<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("/")?;
                let text = String::from_utf8_lossy(&self.0.0);
                for part in text.split_inclusive(char::is_control) {
                    match part.char_indices().next_back() {
                        Some((at, last)) if last.is_control() => {
                            write!(f, "{}{}", &part[..at], last.escape_default())?;
                        }
                        _ => f.write_str(part)?,
                    }
                }
                Ok(())
            }
        }
        Display(self)
    }
}

impl VfsPathBuf {
    /// The root.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one name.
    ///
    /// # Errors
    /// As [`VfsPath::join_name`]; the path is then unchanged.
    pub fn push(&mut self, name: &[u8]) -> Result<(), BackendError> {
        check_name(name)?;
        self.push_raw(name);
        Ok(())
    }

    /// Adds all names of `rest`.
    pub fn push_path(&mut self, rest: &VfsPath) {
        if !rest.is_root() {
            self.push_raw(rest.as_bytes());
        }
    }

    /// Removes the last name; `false` at the root.
    pub fn pop(&mut self) -> bool {
        match self.split_last().map(|(parent, _)| parent.len()) {
            Some(len) => {
                self.0.truncate(len);
                true
            }
            None => false,
        }
    }

    /// The bytes, without copying.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn push_raw(&mut self, bytes: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(bytes);
    }
}

impl Deref for VfsPathBuf {
    type Target = VfsPath;
    #[inline]
    fn deref(&self) -> &VfsPath {
        VfsPath::ref_cast(&self.0)
    }
}

impl Borrow<VfsPath> for VfsPathBuf {
    fn borrow(&self) -> &VfsPath {
        self
    }
}

impl AsRef<VfsPath> for VfsPathBuf {
    fn as_ref(&self) -> &VfsPath {
        self
    }
}

impl AsRef<VfsPath> for VfsPath {
    fn as_ref(&self) -> &VfsPath {
        self
    }
}

impl ToOwned for VfsPath {
    type Owned = VfsPathBuf;
    fn to_owned(&self) -> VfsPathBuf {
        VfsPathBuf(self.0.to_vec())
    }
}

impl fmt::Debug for VfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Debug for VfsPathBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// What callers may pass as a path: text, bytes, standard-library paths and our own.
///
/// Text is taken as UTF-8 bytes. A standard-library path is taken byte for byte on Unix, and
/// as its UTF-8 form elsewhere (a name that has none is refused when it is normalised).
pub trait AsPath {
    /// The caller's bytes, not yet normal.
    fn path_bytes(&self) -> Cow<'_, [u8]>;
}

impl<T: AsPath + ?Sized> AsPath for &T {
    #[inline]
    fn path_bytes(&self) -> Cow<'_, [u8]> {
        (**self).path_bytes()
    }
}

macro_rules! as_path_by_bytes {
    ($($type:ty => $method:ident),* $(,)?) => {$(
        impl AsPath for $type {
            #[inline]
            fn path_bytes(&self) -> Cow<'_, [u8]> {
                Cow::Borrowed(self.$method())
            }
        }
    )*};
}

as_path_by_bytes! {
    str => as_bytes,
    String => as_bytes,
    [u8] => as_slice_bytes,
    Vec<u8> => as_slice,
    VfsPath => as_bytes,
    VfsPathBuf => as_bytes,
}

/// Gives `[u8]` the method name that the macro above needs.
trait SliceBytes {
    fn as_slice_bytes(&self) -> &[u8];
}

impl SliceBytes for [u8] {
    #[inline]
    fn as_slice_bytes(&self) -> &[u8] {
        self
    }
}

impl AsPath for OsStr {
    #[inline]
    fn path_bytes(&self) -> Cow<'_, [u8]> {
        os_bytes(self)
    }
}

impl AsPath for Path {
    #[inline]
    fn path_bytes(&self) -> Cow<'_, [u8]> {
        os_bytes(self.as_os_str())
    }
}

impl AsPath for PathBuf {
    #[inline]
    fn path_bytes(&self) -> Cow<'_, [u8]> {
        os_bytes(self.as_os_str())
    }
}

#[cfg(unix)]
fn os_bytes(text: &OsStr) -> Cow<'_, [u8]> {
    use std::os::unix::ffi::OsStrExt;
    Cow::Borrowed(text.as_bytes())
}

#[cfg(not(unix))]
fn os_bytes(text: &OsStr) -> Cow<'_, [u8]> {
    // NUL is refused by `normalize`, so a name without a UTF-8 form is an invalid path rather
    // than silently another one.
    match text.to_str() {
        Some(text) if text.contains('\\') => Cow::Owned(text.replace('\\', "/").into_bytes()),
        Some(text) => Cow::Borrowed(text.as_bytes()),
        None => Cow::Borrowed(b"\0"),
    }
}

/// Normalises a caller's path: drops leading, doubled and trailing `/` and `.` components and
/// resolves `..` by text. Borrows when the bytes are normal already.
///
/// `..` never leaves the root: at the root it is an error, as a path that climbs out is a
/// mistake or an attack. Note that `link/..` is the directory that holds `link`, whatever
/// `link` points at; a kernel mount resolves `..` itself and never passes it here.
///
/// # Errors
/// In this order: [`ErrorKind::NameTooLong`] over [`MAX_PATH_LEN`] bytes in all;
/// [`ErrorKind::InvalidPath`] for a NUL byte; [`ErrorKind::NameTooLong`] for a name over
/// [`MAX_NAME_LEN`] bytes; [`ErrorKind::InvalidPath`] for `..` at the root.
#[inline]
pub fn normalize(bytes: &[u8]) -> Result<Cow<'_, VfsPath>, BackendError> {
    // One leading slash is how most callers write a path: not worth an allocation.
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    if is_plainly_normal(bytes) {
        return Ok(Cow::Borrowed(VfsPath::ref_cast(bytes)));
    }
    match check(bytes)? {
        Form::Normal => Ok(Cow::Borrowed(VfsPath::ref_cast(bytes))),
        Form::NeedsWork => normalize_slowly(bytes).map(Cow::Owned),
    }
}

#[cold]
fn normalize_slowly(bytes: &[u8]) -> Result<VfsPathBuf, BackendError> {
    let mut path = VfsPathBuf::new();
    for name in bytes.split(|&b| b == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                if !path.pop() {
                    return Err(ErrorKind::InvalidPath.into());
                }
            }
            name => path.push(name)?,
        }
    }
    Ok(path)
}

enum Form {
    Normal,
    NeedsWork,
}

/// Whether the path is normal, for the paths that most calls have: under 256 bytes, and no name
/// that begins with a dot. `false` means "look closer". Every call of the library starts here,
/// so it takes eight bytes at a step.
#[inline]
fn is_plainly_normal(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const LOW: u64 = ONES * 0x7f;
    /// Stands behind the end of the path: any byte that is allowed everywhere.
    const FILL: u64 = ONES * b'x' as u64;
    /// The top bit of each byte of `word` that is 0 (exact, without carries).
    fn zeros(word: u64) -> u64 {
        !(((word & LOW) + LOW) | word | LOW)
    }
    let len = bytes.len();
    if len > MAX_NAME_LEN {
        return false;
    }
    // As if a slash stood in front: what follows a slash must not be a slash or a dot.
    let mut after_slash = 0x80;
    let mut bad = 0;
    let mut look = |word: u64| {
        // Dot and slash differ in the lowest bit alone: 0x2e and 0x2f.
        let either = zeros((word | ONES) ^ (ONES * u64::from(b'/')));
        let slashes = either & (word << 7);
        bad |= zeros(word) | (either & (slashes << 8 | after_slash));
        after_slash = slashes >> 56;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        look(u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    let unseen = 8 * (len % 8);
    if unseen > 0 {
        // The last eight bytes, without those that were seen.
        let last = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last) >> (64 - unseen),
            None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        look(last | FILL << unseen);
    }
    bad == 0 && bytes.last() != Some(&b'/')
}

/// Looks at each name.
#[cold]
fn check(bytes: &[u8]) -> Result<Form, BackendError> {
    if bytes.len() > MAX_PATH_LEN {
        return Err(ErrorKind::NameTooLong.into());
    }
    if memchr::memchr(0, bytes).is_some() {
        return Err(ErrorKind::InvalidPath.into());
    }
    let mut start = 0;
    let mut form = Form::Normal;
    if bytes.is_empty() {
        return Ok(form);
    }
    loop {
        let rest = &bytes[start..];
        let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
        let name = &rest[..end];
        if name.len() > MAX_NAME_LEN {
            return Err(ErrorKind::NameTooLong.into());
        }
        if matches!(name, b"" | b"." | b"..") {
            form = Form::NeedsWork;
        }
        start += end + 1;
        if start > bytes.len() {
            return Ok(form);
        }
    }
}

/// Whether `name` can be one component.
///
/// # Errors
/// As [`VfsPath::join_name`].
pub fn check_name(name: &[u8]) -> Result<(), BackendError> {
    if name.len() > MAX_NAME_LEN {
        return Err(ErrorKind::NameTooLong.into());
    }
    if matches!(name, b"" | b"." | b"..") || name.iter().any(|&b| b == 0 || b == b'/') {
        return Err(ErrorKind::InvalidPath.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        String::from_utf8(normalize(text.as_bytes()).unwrap().into_owned().into_bytes()).unwrap()
    }

    #[test]
    fn normal_forms() {
        for (text, expected) in [
            ("", ""),
            ("/", ""),
            ("a", "a"),
            ("/a/b", "a/b"),
            ("a//b/", "a/b"),
            ("./a/./b/.", "a/b"),
            ("a/../b", "b"),
            ("a/b/../..", ""),
            ("...", "..."),
            (".a/..b", ".a/..b"),
        ] {
            assert_eq!(normal(text), expected, "{text:?}");
        }
        assert!(matches!(normalize(b"/a/b").unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn the_quick_look_agrees_with_the_close_one() {
        // Every path of up to 4 bytes from the bytes that matter, at every distance from the
        // word borders.
        let alphabet = *b"/.a\0";
        for pad in 0..18 {
            for code in 0..4usize.pow(4) {
                for len in 0..=4 {
                    let mut path = vec![b'p'; pad];
                    path.extend((0..len).map(|at| alphabet[code >> (2 * at) & 3]));
                    if is_plainly_normal(&path) {
                        assert!(matches!(check(&path), Ok(Form::Normal)), "{path:?}");
                    }
                    path.push(b'z');
                    if is_plainly_normal(&path) {
                        assert!(matches!(check(&path), Ok(Form::Normal)), "{path:?}");
                    }
                }
            }
        }
        assert!(is_plainly_normal(b"") && is_plainly_normal(b"data/small/f00001.bin"));
        assert!(is_plainly_normal("d\u{e9}/\u{4e00}".as_bytes()));
    }

    #[test]
    fn refused() {
        let kind = |bytes: &[u8]| normalize(bytes).unwrap_err().kind();
        assert_eq!(kind(b".."), ErrorKind::InvalidPath);
        assert_eq!(kind(b"a/../.."), ErrorKind::InvalidPath);
        assert_eq!(kind(b"a\0b"), ErrorKind::InvalidPath);
        assert_eq!(kind(&[b'x'; 256]), ErrorKind::NameTooLong);
        assert!(normalize(&[b'x'; 255]).is_ok());
        assert_eq!(kind(&b"x/".repeat(2049)), ErrorKind::NameTooLong);
        assert!(VfsPath::new(b"a/").is_err());
        assert!(VfsPath::new(b"/a").is_err());
    }

    #[test]
    fn parts() {
        let path = VfsPath::new(b"a/b/c").unwrap();
        assert_eq!(path.parent().unwrap().as_bytes(), b"a/b");
        assert_eq!(path.file_name().unwrap(), b"c");
        assert_eq!(path.components().count(), 3);
        let above: Vec<_> = path.ancestors().map(VfsPath::as_bytes).collect();
        assert_eq!(above, [&b""[..], b"a", b"a/b"]);
        assert_eq!(VfsPath::root().ancestors().count(), 0);
        let base = VfsPath::new(b"a").unwrap();
        assert_eq!(path.strip_prefix(base).unwrap().as_bytes(), b"b/c");
        assert!(VfsPath::new(b"ab").unwrap().strip_prefix(base).is_none());
        assert_eq!(base.join(VfsPath::root()).as_bytes(), b"a");
        assert_eq!(base.join_name(b"x").unwrap().as_bytes(), b"a/x");
    }
}
