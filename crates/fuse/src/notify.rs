//! What the kernel is told without having asked: messages of the protocol that drop what it
//! keeps. Written here because the protocol library knows neither of the two gentle ones.
//!
//! A message may wait in the kernel for requests that are being answered: never send one from
//! a thread that answers.
#![expect(clippy::host_endian_bytes, reason = "the protocol is between two on one machine")]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use stratafs::NodeId;

/// Message codes, in the field that answers use for the error.
const INVALIDATE_NODE: u32 = 2;
const INVALIDATE_ENTRY: u32 = 3;
const ADVANCE_EPOCH: u32 = 8;

/// The entry stays, and is looked up again at its next use. Dropping it instead would take
/// the path from whoever works in that directory.
const EXPIRE_ONLY: u32 = 1;

const HEADER_LEN: usize = 16;

/// The way to the kernel. What it does not know (any more) is no error.
#[derive(Clone, Debug)]
pub(crate) struct Notifier(Arc<OwnedFd>);

impl Notifier {
    pub(crate) fn new(device: Arc<OwnedFd>) -> Self {
        Notifier(device)
    }

    /// A name must be looked up again, whether it led to something or to nothing.
    pub(crate) fn expire_entry(&self, parent: NodeId, name: &[u8]) {
        let mut body = Vec::with_capacity(16 + name.len() + 1);
        body.extend_from_slice(&parent.0.to_ne_bytes());
        body.extend_from_slice(&(name.len() as u32).to_ne_bytes());
        body.extend_from_slice(&EXPIRE_ONLY.to_ne_bytes());
        body.extend_from_slice(name);
        body.push(0);
        self.send(INVALIDATE_ENTRY, &body);
    }

    /// Attributes must be asked for again; with `contents`, cached pages as well.
    pub(crate) fn invalidate_node(&self, node: NodeId, contents: bool) {
        let offset: i64 = if contents { 0 } else { -1 };
        let mut body = Vec::with_capacity(24);
        body.extend_from_slice(&node.0.to_ne_bytes());
        body.extend_from_slice(&offset.to_ne_bytes());
        body.extend_from_slice(&0_i64.to_ne_bytes()); // to the end
        self.send(INVALIDATE_NODE, &body);
    }

    /// Every name must be looked up again. Kernels before 6.16 cannot: the answer is `false`.
    pub(crate) fn advance_epoch(&self) -> bool {
        self.send(ADVANCE_EPOCH, &[])
    }

    fn send(&self, code: u32, body: &[u8]) -> bool {
        let len = HEADER_LEN + body.len();
        let mut message = Vec::with_capacity(len);
        message.extend_from_slice(&(len as u32).to_ne_bytes());
        message.extend_from_slice(&code.to_ne_bytes());
        message.extend_from_slice(&0_u64.to_ne_bytes()); // it answers no request
        message.extend_from_slice(body);
        rustix::io::write(&*self.0, &message).is_ok()
    }
}
