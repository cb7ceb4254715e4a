//! The protocol library's types, from and to ours.

use std::time::SystemTime;

use fuser::{INodeNo, Request, TimeOrNow};
use stratafs::{Device, FileType, NodeId, TimeChange, Timestamp};

use crate::door::Caller;

pub(super) fn caller(request: &Request) -> Caller {
    Caller { user: request.uid(), group: request.gid() }
}

/// The root has the same number to both.
pub(super) fn id(node: INodeNo) -> NodeId {
    NodeId(node.0)
}

/// A whiteout shows as the device that the kernel's own overlay takes for one.
pub(super) fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::File => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharDevice | FileType::Whiteout => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
    }
}

/// The kernel's 32-bit form of a device number.
pub(super) fn encode_device(device: Device) -> u32 {
    (device.minor & 0xff) | (device.major << 8) | ((device.minor & !0xff) << 12)
}

pub(super) fn decode_device(number: u32) -> Device {
    Device { major: (number >> 8) & 0xfff, minor: (number & 0xff) | ((number >> 12) & 0xfff00) }
}

pub(super) fn time_change(time: TimeOrNow) -> TimeChange {
    match time {
        TimeOrNow::SpecificTime(time) => TimeChange::At(timestamp(time)),
        TimeOrNow::Now => TimeChange::Now,
    }
}

/// The protocol library subtracts the nanoseconds of a time before 1970, which count forwards:
/// put right here.
fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => time.into(),
        Err(before) => {
            let distance = before.duration();
            Timestamp {
                seconds: -(distance.as_secs() as i64),
                nanoseconds: distance.subsec_nanos(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_kernels_form() {
        for (major, minor) in [(0, 0), (1, 3), (8, 255), (259, 256), (4095, 0xfffff)] {
            let device = Device { major, minor };
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
