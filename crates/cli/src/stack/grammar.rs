//! What the texts of all kinds share: backslashes, separators, numbers.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The first place where `hit` holds for what follows, not counting escaped bytes.
pub fn find(bytes: &[u8], hit: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
            continue;
        }
        if hit(&bytes[at..]) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The parts between separators that are not escaped.
pub fn split(mut bytes: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = find(bytes, |rest| rest[0] == separator) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + 1..];
    }
    parts.push(bytes);
    parts
}

/// Takes the backslashes out.
pub fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            // A backslash at the very end stands for itself.
            b'\\' => plain.push(rest.next().copied().unwrap_or(b'\\')),
            byte => plain.push(byte),
        }
    }
    plain
}

/// Puts backslashes before what has a meaning in every specification, and before `special`.
pub fn escape(bytes: &[u8], special: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(byte, b',' | b'\\') || bytes[at..].starts_with(b"@/") || special.contains(byte)
        {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text
}

/// Bytes without backslashes as a path of this machine.
pub fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// A number of bytes: digits, and `K`, `M` or `G`.
///
/// # Errors
/// When it is none.
pub fn size(text: &str) -> Result<u64, String> {
    number(text.as_bytes())
}

/// A number as options have it: digits, and `K`, `M` or `G`.
///
/// # Errors
/// When it is none.
pub fn number(text: &[u8]) -> Result<u64, String> {
    let wrong = || format!("`{}` is no number", String::from_utf8_lossy(text));
    let (digits, unit) = match text.split_last() {
        Some((b'K' | b'k', digits)) => (digits, 1 << 10),
        Some((b'M' | b'm', digits)) => (digits, 1 << 20),
        Some((b'G' | b'g', digits)) => (digits, 1 << 30),
        _ => (text, 1),
    };
    let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
    digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(wrong)
}
