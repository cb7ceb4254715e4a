//! What a workload needs of a way to reach files: written once for each interface, in the calls
//! that a user of that interface would write.
//!
//! Everything is generic, so that a workload is compiled for each contestant and no dispatch of
//! the benchmark's own comes between. Names are made before anything is timed, each in the form
//! that the interface takes without work, and buffers belong to the workload.

use std::io;

/// A way to read files.
pub(crate) trait Contestant: Sync {
    /// A name in the form that the interface takes.
    type Name: Send + Sync;
    /// A file open for reading.
    type Reader;

    /// The interface's name of a path that is relative to the data, such as `small/00001.txt`.
    fn name(&self, path: &str) -> Self::Name;

    /// Opens a file for reading; dropping the reader closes it.
    fn open(&self, name: &Self::Name) -> io::Result<Self::Reader>;

    /// Fills `buf` with what follows the last read, which ended at `offset`.
    fn read_next(reader: &mut Self::Reader, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Fills `buf` from `offset`.
    fn read_at(reader: &mut Self::Reader, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// The length of a file that exists, from its metadata.
    fn stat(&self, name: &Self::Name) -> io::Result<u64>;

    /// Whether a name exists.
    fn exists(&self, name: &Self::Name) -> io::Result<bool>;

    /// Reads a directory: the name and the type of every entry.
    fn list(&self, name: &Self::Name) -> io::Result<Listing>;
}

/// A way to write files. The data's directory has a place for written files, `write/`.
pub(crate) trait Writable: Contestant {
    /// A file open for writing.
    type Writer;

    /// Makes a file, or cuts it to length 0.
    fn create(&self, name: &Self::Name) -> io::Result<Self::Writer>;

    /// Opens a file that exists for reading and writing, without truncation.
    fn open_in_place(&self, name: &Self::Name) -> io::Result<Self::Writer>;

    /// Opens a file, made if need be, for writing at its end.
    fn open_append(&self, name: &Self::Name) -> io::Result<Self::Writer>;

    /// Writes all of `buf` behind the last write, which ended at `offset`, or to the end of a
    /// file that was opened for that.
    fn write_next(writer: &mut Self::Writer, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all of `buf` at `offset`.
    fn write_at(writer: &mut Self::Writer, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Closes the file; everything written has been handed over when it returns.
    fn close(writer: Self::Writer) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &Self::Name) -> io::Result<()>;

    /// Makes a directory and those that lead to it. Never timed.
    fn create_dir_all(&self, path: &str) -> io::Result<()>;

    /// Removes a directory, if there, with everything in it. Never timed.
    fn remove_dir_all(&self, path: &str) -> io::Result<()>;
}

/// What a workload wants to know of a directory; counting it makes every contestant look at
/// each entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Listing {
    /// How many entries are regular files.
    pub(crate) files: usize,
    /// Bytes of all their names together.
    pub(crate) name_bytes: usize,
}

impl Listing {
    /// Takes one entry into account.
    #[inline]
    pub(crate) fn add(&mut self, is_file: bool, name: &[u8]) {
        self.files += usize::from(is_file);
        self.name_bytes += name.len();
    }
}
