//! How fast the archive's ciphers are by themselves, in memory: what the rows of encrypted
//! archives can be held against.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};

use crate::archives::{AEAD_KEY, XOR_KEY};
use crate::dataset::{KIB, MIB, Text};

/// The speed of one cipher on one thread.
#[derive(Clone, PartialEq, Debug)]
pub struct CipherSpeed {
    /// `base:cipher-xor` or `base:cipher-aead`.
    pub name: &'static str,
    /// How many bytes are decrypted at once.
    pub block: usize,
    /// Decrypted MiB for each second, the copy to where they are decrypted included.
    pub mib_per_s: f64,
}

/// A block of an archive, and a small file.
const BLOCKS: [usize; 2] = [64 * KIB, 4 * KIB];

/// Measures each cipher for about so long on each size of block.
pub(crate) fn measure(long: Duration) -> io::Result<Vec<CipherSpeed>> {
    let mut speeds = Vec::new();
    let xor_key = XOR_KEY.repeat(64);
    for block in BLOCKS {
        let plain = Text::new(3).take(block).to_vec();
        let mut out = vec![0; block];

        let mut sealed = plain.clone();
        apply_xor(&xor_key, &plain, &mut sealed);
        let mib_per_s = speed(block, long, || {
            apply_xor(&xor_key, black_box(&sealed), &mut out);
            Ok(())
        })?;
        check(&out, &plain)?;
        speeds.push(CipherSpeed { name: "base:cipher-xor", block, mib_per_s });

        let cipher = Aes256GcmSiv::new(&AEAD_KEY.into());
        let nonce = Nonce::default();
        let failed = |_| io::Error::other("the cipher failed");
        let mut sealed = plain.clone();
        let tag = cipher
            .encrypt_inout_detached(&nonce, &[], sealed.as_mut_slice().into())
            .map_err(failed)?;
        let mib_per_s = speed(block, long, || {
            out.copy_from_slice(black_box(&sealed));
            cipher
                .decrypt_inout_detached(&nonce, &[], out.as_mut_slice().into(), &tag)
                .map_err(failed)
        })?;
        check(&out, &plain)?;
        speeds.push(CipherSpeed { name: "base:cipher-aead", block, mib_per_s });
    }
    Ok(speeds)
}

fn check(out: &[u8], plain: &[u8]) -> io::Result<()> {
    if out == plain { Ok(()) } else { Err(io::Error::other("a cipher gave the wrong bytes")) }
}

/// Out of place, with the key written out often enough that the loop runs over whole vectors.
fn apply_xor(key: &[u8], data: &[u8], out: &mut [u8]) {
    for (data, out) in data.chunks(key.len()).zip(out.chunks_mut(key.len())) {
        for ((byte, key), out) in data.iter().zip(key).zip(out) {
            *out = byte ^ key;
        }
    }
}

fn speed(
    block: usize,
    long: Duration,
    mut work: impl FnMut() -> io::Result<()>,
) -> io::Result<f64> {
    const AT_ONCE: u32 = 16;
    let start = Instant::now();
    let mut rounds = 0;
    loop {
        for _ in 0..AT_ONCE {
            work()?;
        }
        rounds += AT_ONCE;
        let elapsed = start.elapsed();
        if elapsed >= long {
            let bytes = f64::from(rounds) * block as f64;
            return Ok(bytes / MIB as f64 / elapsed.as_secs_f64().max(1e-9));
        }
    }
}
