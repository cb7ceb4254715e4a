//! How to mount.

use std::time::Duration;

use stratafs::Capabilities;

/// Whether the tree can change without the door knowing, which decides how long the kernel may
/// keep what it has learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Freshness {
    /// Somebody else may change the tree. The kernel keeps what it learns for a minute where the
    /// tree reports changes ([`Capabilities::WATCH`]) and is told
    /// of each; otherwise, and while reports are lost, for a second. On a directory of the host a
    /// watch takes a walk over the tree, behind the running mount, and one of the user's inotify
    /// watches per directory.
    #[default]
    Shared,
    /// The tree changes only through this mount: the kernel keeps what it learns. Immutable
    /// trees are served so in any case.
    Exclusive,
}

/// How to mount. The default is what a user wants on a machine of their own: writable, visible
/// to them alone, no set-user-id programs, no devices.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Refuse every change.
    pub read_only: bool,
    /// Let every user in, as their permission bits allow. For a user who is not root this
    /// needs `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Let the kernel check permission bits. Without it every caller may do whatever the
    /// serving process may.
    pub default_permissions: bool,
    /// Honour set-user-id and set-group-id bits of programs (needs root).
    pub set_user_id: bool,
    /// Honour device nodes (needs root).
    pub devices: bool,
    /// Let programs on the mount be executed.
    pub execute: bool,
    /// Unmount by itself after so long without a request and without an open file.
    pub idle_timeout: Option<Duration>,
    /// How long the kernel may keep what it has learnt.
    pub freshness: Freshness,
    /// What `mount` and `df` show as the source.
    pub name: String,
    /// The type is shown as `fuse.` and this.
    pub subtype: String,
    /// How many threads answer the kernel; `None`: one for a tree that never waits
    /// ([`Capabilities::PROMPT`]), else as many as the machine has processors, at least 2 and at
    /// most 4.
    pub threads: Option<usize>,
    /// Count the requests of the kernel, for [`Mount::requests`](crate::Mount::requests).
    pub stats: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MountOptions {
    /// The defaults.
    pub fn new() -> Self {
        MountOptions {
            read_only: false,
            allow_other: false,
            default_permissions: true,
            set_user_id: false,
            devices: false,
            execute: true,
            idle_timeout: None,
            freshness: Freshness::Shared,
            name: "stratafs".to_owned(),
            subtype: "stratafs".to_owned(),
            threads: None,
            stats: false,
        }
    }

    /// Refuse every change.
    #[must_use]
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// Let every user in.
    #[must_use]
    pub fn allow_other(mut self, yes: bool) -> Self {
        self.allow_other = yes;
        self
    }

    /// Unmount by itself after so long without use.
    #[must_use]
    pub fn idle_timeout(mut self, after: Option<Duration>) -> Self {
        self.idle_timeout = after;
        self
    }

    /// Whether the tree changes only through this mount.
    #[must_use]
    pub fn freshness(mut self, freshness: Freshness) -> Self {
        self.freshness = freshness;
        self
    }

    /// What `mount` and `df` show as the source.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Count the requests of the kernel.
    #[must_use]
    pub fn stats(mut self, yes: bool) -> Self {
        self.stats = yes;
        self
    }

    /// Where no call waits, one thread answers soonest: it is the one that has just answered, on a
    /// processor that is awake. Elsewhere one call that waits must not make the next one wait.
    pub(crate) fn thread_count(&self, capabilities: Capabilities) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let usual = match capabilities.contains(Capabilities::PROMPT) {
            true => 1,
            false => processors.clamp(2, 4),
        };
        self.threads.unwrap_or(usual).max(1)
    }
}
