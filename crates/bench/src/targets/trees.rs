//! The trees of the `vfs:` targets, layer by layer.

use std::fs;
use std::io;
use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, MountOptions, NativeFs, NativeOptions, Vfs, ZipFs};

use crate::archives::{self, Packing};
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

macro_rules! archives {
    ($($name:ident => $packing:ident),*) => {$(
        pub(super) fn $name(world: &World) -> io::Result<Tree> {
            Ok(Tree::new(Vfs::with_root(archives::archive(world, Packing::$packing)?), ""))
        }
    )*};
}

archives!(
    archive => Plain,
    archive_xor => Xor,
    archive_lz4 => Lz4,
    archive_zstd => Zstd,
    archive_aead => Aead
);

pub(super) fn archive_within(world: &World) -> io::Result<Tree> {
    Ok(Tree::new(Vfs::with_root(archives::archive_within(world)?), ""))
}

pub(super) fn zip(world: &World) -> io::Result<Tree> {
    let zip = ZipFs::open(archives::zip(world)?).map_err(io::Error::other)?;
    Ok(Tree::new(Vfs::with_root(zip), ""))
}

/// What a developer overrides files of the archive with: nothing, so far.
fn overrides(world: &World, options: NativeOptions) -> io::Result<NativeFs> {
    let dir = world.dir().join("overrides");
    fs::create_dir_all(&dir)?;
    NativeFs::with_options(&dir, options).map_err(io::Error::other)
}

/// Layers at the root, the top one first; `written` makes the top one take what is written.
fn stack(layers: Vec<Arc<dyn FileSystem>>, written: bool) -> io::Result<Tree> {
    let vfs = Vfs::new();
    for (depth, layer) in layers.into_iter().enumerate() {
        let options = MountOptions::new().priority(-(depth as i32));
        vfs.mount("/", layer, options.write_target(written && depth == 0))?;
    }
    Ok(Tree::new(vfs, ""))
}

pub(super) fn overridden(world: &World) -> io::Result<Tree> {
    let overrides = overrides(world, NativeOptions::new().cache_negative(true))?;
    stack(vec![Arc::new(overrides), Arc::new(archives::archive(world, Packing::Plain)?)], false)
}

pub(super) fn overridden_unwatched(world: &World) -> io::Result<Tree> {
    let overrides = overrides(world, NativeOptions::new().cache_directories(false))?;
    stack(vec![Arc::new(overrides), Arc::new(archives::archive(world, Packing::Plain)?)], false)
}

pub(super) fn memory_over_archive(world: &World) -> io::Result<Tree> {
    let archive = archives::archive(world, Packing::Plain)?;
    stack(vec![Arc::new(MemoryFs::new()), Arc::new(archive)], true)
}

pub(super) fn three_layers(world: &World) -> io::Result<Tree> {
    let overrides = overrides(world, NativeOptions::new().cache_negative(true))?;
    let archive = archives::archive(world, Packing::Plain)?;
    stack(vec![Arc::new(MemoryFs::new()), Arc::new(overrides), Arc::new(archive)], true)
}
