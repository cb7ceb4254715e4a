//! Layer specifications: the text form of one layer of a stack.
//!
//! ```text
//! KIND:ARGUMENT[,OPTION...][@/MOUNT/POINT]
//!
//! native:DIR            a directory of this machine
//! memory:               an empty tree in memory
//! archive:FILE          a .vfs archive
//! archive:FILE!ENTRY    a .vfs archive stored uncompressed as an entry of a zip file (an APK)
//! zip:FILE              a zip file
//! ```
//!
//! Options: `ro` (nothing can be changed through this layer), `any-case` (names are found
//! whatever their case), `hidden` (the mount point does not show in its parent's listing);
//! for `memory`: `size=BYTES` and `files=COUNT` (numbers may end in `K`, `M`, `G`); for
//! `archive`, the key of an encrypted one, `key-file=FILE`, `key-env=VARIABLE` or, for XOR,
//! `xor=KEY`; `positional` (read the file at offsets instead of mapping it: slower, and a file
//! that is cut short meanwhile is an error instead of the end of the process); `cache=BYTES` (of
//! decoded blocks, 0 for none).
//!
//! The mount point is where in the tree the layer stands; the root when it is not given. Of
//! several layers at one point the later is on top, and the topmost takes the changes if it
//! can.
//!
//! In every part a backslash makes the next character mean itself, so a comma in a path is
//! written `\,`, a backslash `\\`, an `@` before a `/` is written `\@`, and a `!` in the name
//! of an archive `\!`. Nothing else is special: `native:/a@b:c` is the directory `/a@b:c`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stratafs::archive::{ArchiveOptions, ArchiveSource, CipherKind, Key};
use stratafs::{
    ArchiveFs, BackendResult, Capabilities, FileSystem, MemoryFs, MemoryOptions, MetadataChange,
    MountOptions, NativeFs, Owner, ReadOnlyFs, TimeChange, Vfs, VfsPath, VfsPathBuf, XattrMode,
    ZipFs,
};

use crate::exit::{Context, Failure, tell};

/// One layer, as its specification says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerSpec {
    /// What it is made of.
    pub source: Source,
    /// Where in the tree it stands.
    pub mount_point: VfsPathBuf,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Names are found whatever their case.
    pub any_case: bool,
    /// The mount point does not show in its parent's listing.
    pub hidden: bool,
}

/// What a layer is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A directory of this machine.
    Native(PathBuf),
    /// An empty tree in memory.
    Memory(MemoryOptions),
    /// An archive, of its own or within a zip file.
    Archive {
        /// The archive, or the zip file.
        file: PathBuf,
        /// The entry of the zip file that is the archive.
        entry: Option<VfsPathBuf>,
        /// Where the key comes from.
        key: Option<KeySource>,
        /// Read at offsets, not mapped.
        positional: bool,
        /// Bytes of the cache of decoded blocks, where they are not the usual number.
        cache: Option<u64>,
    },
    /// A zip file.
    Zip(PathBuf),
}

/// Where the key of an encrypted archive comes from. One that protects anything never from the
/// specification itself: that shows in listings of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// A file that holds it.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A key for XOR, which only obscures.
    Xor(Vec<u8>),
}

/// Why a text is no layer specification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError(String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

impl LayerSpec {
    /// Reads a specification; nothing is opened yet.
    ///
    /// # Errors
    /// A sentence that names the part that is wrong.
    pub fn parse(text: &OsStr) -> Result<LayerSpec, SpecError> {
        let bytes = text.as_bytes();
        let error = |what: &dyn fmt::Display| {
            SpecError(format!("layer `{}`: {what}", text.to_string_lossy()))
        };
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
        let mut spec = LayerSpec {
            source: source(kind, argument).map_err(|what| error(&what))?,
            mount_point,
            read_only: false,
            any_case: false,
            hidden: false,
        };
        for option in parts {
            spec.set(&unescape(option)).map_err(|what| error(&what))?;
        }
        Ok(spec)
    }

    fn set(&mut self, option: &[u8]) -> Result<(), String> {
        let (name, value) = match option.iter().position(|&byte| byte == b'=') {
            Some(at) => (&option[..at], Some(&option[at + 1..])),
            None => (option, None),
        };
        match (name, value, &mut self.source) {
            (b"ro", None, _) => self.read_only = true,
            (b"any-case", None, _) => self.any_case = true,
            (b"hidden", None, _) => self.hidden = true,
            (b"size", Some(value), Source::Memory(options)) => {
                options.quota_bytes = Some(number(value)?);
            }
            (b"files", Some(value), Source::Memory(options)) => {
                options.quota_files = Some(number(value)?);
            }
            (b"key-file", Some(value), Source::Archive { key, .. }) => {
                *key = Some(KeySource::File(path(value.to_vec())));
            }
            (b"key-env", Some(value), Source::Archive { key, .. }) => {
                let name = std::str::from_utf8(value).map_err(|_| "key-env is not text")?;
                *key = Some(KeySource::Variable(name.to_owned()));
            }
            (b"xor", Some(value), Source::Archive { key, .. }) => {
                *key = Some(KeySource::Xor(value.to_vec()));
            }
            (b"positional", None, Source::Archive { positional, .. }) => *positional = true,
            (b"cache", Some(value), Source::Archive { cache, .. }) => {
                *cache = Some(number(value)?);
            }
            _ => {
                return Err(format!(
                    "it has no option `{}` (a comma that belongs to a path is written `\\,`)",
                    String::from_utf8_lossy(option)
                ));
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure> {
        Ok(match &self.source {
            Source::Native(directory) => {
                Arc::new(NativeFs::new(directory).context(|| directory.display())?)
            }
            Source::Memory(options) => {
                let memory = MemoryFs::with_options(*options);
                let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
                let owner = Owner { user: user.as_raw(), group: group.as_raw() };
                memory.set_metadata(VfsPath::root(), &MetadataChange::new().owner(owner))?;
                Arc::new(memory)
            }
            Source::Archive { file, entry, key, positional, cache } => {
                let mut options = ArchiveOptions::new();
                options.key = key.as_ref().map(KeySource::read).transpose()?;
                if *positional {
                    options.source = ArchiveSource::Positional;
                }
                if let Some(bytes) = *cache {
                    options.block_cache_bytes = bytes;
                }
                let archive = match entry {
                    Some(entry) => ArchiveFs::within_zip(file, entry, &options),
                    None => ArchiveFs::open_with(file, &options),
                };
                let archive = archive.context(|| file.display())?;
                if key.is_none() && archive.info().cipher != CipherKind::None {
                    tell!(
                        "{}: has encrypted files, which cannot be read without the key",
                        file.display()
                    );
                }
                Arc::new(archive)
            }
            Source::Zip(file) => Arc::new(ZipFs::open(file).context(|| file.display())?),
        })
    }
}

impl KeySource {
    fn read(&self) -> BackendResult<Key> {
        match self {
            KeySource::File(path) => Key::from_file(path),
            KeySource::Variable(name) => Key::from_env(name),
            KeySource::Xor(key) => Key::xor(key),
        }
    }
}

/// Lets an empty upper layer's root look like the root that it covers.
///
/// # Errors
/// When either root cannot be reached.
pub fn wear(upper: &dyn FileSystem, lower: &dyn FileSystem) -> Result<(), Failure> {
    let beneath = lower.metadata(VfsPath::root())?;
    let change = MetadataChange::new()
        .mode(beneath.mode)
        .owner(beneath.owner)
        .accessed(TimeChange::At(beneath.accessed))
        .modified(TimeChange::At(beneath.modified));
    for name in lower.xattrs(VfsPath::root())? {
        let value = lower.xattr(VfsPath::root(), &name)?;
        upper.set_xattr(VfsPath::root(), &name, &value, XattrMode::Set)?;
    }
    Ok(upper.set_metadata(VfsPath::root(), &change)?)
}

fn source(kind: &[u8], argument: &[u8]) -> Result<Source, String> {
    if kind == b"archive" {
        return archive(argument);
    }
    let argument = unescape(argument);
    match (kind, &argument[..]) {
        (b"memory", b"") => Ok(Source::Memory(MemoryOptions::new())),
        (b"memory", _) => Err("memory takes no argument, only options: memory:,size=64M".into()),
        (b"native", b"") => Err("native needs a directory".into()),
        (b"native", _) => Ok(Source::Native(path(argument))),
        (b"zip", b"") => Err("zip needs a file".into()),
        (b"zip", _) => Ok(Source::Zip(path(argument))),
        _ => Err(format!(
            "there is no kind `{}`; there are native, memory, archive and zip",
            String::from_utf8_lossy(kind)
        )),
    }
}

fn archive(argument: &[u8]) -> Result<Source, String> {
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
    Ok(Source::Archive {
        file: path(unescape(file)),
        entry: entry.transpose()?,
        key: None,
        positional: false,
        cache: None,
    })
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// A number of bytes: digits, and `K`, `M` or `G`.
///
/// # Errors
/// When it is none.
pub fn size(text: &str) -> Result<u64, String> {
    number(text.as_bytes())
}

fn number(text: &[u8]) -> Result<u64, String> {
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

/// The first place where `hit` holds for what follows, not counting escaped bytes.
fn find(bytes: &[u8], hit: impl Fn(&[u8]) -> bool) -> Option<usize> {
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

fn split(mut bytes: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = find(bytes, |rest| rest[0] == separator) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + 1..];
    }
    parts.push(bytes);
    parts
}

fn unescape(bytes: &[u8]) -> Vec<u8> {
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

/// The specification of a directory of this machine.
pub fn native_spec(directory: &Path) -> String {
    let mut text = String::from("native:");
    let name = directory.to_string_lossy();
    for (index, character) in name.char_indices() {
        let point = character == '@' && name[index + 1..].starts_with('/');
        if point || matches!(character, ',' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

/// Opens the layers and makes one tree of them.
///
/// # Errors
/// When a layer cannot be opened or the stack makes no sense.
pub fn build(layers: &[LayerSpec]) -> Result<Arc<dyn FileSystem>, Failure> {
    if let [only] = layers
        && only.mount_point.is_root()
        && !only.any_case
        && !only.hidden
    {
        let fs = only.open()?;
        return Ok(if only.read_only { Arc::new(ReadOnlyFs::new(fs)) } else { fs });
    }
    let opened: Vec<Arc<dyn FileSystem>> =
        layers.iter().map(LayerSpec::open).collect::<Result<_, _>>()?;
    let vfs = Vfs::new();
    // From the top down: a stack whose write target is known first is valid at every step.
    for (index, layer) in layers.iter().enumerate().rev() {
        let fs = Arc::clone(&opened[index]);
        let beneath = layers[..index].iter().rposition(|l| l.mount_point == layer.mount_point);
        if let (Source::Memory(_), Some(beneath)) = (&layer.source, beneath) {
            wear(&*fs, &*opened[beneath])?;
        }
        let topmost = !layers[index + 1..].iter().any(|l| l.mount_point == layer.mount_point);
        let alone = layers.iter().filter(|l| l.mount_point == layer.mount_point).count() == 1;
        let writable = fs.capabilities().contains(Capabilities::WRITE) && !layer.read_only;
        let options = MountOptions::new()
            .priority(index as i32)
            .read_only(layer.read_only)
            .case_insensitive(layer.any_case)
            .hidden(layer.hidden)
            .write_target(topmost && writable && !alone);
        vfs.mount(&*layer.mount_point, fs, options)?;
    }
    Ok(Arc::new(vfs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LayerSpec, String> {
        LayerSpec::parse(OsStr::new(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn parts_are_told_apart() {
        let spec = parse("native:/srv/a,ro,any-case@/mods/x").unwrap();
        assert_eq!(spec.source, Source::Native("/srv/a".into()));
        assert_eq!(spec.mount_point.as_bytes(), b"mods/x");
        assert!(spec.read_only && spec.any_case && !spec.hidden);
        let spec = parse("memory:,size=2M,files=10").unwrap();
        let quota = MemoryOptions::new().quota_bytes(2 << 20).quota_files(10);
        assert_eq!(spec.source, Source::Memory(quota));
        assert!(spec.mount_point.is_root());
    }

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
            assert_eq!(parse(text).unwrap().source, Source::Native(directory.into()), "{text}");
            let again = native_spec(Path::new(directory));
            assert_eq!(parse(&again).unwrap().source, Source::Native(directory.into()), "{again}");
        }
    }

    #[test]
    fn archives_have_entries_and_keys() {
        let archive = |file: &str, entry: Option<&str>, key| Source::Archive {
            file: file.into(),
            entry: entry.map(|entry| VfsPath::new(entry.as_bytes()).unwrap().to_owned()),
            key,
            positional: false,
            cache: None,
        };
        for (text, source) in [
            ("archive:a.vfs", archive("a.vfs", None, None)),
            ("archive:a.apk!assets/data.vfs", archive("a.apk", Some("assets/data.vfs"), None)),
            (r"archive:a\!b.vfs", archive("a!b.vfs", None, None)),
            ("archive:a,key-file=k", archive("a", None, Some(KeySource::File("k".into())))),
            ("archive:a,key-env=K", archive("a", None, Some(KeySource::Variable("K".into())))),
            (r"archive:a,xor=k\,y", archive("a", None, Some(KeySource::Xor(b"k,y".into())))),
            ("zip:a!b.zip", Source::Zip("a!b.zip".into())),
        ] {
            assert_eq!(parse(text).unwrap().source, source, "{text}");
        }
        let Source::Archive { positional: true, cache: Some(1024), .. } =
            parse("archive:a,positional,cache=1K").unwrap().source
        else {
            panic!("options of how to read")
        };
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("/srv", "KIND:ARGUMENT"),
            ("disk:/srv", "no kind `disk`"),
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

    #[test]
    fn one_layer_alone_needs_no_tree() {
        let build = |text| build(&[parse(text).unwrap()]).unwrap().capabilities();
        assert!(build("memory:").contains(Capabilities::WRITE));
        assert!(!build("memory:,ro").contains(Capabilities::WRITE));
    }
}
