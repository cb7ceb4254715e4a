//! What a native backend may keep in memory.

/// What a [`NativeFs`](super::NativeFs) keeps to save system calls. Nothing here changes what
/// this process sees of its own changes; it decides how soon another process's are seen.
///
/// ```
/// use stratafs::NativeOptions;
/// let exact = NativeOptions::new().cache_directories(false); // asks the disk each time
/// let overrides = NativeOptions::new().cache_negative(true); // a mostly empty directory
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativeOptions {
    /// Keep descriptors of directories in use, so that a call costs one system call at any
    /// depth. Default: yes.
    ///
    /// A kept directory is proven by a watch on it and on every directory above it inside the
    /// root. When another process moves or removes one of them, calls may reach the old
    /// directory at this path until the watch's event has been read: usually well under a
    /// millisecond, a few on a busy machine. Changes through this backend are seen at once.
    /// A file system mounted by another process over a kept directory is not seen at all.
    /// Where no watch is to be had (limits, network and FUSE file systems) nothing is kept.
    pub cache_directories: bool,
    /// Keep which names directories hold, so that a name that is not there costs no system
    /// call. Default: no.
    ///
    /// A name that another process makes is seen once the watch's event has been read: usually
    /// well under a millisecond. Names made through this backend are seen at once. Meant for
    /// override directories, that hold few files and are asked for many.
    pub cache_negative: bool,
    /// How many directories are kept at most; each holds one descriptor and one watch.
    /// Default: 256, or an eighth of the process's limit of descriptors if that is less.
    pub max_directories: Option<usize>,
}

impl Default for NativeOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl NativeOptions {
    /// The defaults that the fields state.
    pub const fn new() -> Self {
        NativeOptions { cache_directories: true, cache_negative: false, max_directories: None }
    }

    /// Keep descriptors of directories in use.
    #[must_use]
    pub const fn cache_directories(mut self, yes: bool) -> Self {
        self.cache_directories = yes;
        self
    }

    /// Keep which names directories hold.
    #[must_use]
    pub const fn cache_negative(mut self, yes: bool) -> Self {
        self.cache_negative = yes;
        self
    }

    /// Keep at most this many directories.
    #[must_use]
    pub const fn max_directories(mut self, count: usize) -> Self {
        self.max_directories = Some(count);
        self
    }
}
