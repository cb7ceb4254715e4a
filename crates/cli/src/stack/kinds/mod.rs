//! The kinds of layers, one file each.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use super::kind::{LayerKind, Line};
use super::spec::FLAGS;

pub mod archive;
pub mod memory;
pub mod native;
pub mod zip;

/// The kinds that the program has of its own.
pub const KINDS: &[LayerKind] = &[native::KIND, memory::KIND, archive::KIND, zip::KIND];

static ADDED: Mutex<Vec<LayerKind>> = Mutex::new(Vec::new());

/// Adds a kind, for a program that is `strata` and more: before [`main`](crate::main), which
/// reads the arguments. Of several with one name the first is used.
pub fn register(kind: LayerKind) {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner).push(kind);
}

/// All kinds, the added ones last.
pub fn all() -> Vec<LayerKind> {
    [KINDS, &*ADDED.lock().unwrap_or_else(PoisonError::into_inner)].concat()
}

/// The kind of this name.
pub(super) fn named(name: &[u8]) -> Result<LayerKind, String> {
    let all = all();
    all.iter().find(|kind| kind.name.as_bytes() == name).copied().ok_or_else(|| {
        let mut names: Vec<_> = all.iter().map(|kind| kind.name).collect();
        let last = names.pop().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        format!("there is no kind `{name}`; there are {} and {last}", names.join(", "))
    })
}

/// How layers are written, for the help of commands.
pub fn help() -> String {
    let all = all();
    let mut lines = Vec::new();
    let option = |&(form, what): &Line| (format!("    {form}"), what);
    for LayerKind { name, forms, options, .. } in &all {
        lines.extend(forms.iter().map(|(form, what)| (format!("  {name}:{form}"), *what)));
        lines.extend(options.iter().map(option));
    }
    lines.push(("  every layer:".to_owned(), ""));
    lines.extend(FLAGS.iter().map(option));
    let width = lines.iter().map(|(form, _)| form.len()).max().unwrap_or_default();
    let mut text = "A layer is written KIND:ARGUMENT[,OPTION...][@/PLACE]:\n".to_owned();
    for (form, what) in lines {
        let _ = writeln!(text, "{}", format!("{form:width$}  {what}").trim_end());
    }
    text + "\nNumbers may end in K, M or G. A comma in a path is written `\\,`, a backslash `\\\\`."
}
