//! `fsx`: random reads, writes, maps, truncations, holes and copies of one file, checked
//! against a copy in memory after each step.

mod support;

use std::process::Command;
use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, NativeFs};
use support::{Mounted, like_a_disk, memory_over, run, tool};

const CONFIGURATION: &str = "
flen = 1048576

[opsize]
max = 131072

[weights]
close_open = 1.0
invalidate = 1.0
mapread = 10.0
mapwrite = 10.0
read = 10.0
write = 10.0
truncate = 5.0
fsync = 1.0
fdatasync = 1.0
posix_fallocate = 2.0
punch_hole = 3.0
sendfile = 3.0
copy_file_range = 4.0
posix_fadvise = 1.0
";

fn exercise(fs: Arc<dyn FileSystem>, name: &str, seeds: std::ops::Range<u32>) {
    let Some(mounted) = Mounted::new(fs, &like_a_disk()) else { return };
    let own = tempfile::tempdir().unwrap();
    let configuration = own.path().join("fsx.toml");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    for seed in seeds {
        let mut fsx = Command::new(tool("fsx"));
        fsx.arg("-f").arg(&configuration).arg("-P").arg(own.path());
        fsx.args(["-N", "5000", "-S", &seed.to_string()]).arg(mounted.path().join(name));
        run(&mut fsx);
    }
}

#[test]
fn memory() {
    exercise(Arc::new(MemoryFs::new()), "file", 1..4);
}

#[test]
fn native() {
    let directory = tempfile::tempdir().unwrap();
    exercise(Arc::new(NativeFs::new(directory.path()).unwrap()), "file", 11..14);
}

#[test]
fn memory_over_native() {
    let directory = tempfile::tempdir().unwrap();
    exercise(memory_over(directory.path()), "new", 21..24);
    // A file that is copied up on the way. (The exerciser starts by cutting it.)
    std::fs::write(directory.path().join("lower"), vec![7; 300_000]).unwrap();
    exercise(memory_over(directory.path()), "lower", 31..33);
    assert_eq!(std::fs::read(directory.path().join("lower")).unwrap(), vec![7; 300_000]);
    assert!(!directory.path().join("new").exists());
}
