//! How to mount.

/// How to mount a backend. The default: priority 0, writable if the backend is and it stands
/// alone at its point, exact names, visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MountOptions {
    /// Among backends at the same point, higher is asked first.
    pub priority: i32,
    /// Nothing can be changed through this mount.
    pub read_only: bool,
    /// Names are found whatever their case; see `CaseFoldFs`.
    pub case_insensitive: bool,
    /// The mount point does not show in its parent's listing (it can still be named).
    pub hidden: bool,
    /// Among several backends at the same point, the one that takes all changes.
    pub write_target: bool,
}

impl MountOptions {
    /// The default.
    pub const fn new() -> Self {
        MountOptions {
            priority: 0,
            read_only: false,
            case_insensitive: false,
            hidden: false,
            write_target: false,
        }
    }

    /// Sets the priority.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Refuses changes through this mount.
    #[must_use]
    pub const fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// Finds names whatever their case.
    #[must_use]
    pub const fn case_insensitive(mut self, yes: bool) -> Self {
        self.case_insensitive = yes;
        self
    }

    /// Leaves the mount point out of its parent's listing.
    #[must_use]
    pub const fn hidden(mut self, yes: bool) -> Self {
        self.hidden = yes;
        self
    }

    /// Makes this backend take all changes at its point.
    #[must_use]
    pub const fn write_target(mut self, yes: bool) -> Self {
        self.write_target = yes;
        self
    }
}

/// Names one mount, for unmounting it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MountId(pub(super) u64);
