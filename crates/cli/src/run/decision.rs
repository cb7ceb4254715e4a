//! What becomes of the changes: asked of the user where nobody has said it.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::SIGINT;

/// What to do with the changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Write them to the directory, unless others changed the same there.
    Apply,
    /// Write them to the directory, whatever others changed.
    Overwrite,
    /// Drop them.
    Discard,
    /// Save them as a directory of their own; `None`: a fresh one among the temporary files.
    Keep(Option<PathBuf>),
}

/// Whether there is somebody to ask.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks until the answer is clear. Ctrl-C, the end of input and a terminal that went away keep
/// the changes: whoever leaves without an answer loses nothing. `contested`: others changed the
/// same, so that applying takes another word.
pub fn ask(directory: &Path, list: &str, contested: bool) -> Decision {
    let Ok((interrupted, notify)) = UnixStream::pair() else { return Decision::Keep(None) };
    // Without the handler Ctrl-C is only noted.
    let _ = signal_hook::low_level::pipe::register(SIGINT, notify);
    let apply = if contested { "[f]orce" } else { "[a]pply" };
    loop {
        let mut stderr = io::stderr();
        let asked = write!(
            stderr,
            "strata: apply these changes to {}? {apply}, [d]iscard, [k]eep, [s]how again: ",
            directory.display()
        );
        let answer = asked.and_then(|()| stderr.flush()).and_then(|()| read_line(&interrupted));
        let Ok(Some(answer)) = answer else {
            let _ = writeln!(stderr);
            return Decision::Keep(None);
        };
        match answer.trim() {
            "f" | "force" if contested => return Decision::Overwrite,
            "a" | "apply" if !contested => return Decision::Apply,
            "d" | "discard" => return Decision::Discard,
            "k" | "keep" => return Decision::Keep(None),
            "s" | "show" => {
                let _ = write!(stderr, "{list}");
            }
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
        // Byte by byte and past the standard library's buffer, of which a poll knows nothing.
        let mut byte = [0];
        if rustix::io::read(&stdin, &mut byte)? == 0 {
            return Ok(None);
        }
        if byte[0] == b'\n' {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.push(byte[0]);
    }
}
