//! How a command ends: the one place that turns outcomes and errors into exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the answer is no: `diff` found differences, `verify` found damage |
//! | 2 | wrong usage, or the command failed |
//!
//! `strata run` ends as the command it ran did; its own failures are 125 (before the command
//! ran, or when its changes could not be settled as wanted), 126 (the command cannot be executed)
//! and 127 (there is no such command), as with `env`.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Says something on standard error. Whether anybody hears it is nobody's business: a terminal
/// that went away must not end the program.
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "strata: {}", format_args!($($words)*));
    }};
}
pub(crate) use tell;

/// How a command that did not fail ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Exit code 0.
    Done,
    /// The question was answered with no: exit code 1.
    No,
    /// The exit code of a command that was run for the user.
    Code(u8),
}

/// What a command's function returns.
pub type Outcome = Result<Status, Failure>;

/// Why a command failed: the sentence for people and the exit code.
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// A failure with exit code 2.
    pub fn new(message: impl fmt::Display) -> Self {
        Failure { code: 2, message: message.to_string() }
    }

    /// A failure with another exit code.
    pub fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Failure { code, message: message.to_string() }
    }

    /// The reader of standard output went away: not a failure anybody wants to hear of.
    pub(crate) fn closed_pipe() -> Self {
        Failure { code: 0, message: String::new() }
    }

    /// Puts what was attempted in front of the message.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Self {
        Failure { code: self.code, message: format!("{what}: {}", self.message) }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({}, {:?})", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<stratafs::Error> for Failure {
    fn from(error: stratafs::Error) -> Self {
        Failure::new(error)
    }
}

impl From<stratafs::BackendError> for Failure {
    fn from(error: stratafs::BackendError) -> Self {
        Failure::new(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::new(error)
    }
}

/// Adds what was attempted to an error on its way to the user.
pub trait Context<T> {
    /// `what` is put in front of the error's own text; made only when there is an error.
    ///
    /// # Errors
    /// The error itself, as a [`Failure`].
    fn context<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T, Failure> {
        self.map_err(|error| error.into().context(what()))
    }
}

/// Reports a failure on standard error and gives the exit code.
pub(crate) fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::No) => ExitCode::from(1),
        Ok(Status::Code(code)) => ExitCode::from(code),
        Err(failure) => {
            if !failure.message.is_empty() {
                tell!("{failure}");
            }
            ExitCode::from(failure.code)
        }
    }
}
