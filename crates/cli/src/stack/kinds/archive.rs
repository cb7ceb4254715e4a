//! `archive:FILE` and `archive:FILE!ENTRY`

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use stratafs::archive::{ArchiveOptions, ArchiveSource, CipherKind, Key};
use stratafs::{ArchiveFs, BackendResult, FileSystem, VfsPathBuf};

use crate::exit::{Context, Failure, tell};
use crate::stack::grammar::{escape, find, number, path, unescape};
use crate::stack::{LayerKind, LayerSource};

/// An archive, of its own or within a zip file.
pub const KIND: LayerKind = LayerKind {
    name: "archive",
    forms: &[
        ("FILE", "a .vfs archive"),
        ("FILE!ENTRY", "one stored uncompressed in a zip file (an APK)"),
    ],
    options: &[
        ("key-file=FILE", "the key of an encrypted one, from a file"),
        ("key-env=VARIABLE", "the key from an environment variable"),
        ("xor=KEY", "the key for XOR, which only obscures"),
        ("positional", "not mapped: slower, but a file cut short is an error"),
        ("cache=BYTES", "to keep of decoded blocks; 0 for none"),
    ],
    parse: |argument| Ok(Box::new(Archive::parse(argument)?)),
};

#[derive(Debug)]
struct Archive {
    /// The archive, or the zip file.
    file: PathBuf,
    /// The entry of the zip file that is the archive.
    entry: Option<VfsPathBuf>,
    key: Option<KeySource>,
    /// Read at offsets, not mapped: a file that is cut short meanwhile is an error instead of
    /// the end of the process.
    positional: bool,
    /// Bytes of the cache of decoded blocks, where they are not the usual number.
    cache: Option<u64>,
}

/// Where the key of an encrypted archive comes from. One that protects anything never from the
/// specification itself: that shows in listings of processes.
#[derive(PartialEq, Eq, Debug)]
enum KeySource {
    File(PathBuf),
    Variable(String),
    Xor(Vec<u8>),
}

impl KeySource {
    fn read(&self) -> BackendResult<Key> {
        match self {
            KeySource::File(path) => Key::from_file(path),
            KeySource::Variable(name) => Key::from_env(name),
            KeySource::Xor(key) => Key::xor(key),
        }
    }

    fn option(&self) -> Vec<u8> {
        match self {
            KeySource::File(path) => [b"key-file=", path.as_os_str().as_bytes()].concat(),
            KeySource::Variable(name) => [b"key-env=", name.as_bytes()].concat(),
            KeySource::Xor(key) => [b"xor=", &key[..]].concat(),
        }
    }
}

impl Archive {
    fn parse(argument: &[u8]) -> Result<Archive, String> {
        let (file, entry) = match find(argument, |rest| rest[0] == b'!') {
            Some(at) => (&argument[..at], Some(unescape(&argument[at + 1..]))),
            None => (argument, None),
        };
        if file.is_empty() {
            return Err("archive needs a file".into());
        }
        let entry = entry.map(|entry| match stratafs::path::normalize(&entry) {
            Ok(entry) if entry.is_root() => Err("after `!` comes the name of an entry".to_owned()),
            Ok(entry) => Ok(entry.into_owned()),
            Err(cause) => Err(format!("its entry: {cause}")),
        });
        let entry = entry.transpose()?;
        Ok(Archive { file: path(unescape(file)), entry, key: None, positional: false, cache: None })
    }
}

impl LayerSource for Archive {
    fn set(&mut self, option: &[u8], value: Option<&[u8]>) -> Result<bool, String> {
        match (option, value) {
            (b"key-file", Some(file)) => self.key = Some(KeySource::File(path(file.to_vec()))),
            (b"key-env", Some(name)) => {
                let name = std::str::from_utf8(name).map_err(|_| "key-env is not text")?;
                self.key = Some(KeySource::Variable(name.to_owned()));
            }
            (b"xor", Some(key)) => self.key = Some(KeySource::Xor(key.to_vec())),
            (b"positional", None) => self.positional = true,
            (b"cache", Some(bytes)) => self.cache = Some(number(bytes)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn argument(&self) -> Vec<u8> {
        let mut text = escape(self.file.as_os_str().as_bytes(), b"!");
        if let Some(entry) = &self.entry {
            text.push(b'!');
            text.extend(escape(entry.as_bytes(), b""));
        }
        text
    }

    fn options(&self) -> Vec<Vec<u8>> {
        let key = self.key.as_ref().map(KeySource::option);
        let positional = self.positional.then(|| b"positional".to_vec());
        let cache = self.cache.map(|bytes| format!("cache={bytes}").into_bytes());
        [key, positional, cache].into_iter().flatten().collect()
    }

    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure> {
        let mut options = ArchiveOptions::new();
        options.key = self.key.as_ref().map(KeySource::read).transpose()?;
        if self.positional {
            options.source = ArchiveSource::Positional;
        }
        if let Some(bytes) = self.cache {
            options.block_cache_bytes = bytes;
        }
        let archive = match &self.entry {
            Some(entry) => ArchiveFs::within_zip(&self.file, entry, &options),
            None => ArchiveFs::open_with(&self.file, &options),
        };
        let archive = archive.context(|| self.file.display())?;
        if self.key.is_none() && archive.info().cipher != CipherKind::None {
            tell!(
                "{}: has encrypted files, which cannot be read without the key",
                self.file.display()
            );
        }
        Ok(Arc::new(archive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_entries_and_keys() {
        for (text, file, entry) in [
            ("a.vfs", "a.vfs", None),
            ("a.apk!assets/data.vfs", "a.apk", Some("assets/data.vfs")),
            (r"a\!b.vfs", "a!b.vfs", None),
        ] {
            let archive = Archive::parse(text.as_bytes()).unwrap();
            assert_eq!(archive.file.to_str(), Some(file), "{text}");
            let found = archive.entry.as_ref().map(|entry| entry.as_bytes());
            assert_eq!(found, entry.map(str::as_bytes), "{text}");
            assert_eq!(archive.argument(), text.as_bytes());
        }
        let mut archive = Archive::parse(b"a").unwrap();
        for (name, value, key) in [
            ("key-file", r"k\,", KeySource::File(r"k\,".into())),
            ("key-env", "K", KeySource::Variable("K".into())),
            ("xor", "k,y", KeySource::Xor(b"k,y".into())),
        ] {
            assert_eq!(archive.set(name.as_bytes(), Some(value.as_bytes())), Ok(true));
            assert_eq!(archive.key, Some(key));
            assert_eq!(archive.options(), [format!("{name}={value}").into_bytes()]);
        }
        assert_eq!(archive.set(b"positional", None), Ok(true));
        assert_eq!(archive.set(b"cache", Some(b"1K")), Ok(true));
        assert!(archive.positional && archive.cache == Some(1024));
    }
}
