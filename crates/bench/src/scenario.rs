//! The scenarios by name.

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scenario {
    ReadSmall,
    ReadMedium,
    ReadLargeSequential,
    ReadLargeRandom,
    MetaOpen,
    MetaStat,
    MetaMiss,
    MetaList,
    WriteCreate,
    WriteChurn,
    WriteLargeSequential,
    WriteOverwrite,
    WriteAppend,
}

use Scenario::*;

impl Scenario {
    /// In the order they run.
    pub(crate) const ALL: [Scenario; 13] = [
        ReadSmall,
        ReadMedium,
        ReadLargeSequential,
        ReadLargeRandom,
        MetaOpen,
        MetaStat,
        MetaMiss,
        MetaList,
        WriteCreate,
        WriteChurn,
        WriteLargeSequential,
        WriteOverwrite,
        WriteAppend,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ReadSmall => "read.small",
            ReadMedium => "read.medium",
            ReadLargeSequential => "read.large.seq",
            ReadLargeRandom => "read.large.rand",
            MetaOpen => "meta.open",
            MetaStat => "meta.stat",
            MetaMiss => "meta.miss",
            MetaList => "meta.list",
            WriteCreate => "write.create",
            WriteChurn => "write.churn",
            WriteLargeSequential => "write.large.seq",
            WriteOverwrite => "write.overwrite",
            WriteAppend => "write.append",
        }
    }

    /// What one operation is.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            ReadSmall => "open a 4 KiB file, read it, close it",
            ReadMedium => "open a 256 KiB file, read it in 64 KiB chunks, close it",
            ReadLargeSequential => "read the next 1 MiB of the 64 MiB file",
            ReadLargeRandom => "read 4 KiB at a random offset of the open 64 MiB file",
            MetaOpen => "open a small file and close it",
            MetaStat => "ask for a small file's metadata",
            MetaMiss => "ask whether a name exists that does not",
            MetaList => "list a directory of 10,000 files, names and types",
            WriteCreate => "make a file and write 64 KiB",
            WriteChurn => "make a file, write 4 KiB, delete it",
            WriteLargeSequential => "write the next 1 MiB of a new 64 MiB file",
            WriteOverwrite => "write 4 KiB at a random page of an open 16 MiB file",
            WriteAppend => "append 4 KiB to a log, opened again after every 16",
        }
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(
            self,
            WriteCreate | WriteChurn | WriteLargeSequential | WriteOverwrite | WriteAppend
        )
    }
}
