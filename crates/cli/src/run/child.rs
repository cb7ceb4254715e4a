//! The command that is run for the user.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::exit::Failure;

/// Runs the command in `directory` and waits for it.
///
/// `open_files` is the limit that it gets.
///
/// Ctrl-C and Ctrl-\ reach the command from the terminal, as this process is in the same
/// group; here they are ignored, so that the changes are still dealt with. TERM and HUP, which
/// may be sent to this process alone, are passed on.
///
/// # Errors
/// With code 127 when there is no such command, 126 when it cannot be executed.
pub fn run(
    command: &[OsString],
    directory: &Path,
    open_files: Rlimit,
) -> Result<ExitStatus, Failure> {
    // A handler, not "ignore": what is ignored stays so in the command.
    let noted = Arc::new(AtomicBool::new(false));
    // Children whose end is ignored, as this process may have inherited it, cannot be waited for.
    for signal in [SIGINT, SIGQUIT, SIGCHLD] {
        signal_hook::flag::register(signal, Arc::clone(&noted))?;
    }
    let signals = Signals::new([SIGTERM, SIGHUP])?;
    let (program, arguments) = split(command);
    let mut process = Command::new(&program);
    process.args(arguments).current_dir(directory);
    process.env("PWD", directory).env("STRATA_RUN", directory);
    // SAFETY: between fork and exec only one system call is made, which allocates nothing and
    // takes no lock.
    unsafe {
        process.pre_exec(move || Ok(setrlimit(Resource::Nofile, open_files)?));
    }
    let mut child = process.spawn().map_err(|error| cannot_run(&program, &error))?;
    // From here on there is something to lose: signals that are not passed on are the lesser evil.
    let passing = pass_on(signals, &child);
    let status = child.wait();
    if let Ok(passing) = passing {
        passing.close();
    }
    Ok(status?)
}

fn split(command: &[OsString]) -> (OsString, &[OsString]) {
    match command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => {
            let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
            (shell.unwrap_or_else(|| "/bin/sh".into()), &[])
        }
    }
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::with_code(code, format_args!("{}: {error}", program.to_string_lossy()))
}

fn pass_on(mut signals: Signals, child: &Child) -> io::Result<Handle> {
    let handle = signals.handle();
    let pid = Pid::from_child(child);
    std::thread::Builder::new().name("strata-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let signal = if signal == SIGHUP { Signal::HUP } else { Signal::TERM };
            // It may have ended meanwhile: then there is nobody to tell.
            let _ = rustix::process::kill_process(pid, signal);
        }
    })?;
    Ok(handle)
}

/// The exit code by which a shell would tell how the command ended.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 125,
    };
    u8::try_from(code).unwrap_or(125)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_shows_in_the_code() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
