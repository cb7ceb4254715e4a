//! `zip:FILE`

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use stratafs::{FileSystem, ZipFs};

use crate::exit::{Context, Failure};
use crate::stack::grammar::{escape, path, unescape};
use crate::stack::{LayerKind, LayerSource};

/// A zip file.
pub const KIND: LayerKind = LayerKind {
    name: "zip",
    forms: &[("FILE", "a zip file")],
    options: &[],
    parse: |argument| match argument {
        b"" => Err("zip needs a file".into()),
        _ => Ok(Box::new(Zip(path(unescape(argument))))),
    },
};

#[derive(Debug)]
struct Zip(PathBuf);

impl LayerSource for Zip {
    fn argument(&self) -> Vec<u8> {
        escape(self.0.as_os_str().as_bytes(), b"")
    }

    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure> {
        Ok(Arc::new(ZipFs::open(&self.0).context(|| self.0.display())?))
    }
}
