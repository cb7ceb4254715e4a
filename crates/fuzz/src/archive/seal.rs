//! Making an archive's checksums, hashes and tags good again after a change, as somebody who
//! has the key could, so that what lies behind them is reached.

use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use xxhash_rust::xxh3::xxh3_64;

use super::frame::{BLOCK, ENTRY, Frame, HEADER, TRAILER, number};

/// The key of the fixtures.
pub const MASTER: [u8; 32] = [7; 32];
/// The key of the fixtures with XOR.
pub const XOR: &[u8] = b"not a secret";
const TAG: usize = 16;

/// What the tags of encrypted blocks are exchanged for in an input of the fuzzer: the input has
/// the text, so that a change of a byte is a change of a byte of what is decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Text to ciphertext with its tag.
    Encrypt,
    /// The other way.
    Decrypt,
}

/// Makes everything good that can be without decoding a block.
pub fn seal(bytes: &mut [u8]) {
    let Some(frame) = Frame::of(bytes) else { return seal_header(bytes) };
    if bytes[49] == 2 {
        cipher_blocks(bytes, &frame, Direction::Encrypt);
    }
    for nth in 0..frame.block_count {
        let record = frame.blocks + nth * BLOCK;
        if let Some(range) = stored(bytes, &frame, record) {
            let sum = xxh3_64(&bytes[range]);
            put(bytes, record + 16, &sum.to_le_bytes());
        }
    }
    let index = frame.index..frame.index_end;
    let salt = bytes[104..136].to_vec();
    let check = match bytes[49] {
        1 => blake3::Hasher::new_derive_key("stratafs archive 1 xor check")
            .update(&salt)
            .update(XOR)
            .finalize()
            .into(),
        2 => derive("stratafs archive 1 check", &salt),
        _ => [0; 32],
    };
    put(bytes, 136, &check[..16]);
    let sum = xxh3_64(&bytes[index.clone()]);
    put(bytes, 152, &sum.to_le_bytes());
    let root = blake3::Hasher::new().update(&bytes[..160]).update(&bytes[index]).finalize();
    put(bytes, 160, root.as_bytes());
    if bytes[49] == 2 {
        let key = derive("stratafs archive 1 seal", &salt);
        let seal = blake3::keyed_hash(&key, &bytes[..192]);
        put(bytes, 192, seal.as_bytes());
    }
    let archive_len = number(bytes, 16, 8);
    put(bytes, frame.index_end, b"VFS1-END");
    put(bytes, frame.index_end + 8, &archive_len.to_le_bytes());
    let sum = xxh3_64(&bytes[frame.index_end..frame.index_end + TRAILER - 8]);
    put(bytes, frame.index_end + 16, &sum.to_le_bytes());
    seal_header(bytes);
}

fn seal_header(bytes: &mut [u8]) {
    if bytes.len() >= HEADER {
        let sum = xxh3_64(&bytes[..248]);
        put(bytes, 248, &sum.to_le_bytes());
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn derive(context: &str, salt: &[u8]) -> [u8; 32] {
    blake3::Hasher::new_derive_key(context).update(&MASTER).update(salt).finalize().into()
}

/// The stored bytes of a block, when its record places them within the data.
fn stored(bytes: &[u8], frame: &Frame, record: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(number(bytes, record, 8)).ok()?;
    let end = start.checked_add(number(bytes, record + 8, 4) as usize)?;
    (start >= HEADER && end <= frame.index).then_some(start..end)
}

/// Encrypts or decrypts the blocks of all encrypted files where they lie.
pub fn cipher_blocks(bytes: &mut [u8], frame: &Frame, direction: Direction) {
    let salt = bytes[104..136].to_vec();
    let cipher = Aes256GcmSiv::new(&derive("stratafs archive 1 encrypt", &salt).into());
    // The names of a hard link have their blocks in common.
    let mut done = vec![false; frame.block_count];
    for nth in 0..frame.entry_count {
        let entry = frame.entries + nth * ENTRY;
        let (kind, flags, bits) = (bytes[entry + 28], bytes[entry + 29], bytes[entry + 30]);
        if kind != 1 || flags & 1 == 0 || !(12..=22).contains(&bits) {
            continue;
        }
        let mut rest = number(bytes, entry, 8);
        let first = number(bytes, entry + 16, 4) as usize;
        for (block, done) in done.iter_mut().enumerate().skip(first) {
            if rest == 0 {
                break;
            }
            let raw_len = rest.min(1 << bits);
            rest -= raw_len;
            if std::mem::replace(done, true) {
                continue;
            }
            let record = frame.blocks + block * BLOCK;
            let Some(range) = stored(bytes, frame, record).filter(|range| range.len() >= TAG)
            else {
                continue;
            };
            let codec = number(bytes, record + 12, 1);
            let text_len = range.len() - TAG;
            let (text, tag) = bytes[range].split_at_mut(text_len);
            let mut nonce = Nonce::default();
            nonce[..8].copy_from_slice(&(block as u64).to_le_bytes());
            let mut associated = [0; 20];
            associated[..8].copy_from_slice(&(block as u64).to_le_bytes());
            associated[8..12].copy_from_slice(&(text_len as u32).to_le_bytes());
            associated[12..16].copy_from_slice(&(raw_len as u32).to_le_bytes());
            associated[16..].copy_from_slice(&(codec as u32).to_le_bytes());
            match direction {
                Direction::Encrypt => {
                    let made = cipher.encrypt_inout_detached(&nonce, &associated, text.into());
                    tag.copy_from_slice(&made.expect("a block is short enough to encrypt"));
                }
                Direction::Decrypt => {
                    let known = Tag::try_from(&*tag).expect("a tag has 16 bytes");
                    cipher
                        .decrypt_inout_detached(&nonce, &associated, text.into(), &known)
                        .expect("a fixture's own tag");
                }
            }
        }
    }
}
