//! What tests a backend: the contract as a suite of cases, a naive model to compare it with, and
//! tools to write more.
//!
//! A backend's test is a few lines:
//! ```
//! use std::sync::Arc;
//! use stratafs::MemoryFs;
//! use stratafs_testkit::{Subject, conformance};
//!
//! conformance::run("memory", &|| Subject::new(Arc::new(MemoryFs::new())));
//! ```
//! or, with one test per group of cases, [`conformance_tests!`].

pub mod conformance;
pub mod faulty;
pub mod fixture;
pub mod model;
mod subject;
pub mod tools;

pub use faulty::FaultyFs;
pub use subject::{Factory, Subject};
