//! The memory backend.

use std::sync::Arc;

use stratafs::MemoryFs;
use stratafs_testkit::{Subject, conformance_tests};

fn memory() -> Subject {
    Subject::new(Arc::new(MemoryFs::new()))
}

conformance_tests!(conformance, memory);
