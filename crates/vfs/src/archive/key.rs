//! Keys of encrypted archives.

use std::fmt;
use std::path::Path;

use crate::error::{BackendError, BackendResult, ErrorKind};

use super::format::{CipherKind, Kdf, corrupt};
use crate::source::from_io;

/// What opens an encrypted archive.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Secret);

#[derive(Clone, PartialEq, Eq)]
enum Secret {
    Raw([u8; 32]),
    Passphrase(Vec<u8>),
    Xor(Vec<u8>),
}

/// Argon2id as the second recommendation of RFC 9106: 64 MiB, 3 passes.
const ARGON2: Kdf = Kdf::Argon2id { memory: 64 << 10, passes: 3, lanes: 1 };

impl Key {
    /// A key of 32 bytes for AES-256-GCM-SIV.
    pub fn raw(bytes: [u8; 32]) -> Key {
        Key(Secret::Raw(bytes))
    }

    /// A passphrase for AES-256-GCM-SIV. The key is made by Argon2id, which takes 64 MiB of
    /// memory and some tenths of a second each time an archive is opened.
    pub fn passphrase(text: impl AsRef<[u8]>) -> Key {
        Key(Secret::Passphrase(text.as_ref().to_vec()))
    }

    /// A key of 1 to 256 bytes for XOR, which is obfuscation and no protection.
    ///
    /// # Errors
    /// `InvalidArgument` for another length.
    pub fn xor(bytes: impl AsRef<[u8]>) -> BackendResult<Key> {
        let bytes = bytes.as_ref();
        match bytes.len() {
            1..=256 => Ok(Key(Secret::Xor(bytes.to_vec()))),
            n => Err(invalid(format!("an XOR key has 1 to 256 bytes, not {n}"))),
        }
    }

    /// Reads a key of 32 bytes, or of 64 hexadecimal digits, from a file of the host.
    ///
    /// # Errors
    /// `InvalidArgument` when the file holds neither; whatever reading it meets.
    pub fn from_file(path: impl AsRef<Path>) -> BackendResult<Key> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(from_io)?;
        if let Ok(raw) = <[u8; 32]>::try_from(&bytes[..]) {
            return Ok(Key::raw(raw));
        }
        hex_key(bytes.trim_ascii()).map(Key::raw).ok_or_else(|| {
            invalid(format!("{}: neither 32 bytes nor 64 hexadecimal digits", path.display()))
        })
    }

    /// Takes a key from an environment variable: 64 hexadecimal digits are the key itself, any
    /// other text is a passphrase.
    ///
    /// # Errors
    /// `InvalidArgument` when the variable is not set or empty.
    pub fn from_env(name: &str) -> BackendResult<Key> {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| invalid(format!("the variable {name} is not set")))?;
        let bytes = value.as_encoded_bytes();
        Ok(hex_key(bytes).map_or_else(|| Key::passphrase(bytes), Key::raw))
    }

    /// Which cipher the key is for.
    pub fn cipher(&self) -> CipherKind {
        match self.0 {
            Secret::Xor(_) => CipherKind::Xor,
            Secret::Raw(_) | Secret::Passphrase(_) => CipherKind::Aead,
        }
    }

    /// How the packer makes the master key of it.
    pub(crate) fn kdf(&self) -> Kdf {
        match self.0 {
            Secret::Passphrase(_) => ARGON2,
            Secret::Raw(_) | Secret::Xor(_) => Kdf::Given,
        }
    }

    /// The keys for one archive.
    pub(crate) fn derive(&self, kdf: Kdf, salt: &[u8; 32]) -> BackendResult<Derived> {
        let master = match (&self.0, kdf) {
            (Secret::Xor(key), _) => {
                let mut hasher = blake3::Hasher::new_derive_key("stratafs archive 1 xor check");
                let check = first_half(hasher.update(salt).update(key).finalize());
                return Ok(Derived { check, keys: Keys::Xor(key.clone()) });
            }
            (Secret::Raw(raw), Kdf::Given) => *raw,
            (Secret::Passphrase(text), Kdf::Argon2id { memory, passes, lanes }) => {
                argon2id(text, salt, memory, passes, lanes)?
            }
            (Secret::Raw(_), Kdf::Argon2id { .. }) => {
                let reason = "the archive wants a passphrase, not a key";
                return Err(BackendError::new(ErrorKind::WrongKey, reason));
            }
            (Secret::Passphrase(_), Kdf::Given) => {
                let reason = "the archive wants a key, not a passphrase";
                return Err(BackendError::new(ErrorKind::WrongKey, reason));
            }
        };
        let derive = |context| {
            let mut hasher = blake3::Hasher::new_derive_key(context);
            hasher.update(&master).update(salt).finalize()
        };
        Ok(Derived {
            check: first_half(derive("stratafs archive 1 check")),
            keys: Keys::Aead {
                encrypt: derive("stratafs archive 1 encrypt").into(),
                seal: derive("stratafs archive 1 seal").into(),
                hash: derive("stratafs archive 1 hash").into(),
            },
        })
    }
}

/// The keys for one archive, and the value that tells whether they are the right ones.
pub(crate) struct Derived {
    pub check: [u8; 16],
    pub keys: Keys,
}

pub(crate) enum Keys {
    Xor(Vec<u8>),
    Aead { encrypt: [u8; 32], seal: [u8; 32], hash: [u8; 32] },
}

fn first_half(hash: blake3::Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    half
}

fn argon2id(
    text: &[u8],
    salt: &[u8; 32],
    memory: u32,
    passes: u32,
    lanes: u32,
) -> BackendResult<[u8; 32]> {
    // A hostile header must not cost memory or hours.
    if memory > 256 << 10 || passes > 16 || lanes > 16 {
        return Err(corrupt("header: key derivation costs beyond the limits"));
    }
    let failed = |error: argon2::Error| corrupt(format!("header: key derivation: {error}"));
    let params = argon2::Params::new(memory, passes, lanes, Some(32)).map_err(failed)?;
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let mut key = [0; 32];
    argon2.hash_password_into(text, salt, &mut key).map_err(failed)?;
    Ok(key)
}

fn hex_key(text: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(text).ok()?;
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

fn invalid(reason: String) -> BackendError {
    BackendError::new(ErrorKind::InvalidArgument, reason)
}

impl fmt::Debug for Key {
    /// Never the key itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Secret::Raw(_) => "Key(raw)",
            Secret::Passphrase(_) => "Key(passphrase)",
            Secret::Xor(_) => "Key(xor)",
        })
    }
}

/// Bytes that nobody can foresee, for a salt.
pub(crate) fn random_salt() -> BackendResult<[u8; 32]> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt)
        .map_err(|error| BackendError::new(ErrorKind::Io, format!("random numbers: {error}")))?;
    Ok(salt)
}
