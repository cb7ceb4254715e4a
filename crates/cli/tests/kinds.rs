//! A kind of layer that a program adds of its own.

use std::sync::Arc;

use stratafs::{FileSystem, MemoryFs, MountOptions, Vfs};
use stratafs_cli::exit::Failure;
use stratafs_cli::stack::{self, LayerKind, LayerSource, LayerSpec, grammar};

const KIND: LayerKind = LayerKind {
    name: "greeting",
    forms: &[("NAME", "a file that greets")],
    options: &[],
    parse: |argument| Ok(Box::new(Greeting(grammar::unescape(argument)))),
};

#[derive(Debug)]
struct Greeting(Vec<u8>);

impl LayerSource for Greeting {
    fn argument(&self) -> Vec<u8> {
        grammar::escape(&self.0, b"")
    }

    fn open(&self) -> Result<Arc<dyn FileSystem>, Failure> {
        let fs = Vfs::with_root(MemoryFs::new());
        fs.write("hello", &self.0)?;
        Ok(fs.freeze())
    }
}

#[test]
fn an_added_kind_is_read_listed_and_opened() {
    let parse = |text: &str| LayerSpec::parse(text.as_ref());
    assert!(parse("greeting:a").unwrap_err().ends_with("memory, archive and zip"));
    stack::register(KIND);
    assert!(stack::help().contains("\n  greeting:NAME "), "{}", stack::help());
    let layers = [r"greeting:you\, me@/x", "memory:@/x"].map(|text| parse(text).unwrap());
    assert_eq!(layers[0].text(), r"greeting:you\, me@/x");
    let tree = Vfs::new();
    tree.mount("", stack::build(&layers).unwrap(), MountOptions::new()).unwrap();
    assert_eq!(tree.read("x/hello").unwrap(), b"you, me");
    assert!(parse("x:").unwrap_err().ends_with("memory, archive, zip and greeting"));
}
