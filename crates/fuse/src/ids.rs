//! Numbers that the kernel and the door exchange, each of a type of its own.

/// An open file, by the number that the kernel got for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHandle(pub(crate) u64);

/// An open directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirHandle(pub(crate) u64);

/// A place in a listing: how many entries come before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cookie(pub(crate) u64);

impl Cookie {
    /// The beginning.
    pub(crate) const START: Cookie = Cookie(0);

    /// The next place.
    pub(crate) fn next(self) -> Cookie {
        Cookie(self.0 + 1)
    }
}
