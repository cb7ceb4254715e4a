//! Mounts an empty tree in memory and serves it until it is unmounted: `mount_memory DIR`.

use std::sync::Arc;

use stratafs::MemoryFs;
use stratafs_fuse::{Mount, MountOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: mount_memory DIR")?;
    let mut options = MountOptions::new().allow_other(true);
    options.set_user_id = true;
    options.devices = true;
    let mount = Mount::new(Arc::new(MemoryFs::new()), directory, &options)?;
    println!("serving {}", mount.mountpoint().display());
    mount.join()?;
    Ok(())
}
