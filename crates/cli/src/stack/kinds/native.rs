//! `native:DIR`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stratafs::{FileSystem, NativeFs};

use crate::exit::{Context, Failure};
use crate::stack::grammar::{escape, path, unescape};
use crate::stack::{LayerKind, LayerSource};

/// A directory of this machine.
pub const KIND: LayerKind = LayerKind {
    name: "native",
    forms: &[("DIR", "a directory of this machine")],
    options: &[],
    parse: |argument| match argument {
        b"" => Err("native needs a directory".into()),
        _ => Ok(Box::new(Native(path(unescape(argument))))),
    },
};

#[derive(Debug)]
struct Native(PathBuf);

impl LayerSource for Native {
    fn argument(&self) -> Vec<u8> {
        escape(self.0.as_os_str().as_bytes(), b"")
    }

    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure> {
        Ok(Arc::new(NativeFs::new(&self.0).context(|| self.0.display())?))
    }

    fn host_directory(&self) -> Option<&Path> {
        Some(&self.0)
    }
}

/// The specification of a directory of this machine.
pub fn native_spec(directory: &Path) -> String {
    let name = escape(directory.to_string_lossy().as_bytes(), b"");
    format!("native:{}", String::from_utf8_lossy(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::LayerSpec;

    #[test]
    fn a_backslash_makes_any_character_plain() {
        for (text, directory) in [
            (r"native:/a@b:c", "/a@b:c"),
            (r"native:/a\,b", "/a,b"),
            (r"native:/a\@/b", "/a@/b"),
            (r"native:/a\\", r"/a\"),
            ("native:/a\\", r"/a\"),
            (r"native:\,@/x", ","),
        ] {
            for text in [text, &native_spec(Path::new(directory))] {
                let spec = LayerSpec::parse(text.as_ref()).unwrap();
                assert_eq!(spec.source.host_directory(), Some(Path::new(directory)), "{text}");
            }
        }
    }
}
