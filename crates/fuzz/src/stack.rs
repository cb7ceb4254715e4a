//! Layer specifications of the command line: any text, text that is written from parts and
//! must be read as those parts, and stacks of what was read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use stratafs::{VfsPath, path::normalize};
use stratafs_cli::stack::{LayerSpec, build, grammar::unescape, kinds::KINDS, native_spec};
use stratafs_testkit::tools::Random;

use crate::{Target, mutate};

/// The target: each line of the input is a specification, and parts of one.
pub const TARGET: Target = Target { name: "stack", seeds, run, mutate: mutate_stack };

fn seeds() -> Vec<Vec<u8>> {
    let stacks = [
        "native:/srv/a,ro,any-case@/mods/x",
        "memory:,size=2M,files=10\nmemory:@/a/b\nmemory:,ro,hidden@/a",
        "memory:\nmemory:,any-case\nmemory:,size=0,files=0@/z",
        "archive:a.apk!assets/data.vfs,key-file=k",
        r"archive:a\!b.vfs,key-env=K@/",
        "zip:a!b.zip,hidden@/a/../b",
        r"native:/a\,b\@/c\\",
    ];
    stacks.into_iter().map(|stack| stack.as_bytes().to_vec()).collect()
}

fn mutate_stack(input: &mut Vec<u8>, random: &mut Random) {
    let mut words: Vec<String> = KINDS.iter().map(|kind| format!("{}:", kind.name)).collect();
    for (option, _) in KINDS.iter().flat_map(|kind| kind.options) {
        words.push(format!(",{}", option.split_inclusive('=').next().unwrap_or_default()));
    }
    words.extend([",ro", ",any-case", ",hidden", "99999999999G", "1k"].map(str::to_owned));
    words.extend(["@/", "@", "!", "\\", "..", "/", "\n", "a"].map(str::to_owned));
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    mutate::words(input, random, &words);
}

fn run(input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|&byte| byte == b'\n').take(8).collect();
    let specs = lines.iter().filter_map(|line| LayerSpec::parse(OsStr::from_bytes(line)).ok());
    let specs: Vec<_> = specs.collect();
    for spec in &specs {
        assert!(spec.kind == "memory" || !spec.source.argument().is_empty(), "{spec:?}");
        let again = LayerSpec::parse(&spec.text()).expect("a specification that was written");
        assert_eq!(format!("{again:?}"), format!("{spec:?}"));
        VfsPath::new(spec.mount_point.as_bytes()).expect("a normal mount point");
    }
    // Other sources would be opened on this machine.
    if !specs.is_empty() && specs.iter().all(|spec| spec.kind == "memory") {
        // A quota may be too small for what the stack needs.
        if let Ok(tree) = build(&specs) {
            tree.metadata(VfsPath::root()).expect("the root");
        }
    }
    written_and_read(&lines);
    if let Some(directory) = std::str::from_utf8(input).ok().filter(|text| !text.is_empty()) {
        let spec = LayerSpec::parse(OsStr::new(&native_spec(Path::new(directory))));
        let spec = spec.expect("a directory's own specification");
        assert_eq!(spec.source.host_directory(), Some(Path::new(directory)));
        assert!(spec.mount_point.is_root() && !spec.read_only);
    }
}

/// Every byte with a backslash before it, so that none has a meaning.
fn escape(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&byte| [b'\\', byte]).collect()
}

/// Writes a specification from parts, the lines of the input, and expects the parts again.
fn written_and_read(parts: &[&[u8]]) {
    let part = |nth: usize| parts.get(nth).copied().unwrap_or_default();
    let (choice, name, point, key) = (part(0), part(1), part(2), part(3));
    let flag = |bit: u32| choice.first().is_some_and(|byte| byte >> bit & 1 == 1);
    let Ok(mount_point) = normalize(point) else { return };
    let mut options = Vec::new();
    let kind = match choice.first().map_or(0, |byte| byte >> 6) {
        0 if name.is_empty() => {
            options.extend([b"size=7168".to_vec(), b"files=3".to_vec()]);
            "memory"
        }
        _ if name.is_empty() => return,
        0 | 1 => "native",
        2 => "zip",
        _ => {
            options.push([b"key-file=", key].concat());
            options.extend(flag(3).then(|| b"positional".to_vec()));
            options.extend(flag(4).then(|| b"cache=5120".to_vec()));
            "archive"
        }
    };
    let flags = [(0, "ro"), (1, "any-case"), (2, "hidden")];
    let flags = flags.into_iter().filter(|(bit, _)| flag(*bit)).map(|(_, name)| name.as_bytes());
    let mut text = [kind.as_bytes(), b":", &escape(name)].concat();
    for option in options.iter().map(|option| &option[..]).chain(flags) {
        text.extend([&b","[..], &escape(option)].concat());
    }
    text.extend([&b"@/"[..], &escape(point)].concat());
    let spec = LayerSpec::parse(OsStr::from_bytes(&text)).expect("a specification of parts");
    assert_eq!((spec.kind, &unescape(&spec.source.argument())[..]), (kind, name));
    assert_eq!(spec.source.options(), options);
    assert_eq!(spec.mount_point, mount_point.into_owned());
    assert_eq!([spec.read_only, spec.any_case, spec.hidden], [0, 1, 2].map(flag));
}
