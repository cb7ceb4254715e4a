//! Features are additive, and each builds alone. They are read from the manifest: a new one
//! cannot be forgotten here.

use crate::manifest;
use crate::step::{Outcome, cargo, root, run};

/// Lints of the library without features, with each alone, and with all.
pub fn check() -> Outcome {
    let features = manifest::features(&root())?;
    clippy("no features", &["--no-default-features"])?;
    for feature in &features {
        clippy(feature, &["--no-default-features", "--features", feature])?;
    }
    clippy("all features", &["--all-features"])
}

fn clippy(title: &str, features: &[&str]) -> Outcome {
    run(
        &format!("library alone: {title}"),
        cargo()
            .args(["clippy", "--package", "stratafs"])
            .args(features)
            .args(["--", "--deny", "warnings"]),
    )
}
