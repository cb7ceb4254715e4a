//! Patterns: what [`Vfs::glob`] finds and what the packer's rules leave out, against a plain
//! walk with the same matcher.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use globset::{Glob, GlobBuilder};
use stratafs::archive::{ArchiveFs, PackOptions, Rule, pack_to_vec};
use stratafs::{ErrorKind, MemoryFs, Vfs, VfsPathBuf};
use stratafs_testkit::tools::{Random, mkdir, put, symlink};

use crate::heap::bounded;
use crate::{Target, mutate};

/// The target: the whole input is a pattern.
pub const TARGET: Target = Target { name: "glob", seeds, run, mutate: mutate_pattern };

/// The expression behind a pattern may take 10 MiB by `globset`'s own limit, in two forms, and
/// room to work.
const MEMORY: usize = 64 << 20;

/// Patterns come from people; what is longer than a path has no use.
const MAX_LEN: usize = 4096;

fn seeds() -> Vec<Vec<u8>> {
    let patterns = [
        "*",
        "**",
        "*.lua",
        "a/*",
        "a/b/**/c",
        "a/b",
        "{a,b}/[x-z]*",
        "**/*.{lua,txt}",
        "/a/?",
        r"a/\*",
        "[!a]*",
        "link/*",
        "",
    ];
    patterns.into_iter().map(|pattern| pattern.as_bytes().to_vec()).collect()
}

fn mutate_pattern(input: &mut Vec<u8>, random: &mut Random) {
    let words: &[&[u8]] = &[
        b"*", b"**", b"?", b"[", b"]", b"[!", b"-", b"{", b"}", b",", b"\\", b"/", b"a", b"b",
        b"link", b".lua", b"..", b".",
    ];
    mutate::words(input, random, words);
}

static TREE: LazyLock<Vfs> = LazyLock::new(|| {
    let tree = MemoryFs::new();
    for directory in ["a", "a/b", "a/b/c", "b", "empty", "{a"] {
        mkdir(&tree, directory);
    }
    for file in ["x.lua", "a/x.lua", "a/b/y.txt", "a/b/c/z.lua", "b/*", "b/\u{e9}", "{a/x", "a/-"] {
        put(&tree, file, "");
    }
    symlink(&tree, "a", "link");
    Vfs::with_root(tree)
});

fn run(input: &[u8]) {
    let Ok(pattern) = std::str::from_utf8(&input[..input.len().min(MAX_LEN)]) else { return };
    LazyLock::force(&TREE);
    bounded(MEMORY, || {
        find(pattern);
        exclude(pattern);
    });
}

fn text(path: &VfsPathBuf) -> &str {
    std::str::from_utf8(path.as_bytes()).expect("the tree's names are UTF-8")
}

fn walk(tree: &Vfs) -> Vec<VfsPathBuf> {
    tree.walk("").expect("walk").map(|entry| entry.expect("walk").path).collect()
}

fn find(pattern: &str) {
    let relative = pattern.trim_start_matches('/');
    let expected = match GlobBuilder::new(relative).literal_separator(true).build() {
        Ok(glob) => glob.compile_matcher(),
        Err(_) => {
            let error = TREE.glob(pattern).expect_err("no pattern");
            return assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    };
    let expected = walk(&TREE).into_iter().filter(|path| expected.is_match(text(path)));
    let found = TREE.glob(pattern).expect("a pattern").map(|path| path.expect("a path"));
    assert!(found.eq(expected));
}

fn exclude(pattern: &str) {
    let rules = PackOptions::new().jobs(1).rule(Rule::Exclude(pattern.to_owned()));
    let packed = pack_to_vec(&*TREE.tree(), &rules);
    let path = pattern.trim_start_matches("./").trim_start_matches('/');
    let whole = path.trim_end_matches('/');
    // With a slash at its end: a directory, and everything in it.
    let directories_only = whole.len() < path.len();
    let Ok(glob) = Glob::new(whole) else {
        let error = packed.expect_err("no pattern");
        return assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    };
    let matcher = glob.compile_matcher();
    let (bytes, _) = packed.expect("a pattern");
    let packed = Vfs::with_root(ArchiveFs::from_bytes(bytes).expect("an archive"));
    let found: BTreeSet<_> = walk(&packed).into_iter().collect();
    let inside = Glob::new(&format!("{whole}/**")).expect("as good as the other").compile_matcher();
    let left_out = |path: &VfsPathBuf| {
        let above = path.ancestors().filter(|ancestor| !ancestor.is_root());
        above.chain([&**path]).any(|path| {
            let is_it = matcher.is_match(text(&path.to_owned()));
            match directories_only {
                false => is_it,
                true => {
                    inside.is_match(text(&path.to_owned()))
                        || is_it && TREE.symlink_metadata(path).expect("it is there").is_dir()
                }
            }
        })
    };
    // The root is always there.
    let expected = walk(&TREE).into_iter().filter(|path| path.is_root() || !left_out(path));
    assert_eq!(found, expected.collect());
}
