//! The data that is read: text, the same on every machine.
//!
//! At scale 1: 10,000 files of 4 KiB in one directory, 200 of 256 KiB, one of 64 MiB. The text
//! looks like a program's settings and logs; LZ4 in blocks of 64 KiB makes it about 3.5 times
//! smaller, as it would real text.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

pub(crate) const KIB: usize = 1024;
pub(crate) const MIB: usize = 1024 * KIB;

/// How much there is to read and to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    /// Files of [`Sizes::SMALL`] bytes.
    pub(crate) small_files: usize,
    /// Files of [`Sizes::MEDIUM`] bytes.
    pub(crate) medium_files: usize,
    /// Bytes of the one large file, and of each that is written.
    pub(crate) large: usize,
    /// Random reads, for each thread.
    pub(crate) random_reads: usize,
    /// Files of [`Sizes::CREATED`] bytes to write, for each thread.
    pub(crate) created_files: usize,
    /// Files to make and delete, for each thread.
    pub(crate) churned_files: usize,
    /// Bytes of the file to overwrite.
    pub(crate) overwritten: usize,
    /// Writes into it, for each thread.
    pub(crate) overwrites: usize,
    /// Times that the log is opened for [`Sizes::APPENDS_PER_OPEN`] appends.
    pub(crate) append_batches: usize,
}

impl Sizes {
    pub(crate) const SMALL: usize = 4 * KIB;
    pub(crate) const MEDIUM: usize = 256 * KIB;
    pub(crate) const MEDIUM_CHUNK: usize = 64 * KIB;
    pub(crate) const LARGE_CHUNK: usize = MIB;
    /// One random read or write.
    pub(crate) const PAGE: usize = 4 * KIB;
    pub(crate) const CREATED: usize = 64 * KIB;
    pub(crate) const APPENDS_PER_OPEN: usize = 16;
    pub(crate) const LISTINGS: usize = 10;

    pub(crate) fn scaled(scale: f64) -> Self {
        let count =
            |at_one: usize, least: usize| ((at_one as f64 * scale).round() as usize).max(least);
        // Lengths stay whole pages, and whole chunks where there is more than one.
        let bytes = |at_one: usize| {
            let len = count(at_one, 16 * Self::PAGE);
            let step = if len > Self::LARGE_CHUNK { Self::LARGE_CHUNK } else { Self::PAGE };
            len.next_multiple_of(step)
        };
        Sizes {
            small_files: count(10_000, 4),
            medium_files: count(200, 2),
            large: bytes(64 * MIB),
            random_reads: count(20_000, 4),
            created_files: count(1_000, 2),
            churned_files: count(5_000, 2),
            overwritten: bytes(16 * MIB),
            overwrites: count(20_000, 4),
            append_batches: count(1_000, 1),
        }
    }

    /// Bytes of one chunk of a large file: [`Sizes::LARGE_CHUNK`], or the whole file when that
    /// is less.
    pub(crate) fn large_chunk(&self) -> usize {
        self.large.min(Self::LARGE_CHUNK)
    }
}

/// The directory of the small files.
pub(crate) const SMALL_DIR: &str = "small";
/// The large file.
pub(crate) const LARGE_FILE: &str = "large.txt";
/// Where files are written.
pub(crate) const WRITE_DIR: &str = "write";

/// The path of a small file.
pub(crate) fn small_path(index: usize) -> String {
    format!("{SMALL_DIR}/asset-{index:05}.txt")
}

/// A path in the directory of the small files that names nothing, looking like those that do.
pub(crate) fn missing_path(sizes: &Sizes, index: usize) -> String {
    small_path(sizes.small_files + index)
}

/// The path of a medium file.
pub(crate) fn medium_path(index: usize) -> String {
    format!("medium/scene-{index:03}.txt")
}

/// Makes the data in `root`, on the medium when it returns.
pub(crate) fn create(root: &Path, sizes: &Sizes) -> io::Result<()> {
    fs::create_dir_all(root.join(SMALL_DIR))?;
    fs::create_dir_all(root.join("medium"))?;
    let mut text = Text::new(1);
    for index in 0..sizes.small_files {
        fs::write(root.join(small_path(index)), text.take(Sizes::SMALL))?;
    }
    for index in 0..sizes.medium_files {
        fs::write(root.join(medium_path(index)), text.take(Sizes::MEDIUM))?;
    }
    let mut large = File::create(root.join(LARGE_FILE))?;
    let mut left = sizes.large;
    while left > 0 {
        let part = left.min(MIB);
        large.write_all(text.take(part))?;
        left -= part;
    }
    Ok(())
}

/// The paths of all files of the data.
pub(crate) fn files(sizes: &Sizes) -> impl Iterator<Item = String> {
    (0..sizes.small_files)
        .map(small_path)
        .chain((0..sizes.medium_files).map(medium_path))
        .chain([LARGE_FILE.to_owned()])
}

/// Pseudo-random numbers (SplitMix64): the same for the same seed, on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

const WORDS: &[&str] = &[
    "position",
    "rotation",
    "texture",
    "material",
    "velocity",
    "animation",
    "collision",
    "enabled",
    "priority",
    "shader",
    "distance",
    "intensity",
    "colour",
    "volume",
    "channel",
    "duration",
    "frame",
    "parent",
    "offset",
    "scale",
    "visible",
    "shadow",
    "camera",
    "light",
    "trigger",
    "script",
    "target",
    "radius",
    "height",
    "width",
    "layer",
    "group",
];

/// Endless text, line by line.
pub(crate) struct Text {
    random: Random,
    buffer: Vec<u8>,
    taken: usize,
}

impl Text {
    pub(crate) fn new(seed: u64) -> Self {
        Text { random: Random::new(seed), buffer: Vec::new(), taken: 0 }
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> &[u8] {
        self.buffer.drain(..self.taken);
        while self.buffer.len() < len {
            self.line();
        }
        self.taken = len;
        &self.buffer[..len]
    }

    /// Some words are commoner than others.
    fn word(&mut self) -> &'static str {
        let bound = 1 + self.random.below(WORDS.len());
        WORDS[self.random.below(bound)]
    }

    fn line(&mut self) {
        let (key, other) = (self.word(), self.word());
        let number = self.random.below(1_000);
        let line = match self.random.below(8) {
            0 => format!("[object.{key}]\n"),
            1 => format!("  {key} = {}.{number:03}\n", number % 7),
            2 => format!("  {key}.source = \"assets/common/{other}s/{key}.texture.png\"\n"),
            3 => format!("  # the {key} of this object is taken from its parent's {other}\n"),
            4 => format!(
                "  on_{key} = function(self, event) return self.{key} * event.{other} end\n"
            ),
            5 => format!("  {key} = true -- same as in object {number}\n"),
            6 => format!("  log(\"{key} was changed\", self.{other}, {number})\n"),
            _ => format!("  children = {{ \"{key}\", \"{other}\" }}\n"),
        };
        self.buffer.extend_from_slice(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_the_full_suite() {
        let sizes = Sizes::scaled(1.0);
        assert_eq!((sizes.small_files, sizes.medium_files), (10_000, 200));
        assert_eq!((sizes.large, sizes.overwritten), (64 * MIB, 16 * MIB));
    }

    #[test]
    fn small_scales_keep_whole_pages_and_chunks() {
        for scale in [0.0001, 0.001, 0.01, 0.1, 0.37, 2.0] {
            let sizes = Sizes::scaled(scale);
            assert!(sizes.small_files > 0 && sizes.append_batches > 0);
            for len in [sizes.large, sizes.overwritten] {
                assert_eq!(len % Sizes::PAGE, 0);
                assert!(len <= MIB || len % MIB == 0);
            }
            assert_eq!(sizes.large % sizes.large_chunk(), 0);
        }
    }

    #[test]
    fn the_text_is_the_same_each_time_and_compresses_as_text_does() {
        let text = Text::new(7).take(4 * MIB).to_vec();
        assert_eq!(text, Text::new(7).take(4 * MIB));
        assert_ne!(text, Text::new(8).take(4 * MIB));
        let packed = |block| -> f64 {
            text.chunks(block).map(|block| lz4_flex::compress(block).len()).sum::<usize>() as f64
                / text.len() as f64
        };
        // As much of the data lies in small files, which are a block each.
        let small = (10_000 * Sizes::SMALL) as f64;
        let larger = (200 * Sizes::MEDIUM + 64 * MIB) as f64;
        let sum = small * packed(Sizes::SMALL) + larger * packed(64 * KIB);
        let ratio = (small + larger) / sum;
        assert!((3.4..3.6).contains(&ratio), "{ratio}");
    }
}
