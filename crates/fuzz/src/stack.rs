//! Layer specifications of the command line: any text, text that is written from parts and
//! must be read as those parts, and stacks of what was read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use stratafs::{MemoryOptions, VfsPath, path::normalize};
use stratafs_cli::stack::{KeySource, LayerSpec, Source, build, native_spec};
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
    let words: &[&[u8]] = &[
        b"native:",
        b"memory:",
        b"archive:",
        b"zip:",
        b",ro",
        b",any-case",
        b",hidden",
        b",size=",
        b"99999999999G",
        b"1k",
        b",files=",
        b",key-file=",
        b",key-env=",
        b"@/",
        b"@",
        b"!",
        b"\\",
        b"..",
        b"/",
        b"\n",
        b"a",
    ];
    mutate::words(input, random, words);
}

fn run(input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|&byte| byte == b'\n').take(8).collect();
    let specs = lines.iter().filter_map(|line| LayerSpec::parse(OsStr::from_bytes(line)).ok());
    let specs: Vec<_> = specs.collect();
    for spec in &specs {
        let named = match &spec.source {
            Source::Memory(_) => true,
            Source::Native(path) | Source::Zip(path) => !path.as_os_str().is_empty(),
            Source::Archive { file, entry, .. } => {
                !file.as_os_str().is_empty() && entry.as_ref().is_none_or(|entry| !entry.is_root())
            }
        };
        assert!(named, "{spec:?}");
        VfsPath::new(spec.mount_point.as_bytes()).expect("a normal mount point");
    }
    // Other sources would be opened on this machine.
    if !specs.is_empty() && specs.iter().all(|spec| matches!(spec.source, Source::Memory(_))) {
        // A quota may be too small for what the stack needs.
        if let Ok(tree) = build(&specs) {
            tree.metadata(VfsPath::root()).expect("the root");
        }
    }
    written_and_read(&lines);
    if let Some(directory) = std::str::from_utf8(input).ok().filter(|text| !text.is_empty()) {
        let spec = LayerSpec::parse(OsStr::new(&native_spec(Path::new(directory))));
        let spec = spec.expect("a directory's own specification");
        assert_eq!(spec.source, Source::Native(directory.into()));
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
    let path = || OsStr::from_bytes(name).into();
    let mut options = Vec::new();
    let (kind, source) = match choice.first().map_or(0, |byte| byte >> 6) {
        0 if name.is_empty() => {
            options.extend([b"size=7K".to_vec(), b"files=3".to_vec()]);
            ("memory", Source::Memory(MemoryOptions::new().quota_bytes(7 << 10).quota_files(3)))
        }
        _ if name.is_empty() => return,
        0 | 1 => ("native", Source::Native(path())),
        2 => ("zip", Source::Zip(path())),
        _ => {
            options.push([b"key-file=", key].concat());
            let key = Some(KeySource::File(OsStr::from_bytes(key).into()));
            let (positional, cache) = (flag(3), flag(4).then_some(5 << 10));
            if positional {
                options.push(b"positional".to_vec());
            }
            if cache.is_some() {
                options.push(b"cache=5K".to_vec());
            }
            ("archive", Source::Archive { file: path(), entry: None, key, positional, cache })
        }
    };
    let flags = [(0, "ro"), (1, "any-case"), (2, "hidden")];
    options.extend(
        flags.iter().filter(|(bit, _)| flag(*bit)).map(|(_, name)| name.as_bytes().to_vec()),
    );
    let mut text = [kind.as_bytes(), b":", &escape(name)].concat();
    for option in options {
        text.extend([&b","[..], &escape(&option)].concat());
    }
    text.extend([&b"@/"[..], &escape(point)].concat());
    let expected = LayerSpec {
        source,
        mount_point: mount_point.into_owned(),
        read_only: flag(0),
        any_case: flag(1),
        hidden: flag(2),
    };
    assert_eq!(LayerSpec::parse(OsStr::from_bytes(&text)), Ok(expected));
}
