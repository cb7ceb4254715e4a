//! The view: the directory, and the changes on top of it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::StatVfsMountFlags;
use stratafs::{FileSystem, MemoryFs, MemoryOptions, NativeFs, OverlayFs};
use stratafs_fuse::{Mount, MountOptions};

use super::place::Place;
use crate::exit::{Context, Failure};

/// The memory that one file of the changes is counted as, in bytes: its node and its name.
const NODE: u64 = 512;

/// A directory as it is, under a memory layer that takes what is changed.
#[derive(Debug)]
pub struct View {
    /// The directory itself.
    pub lower: Arc<NativeFs>,
    /// The directory with the changes.
    pub overlay: Arc<OverlayFs>,
}

impl View {
    /// A view without changes that may come to hold so many bytes of them.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn open(directory: &Path, memory: u64) -> Result<View, Failure> {
        // Opened before anything is mounted over it: from here on it is reached by this
        // descriptor alone.
        let lower = Arc::new(NativeFs::new(directory).context(|| directory.display())?);
        // Nodes and names take memory besides contents.
        let files = (memory / NODE).max(1024);
        let options = MemoryOptions::new().quota_bytes(memory).quota_files(files);
        let upper = MemoryFs::with_options(options);
        crate::stack::wear(&upper, &*lower)?;
        let overlay = OverlayFs::builder()
            .upper(Arc::new(upper))
            .lower(Arc::clone(&lower) as Arc<dyn FileSystem>)
            .build()?;
        Ok(View { lower, overlay: Arc::new(overlay) })
    }

    /// Mounts it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn mount(&self, directory: &Path, place: &Place) -> Result<Mount, Failure> {
        let mut options = MountOptions::new().name("strata-run");
        options.allow_other = match place {
            Place::Namespace(_) => true,
            Place::Temporary(_) => rustix::process::geteuid().is_root(),
        };
        let beneath = rustix::fs::statvfs(directory).map_err(io::Error::from)?.f_flag;
        options.set_user_id = !beneath.contains(StatVfsMountFlags::NOSUID);
        options.devices = !beneath.contains(StatVfsMountFlags::NODEV);
        options.execute = !beneath.contains(StatVfsMountFlags::NOEXEC);
        let tree = Arc::clone(&self.overlay) as Arc<dyn FileSystem>;
        Mount::new(tree, place.path(), &options).map_err(Failure::new)
    }
}
