//! The ciphers at work on one block.

use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};

use crate::error::{BackendError, BackendResult, ErrorKind};

use super::format::{CipherKind, Codec, TAG_LEN, corrupt};
use super::key::Keys;

pub(crate) enum Cipher {
    /// The archive has none.
    None,
    /// It has one, and no key was given: what is encrypted cannot be read.
    Locked(CipherKind),
    Xor(XorKey),
    Aead {
        cipher: Box<Aes256GcmSiv>,
        hash: [u8; 32],
    },
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cipher::None => "None",
            Cipher::Locked(_) => "Locked",
            Cipher::Xor(_) => "Xor",
            Cipher::Aead { .. } => "Aead",
        })
    }
}

impl Cipher {
    pub(crate) fn new(keys: &Keys) -> Cipher {
        match keys {
            Keys::Xor(key) => Cipher::Xor(XorKey::new(key)),
            Keys::Aead { encrypt, hash, .. } => {
                Cipher::Aead { cipher: Box::new(Aes256GcmSiv::new(encrypt.into())), hash: *hash }
            }
        }
    }

    /// How many bytes encryption adds to a block.
    pub(crate) fn overhead(&self) -> usize {
        match self {
            Cipher::None | Cipher::Xor(_) | Cipher::Locked(CipherKind::None | CipherKind::Xor) => 0,
            Cipher::Aead { .. } | Cipher::Locked(CipherKind::Aead) => TAG_LEN,
        }
    }

    pub(crate) fn locked() -> BackendError {
        BackendError::new(ErrorKind::WrongKey, "the file is encrypted and no key was given")
    }

    /// A hasher for the content hashes of this archive.
    pub(crate) fn content_hasher(&self) -> blake3::Hasher {
        match self {
            Cipher::Aead { hash, .. } => blake3::Hasher::new_keyed(hash),
            _ => blake3::Hasher::new(),
        }
    }

    /// Encrypts a block's bytes in place; AEAD adds the tag behind them.
    pub(crate) fn seal(&self, data: &mut Vec<u8>, id: BlockId) -> BackendResult<()> {
        match self {
            Cipher::None => Ok(()),
            Cipher::Locked(_) => Err(Cipher::locked()),
            Cipher::Xor(key) => {
                key.apply(data, 0);
                Ok(())
            }
            Cipher::Aead { cipher, .. } => {
                let (nonce, associated) = id.nonce_and_associated(data.len());
                let tag = cipher
                    .encrypt_inout_detached(&nonce, &associated, data.as_mut_slice().into())
                    .map_err(|_| corrupt("a block too large to encrypt"))?;
                data.extend_from_slice(&tag);
                Ok(())
            }
        }
    }

    /// Decrypts a block from `stored` to `out`, which is shorter by the overhead.
    pub(crate) fn open(&self, stored: &[u8], out: &mut [u8], id: BlockId) -> BackendResult<()> {
        match self {
            Cipher::None => out.copy_from_slice(stored),
            Cipher::Locked(_) => return Err(Cipher::locked()),
            Cipher::Xor(key) => key.copy(stored, out, 0),
            Cipher::Aead { cipher, .. } => {
                let (text, tag) = stored
                    .split_last_chunk::<TAG_LEN>()
                    .filter(|(text, _)| text.len() == out.len())
                    .ok_or_else(|| corrupt("an encrypted block without its tag"))?;
                let (nonce, associated) = id.nonce_and_associated(out.len());
                out.copy_from_slice(text);
                cipher
                    .decrypt_inout_detached(&nonce, &associated, out.into(), &Tag::from(*tag))
                    .map_err(|_| corrupt("it fails authentication"))?;
            }
        }
        Ok(())
    }
}

/// Which block is encrypted: all of it is authenticated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockId {
    pub number: u32,
    pub raw_len: u32,
    pub codec: Codec,
}

impl BlockId {
    fn nonce_and_associated(self, text_len: usize) -> (Nonce, [u8; 20]) {
        let number = u64::from(self.number).to_le_bytes();
        let mut nonce = Nonce::default();
        nonce[..8].copy_from_slice(&number);
        let mut associated = [0; 20];
        associated[..8].copy_from_slice(&number);
        associated[8..12].copy_from_slice(&(text_len as u32).to_le_bytes());
        associated[12..16].copy_from_slice(&self.raw_len.to_le_bytes());
        associated[16..].copy_from_slice(&(self.codec as u32).to_le_bytes());
        (nonce, associated)
    }
}

/// A repeating key, laid out so that the compiler combines many bytes at once: a pattern of
/// whole keys of about a page, then one more key to start at any phase.
pub(crate) struct XorKey {
    pattern: Vec<u8>,
    key_len: usize,
}

impl XorKey {
    pub(crate) fn new(key: &[u8]) -> XorKey {
        let repeats = 4096_usize.div_ceil(key.len()) + 1;
        XorKey { pattern: key.repeat(repeats), key_len: key.len() }
    }

    fn phase(&self, offset: usize) -> (&[u8], usize) {
        let start = offset % self.key_len;
        let period = self.pattern.len() - self.key_len;
        (&self.pattern[start..start + period], period)
    }

    /// Combines `data`, whose first byte is byte `offset` of the block, in place.
    pub(crate) fn apply(&self, data: &mut [u8], offset: usize) {
        let (pattern, period) = self.phase(offset);
        for chunk in data.chunks_mut(period) {
            for (byte, key) in chunk.iter_mut().zip(pattern) {
                *byte ^= key;
            }
        }
    }

    /// As [`apply`](Self::apply), from one buffer to another of the same length.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8], offset: usize) {
        let (pattern, period) = self.phase(offset);
        for (from, to) in from.chunks(period).zip(to.chunks_mut(period)) {
            for ((to, from), key) in to.iter_mut().zip(from).zip(pattern) {
                *to = from ^ key;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xor_agrees_with_its_definition_at_every_phase() {
        let data: Vec<u8> = (0..20_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        for key_len in [1, 2, 3, 7, 8, 63, 64, 255, 256] {
            let bytes: Vec<u8> = (0..key_len).map(|i| (i * 31 + 5) as u8).collect();
            let key = XorKey::new(&bytes);
            for offset in [0, 1, key_len - 1, key_len, 4095, 12_345] {
                let expected: Vec<u8> = data
                    .iter()
                    .enumerate()
                    .map(|(i, byte)| byte ^ bytes[(offset + i) % key_len])
                    .collect();
                let mut copied = vec![0; data.len()];
                key.copy(&data, &mut copied, offset);
                assert!(copied == expected, "copy, key of {key_len}, offset {offset}");
                let mut applied = data.clone();
                key.apply(&mut applied, offset);
                assert!(applied == expected, "apply, key of {key_len}, offset {offset}");
            }
        }
    }

    #[test]
    fn a_block_opens_only_at_its_own_place() {
        let keys = Keys::Aead { encrypt: [1; 32], seal: [2; 32], hash: [3; 32] };
        let cipher = Cipher::new(&keys);
        let id = BlockId { number: 7, raw_len: 5, codec: Codec::Stored };
        let mut stored = b"hello".to_vec();
        cipher.seal(&mut stored, id).unwrap();
        let mut out = [0; 5];
        cipher.open(&stored, &mut out, id).unwrap();
        assert_eq!(&out, b"hello");
        for other in [
            BlockId { number: 8, ..id },
            BlockId { raw_len: 6, ..id },
            BlockId { codec: Codec::Lz4, ..id },
        ] {
            let error = cipher.open(&stored, &mut out, other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{other:?}");
        }
        stored[0] ^= 1;
        assert!(cipher.open(&stored, &mut out, id).is_err());
    }
}
