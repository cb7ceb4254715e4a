//! Writes the seeds of a target into a directory, a file each: `seeds TARGET DIRECTORY`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory] = &arguments[..] else {
        eprintln!("usage: seeds TARGET DIRECTORY");
        return ExitCode::from(2);
    };
    let Some(target) = stratafs_fuzz::Target::named(name) else {
        let names: Vec<_> = stratafs_fuzz::TARGETS.iter().map(|target| target.name).collect();
        eprintln!("there is no target `{name}`; there are {}", names.join(", "));
        return ExitCode::from(2);
    };
    match write(Path::new(directory), (target.seeds)()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{directory}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path, seeds: Vec<Vec<u8>>) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (nth, seed) in seeds.iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{nth:02}")), seed)?;
    }
    Ok(())
}
