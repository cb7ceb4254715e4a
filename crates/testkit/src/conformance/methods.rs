//! Every method that takes a path, for rules that hold for all of them.

use std::ops::ControlFlow;
use std::sync::Arc;

use stratafs::{
    BackendResult, Capabilities, Detail, ErrorKind, FileSystem, MetadataChange, NewNode, NodeKind,
    OpenOptions, RenameMode, VfsPath, WatchEvent, XattrMode,
};

use crate::tools::{ODD_DEVICE, p};

/// One method, with one of its paths open.
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Without these it answers `Unsupported`, or `ReadOnly`.
    pub(super) needs: Capabilities,
    pub(super) call: fn(&dyn FileSystem, &VfsPath) -> BackendResult<()>,
}

impl Method {
    /// Whether `kind` is what the method answers for a path that should make it answer
    /// `expected`. A backend that has no watches or whiteouts at all need not look at the path,
    /// one that cannot be changed not at a second path.
    pub(super) fn may_answer(
        &self,
        fs: &dyn FileSystem,
        kind: ErrorKind,
        expected: ErrorKind,
    ) -> bool {
        use Capabilities as C;
        let has = fs.capabilities();
        let optional = self.needs & (C::WATCH | C::WHITEOUTS);
        kind == expected
            || (kind == ErrorKind::Unsupported && !has.contains(optional))
            || (kind == ErrorKind::ReadOnly
                && !has.contains(C::WRITE)
                && self.name.ends_with(" to")
                && !self.name.starts_with("open"))
    }
}

macro_rules! methods {
    ($($name:literal, $needs:expr, $call:expr;)+) => {
        &[$(Method { name: $name, needs: $needs, call: $call }),+]
    };
}

/// An existing file for the other path of methods that take two.
pub(super) const OTHER: &str = "other-file";

/// Every method that answers an error for a path that leads nowhere (`exists` answers `false`).
pub(super) const METHODS: &[Method] = {
    use Capabilities as C;
    const NONE: C = C::empty();
    const MAKES_NODES: C = C::WRITE.union(C::SPECIAL_NODES);
    methods! {
        "open to read", NONE,
            |fs, path| fs.open(path, &OpenOptions::reading()).map(drop);
        "open to write", C::WRITE,
            |fs, path| fs.open(path, &OpenOptions::new().write(true)).map(drop);
        "open to append", C::WRITE,
            |fs, path| fs.open(path, &OpenOptions::new().append(true)).map(drop);
        "open to create", C::WRITE,
            |fs, path| fs.open(path, &OpenOptions::writing()).map(drop);
        "open to create new", C::WRITE,
            |fs, path| fs.open(path, &OpenOptions::new().write(true).create_new(true)).map(drop);
        "open temporary", C::WRITE.union(C::TEMPORARY),
            |fs, path| fs.open(path, &OpenOptions::new().write(true).temporary(true)).map(drop);
        "metadata", NONE, |fs, path| fs.metadata(path).map(drop);
        "read_dir", NONE,
            |fs, path| fs.read_dir(path, Detail::Names, &mut |_| ControlFlow::Continue(()));
        "read_link", NONE, |fs, path| fs.read_link(path).map(drop);
        "create a directory", C::WRITE,
            |fs, path| fs.create(path, &NewNode::directory()).map(drop);
        "create a symbolic link", C::WRITE.union(C::SYMLINKS),
            |fs, path| fs.create(path, &NewNode::symlink(b"target")).map(drop);
        "create a fifo", MAKES_NODES,
            |fs, path| fs.create(path, &NewNode::new(NodeKind::Fifo)).map(drop);
        "create a socket", MAKES_NODES,
            |fs, path| fs.create(path, &NewNode::new(NodeKind::Socket)).map(drop);
        "create a character device", MAKES_NODES,
            |fs, path| fs.create(path, &NewNode::new(NodeKind::CharDevice(ODD_DEVICE))).map(drop);
        "create a block device", MAKES_NODES,
            |fs, path| fs.create(path, &NewNode::new(NodeKind::BlockDevice(ODD_DEVICE))).map(drop);
        "create a whiteout", C::WRITE.union(C::WHITEOUTS),
            |fs, path| fs.create(path, &NewNode::new(NodeKind::Whiteout)).map(drop);
        "link from", C::WRITE.union(C::HARD_LINKS), |fs, path| fs.link(path, p("new-name")).map(drop);
        "link to", C::WRITE.union(C::HARD_LINKS), |fs, path| fs.link(p(OTHER), path).map(drop);
        "rename from", C::WRITE,
            |fs, path| fs.rename(path, p("new-name"), RenameMode::Replace).map(drop);
        "rename to", C::WRITE, |fs, path| fs.rename(p(OTHER), path, RenameMode::Replace).map(drop);
        "rename no-replace from", C::WRITE,
            |fs, path| fs.rename(path, p("new-name"), RenameMode::NoReplace).map(drop);
        "rename no-replace to", C::WRITE,
            |fs, path| fs.rename(p(OTHER), path, RenameMode::NoReplace).map(drop);
        "rename exchange from", C::WRITE.union(C::EXCHANGE),
            |fs, path| fs.rename(path, p(OTHER), RenameMode::Exchange).map(drop);
        "rename exchange to", C::WRITE.union(C::EXCHANGE),
            |fs, path| fs.rename(p(OTHER), path, RenameMode::Exchange).map(drop);
        "rename whiteout from", C::WRITE.union(C::WHITEOUTS),
            |fs, path| fs.rename(path, p("new-name"), RenameMode::Whiteout).map(drop);
        "rename whiteout to", C::WRITE.union(C::WHITEOUTS),
            |fs, path| fs.rename(p(OTHER), path, RenameMode::Whiteout).map(drop);
        "remove_file", C::WRITE, |fs, path| fs.remove_file(path);
        "remove_dir", C::WRITE, |fs, path| fs.remove_dir(path);
        "set_metadata", C::WRITE,
            |fs, path| fs.set_metadata(path, &MetadataChange::new().mode(0o600)).map(drop);
        "xattr", NONE, |fs, path| fs.xattr(path, b"user.any").map(drop);
        "xattrs", NONE, |fs, path| fs.xattrs(path).map(drop);
        "set_xattr", C::WRITE.union(C::XATTRS),
            |fs, path| fs.set_xattr(path, b"user.any", b"value", XattrMode::Set);
        "remove_xattr", C::WRITE.union(C::XATTRS),
            |fs, path| fs.remove_xattr(path, b"user.any");
        "watch", C::WATCH,
            |fs, path| fs.watch(path, Arc::new(|_: WatchEvent| {})).map(drop);
    }
};
