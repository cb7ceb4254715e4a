//! What the program says of itself: help, completions, manual pages.

mod support;

use std::path::Path;
use std::process::Command;

use support::{ends_with, strata};

#[track_caller]
fn run(code: i32, arguments: &[&str]) -> (String, String) {
    ends_with(code, strata(Path::new("/"), arguments))
}

#[test]
fn bash_completes_commands_options_and_values() {
    let script = r#"
        source /dev/stdin <<< "$("$0" completions bash)"
        complete_for() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _strata strata "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[*]}"; }
        complete_for strata ext
        complete_for strata pack --exc
        complete_for strata run --ap
        complete_for strata completions zs
        complete -p strata
    "#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, env!("CARGO_BIN_EXE_strata")]);
    let (seen, said) = ends_with(0, bash);
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[..4], ["extract", "--exclude", "--apply", "zsh"], "{said}");
    assert!(lines[4].contains("-F _strata") && lines[4].ends_with("strata"), "{}", lines[4]);
}

#[test]
fn other_shells_have_completions() {
    for (shell, part) in [("zsh", "#compdef strata"), ("fish", "complete -c strata")] {
        let (script, _) = run(0, &["completions", shell]);
        assert!(script.contains(part) && script.contains("extract"), "{shell}");
    }
    let (_, said) = run(2, &["completions", "cmd"]);
    assert!(said.contains("zsh"), "{said}");
}

#[test]
fn every_command_has_help_and_a_manual_page() {
    let (page, _) = run(0, &["man"]);
    assert!(page.contains(".TH strata") && page.contains("extract"), "{page}");
    let (help, _) = run(0, &["--help"]);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> =
        commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names.into_iter().filter(|&name| name != "help") {
        assert!(run(0, &["help", name]).0.contains("Usage: strata"), "{name}");
        let (page, _) = run(0, &["man", name]);
        assert!(page.contains(".SH SYNOPSIS") && page.contains(name), "{name}: {page}");
    }
    let (_, said) = run(2, &["man", "nothing"]);
    assert!(said.contains("no command `nothing`"), "{said}");
}

#[test]
fn kinds_of_layers_and_their_options_are_listed() {
    let (help, _) = run(0, &["mount", "--help"]);
    assert!(help.contains(&stratafs_cli::stack::help()), "{help}");
    for form in ["native:DIR ", "memory: ", "archive:FILE!ENTRY ", "  xor=KEY ", "  any-case "] {
        assert!(help.contains(form), "{form}: {help}");
    }
    assert!(run(0, &["man", "mount"]).0.contains("archive:FILE!ENTRY"));
}
