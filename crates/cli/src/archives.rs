//! What the commands on archives share: opening, keys, names.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use stratafs::ArchiveFs;
use stratafs::archive::{ArchiveOptions, CipherKind, Key};
use stratafs::{FileType, Metadata, VfsPath, VfsPathBuf};

use crate::exit::{Context, Failure};

/// Where an archive lies and how it is unlocked.
#[derive(clap::Args, Debug)]
pub struct OpenArgs {
    /// The archive is this entry of the given zip file (an APK), stored uncompressed.
    #[arg(long, value_name = "ENTRY")]
    within: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

/// Where the key comes from.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
pub struct KeyArgs {
    /// Take the key from this file: 32 bytes, or 64 hexadecimal digits.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Take the key from this environment variable: 64 hexadecimal digits, or else a passphrase.
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Ask for a passphrase, or read it from the first line of standard input.
    #[arg(long)]
    passphrase: bool,
    /// Use this key with XOR, which is obfuscation and protects nothing.
    #[arg(long, value_name = "KEY")]
    xor: Option<String>,
}

impl KeyArgs {
    /// The key that the arguments name, if any.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn key(&self) -> Result<Option<Key>, Failure> {
        if let Some(file) = &self.key_file {
            return Ok(Some(Key::from_file(file).context(|| file.display())?));
        }
        if let Some(name) = &self.key_env {
            return Ok(Some(Key::from_env(name)?));
        }
        if let Some(key) = &self.xor {
            return Ok(Some(Key::xor(key)?));
        }
        match self.passphrase {
            true => Ok(Some(Key::passphrase(ask_passphrase()?))),
            false => Ok(None),
        }
    }

    /// Whether the key is for XOR.
    pub fn is_xor(&self) -> bool {
        self.xor.is_some()
    }
}

impl OpenArgs {
    /// Opens an archive.
    ///
    /// # Errors
    /// When it cannot be opened with the key.
    pub fn open(&self, file: &Path) -> Result<ArchiveFs, Failure> {
        self.open_with(file, self.key.key()?)
    }

    /// Opens several archives, of which the encrypted ones take the key.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open_all<const N: usize>(&self, files: [&Path; N]) -> Result<[ArchiveFs; N], Failure> {
        let key = self.key.key()?;
        let mut archives = Vec::with_capacity(N);
        for file in files {
            let archive = self.open_with(file, None)?;
            archives.push(match archive.info().cipher {
                CipherKind::None => archive,
                _ => self.open_with(file, key.clone())?,
            });
        }
        archives.try_into().map_err(|_| Failure::new("not all archives were opened"))
    }

    fn open_with(&self, file: &Path, key: Option<Key>) -> Result<ArchiveFs, Failure> {
        // Read once and written elsewhere: damage that passes here is found by nobody later.
        let options = ArchiveOptions { key, verify_reads: true, ..ArchiveOptions::default() };
        match &self.within {
            Some(entry) => ArchiveFs::within_zip(file, entry, &options),
            None => ArchiveFs::open_with(file, &options),
        }
        .context(|| file.display())
    }
}

fn ask_passphrase() -> Result<String, Failure> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = io::stdin();
    let hidden = match stdin.is_terminal() {
        true => {
            eprint!("passphrase: ");
            io::stderr().flush()?;
            let shown = tcgetattr(&stdin).map_err(io::Error::from)?;
            let mut hidden = shown.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Flush, &hidden).map_err(io::Error::from)?;
            Some(shown)
        }
        false => None,
    };
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if let Some(shown) = hidden {
        tcsetattr(&stdin, OptionalActions::Flush, &shown).map_err(io::Error::from)?;
        eprintln!();
    }
    read.context(|| "passphrase")?;
    let line = line.trim_end_matches(['\n', '\r']);
    match line.is_empty() {
        true => Err(Failure::new("the passphrase is empty")),
        false => Ok(line.to_owned()),
    }
}

/// A caller's path inside an archive.
///
/// # Errors
/// When it is no path.
pub fn inner_path(text: &std::ffi::OsStr) -> Result<VfsPathBuf, Failure> {
    let bytes = text.as_encoded_bytes();
    let path = stratafs::path::normalize(bytes).context(|| text.to_string_lossy().into_owned())?;
    Ok(path.into_owned())
}

/// A path for text output: as it is but for control characters and what is not UTF-8, which
/// are escaped so that no name can forge a line or steer a terminal.
pub fn shown(path: &VfsPath) -> String {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => path.as_bytes().escape_ascii().to_string(),
    }
}

/// The kind of a file as one word.
pub fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharDevice => "char-device",
        FileType::BlockDevice => "block-device",
        FileType::Whiteout => "whiteout",
    }
}

/// Type and permission bits as `ls -l` shows them.
pub fn mode(metadata: &Metadata) -> String {
    let first = match metadata.file_type {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Whiteout => 'w',
    };
    let mut text = String::from(first);
    for (nth, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if metadata.mode & (0o400 >> nth) != 0 { letter } else { '-' });
    }
    text
}
