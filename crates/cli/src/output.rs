//! Standard output: data only, as lines of text or, with `--json`, one object per line.
//!
//! A name in JSON is text. One that is not UTF-8 is written lossy as text, and its bytes as
//! hexadecimal digits in a second field whose name ends in `_hex`, so nothing is lost and the
//! common case stays simple ([`JsonName`]).

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Where a command's data goes.
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { writer: BufWriter::with_capacity(1 << 16, io::stdout().lock()), json }
    }

    /// Whether the user asked for JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes one record: `text` as a line, or `record` as one JSON object when the user asked
    /// for JSON.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn record(
        &mut self,
        text: impl fmt::Display,
        record: &impl Serialize,
    ) -> Result<(), Failure> {
        if self.json {
            serde_json::to_writer(&mut self.writer, record).map_err(|e| failure(e.into()))?;
            self.writer.write_all(b"\n").map_err(failure)
        } else {
            writeln!(self.writer, "{text}").map_err(failure)
        }
    }

    /// Writes bytes as they are, for commands whose data is a file's contents.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(failure)
    }

    /// Hands everything to the reader.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(failure)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("json", &self.json).finish_non_exhaustive()
    }
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::new(format_args!("standard output: {error}")),
    }
}

/// A name for JSON; see the [module documentation](self). Flatten it into a record:
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Record {
///     #[serde(flatten)]
///     path: stratafs_cli::output::JsonName,
///     size: u64,
/// }
/// ```
#[derive(Serialize, Debug)]
pub struct JsonName {
    /// The name as text.
    pub path: String,
    /// The bytes, where the text does not say them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
}

impl JsonName {
    /// The JSON form of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => JsonName { path: text.to_owned(), path_hex: None },
            Err(_) => JsonName {
                path: String::from_utf8_lossy(bytes).into_owned(),
                path_hex: Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_are_kept_as_hex() {
        let json = |bytes| serde_json::to_string(&JsonName::new(bytes)).unwrap();
        assert_eq!(json(b"a/b"), r#"{"path":"a/b"}"#);
        assert_eq!(json(b"a\xff"), "{\"path\":\"a\u{fffd}\",\"path_hex\":\"61ff\"}");
    }
}
