//! Extended attributes.

use super::locked;
use super::node::Node;
use super::quota::Quota;
use super::store::{Store, Subject};
use super::sync::Ordering;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::Timestamp;
use crate::options::XattrMode;
use crate::watch::WatchKind;

/// The longest name, bytes.
const MAX_NAME: usize = 255;
/// The longest value, bytes.
const MAX_VALUE: usize = 65_536;

impl Node {
    pub(crate) fn attribute(&self, name: &[u8]) -> BackendResult<Vec<u8>> {
        // An overlay asks every directory for attributes that few have.
        if self.attribute_count.load(Ordering::Acquire) == 0 {
            return Err(ErrorKind::NoAttribute.into());
        }
        let attributes = locked(&self.attributes);
        let value = attributes.as_ref().and_then(|attributes| attributes.get(name));
        Ok(value.ok_or(ErrorKind::NoAttribute)?.to_vec())
    }

    pub(crate) fn attribute_names(&self) -> Vec<Vec<u8>> {
        if self.attribute_count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let attributes = locked(&self.attributes);
        attributes
            .iter()
            .flat_map(|attributes| attributes.keys())
            .map(|name| name.to_vec())
            .collect()
    }

    /// Sets an attribute and charges its bytes. The caller holds the node's lock.
    pub(crate) fn set_attribute(
        &self,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        bytes: &Quota,
    ) -> BackendResult<()> {
        let mut attributes = locked(&self.attributes);
        let attributes = attributes.get_or_insert_default();
        let old = attributes.get(name).map(|value| (name.len() + value.len()) as u64);
        match mode {
            XattrMode::Create if old.is_some() => return Err(ErrorKind::AlreadyExists.into()),
            XattrMode::Replace if old.is_none() => return Err(ErrorKind::NoAttribute.into()),
            _ => {}
        }
        bytes.change(old.unwrap_or(0), (name.len() + value.len()) as u64)?;
        attributes.insert(name.into(), value.into());
        self.attribute_count.store(attributes.len() as u32, Ordering::Release);
        Ok(())
    }

    /// Removes an attribute. The caller holds the node's lock.
    pub(crate) fn remove_attribute(&self, name: &[u8], bytes: &Quota) -> BackendResult<()> {
        let mut attributes = locked(&self.attributes);
        let attributes = attributes.as_mut().ok_or(ErrorKind::NoAttribute)?;
        let value = attributes.remove(name).ok_or(ErrorKind::NoAttribute)?;
        bytes.release((name.len() + value.len()) as u64);
        self.attribute_count.store(attributes.len() as u32, Ordering::Release);
        Ok(())
    }
}

impl Store {
    /// Changes the attributes of a file.
    fn change_attributes(
        &self,
        subject: Subject<'_>,
        change: impl Fn(&Node, &Quota) -> BackendResult<()>,
    ) -> BackendResult<()> {
        self.with_node(subject, |id, node| {
            let changing = node.lock();
            // Under the lock, because freeing takes it too.
            node.life.state().is(id.generation()).then(|| {
                change(node, &self.storage.bytes)
                    .inspect(|()| changing.touch_changed(Timestamp::now(), || {}))
            })
        })??;
        self.report_of(WatchKind::Metadata, subject);
        Ok(())
    }

    pub(crate) fn xattr(&self, subject: Subject<'_>, name: &[u8]) -> BackendResult<Vec<u8>> {
        self.with_node(subject, |id, node| {
            let value = node.attribute(name);
            node.life.state().is(id.generation()).then_some(value)
        })?
    }

    pub(crate) fn xattrs(&self, subject: Subject<'_>) -> BackendResult<Vec<Vec<u8>>> {
        self.with_node(subject, |id, node| {
            let names = node.attribute_names();
            node.life.state().is(id.generation()).then_some(names)
        })
    }

    pub(crate) fn set_xattr(
        &self,
        subject: Subject<'_>,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> BackendResult<()> {
        self.change_attributes(subject, |node, bytes| {
            check(name, value)?;
            node.set_attribute(name, value, mode, bytes)
        })
    }

    pub(crate) fn remove_xattr(&self, subject: Subject<'_>, name: &[u8]) -> BackendResult<()> {
        self.change_attributes(subject, |node, bytes| node.remove_attribute(name, bytes))
    }
}

/// Whether an attribute may have this name and value.
fn check(name: &[u8], value: &[u8]) -> BackendResult<()> {
    if name.len() > MAX_NAME || value.len() > MAX_VALUE {
        return Err(ErrorKind::TooLarge.into());
    }
    Ok(())
}

/// Takes all attributes from a node whose life has ended.
pub(crate) fn forget(node: &Node, bytes: &Quota) {
    let attributes = locked(&node.attributes).take().unwrap_or_default();
    bytes.release(attributes.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum());
    node.attribute_count.store(0, Ordering::Release);
}
