//! The trees of the `vfs:` targets, layer by layer.

use std::fs;
use std::io;
use std::sync::Arc;

use stratafs::{MemoryFs, MountOptions, NativeFs, Vfs};

use crate::dataset;
use crate::world::World;

use super::tree::Tree;

fn native_fs(world: &World) -> io::Result<NativeFs> {
    NativeFs::new(world.data()).map_err(io::Error::other)
}

pub(super) fn native(world: &World) -> io::Result<Tree> {
    Ok(Tree::new(Vfs::with_root(native_fs(world)?), ""))
}

pub(super) fn memory(world: &World) -> io::Result<Tree> {
    let vfs = Vfs::with_root(MemoryFs::new());
    for path in dataset::files(world.sizes()) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            vfs.create_dir_all(parent)?;
        }
        vfs.write(&path, fs::read(world.data().join(&path))?)?;
    }
    Ok(Tree::new(vfs, ""))
}

pub(super) fn nested(world: &World) -> io::Result<Tree> {
    let vfs = Vfs::new();
    let mut point = String::new();
    for level in 1..=8 {
        vfs.mount(&point, Arc::new(MemoryFs::new()), MountOptions::new())?;
        point.push_str(&format!("/level-{level}"));
    }
    vfs.mount(&point, Arc::new(native_fs(world)?), MountOptions::new())?;
    for number in 0..32 {
        let unrelated = format!("/unrelated-{number:02}");
        vfs.mount(&unrelated, Arc::new(MemoryFs::new()), MountOptions::new())?;
    }
    Ok(Tree::new(vfs, &format!("{point}/")))
}
