//! How many crates the library may bring with it. Each is code that nobody here reads, and time
//! to build: a new one is taken knowingly, by raising the number in the same change.

use std::collections::BTreeSet;

use crate::step::{Outcome, cargo, output};

/// Crates that are built for a user of the library, itself and macros included.
const BUDGETS: &[(&str, &[&str], usize)] =
    &[("without features", &["--no-default-features"], 25), ("by default", &[], 80)];

/// Counts the crates, and lists them where they are too many.
pub fn check() -> Outcome {
    for &(title, features, most) in BUDGETS {
        let tree = output(
            cargo()
                .args(["tree", "--package", "stratafs", "--edges", "normal", "--prefix", "none"])
                .args(features),
        )?;
        let crates = unique(&tree);
        eprintln!("\n== dependencies {title}: {} of {most}", crates.len());
        if crates.len() > most {
            let list = crates.into_iter().collect::<Vec<_>>().join("\n  ");
            return Err(format!("too many crates {title}:\n  {list}"));
        }
    }
    Ok(())
}

/// The crates of a tree; one that is shown again has a mark, which does not count.
fn unique(tree: &str) -> BTreeSet<&str> {
    let lines = tree.lines().map(|line| line.trim_end_matches("(*)").trim());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_crate_shown_again_counts_once() {
    assert_eq!(unique("a v1.0.0\nb v2.0.0\nb v2.0.0 (*)\n\nb v1.0.0\n").len(), 3);
}
