//! Zip files hold the standard tree, as far as the format goes.

use std::io::{Cursor, Write};

use stratafs::ZipFs;
use stratafs::zip::ZipOptions;
use stratafs_testkit::conformance;
use stratafs_testkit::fixture::{Item, Tree};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// No hard links, and names in UTF-8.
fn tree() -> Tree {
    let mut tree = Tree::standard();
    tree.retain(|path, item| {
        !matches!(item, Item::HardLink(_)) && std::str::from_utf8(path.as_bytes()).is_ok()
    });
    tree
}

fn zipped(tree: &Tree, method: CompressionMethod) -> Vec<u8> {
    // The time of every file of a standard tree.
    let time = DateTime::from_date_and_time(2017, 7, 14, 2, 40, 0).unwrap();
    let options = SimpleFileOptions::default().compression_method(method).last_modified_time(time);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, item) in tree.items() {
        let name = std::str::from_utf8(path.as_bytes()).unwrap();
        match item {
            Item::Directory(mode) => {
                zip.add_directory(name, options.unix_permissions(*mode)).unwrap();
            }
            Item::File(mode, contents) => {
                zip.start_file(name, options.unix_permissions(*mode)).unwrap();
                zip.write_all(contents).unwrap();
            }
            Item::Symlink(target) => {
                let target = std::str::from_utf8(target).unwrap();
                zip.add_symlink(name, target, options).unwrap();
            }
            Item::HardLink(_) => unreachable!("the tree has none"),
        }
    }
    zip.finish().unwrap().into_inner()
}

fn check(name: &str, method: CompressionMethod, options: &ZipOptions) {
    let tree = tree();
    let zip = ZipFs::from_bytes(zipped(&tree, method), options).expect("open the zip file");
    assert!(zip.skipped().is_empty(), "{:?}", zip.skipped());
    conformance::read_only(name, &zip, &tree);
}

#[test]
fn stored() {
    check("stored", CompressionMethod::Stored, &ZipOptions::default());
}

#[test]
fn deflated() {
    check("deflated", CompressionMethod::Deflated, &ZipOptions::default());
}

#[test]
fn without_a_cache() {
    let options = ZipOptions { inflate_cache_bytes: 0, ..ZipOptions::default() };
    check("deflated, not kept", CompressionMethod::Deflated, &options);
}
