//! The archives and zips of the data, made when the first target asks for them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use stratafs::archive::{ArchiveOptions, Compression, Key, PackOptions, Rule, pack};
use stratafs::{ArchiveFs, NativeFs};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::dataset;
use crate::world::World;

/// How the data is packed; the whole of it in one way, in blocks of 64 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Plain,
    Xor,
    Lz4,
    Zstd,
    Aead,
}

/// Longer than a word and no power of two.
pub(crate) const XOR_KEY: &[u8] = b"benchmark obfuscation key";
pub(crate) const AEAD_KEY: [u8; 32] = [7; 32];

impl Packing {
    fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Xor => "xor",
            Packing::Lz4 => "lz4",
            Packing::Zstd => "zstd",
            Packing::Aead => "aead",
        }
    }

    fn key(self) -> io::Result<Option<Key>> {
        Ok(match self {
            Packing::Xor => Some(Key::xor(XOR_KEY).map_err(io::Error::other)?),
            Packing::Aead => Some(Key::raw(AEAD_KEY)),
            _ => None,
        })
    }

    fn rule(self) -> Option<Rule> {
        let everything = || "*".to_owned();
        match self {
            Packing::Plain => None,
            Packing::Xor | Packing::Aead => Some(Rule::Encrypt(everything())),
            Packing::Lz4 => Some(Rule::Compress(everything(), Compression::Lz4)),
            Packing::Zstd => {
                let how = Compression::Zstd(Compression::DEFAULT_ZSTD_LEVEL);
                Some(Rule::Compress(everything(), how))
            }
        }
    }
}

/// Where the archive lies, which is made if it is not there yet.
fn packed(world: &World, packing: Packing) -> io::Result<PathBuf> {
    let path = world.dir().join(format!("{}.vfs", packing.name()));
    if !path.exists() {
        let source = NativeFs::new(world.data()).map_err(io::Error::other)?;
        let mut options = PackOptions::new().rule(Rule::Exclude(dataset::WRITE_DIR.to_owned()));
        options.rules.extend(packing.rule());
        options.key = packing.key()?;
        pack(&source, &path, &options)?;
    }
    Ok(path)
}

/// The data as an archive, opened with the defaults.
pub(crate) fn archive(world: &World, packing: Packing) -> io::Result<ArchiveFs> {
    let options = ArchiveOptions { key: packing.key()?, ..ArchiveOptions::new() };
    ArchiveFs::open_with(packed(world, packing)?, &options).map_err(io::Error::other)
}

/// The plain archive as an entry, stored, of a zip; opened in place.
pub(crate) fn archive_within(world: &World) -> io::Result<ArchiveFs> {
    const ENTRY: &str = "assets/data.vfs";
    let path = world.dir().join("within.zip");
    if !path.exists() {
        let inner = packed(world, Packing::Plain)?;
        write_zip(&path, CompressionMethod::Stored, [(ENTRY.to_owned(), inner)])?;
    }
    ArchiveFs::within_zip(&path, ENTRY, &ArchiveOptions::new()).map_err(io::Error::other)
}

/// The data as a zip, deflated as zips usually are.
pub(crate) fn zip(world: &World) -> io::Result<PathBuf> {
    let path = world.dir().join("data.zip");
    if !path.exists() {
        let files = dataset::files(world.sizes());
        let files = files.map(|name| (name.clone(), world.data().join(name)));
        write_zip(&path, CompressionMethod::Deflated, files)?;
    }
    Ok(path)
}

fn write_zip(
    path: &Path,
    method: CompressionMethod,
    files: impl IntoIterator<Item = (String, PathBuf)>,
) -> io::Result<()> {
    // A zip that was only half written is not taken for a whole one later.
    let unfinished = path.with_extension("part");
    let mut zip = ZipWriter::new(io::BufWriter::new(File::create(&unfinished)?));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, source) in files {
        zip.start_file(name, options)?;
        io::copy(&mut File::open(source)?, &mut zip)?;
    }
    zip.finish()?.flush()?;
    fs::rename(&unfinished, path)
}
