//! The requests of the kernel, by name, for who counts them.

macro_rules! operations {
    ($($operation:ident => $name:literal),+ $(,)?) => {
        /// A request of the kernel.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Operation {
            $($operation),+
        }

        /// Their names in the protocol.
        pub(crate) const NAMES: &[&str] = &[$($name),+];
    };
}

operations! {
    Lookup => "lookup",
    Getattr => "getattr",
    Setattr => "setattr",
    Readlink => "readlink",
    Mknod => "mknod",
    Mkdir => "mkdir",
    Symlink => "symlink",
    Create => "create",
    Link => "link",
    Rename => "rename",
    Unlink => "unlink",
    Rmdir => "rmdir",
    Open => "open",
    Read => "read",
    Write => "write",
    Flush => "flush",
    Release => "release",
    Fsync => "fsync",
    Opendir => "opendir",
    Readdir => "readdir",
    Readdirplus => "readdirplus",
    Releasedir => "releasedir",
    Fsyncdir => "fsyncdir",
    Statfs => "statfs",
    Setxattr => "setxattr",
    Getxattr => "getxattr",
    Listxattr => "listxattr",
    Removexattr => "removexattr",
    Fallocate => "fallocate",
    Lseek => "lseek",
    CopyFileRange => "copy_file_range",
}
