//! What is done at random.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_oneof, sample};
use stratafs::{OpenOptions, RenameMode, VfsPathBuf, XattrMode};

/// What [`Operation::Create`] makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link to `nowhere`.
    Symlink,
    /// A named pipe.
    Fifo,
}

/// One step. `usize` is the number of a handle, below [`Operation::HANDLES`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs)] // the methods of the contract, by their names
pub enum Operation {
    Metadata(VfsPathBuf),
    Exists(VfsPathBuf),
    ReadDir(VfsPathBuf),
    ReadLink(VfsPathBuf),
    /// Opens, writes at an offset, closes.
    Write(VfsPathBuf, OpenOptions, Vec<u8>, u64),
    Create(VfsPathBuf, Kind),
    RemoveFile(VfsPathBuf),
    RemoveDir(VfsPathBuf),
    Rename(VfsPathBuf, VfsPathBuf, RenameMode),
    Link(VfsPathBuf, VfsPathBuf),
    SetMode(VfsPathBuf, u32),
    SetXattr(VfsPathBuf, &'static str, Vec<u8>, XattrMode),
    RemoveXattr(VfsPathBuf, &'static str),
    Open(usize, VfsPathBuf, OpenOptions),
    Close(usize),
    WriteAt(usize, Vec<u8>, u64),
    SetLen(usize, u64),
    SetModeOf(usize, u32),
    Punch(usize, u64, u64),
    Reserve(usize, u64, u64),
    LinkTo(usize, VfsPathBuf),
}

impl Operation {
    /// How many handles are held open at most.
    pub const HANDLES: usize = 4;

    /// Whether it gives a file a further name.
    pub fn links(&self) -> bool {
        matches!(self, Operation::Link(..))
    }
}

/// Few names, so that operations meet.
fn path(names: &'static [&'static str]) -> impl Strategy<Value = VfsPathBuf> {
    vec(sample::select(names), 1..=3).prop_map(|names| {
        let mut path = VfsPathBuf::new();
        names.iter().for_each(|name| path.push(name.as_bytes()).expect("a name"));
        path
    })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), 1..40usize).prop_map(|(byte, len)| vec![byte | 1; len])
}

/// Mostly near the start, at times so far off that holes are made.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..60u64, 1 => 4000..5000u64, 1 => 60_000..70_000u64]
}

/// The owner may always read, write and search, as who runs the tests need not be root.
fn mode() -> impl Strategy<Value = u32> {
    (0..0o100u32).prop_map(|mode| 0o700 | mode)
}

fn writing() -> impl Strategy<Value = OpenOptions> {
    let flags = (any::<bool>(), any::<bool>(), 0..4u8, 0..8u8);
    (flags, mode()).prop_map(|((truncate, create, append, new), mode)| {
        let options = OpenOptions::new().write(true).truncate(truncate).append(append == 0);
        options.create(create).create_new(new == 0).mode(mode)
    })
}

fn opening() -> impl Strategy<Value = OpenOptions> {
    (0..4u8, 0..8u8).prop_map(|(access, rest)| {
        let options = OpenOptions::new().read(true).write(access > 0).append(access == 1);
        match rest {
            0 if access > 1 => options.temporary(true),
            1 | 2 => options.create(access > 0),
            _ => options,
        }
    })
}

/// Sequences of `count` operations on paths of these names.
pub fn operations(
    names: &'static [&'static str],
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Operation>> {
    let path = move || path(names);
    let slot = || 0..Operation::HANDLES;
    let attribute = || sample::select(vec!["user.one", "user.two"]);
    let xattr_mode = sample::select(vec![XattrMode::Set, XattrMode::Create, XattrMode::Replace]);
    let rename_mode = prop_oneof![
        2 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        1 => Just(RenameMode::Exchange),
    ];
    let kind =
        prop_oneof![6 => Just(Kind::Directory), 2 => Just(Kind::Symlink), 1 => Just(Kind::Fifo)];
    let queries = prop_oneof![
        path().prop_map(Operation::Metadata),
        path().prop_map(Operation::Exists),
        path().prop_map(Operation::ReadDir),
        path().prop_map(Operation::ReadLink),
    ];
    let on_names = prop_oneof![
        3 => (path(), writing(), bytes(), offset()).prop_map(|(p, o, b, at)| Operation::Write(p, o, b, at)),
        3 => (path(), kind).prop_map(|(p, kind)| Operation::Create(p, kind)),
        1 => path().prop_map(Operation::RemoveFile),
        2 => path().prop_map(Operation::RemoveDir),
        4 => (path(), path(), rename_mode).prop_map(|(a, b, mode)| Operation::Rename(a, b, mode)),
        1 => (path(), path()).prop_map(|(a, b)| Operation::Link(a, b)),
        1 => (path(), mode()).prop_map(|(p, mode)| Operation::SetMode(p, mode)),
        1 => (path(), attribute(), bytes(), xattr_mode)
            .prop_map(|(p, name, value, mode)| Operation::SetXattr(p, name, value, mode)),
        1 => (path(), attribute()).prop_map(|(p, name)| Operation::RemoveXattr(p, name)),
    ];
    let on_handles = prop_oneof![
        3 => (slot(), path(), opening()).prop_map(|(s, p, o)| Operation::Open(s, p, o)),
        1 => slot().prop_map(Operation::Close),
        2 => (slot(), bytes(), offset()).prop_map(|(s, b, at)| Operation::WriteAt(s, b, at)),
        1 => (slot(), offset()).prop_map(|(s, len)| Operation::SetLen(s, len)),
        1 => (slot(), mode()).prop_map(|(s, mode)| Operation::SetModeOf(s, mode)),
        1 => (slot(), offset(), 1..5000u64).prop_map(|(s, at, len)| Operation::Punch(s, at, len)),
        1 => (slot(), offset(), 1..5000u64).prop_map(|(s, at, len)| Operation::Reserve(s, at, len)),
        1 => (slot(), path()).prop_map(|(s, p)| Operation::LinkTo(s, p)),
    ];
    vec(prop_oneof![2 => queries, 12 => on_names, 6 => on_handles], count)
}
