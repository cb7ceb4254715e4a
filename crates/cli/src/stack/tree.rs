//! The tree of several layers.

use std::sync::Arc;

use stratafs::{
    Capabilities, FileSystem, MetadataChange, MountOptions, ReadOnlyFs, TimeChange, Vfs, VfsPath,
    XattrMode,
};

use super::LayerSpec;
use crate::exit::Failure;

/// Opens the layers and makes one tree of them.
///
/// # Errors
/// When a layer cannot be opened or the stack makes no sense.
pub fn build(layers: &[LayerSpec]) -> Result<Arc<dyn FileSystem>, Failure> {
    if let [only] = layers
        && only.mount_point.is_root()
        && !only.any_case
        && !only.hidden
    {
        let fs = only.source.open()?;
        return Ok(if only.read_only { Arc::new(ReadOnlyFs::new(fs)) } else { fs });
    }
    let opened: Vec<Arc<dyn FileSystem>> =
        layers.iter().map(|layer| layer.source.open()).collect::<Result<_, _>>()?;
    let vfs = Vfs::new();
    // From the top down: a stack whose write target is known first is valid at every step.
    for (index, layer) in layers.iter().enumerate().rev() {
        let fs = Arc::clone(&opened[index]);
        let beneath = layers[..index].iter().rposition(|l| l.mount_point == layer.mount_point);
        if let (true, Some(beneath)) = (layer.source.is_fresh(), beneath) {
            wear(&*fs, &*opened[beneath])?;
        }
        let topmost = !layers[index + 1..].iter().any(|l| l.mount_point == layer.mount_point);
        let alone = layers.iter().filter(|l| l.mount_point == layer.mount_point).count() == 1;
        let writable = fs.capabilities().contains(Capabilities::WRITE) && !layer.read_only;
        let options = MountOptions::new()
            .priority(index as i32)
            .read_only(layer.read_only)
            .case_insensitive(layer.any_case)
            .hidden(layer.hidden)
            .write_target(topmost && writable && !alone);
        vfs.mount(&*layer.mount_point, fs, options)?;
    }
    Ok(vfs.freeze())
}

/// Lets an empty upper layer's root look like the root that it covers.
///
/// # Errors
/// When either root cannot be reached.
pub fn wear(upper: &dyn FileSystem, lower: &dyn FileSystem) -> Result<(), Failure> {
    let beneath = lower.metadata(VfsPath::root())?;
    let change = MetadataChange::new()
        .mode(beneath.mode)
        .owner(beneath.owner)
        .accessed(TimeChange::At(beneath.accessed))
        .modified(TimeChange::At(beneath.modified));
    for name in lower.xattrs(VfsPath::root())? {
        let value = lower.xattr(VfsPath::root(), &name)?;
        upper.set_xattr(VfsPath::root(), &name, &value, XattrMode::Set)?;
    }
    upper.set_metadata(VfsPath::root(), &change)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layer_alone_needs_no_tree() {
        let parse = |text: &str| LayerSpec::parse(text.as_ref()).unwrap();
        let build = |text| build(&[parse(text)]).unwrap().capabilities();
        assert!(build("memory:").contains(Capabilities::WRITE));
        assert!(!build("memory:,ro").contains(Capabilities::WRITE));
    }
}
