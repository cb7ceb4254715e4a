//! Handles whose file has lost its name.

use stratafs::{ErrorKind, FileSystem, MetadataChange, OpenOptions, SyncScope};

use super::cases;
use crate::tools::*;

cases![
    a_handle_keeps_the_file,
    a_handle_for_reading_keeps_the_file,
    links_are_zero,
    a_new_file_of_the_name_is_another,
    replaced_by_a_rename,
    the_directory_may_go_too,
    metadata_can_be_changed: MODES,
    a_handle_follows_a_rename,
    a_handle_follows_its_directory,
    many_removed_files,
];

fn a_handle_keeps_the_file(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    write_all(&*file, b"contents", 0);
    unlink(fs, "file");
    assert!(names(fs, "").is_empty());
    assert_eq!(contents(&*file), b"contents");
    let more = noise(1, 100_000);
    write_all(&*file, &more, 8);
    assert_eq!(file.metadata().unwrap().len, 100_008);
    assert!(read(&*file, 8, 200_000) == more);
    file.set_len(4).unwrap();
    assert_eq!(contents(&*file), b"cont");
    file.sync(SyncScope::All).unwrap();
    drop(file);
    assert!(names(fs, "").is_empty());
    fails(fs.open(p("file"), &OpenOptions::reading()), ErrorKind::NotFound);
}

fn a_handle_for_reading_keeps_the_file(fs: &dyn FileSystem) {
    for len in [10, 1_000_000] {
        let bytes = noise(2, len);
        put(fs, "file", &bytes);
        let file = open(fs, "file", OpenOptions::reading());
        unlink(fs, "file");
        put(fs, "file", noise(3, len));
        assert!(contents(&*file) == bytes);
        unlink(fs, "file");
        put(fs, "another", noise(4, len));
        assert!(contents(&*file) == bytes);
    }
}

fn links_are_zero(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    assert_eq!(file.metadata().unwrap().links, 1);
    unlink(fs, "file");
    let known = file.metadata().unwrap();
    assert_eq!(known.links, 0);
    assert!(known.is_file());
}

fn a_new_file_of_the_name_is_another(fs: &dyn FileSystem) {
    let old = edit(fs, "file");
    write_all(&*old, b"old", 0);
    unlink(fs, "file");
    let new = edit(fs, "file");
    write_all(&*new, b"newer", 0);
    assert_eq!(contents(&*old), b"old");
    write_all(&*old, b"OLD!", 0);
    assert_eq!(get(fs, "file"), b"newer");
    assert_ne!(old.metadata().unwrap().id, new.metadata().unwrap().id);
}

fn replaced_by_a_rename(fs: &dyn FileSystem) {
    let old = edit(fs, "file");
    write_all(&*old, b"old", 0);
    put(fs, "temporary", "newer");
    let new = open(fs, "temporary", OpenOptions::new().read(true).write(true));
    rename(fs, "temporary", "file");
    assert_eq!(contents(&*old), b"old");
    assert_eq!(old.metadata().unwrap().links, 0);
    assert_eq!(contents(&*new), b"newer");
    write_all(&*new, b"N", 0);
    assert_eq!(get(fs, "file"), b"Newer");
}

fn the_directory_may_go_too(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let file = edit(fs, "dir/file");
    write_all(&*file, b"contents", 0);
    unlink(fs, "dir/file");
    fs.remove_dir(p("dir")).unwrap();
    assert_eq!(contents(&*file), b"contents");
    write_all(&*file, b"C", 0);
    assert_eq!(contents(&*file), b"Contents");
}

fn metadata_can_be_changed(fs: &dyn FileSystem) {
    let file = edit(fs, "file");
    unlink(fs, "file");
    put(fs, "file", "another");
    let mode = stat(fs, "file").mode;
    file.set_metadata(&MetadataChange::new().mode(0o600)).unwrap();
    assert_eq!(file.metadata().unwrap().mode, 0o600);
    assert_eq!(stat(fs, "file").mode, mode);
}

fn a_handle_follows_a_rename(fs: &dyn FileSystem) {
    let file = edit(fs, "a");
    write_all(&*file, b"contents", 0);
    rename(fs, "a", "b");
    put(fs, "a", "another");
    write_all(&*file, b"C", 0);
    assert_eq!(get(fs, "b"), b"Contents");
    assert_eq!(get(fs, "a"), b"another");
    assert_eq!(file.metadata().unwrap(), stat(fs, "b"));
}

fn a_handle_follows_its_directory(fs: &dyn FileSystem) {
    mkdir(fs, "dir");
    let file = edit(fs, "dir/file");
    rename(fs, "dir", "moved");
    mkdir(fs, "dir");
    put(fs, "dir/file", "another");
    write_all(&*file, b"contents", 0);
    assert_eq!(get(fs, "moved/file"), b"contents");
    assert_eq!(get(fs, "dir/file"), b"another");
}

fn many_removed_files(fs: &dyn FileSystem) {
    let files: Vec<_> = (0..100u8)
        .map(|i| {
            let file = edit(fs, "file");
            write_all(&*file, &[i; 100], 0);
            unlink(fs, "file");
            file
        })
        .collect();
    for (i, file) in files.iter().enumerate() {
        assert_eq!(contents(&**file), [i as u8; 100]);
    }
}
