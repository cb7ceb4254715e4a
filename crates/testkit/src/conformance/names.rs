//! Names and paths at their limits.

use stratafs::{FileSystem, OpenOptions, VfsPath, VfsPathBuf};

use super::cases;
use crate::tools::*;

cases![
    odd_names,
    names_that_are_not_utf8,
    every_byte_is_a_name,
    the_longest_name,
    the_longest_path,
    sixty_four_deep,
    case_tells_names_apart,
    accents_tell_names_apart,
];

#[track_caller]
fn round_trip(fs: &dyn FileSystem, name: &[u8]) {
    let dir = p("dir");
    let path = dir.join_name(name).unwrap();
    let show = name.escape_ascii();
    let file = fs
        .open(&path, &OpenOptions::writing())
        .unwrap_or_else(|error| panic!("{show}: {error}"))
        .file;
    write_all(&*file, name, 0);
    let listed: Vec<_> = entries(fs, dir).into_iter().map(|(name, _)| name).collect();
    assert!(listed.contains(&name.to_vec()), "{show} is not listed");
    let read = fs.open(&path, &OpenOptions::reading()).unwrap().file;
    assert_eq!(contents(&*read), name, "{show}");
    assert_eq!(fs.metadata(&path).unwrap().len, name.len() as u64);
}

fn odd_names(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let odd = [
        "...",
        "..a",
        ".a",
        "a.",
        " ",
        " a",
        "a ",
        "-",
        "--help",
        "~",
        "*",
        "?",
        "a\\b",
        "a\nb",
        "a\tb",
        "a:b",
        "\"",
        "'",
        "$x",
        "%2f",
        "CON",
        "\u{e9}",
        "\u{65e5}\u{672c}",
        "\u{1f600}",
        "\u{7f}",
        "#",
        "a;b",
        ".wh.a",
        ".wh..wh..opq",
    ];
    for name in odd {
        round_trip(fs, name.as_bytes());
    }
    assert_eq!(entries(fs, p("dir")).len(), odd.len());
}

fn names_that_are_not_utf8(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for name in [&b"\xff"[..], b"\xfe\xff", b"caf\xe9", b"\x80", b"\xc3", b"a\xed\xa0\x80"] {
        round_trip(fs, name);
    }
}

fn every_byte_is_a_name(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for byte in 1..=255u8 {
        if byte != b'/' && byte != b'.' {
            round_trip(fs, &[byte]);
        }
    }
    assert_eq!(entries(fs, p("dir")).len(), 253);
}

fn the_longest_name(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    for len in [200, 254, 255] {
        round_trip(fs, &vec![b'n'; len]);
    }
    let longest = "d".repeat(255);
    mkdir(fs, &longest);
    put(fs, &format!("{longest}/file"), "contents");
    rename(fs, &longest, &"e".repeat(255));
    assert_eq!(get(fs, &format!("{}/file", "e".repeat(255))), b"contents");
}

fn the_longest_path(fs: &dyn FileSystem) {
    // 4095 bytes are what a host takes with the zero at the end.
    let mut path = VfsPathBuf::new();
    for _ in 0..15 {
        path.push(&[b'p'; 255]).unwrap();
        fs.create(&path, &stratafs::NewNode::directory()).unwrap();
    }
    path.push(&[b'f'; 255]).unwrap();
    assert_eq!(path.len(), 4095);
    write_all(&*fs.open(&path, &OpenOptions::writing()).unwrap().file, b"contents", 0);
    let file = fs.open(&path, &OpenOptions::reading()).unwrap().file;
    assert_eq!(contents(&*file), b"contents");
    assert_eq!(entries(fs, path.parent().unwrap()).len(), 1);
    fs.remove_file(&path).unwrap();
}

fn sixty_four_deep(fs: &dyn FileSystem) {
    let mut path = String::from("top");
    mkdir(fs, &path);
    for _ in 0..63 {
        path.push_str("/d");
        mkdir(fs, &path);
    }
    put(fs, &format!("{path}/file"), "deep");
    assert_eq!(get(fs, &format!("{path}/file")), b"deep");
    rename(fs, "top", "moved");
    let moved = path.replacen("top", "moved", 1);
    assert_eq!(get(fs, &format!("{moved}/file")), b"deep");
    assert!(!exists(fs, &format!("{path}/file")));
    assert_eq!(VfsPath::new(moved.as_bytes()).unwrap().components().count(), 64);
}

fn case_tells_names_apart(fs: &dyn FileSystem) {
    put(fs, "name", "lower");
    put(fs, "NAME", "upper");
    assert_eq!(names(fs, ""), ["NAME", "name"]);
    assert_eq!(get(fs, "name"), b"lower");
    assert_eq!(get(fs, "NAME"), b"upper");
}

fn accents_tell_names_apart(fs: &dyn FileSystem) {
    // One letter, composed and decomposed: two names.
    put(fs, "\u{e9}", "composed");
    put(fs, "e\u{301}", "decomposed");
    assert_eq!(names(fs, "").len(), 2);
    assert_eq!(get(fs, "\u{e9}"), b"composed");
    assert_eq!(get(fs, "e\u{301}"), b"decomposed");
}
