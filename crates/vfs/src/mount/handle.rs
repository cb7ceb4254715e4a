//! Open files of a tree: what a mount changes about its backend's handles.

use crate::error::{BackendResult, ErrorKind};
use crate::metadata::Metadata;
use crate::path::{VfsPath, VfsPathBuf};

use super::table::{Point, Table};

crate::kit::wrap_file! {
    /// A handle of a backend that is not mounted at the root, whose file ids are kept apart
    /// from other mounts', or of a temporary file.
    struct MountedFile { salt: u64, naming: Option<Naming> }
    fn shown(self, metadata) { Metadata { id: metadata.id.salted(self.salt), ..metadata } }
    fn reopened(self, opened) {
        let salt = self.salt;
        opened.map(|file| Box::new(MountedFile { file, salt, naming: None }))
    }
    fn link_to(self, path) {
        match &self.naming {
            Some(naming) => self.file.link_to(naming.rest(path)?),
            None => Err(ErrorKind::Unsupported.into()),
        }
    }
}

/// How a temporary file takes its name, a path of the tree: by the mounts that were there when
/// it was opened.
#[derive(Debug)]
pub(crate) struct Naming {
    at: VfsPathBuf,
    /// The mount points below `at`.
    others: Vec<VfsPathBuf>,
}

impl Naming {
    pub(super) fn new(table: &Table, point: &Point) -> Self {
        let below = table.at_or_below(&point.path).map(|other| other.path.clone());
        Naming { at: point.path.clone(), others: below.filter(|at| *at != point.path).collect() }
    }

    /// What the path is called in the backend of the file.
    fn rest<'p>(&self, path: &'p VfsPath) -> BackendResult<&'p VfsPath> {
        let rest = path.strip_prefix(&self.at).ok_or(ErrorKind::CrossesMounts)?;
        if self.others.iter().any(|other| path.starts_with(other)) {
            return Err(ErrorKind::CrossesMounts.into());
        }
        // A directory that leads to a mount is there, whatever the backend says.
        match self.others.iter().any(|other| other.starts_with(path)) {
            true => Err(ErrorKind::AlreadyExists.into()),
            false => Ok(rest),
        }
    }
}
