//! The few things the gates read from manifests, so that no list is kept twice.

use std::path::Path;

/// The keys and values of a table, in their order; a value over several lines is one text.
///
/// Not a reader of TOML: it knows what our own manifests look like.
fn table(text: &str, name: &str) -> Vec<(String, String)> {
    let head = format!("[{name}]");
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut open = 0_usize;
    for line in text.lines().map(str::trim).skip_while(|line| *line != head).skip(1) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let inside = open > 0;
        if !inside && line.starts_with('[') {
            break;
        }
        open = (open + line.matches('[').count()).saturating_sub(line.matches(']').count());
        match (inside, line.split_once('='), entries.last_mut()) {
            (true, _, Some((_, value))) => value.push_str(line),
            (false, Some((key, value)), _) => {
                entries.push((key.trim().to_owned(), value.trim().to_owned()));
            }
            _ => {}
        }
    }
    entries
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
}

/// The library's features but `default`, by name.
pub fn features(root: &Path) -> Result<Vec<String>, String> {
    let file = "crates/vfs/Cargo.toml";
    let names = table(&read(root, file)?, "features").into_iter().map(|(name, _)| name);
    let names: Vec<String> = names.filter(|name| name != "default").collect();
    if names.is_empty() { Err(format!("{file}: no features")) } else { Ok(names) }
}

/// The oldest Rust that the workspace states, as `1.95`.
pub fn rust_version(root: &Path) -> Result<String, String> {
    table(&read(root, "Cargo.toml")?, "workspace.package")
        .into_iter()
        .find_map(|(key, value)| {
            (key == "rust-version").then(|| value.trim_matches('"').to_owned())
        })
        .ok_or_else(|| "Cargo.toml: no rust-version".into())
}

#[test]
fn tables_are_read_over_lines_and_no_further() {
    let text = "[a]\nx = \"1\"\n[b]\n# said\nlong = [\n    \"one\",\n    \"two\",\n]\n\nshort = [\"c\"]\n[d]\ny = 2\n";
    let wanted = [("long", "[\"one\",\"two\",]"), ("short", "[\"c\"]")];
    assert_eq!(table(text, "b"), wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
}
