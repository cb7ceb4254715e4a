//! `strata pack`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use stratafs::archive::{ArchiveOptions, CipherKind, Compression, PackOptions, Rule, pack};
use stratafs::{ArchiveFs, NativeFs, VfsPathBuf};

use crate::archives::{KeyArgs, inner_path, shown};
use crate::exit::{Context, Failure, Outcome, Status, tell};
use crate::output::Output;
use crate::progress::Meter;

/// Pack a directory into an archive.
///
/// In a pattern, `*` also crosses directories: `*.lua` matches at any depth; `sub/` is a directory
/// and everything in it. The archive is
/// written under a temporary name and renamed when it is whole; one inside of the directory is
/// not packed itself. The same tree and options give
/// the same bytes, except when encrypting.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory to pack.
    directory: PathBuf,
    /// The archive to write.
    archive: PathBuf,
    /// Compress what matches: GLOB, GLOB=lz4 (the default), GLOB=zstd or GLOB=zstd:LEVEL. The
    /// last that matches counts.
    #[arg(long, value_name = "GLOB[=CODEC]", value_parser = compress_rule)]
    compress: Vec<Rule>,
    /// Do not compress what matches, whatever --compress says.
    #[arg(long, value_name = "GLOB")]
    store: Vec<String>,
    /// Leave out what matches; a directory with everything in it.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Encrypt what matches, all by default. Names and sizes stay visible.
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true,
          default_missing_value = "*")]
    encrypt: Vec<String>,
    #[command(flatten)]
    key: KeyArgs,
    /// Bytes in a block: a power of two from 4096 to 4194304.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    block_size: u32,
    /// Write only what differs from this archive, with whiteouts for what is gone.
    #[arg(long, value_name = "ARCHIVE")]
    patch_from: Option<PathBuf>,
    /// Threads; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    /// Leave out extended attributes.
    #[arg(long)]
    no_xattrs: bool,
    /// Leave out files and directories that cannot be read, with a warning, instead of failing.
    #[arg(long)]
    skip_unreadable: bool,
}

#[derive(Serialize)]
struct Record {
    entries: u64,
    files: u64,
    whiteouts: u64,
    content_bytes: u64,
    archive_bytes: u64,
    root_hash: String,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let source = NativeFs::new(&args.directory).context(|| args.directory.display())?;
    let key = args.key.key()?;
    let mut rules = args.compress;
    rules.extend(args.store.into_iter().map(Rule::Store));
    rules.extend(args.exclude.into_iter().map(Rule::Exclude));
    let mut encrypt = args.encrypt;
    if args.key.is_xor() && encrypt.is_empty() {
        encrypt.push("*".to_owned());
    }
    if key.is_none() && !encrypt.is_empty() {
        let keys = "--key-file, --key-env, --passphrase or --xor";
        return Err(Failure::new(format_args!("--encrypt needs a key: {keys}")));
    }
    rules.extend(encrypt.into_iter().map(Rule::Encrypt));
    rules.extend(own_path(&args.directory, &args.archive)?.map(Rule::ExcludePath));
    let old = match &args.patch_from {
        Some(file) => {
            // An encrypted archive is patched with the key of the new one.
            let locked = ArchiveFs::open(file).context(|| file.display())?;
            let options = ArchiveOptions {
                key: key.clone().filter(|_| locked.info().cipher != CipherKind::None),
                ..ArchiveOptions::default()
            };
            Some(ArchiveFs::open_with(file, &options).context(|| file.display())?)
        }
        None => None,
    };
    let meter = Meter::new("packing", 0);
    let options = PackOptions {
        rules,
        block_size: args.block_size,
        key,
        jobs: args.jobs,
        patch_from: old.as_ref(),
        xattrs: !args.no_xattrs,
        skip_unreadable: args.skip_unreadable,
        progress: Some(&|progress| meter.set(progress.bytes_done, progress.bytes)),
        ..PackOptions::default()
    };
    let report = pack(&source, &args.archive, &options)?;
    drop(options);
    drop(meter);
    for warning in &report.warnings {
        match warning.path.is_root() {
            true => tell!("{}", warning.reason),
            false => tell!("{}: {}", shown(&warning.path), warning.reason),
        }
    }
    let record = Record {
        entries: report.entries,
        files: report.files,
        whiteouts: report.whiteouts,
        content_bytes: report.content_len,
        archive_bytes: report.archive_len,
        root_hash: report.root_hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let text = format!(
        "{}: {} files, {} bytes in {}",
        args.archive.display(),
        report.files,
        report.content_len,
        report.archive_len
    );
    output.record(text, &record)?;
    Ok(Status::Done)
}

/// The archive's path in the directory, if it lies there: an archive does not hold what it was
/// before.
fn own_path(directory: &Path, archive: &Path) -> Result<Option<VfsPathBuf>, Failure> {
    let directory = directory.canonicalize().context(|| directory.display())?;
    let archive = match (archive.canonicalize(), archive.file_name()) {
        (Err(_), Some(name)) => {
            let place = archive.parent().filter(|place| !place.as_os_str().is_empty());
            let place = place.unwrap_or(Path::new("."));
            place.canonicalize().context(|| place.display())?.join(name)
        }
        (there, _) => there.context(|| archive.display())?,
    };
    let inside = archive.strip_prefix(directory).ok();
    inside.map(|inside| inner_path(inside.as_os_str())).transpose()
}

/// `GLOB`, `GLOB=lz4`, `GLOB=zstd`, `GLOB=zstd:LEVEL`.
fn compress_rule(text: &str) -> Result<Rule, String> {
    let (glob, codec) = text.rsplit_once('=').unwrap_or((text, "lz4"));
    let compression = match codec.split_once(':') {
        None if codec == "lz4" => Compression::Lz4,
        None if codec == "zstd" => Compression::Zstd(Compression::DEFAULT_ZSTD_LEVEL),
        Some(("zstd", level)) => {
            Compression::Zstd(level.parse().map_err(|_| format!("`{level}` is no level"))?)
        }
        _ => return Err(format!("`{codec}` is no codec; there are lz4, zstd and zstd:LEVEL")),
    };
    Ok(Rule::Compress(glob.to_owned(), compression))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_told_apart() {
        let rule = |glob: &str, how| Ok(Rule::Compress(glob.to_owned(), how));
        assert_eq!(compress_rule("*.lua"), rule("*.lua", Compression::Lz4));
        assert_eq!(compress_rule("*=lz4"), rule("*", Compression::Lz4));
        assert_eq!(compress_rule("a=b=zstd"), rule("a=b", Compression::Zstd(3)));
        assert_eq!(compress_rule("*=zstd:19"), rule("*", Compression::Zstd(19)));
        assert!(compress_rule("*=gzip").is_err());
        assert!(compress_rule("*=zstd:x").is_err());
    }
}
