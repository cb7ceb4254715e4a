//! What `strata run` is made of: a place for the view, a process in it, and what becomes of
//! its changes.

pub mod child;
pub mod decision;
pub mod mounts;
pub mod place;
pub mod report;
pub mod settle;
pub mod view;
