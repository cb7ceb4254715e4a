//! The targets by name, and how each is built over the data.

mod map;
#[cfg(feature = "physfs")]
mod peer_physfs;
#[cfg(feature = "peers")]
mod peer_vfs;
mod posix;
mod standard;
mod stdio;
mod tree;
mod trees;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::contestant::{Contestant, Writable};
use crate::world::World;

use tree::Tree;

/// A way to reach the data, by name.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    kind: Kind,
}

enum Kind {
    Stdio,
    Standard,
    Posix,
    Map,
    /// A tree that is also written to.
    Writable(fn(&World) -> io::Result<Tree>),
    /// A tree that is only read.
    Readable(fn(&World) -> io::Result<Tree>),
    #[cfg(feature = "peers")]
    Peer(fn(&World) -> io::Result<vfs::VfsPath>),
    #[cfg(feature = "physfs")]
    PhysFs(fn(&World) -> io::Result<std::path::PathBuf>),
}

/// What all ratios are to.
pub(crate) const BASELINE: &str = "base:stdio";

/// In the order they run; the baseline first.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: BASELINE,
        about: "C streams: fopen, fread, fseeko, fwrite (metadata through Rust's standard library)",
        kind: Kind::Stdio,
    },
    Target { name: "base:std", about: "Rust's standard library", kind: Kind::Standard },
    Target {
        name: "base:posix",
        about: "system calls: open, read, pread, stat, getdents",
        kind: Kind::Posix,
    },
    Target {
        name: "ceiling:map",
        about: "no file system: a hash map from names to bytes, as what the memory allows",
        kind: Kind::Map,
    },
    Target {
        name: "vfs:native",
        about: "a directory, mounted alone",
        kind: Kind::Writable(trees::native),
    },
    Target {
        name: "vfs:memory",
        about: "the memory backend, with all data in it",
        kind: Kind::Writable(trees::memory),
    },
    Target {
        name: "vfs:archive",
        about: "an archive of the data, stored",
        kind: Kind::Readable(trees::archive),
    },
    Target {
        name: "vfs:archive-xor",
        about: "the archive with every file under XOR",
        kind: Kind::Readable(trees::archive_xor),
    },
    Target {
        name: "vfs:archive-lz4",
        about: "the archive with every file compressed by LZ4",
        kind: Kind::Readable(trees::archive_lz4),
    },
    Target {
        name: "vfs:archive-zstd",
        about: "the archive with every file compressed by Zstandard, level 3",
        kind: Kind::Readable(trees::archive_zstd),
    },
    Target {
        name: "vfs:archive-aead",
        about: "the archive with every file under AES-256-GCM-SIV",
        kind: Kind::Readable(trees::archive_aead),
    },
    Target {
        name: "vfs:zip",
        about: "the data as a zip, deflated",
        kind: Kind::Readable(trees::zip),
    },
    Target {
        name: "vfs:archive-within",
        about: "the stored archive, in place inside a zip",
        kind: Kind::Readable(trees::archive_within),
    },
    Target {
        name: "vfs:archive+native",
        about: "an empty directory over the archive; its watch proves what it does not hold",
        kind: Kind::Readable(trees::overridden),
    },
    Target {
        name: "vfs:archive+native-unwatched",
        about: "the same without a watch: the disk is asked each time",
        kind: Kind::Readable(trees::overridden_unwatched),
    },
    Target {
        name: "vfs:memory+archive",
        about: "an empty memory layer, which takes what is written, over the archive",
        kind: Kind::Writable(trees::memory_over_archive),
    },
    Target {
        name: "vfs:3layer",
        about: "memory (takes what is written) over an empty watched directory over the archive",
        kind: Kind::Readable(trees::three_layers),
    },
    Target {
        name: "vfs:nested8",
        about: "the directory mounted 8 levels deep, an empty memory mount on every level above, \
                32 unrelated mounts",
        kind: Kind::Readable(trees::nested),
    },
    #[cfg(feature = "peers")]
    Target {
        name: "peer:vfs-physical",
        about: "the vfs crate's PhysicalFS",
        kind: Kind::Peer(|world| Ok(vfs::PhysicalFS::new(world.data()).into())),
    },
    #[cfg(feature = "peers")]
    Target {
        name: "peer:vfs-memory",
        about: "the vfs crate's MemoryFS, with all data in it",
        kind: Kind::Peer(peer_vfs::memory),
    },
    #[cfg(feature = "peers")]
    Target {
        name: "peer:vfs-overlay",
        about: "the vfs crate's OverlayFS: an empty MemoryFS over its PhysicalFS",
        kind: Kind::Peer(peer_vfs::overlay),
    },
    #[cfg(feature = "physfs")]
    Target {
        name: "peer:physfs-dir",
        about: "PhysicsFS over the directory",
        kind: Kind::PhysFs(|world| Ok(world.data().to_owned())),
    },
    #[cfg(feature = "physfs")]
    Target {
        name: "peer:physfs-zip",
        about: "PhysicsFS over the zip",
        kind: Kind::PhysFs(crate::archives::zip),
    },
];

/// Something to do with a contestant, whatever its type.
pub(crate) trait Visitor {
    /// What comes of it.
    type Outcome;

    /// A contestant that is only read; `build` makes it, as often as wished.
    fn readable<C: Contestant>(
        self,
        build: impl Fn() -> io::Result<C>,
    ) -> io::Result<Self::Outcome>;

    /// A contestant that is also written to.
    fn writable<C: Writable>(self, build: impl Fn() -> io::Result<C>) -> io::Result<Self::Outcome>;
}

impl Target {
    /// Whether it takes part in the scenarios that write.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(
            self.kind,
            Kind::Stdio | Kind::Standard | Kind::Posix | Kind::Map | Kind::Writable(_)
        )
    }

    /// Calls the visitor with the type that this target has.
    pub(crate) fn visit<V: Visitor>(&self, world: &World, visitor: V) -> io::Result<V::Outcome> {
        match self.kind {
            Kind::Stdio => visitor.writable(|| Ok(stdio::Stdio::new(world.data()))),
            Kind::Standard => visitor.writable(|| Ok(standard::Standard::new(world.data()))),
            Kind::Posix => visitor.writable(|| Ok(posix::Posix::new(world.data()))),
            Kind::Map => visitor.writable(|| map::Map::new(world)),
            Kind::Writable(build) => visitor.writable(|| build(world)),
            Kind::Readable(build) => visitor.readable(|| build(world)),
            #[cfg(feature = "peers")]
            Kind::Peer(build) => visitor.readable(|| Ok(peer_vfs::Peer::new(build(world)?))),
            #[cfg(feature = "physfs")]
            Kind::PhysFs(mounted) => {
                visitor.readable(|| peer_physfs::PhysFs::new(&mounted(world)?))
            }
        }
    }
}

/// The path as C takes it.
fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path that exists holds no NUL")
}
