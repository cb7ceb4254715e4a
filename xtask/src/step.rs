//! Running one program and saying so.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Fine, or the reason in words.
pub type Outcome = Result<(), String>;

/// The root of the checkout.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The cargo that runs this command, at the root of the checkout.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The compiler that this cargo uses.
pub fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Runs a command with its output shown, and fails unless it succeeds.
pub fn run(title: &str, command: &mut Command) -> Outcome {
    eprintln!("\n== {title}");
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{title}: cannot run {:?}: {error}", command.get_program()))?;
    eprintln!("== {title}: {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{title}: {status}")) }
}

/// What a command prints, or the reason why there is nothing.
pub fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program}: {}: {}", output.status, reason.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{program}: prints no text"))
}

/// Whether a program is to be found in the places where programs are.
pub fn has_program(name: impl AsRef<OsStr>) -> bool {
    let name = name.as_ref();
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}
