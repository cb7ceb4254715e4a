//! The directory that a run works in: the data, and what is made from it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::IFlags;
use tempfile::TempDir;

use crate::dataset::{self, Sizes};

/// The data of one run. Dropping it removes the data.
pub(crate) struct World {
    sizes: Sizes,
    dir: TempDir,
    data: PathBuf,
}

impl World {
    /// Makes the data in a new directory inside `parent`.
    pub(crate) fn create(parent: &Path, sizes: Sizes) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("strata-bench-").tempdir_in(parent)?;
        let data = dir.path().join("data");
        fs::create_dir(&data)?;
        dataset::create(&data, &sizes)?;
        spread(&data)?;
        Ok(World { sizes, dir, data })
    }

    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Everything is in here.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the data lies, as plain files.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Leaves the data where it is.
    pub(crate) fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// Makes the directory that files are written in. Where the file system can, directories in it
/// are put far from one another, as those at the root of a file system are.
fn spread(data: &Path) -> io::Result<()> {
    let write = data.join(dataset::WRITE_DIR);
    fs::create_dir(&write)?;
    let dir = File::open(&write)?;
    if let Ok(flags) = rustix::fs::ioctl_getflags(&dir) {
        // ext2, 3 and 4 heed it, others refuse it or do not care.
        let _ = rustix::fs::ioctl_setflags(&dir, flags | IFlags::TOPDIR);
    }
    Ok(())
}
