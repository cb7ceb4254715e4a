//! Changes that make sense for any bytes.

use stratafs_testkit::tools::Random;

/// An index below `end`, which is not 0.
pub fn below(random: &mut Random, end: usize) -> usize {
    random.below(end as u64) as usize
}

/// One of several.
pub fn one_of<'a, T>(random: &mut Random, all: &'a [T]) -> &'a T {
    &all[below(random, all.len())]
}

/// A number at an edge, or near the one that is there.
pub fn number(random: &mut Random, known: u64) -> u64 {
    let power = 1u64 << random.below(64);
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => power,
        3 => power - 1,
        4 => known.wrapping_add(random.below(9)).wrapping_sub(4),
        5 => known ^ power,
        6 => random.below(64),
        _ => known.wrapping_mul(2),
    }
}

/// Changes one place: a bit, a byte, a run, or the length.
pub fn bytes(input: &mut Vec<u8>, random: &mut Random) {
    if input.is_empty() {
        return input.push(random.next() as u8);
    }
    let at = below(random, input.len());
    let end = input.len().min(at + 1 + below(random, 16));
    match random.below(8) {
        0 | 1 => input[at] ^= 1 << random.below(8),
        2 => input[at] = random.next() as u8,
        3 => input[at..end].fill(*one_of(random, &[0, 0xff, b'/', b'.'])),
        4 => {
            let to = below(random, input.len() - (end - at) + 1);
            input.copy_within(at..end, to);
        }
        5 => {
            let part = input[at..end].to_vec();
            let to = below(random, input.len());
            input.splice(to..to, part);
        }
        6 => drop(input.drain(at..end)),
        _ => input.truncate(at.max(input.len() / 2)),
    }
}

/// Overwrites a little-endian field of `size` bytes, where it lies within the input.
pub fn field(input: &mut [u8], at: usize, size: usize, random: &mut Random) {
    let Some(place) = at.checked_add(size).and_then(|end| input.get_mut(at..end)) else { return };
    let mut known = [0; 8];
    known[..size].copy_from_slice(place);
    let new = number(random, u64::from_le_bytes(known)).to_le_bytes();
    place.copy_from_slice(&new[..size]);
}

/// Text that is often close to meaning something: words of a language, and changes of bytes.
pub fn words(input: &mut Vec<u8>, random: &mut Random, words: &[&[u8]]) {
    let at = below(random, input.len() + 1);
    match random.below(4) {
        0 => bytes(input, random),
        _ => drop(input.splice(at..at, one_of(random, words).iter().copied())),
    }
}
