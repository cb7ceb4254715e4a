//! The packer: a tree of any backend becomes an archive.
//!
//! The bytes of an archive depend on the tree and the options alone, not on the number of jobs
//! (with a cipher also on the salt, which is random unless given).

mod build;
mod output;
mod patch;
mod rules;
mod scan;
mod work;

use std::path::Path;

use crate::backend::FileSystem;
use crate::error::{BackendResult, Error, ErrorKind, Result};
use crate::path::{VfsPath, VfsPathBuf};

use super::format::BLOCK_BITS;
use super::{ArchiveFs, Key};

pub use rules::Rule;

use output::{Output, TempFile};
use rules::Rules;

/// How to pack.
///
/// ```
/// use stratafs::archive::{Compression, PackOptions, Rule};
/// let options = PackOptions::new()
///     .rule(Rule::Compress("*.lua".into(), Compression::Lz4))
///     .rule(Rule::Store("music/*".into()));
/// ```
pub struct PackOptions<'a> {
    /// How files are treated; where several match, the last decides. In a pattern `*` also
    /// crosses directories: `*.lua` matches at any depth.
    pub rules: Vec<Rule>,
    /// Bytes in a block of compressed or encrypted files: a power of two from 4 KiB to 4 MiB.
    /// Default: 64 KiB.
    pub block_size: u32,
    /// The key for files that a rule encrypts.
    pub key: Option<Key>,
    /// The salt of an encrypted archive; `None`: random. Never use one salt for two archives
    /// with one key.
    pub salt: Option<[u8; 32]>,
    /// How many threads read, compress and encrypt; 0: as many as the host has.
    pub jobs: usize,
    /// Write only what differs from this archive: changed and new files, and a whiteout for
    /// each name that is gone. A file whose time of change alone differs counts as unchanged.
    pub patch_from: Option<&'a ArchiveFs>,
    /// Keep extended attributes.
    pub xattrs: bool,
    /// Leave out files that cannot be opened and directories that cannot be listed, with a
    /// [`Warning`], instead of failing. Costs an open of each file more.
    pub skip_unreadable: bool,
    /// Called from time to time on the caller's thread.
    pub progress: Option<&'a dyn Fn(Progress)>,
}

/// How far packing has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Files packed so far.
    pub files_done: u64,
    /// Files in all.
    pub files: u64,
    /// Bytes of contents packed so far.
    pub bytes_done: u64,
    /// Bytes of contents in all.
    pub bytes: u64,
}

/// Something that is not in the archive as it is in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Where.
    pub path: VfsPathBuf,
    /// What and why, for people.
    pub reason: String,
}

/// What was packed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackReport {
    /// Entries in the archive, the root included.
    pub entries: u64,
    /// Regular files among them.
    pub files: u64,
    /// Whiteouts among them.
    pub whiteouts: u64,
    /// The sum of the lengths of the files; hard links count once.
    pub content_len: u64,
    /// The length of the archive.
    pub archive_len: u64,
    /// The root hash.
    pub root_hash: [u8; 32],
    /// What is not in the archive as it is in the tree.
    pub warnings: Vec<Warning>,
}

impl Default for PackOptions<'_> {
    fn default() -> Self {
        PackOptions {
            rules: Vec::new(),
            block_size: 64 << 10,
            key: None,
            salt: None,
            jobs: 0,
            patch_from: None,
            xattrs: true,
            skip_unreadable: false,
            progress: None,
        }
    }
}

impl<'a> PackOptions<'a> {
    /// Everything stored, in blocks of 64 KiB, nothing encrypted or left out.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule behind the others.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the block size in bytes.
    #[must_use]
    pub fn block_size(mut self, bytes: u32) -> Self {
        self.block_size = bytes;
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the salt.
    #[must_use]
    pub fn salt(mut self, salt: [u8; 32]) -> Self {
        self.salt = Some(salt);
        self
    }

    /// Sets the number of threads.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs;
        self
    }

    /// Packs only what differs from this archive.
    #[must_use]
    pub fn patch_from(mut self, old: &'a ArchiveFs) -> Self {
        self.patch_from = Some(old);
        self
    }

    /// Sets who is told of the progress.
    #[must_use]
    pub fn progress(mut self, progress: &'a dyn Fn(Progress)) -> Self {
        self.progress = Some(progress);
        self
    }

    fn block_bits(&self) -> BackendResult<u8> {
        let bits = self.block_size.trailing_zeros() as u8;
        match self.block_size.is_power_of_two() && BLOCK_BITS.contains(&bits) {
            true => Ok(bits),
            false => Err(rules::invalid(format!(
                "block size {}: a power of two from 4096 to 4194304 is wanted",
                self.block_size
            ))),
        }
    }

    fn job_count(&self) -> usize {
        match self.jobs {
            0 => std::thread::available_parallelism().map_or(1, Into::into),
            jobs => jobs,
        }
    }
}

impl std::fmt::Debug for PackOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackOptions")
            .field("rules", &self.rules)
            .field("block_size", &self.block_size)
            .field("key", &self.key)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

/// Packs a tree into a file of the host. The archive is written under a temporary name beside
/// `out`, brought to the medium and renamed, so `out` is at every moment the old or the new
/// archive, whole; readers of an old one are not disturbed.
///
/// # Errors
/// `InvalidArgument` for options that make no sense; `Unsupported` for a patch of a patch, and
/// for Zstandard without the feature `zstd`; `IsADirectory` when `out` is one, `InvalidArgument`
/// when it is a device or the like; what reading the tree or writing meets. A file that changes its length while it is packed is `Busy`.
pub fn pack(
    source: &dyn FileSystem,
    out: impl AsRef<Path>,
    options: &PackOptions<'_>,
) -> Result<PackReport> {
    let out = out.as_ref();
    let failed = |error: crate::BackendError| {
        error.at("write archive", VfsPath::unchecked(out.as_os_str().as_encoded_bytes()))
    };
    // A symbolic link stays: what it leads to is replaced.
    let place = out.canonicalize().unwrap_or_else(|_| out.to_owned());
    match std::fs::metadata(&place) {
        Ok(there) if there.is_dir() => return Err(failed(ErrorKind::IsADirectory.into())),
        Ok(there) if !there.is_file() => {
            return Err(failed(rules::invalid("it is no regular file".to_owned())));
        }
        _ => {}
    }
    let plan = Plan::new(source, options)?;
    // Made after the tree was looked at, which it may be a part of.
    let mut temp = TempFile::create_beside(&place).map_err(failed)?;
    let report = plan.write(Output::new(&mut temp))?;
    temp.finish(&place).map_err(failed)?;
    Ok(report)
}

/// Packs a tree into memory.
///
/// # Errors
/// As [`pack`].
pub fn pack_to_vec(
    source: &dyn FileSystem,
    options: &PackOptions<'_>,
) -> Result<(Vec<u8>, PackReport)> {
    let mut bytes = Vec::new();
    let report = Plan::new(source, options)?.write(Output::new(&mut bytes))?;
    Ok((bytes, report))
}

/// What the archive will hold.
struct Plan<'a> {
    source: &'a dyn FileSystem,
    options: &'a PackOptions<'a>,
    tree: scan::Tree,
    block_bits: u8,
    warnings: Vec<Warning>,
}

impl<'a> Plan<'a> {
    fn new(source: &'a dyn FileSystem, options: &'a PackOptions<'a>) -> Result<Self> {
        let rules = Rules::new(options).map_err(at_root)?;
        let block_bits = options.block_bits().map_err(at_root)?;
        let mut warnings = Vec::new();
        let mut tree = scan::scan(source, &rules, options, &mut warnings)?;
        for pattern in rules.unused().map_err(at_root)? {
            let reason = format!("nothing matches `{pattern}`");
            warnings.push(Warning { path: VfsPathBuf::new(), reason });
        }
        if let Some(old) = options.patch_from {
            patch::reduce(&mut tree, source, old, options)?;
        }
        tree.assign_blocks(block_bits).map_err(at_root)?;
        Ok(Plan { source, options, tree, block_bits, warnings })
    }

    fn write(mut self, mut output: Output<'_>) -> Result<PackReport> {
        let (options, bits) = (self.options, self.block_bits);
        let secrets = build::Secrets::new(options).map_err(at_root)?;
        let (tree, cipher) = (&mut self.tree, &secrets.cipher);
        let blocks = work::write_contents(self.source, tree, &mut output, cipher, options, bits)?;
        let is_patch = options.patch_from.is_some();
        let report = build::finish(tree, &blocks, output, &secrets, is_patch, bits);
        Ok(PackReport { warnings: self.warnings, ..report.map_err(at_root)? })
    }
}

fn at_root(error: crate::BackendError) -> Error {
    error.at("pack", VfsPath::root())
}

fn changed_while_packed(path: &VfsPath) -> Error {
    let reason = "its length changed while it was packed";
    crate::BackendError::new(ErrorKind::Busy, reason).at("pack", path)
}
