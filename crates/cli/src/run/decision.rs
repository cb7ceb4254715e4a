//! What becomes of the changes: asked of the user where nobody has said it.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::SIGINT;

use crate::exit::Failure;

/// What to do with the changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Write them to the directory.
    Apply,
    /// Drop them.
    Discard,
    /// Save them as a directory of their own; `None`: a fresh one among the temporary files.
    Keep(Option<PathBuf>),
}

/// Whether there is somebody to ask.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks until the answer is clear. Ctrl-C and the end of input keep the changes: whoever
/// leaves without an answer loses nothing.
///
/// # Errors
/// When the terminal cannot be read.
pub fn ask(directory: &Path, list: &str) -> Result<Decision, Failure> {
    let (interrupted, notify) = std::os::unix::net::UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGINT, notify)?;
    loop {
        eprint!(
            "strata: apply these changes to {}? [a]pply, [d]iscard, [k]eep, [s]how again: ",
            directory.display()
        );
        io::stderr().flush()?;
        let Some(answer) = read_line(&interrupted)? else {
            eprintln!();
            return Ok(Decision::Keep(None));
        };
        match answer.trim() {
            "a" | "apply" => return Ok(Decision::Apply),
            "d" | "discard" => return Ok(Decision::Discard),
            "k" | "keep" => return Ok(Decision::Keep(None)),
            "s" | "show" => eprint!("{list}"),
            _ => {}
        }
    }
}

/// One line from the terminal; `None` when it ended or Ctrl-C was pressed.
fn read_line(interrupted: &impl AsFd) -> io::Result<Option<String>> {
    let stdin = io::stdin();
    let mut line = Vec::new();
    loop {
        let mut waiting =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::new(interrupted, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => continue,
            answer => answer?,
        };
        if waiting[1].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        // Byte by byte and unbuffered: what follows the line is not ours.
        let mut byte = [0];
        if io::stdin().lock().read(&mut byte)? == 0 {
            return Ok(None);
        }
        if byte[0] == b'\n' {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.push(byte[0]);
    }
}
