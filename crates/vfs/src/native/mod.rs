//! A directory of the host as a backend.
//!
//! Each platform is one sibling module with the same `NativeFs`; nothing else here knows which
//! one it is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod options;

#[cfg(target_os = "linux")]
pub use linux::NativeFs;
#[cfg(target_os = "linux")]
pub use options::NativeOptions;
