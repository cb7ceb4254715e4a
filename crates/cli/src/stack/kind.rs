//! What a kind of layer is: the contract of the files in [`kinds`](super::kinds).

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use stratafs::FileSystem;

use crate::exit::Failure;

/// A line of the help: what is written, and what it means.
pub type Line = (&'static str, &'static str);

/// A kind of layer: what stands before the colon of a specification, and what reads the rest.
#[derive(Clone, Copy, Debug)]
pub struct LayerKind {
    /// Its name.
    pub name: &'static str,
    /// The forms of what follows the colon.
    pub forms: &'static [Line],
    /// Its own options.
    pub options: &'static [Line],
    /// Reads what follows the colon, up to the options, with its backslashes
    /// ([`grammar`](super::grammar) takes them out); nothing is opened yet.
    pub parse: fn(&[u8]) -> Parsed,
}

/// What was read, or what is wrong with it.
pub type Parsed = Result<Box<dyn LayerSource>, String>;

/// What one layer is made of.
pub trait LayerSource: Debug + Send + Sync {
    /// Takes an option of its own, without backslashes; `false` when it has none such.
    ///
    /// # Errors
    /// What is wrong with the value.
    fn set(&mut self, _option: &[u8], _value: Option<&[u8]>) -> Result<bool, String> {
        Ok(false)
    }

    /// What follows the colon, with its backslashes, as the kind reads it.
    fn argument(&self) -> Vec<u8>;

    /// The options of its own that are set, without backslashes.
    fn options(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Opens it.
    ///
    /// # Errors
    /// When that fails; the sentence names what was to be opened.
    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure>;

    /// The directory of this machine that it shows: a mount inside would contain itself.
    fn host_directory(&self) -> Option<&Path> {
        None
    }

    /// Whether it begins empty: its root then takes the looks of the one that it covers.
    fn is_fresh(&self) -> bool {
        false
    }
}
