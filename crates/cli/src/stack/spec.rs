//! The specification of one layer, read and written.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use stratafs::VfsPathBuf;

use super::grammar::{escape, find, split, unescape};
use super::kind::{LayerSource, Line};
use super::kinds;

/// The options of every layer.
pub(super) const FLAGS: &[Line] = &[
    ("ro", "nothing can be changed through it"),
    ("any-case", "names are found whatever their case"),
    ("hidden", "its place does not show in the listing above it"),
];

/// One layer, as its specification says.
#[derive(Clone, Debug)]
pub struct LayerSpec {
    /// The name of its kind.
    pub kind: &'static str,
    /// What it is made of.
    pub source: Arc<dyn LayerSource>,
    /// Where in the tree it stands.
    pub mount_point: VfsPathBuf,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Names are found whatever their case.
    pub any_case: bool,
    /// The mount point does not show in its parent's listing.
    pub hidden: bool,
}

impl LayerSpec {
    /// Reads a specification; nothing is opened yet.
    ///
    /// # Errors
    /// A sentence that names the part that is wrong.
    pub fn parse(text: &OsStr) -> Result<LayerSpec, String> {
        let bytes = text.as_bytes();
        let error = |what: &dyn fmt::Display| format!("layer `{}`: {what}", text.to_string_lossy());
        let Some(colon) = bytes.iter().position(|&byte| byte == b':') else {
            return Err(error(&"a layer is written KIND:ARGUMENT, as in native:/srv/data"));
        };
        let (kind, rest) = (&bytes[..colon], &bytes[colon + 1..]);
        let (head, point) = match find(rest, |rest| rest.starts_with(b"@/")) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &b""[..]),
        };
        let mount_point = stratafs::path::normalize(&unescape(point))
            .map_err(|cause| error(&format_args!("its mount point: {cause}")))?
            .into_owned();
        let mut parts = split(head, b',').into_iter();
        let argument = parts.next().unwrap_or_default();
        let kind = kinds::named(kind).map_err(|what| error(&what))?;
        let mut source = (kind.parse)(argument).map_err(|what| error(&what))?;
        let [mut read_only, mut any_case, mut hidden] = [false; 3];
        for option in parts {
            let option = unescape(option);
            match &option[..] {
                b"ro" => read_only = true,
                b"any-case" => any_case = true,
                b"hidden" => hidden = true,
                option => set(&mut *source, option).map_err(|what| error(&what))?,
            }
        }
        let (kind, source) = (kind.name, Arc::from(source));
        Ok(LayerSpec { kind, source, mount_point, read_only, any_case, hidden })
    }

    /// The specification as text, which is read as the same again.
    pub fn text(&self) -> OsString {
        let mut text = [self.kind.as_bytes(), b":", &self.source.argument()].concat();
        let flags = [self.read_only, self.any_case, self.hidden];
        let flags = FLAGS.iter().zip(flags).filter(|(_, set)| *set);
        let flags = flags.map(|((name, _), _)| name.as_bytes().to_vec());
        for option in self.source.options().into_iter().chain(flags) {
            text.push(b',');
            text.extend(escape(&option, b""));
        }
        if !self.mount_point.is_root() {
            text.extend(b"@/");
            text.extend(escape(self.mount_point.as_bytes(), b""));
        }
        OsString::from_vec(text)
    }
}

fn set(source: &mut dyn LayerSource, option: &[u8]) -> Result<(), String> {
    let (name, value) = match option.iter().position(|&byte| byte == b'=') {
        Some(at) => (&option[..at], Some(&option[at + 1..])),
        None => (option, None),
    };
    match source.set(name, value)? {
        true => Ok(()),
        false => Err(format!(
            "it has no option `{}` (a comma that belongs to a path is written `\\,`)",
            String::from_utf8_lossy(option)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LayerSpec, String> {
        LayerSpec::parse(OsStr::new(text))
    }

    #[test]
    fn parts_are_told_apart() {
        let spec = parse("native:/srv/a,ro,any-case@/mods/x").unwrap();
        assert_eq!((spec.kind, &spec.source.argument()[..]), ("native", &b"/srv/a"[..]));
        assert_eq!(spec.mount_point.as_bytes(), b"mods/x");
        assert!(spec.read_only && spec.any_case && !spec.hidden);
        let spec = parse("memory:,size=2M,files=10").unwrap();
        assert_eq!(spec.source.options(), [&b"size=2097152"[..], b"files=10"]);
        assert!(spec.mount_point.is_root());
    }

    #[test]
    fn what_was_read_is_written() {
        for text in [
            r"native:/a@b:c\,\@/d\\,ro,any-case,hidden@/x@/y\\",
            "memory:,size=0,files=10@/mods",
            r"archive:a\!b.apk!c!d,key-file=\@/\,k,positional,cache=1024",
            r"archive:a,xor=k\,y",
            "zip:a!b.zip",
        ] {
            let spec = parse(text).unwrap();
            let again = LayerSpec::parse(&spec.text()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{spec:?}"));
            assert_eq!(spec.text(), text.replace("x@/y", r"x\@/y")[..]);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("/srv", "KIND:ARGUMENT"),
            ("disk:/srv", "no kind `disk`; there are native, memory, archive and zip"),
            ("native:", "needs a directory"),
            ("native:/a,b", "no option `b`"),
            ("native:/a,size=3", "no option `size=3`"),
            ("archive:!x", "needs a file"),
            ("archive:a!", "name of an entry"),
            ("zip:,ro", "needs a file"),
            ("memory:x", "no argument"),
            ("memory:,size=3T", "no number"),
            ("memory:,size=99999999999G", "no number"),
            ("memory:@/a/../..", "mount point"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
