//! That the library builds for the browser. Nothing lies below that target, and no test on this
//! machine notices a dependency or a call that needs a system.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::{Package, cache, ensure};
use crate::step::{Outcome, cargo, output, root, run, rustc};
use crate::{manifest, oldest};

const TARGET: &str = "wasm32-unknown-unknown";

/// Features that are not meant for the browser: they link C.
const NATIVE: &[&str] = &["zstd"];

/// Where Debian has its compiler; one of rustup's lies in a home.
const RUSTC: &str = "/usr/bin/rustc";

/// Debian's compiler for its browsers, with the source of the standard library: what a machine
/// without rustup's servers can have. LLVM's number is that of `rustc-web`.
const PACKAGES: &[Package] = &[
    Package { name: "rustc-web", program: RUSTC },
    Package { name: "cargo-web", program: "/usr/bin/cargo" },
    Package { name: "rust-web-src", program: "/usr/lib/rustlib/src/rust/library/std/Cargo.toml" },
    Package { name: "rust-web-llvm", program: "/usr/bin/rust-lld" },
    Package { name: "lld-22", program: "/usr/bin/wasm-ld-22" },
];

const BY_HAND: &str = "building for wasm32-unknown-unknown needs that target of rustup's \
    (`rustup target add wasm32-unknown-unknown`), or Debian's packages; STRATA_SKIP_WASM=1 \
    leaves it out";

/// Builds the library without features, with each that is meant for the browser, and by default.
pub fn check() -> Outcome {
    if is_left_out() {
        eprintln!("\n== wasm32: left out, as STRATA_SKIP_WASM is set");
        return Ok(());
    }
    let toolchain = Toolchain::get()?;
    toolchain.build("no features", &["--no-default-features"])?;
    for feature in manifest::features(&root())? {
        if !NATIVE.contains(&&feature[..]) {
            toolchain.build(&feature, &["--no-default-features", "--features", &feature])?;
        }
    }
    toolchain.build("by default", &[])
}

/// Gets the toolchain, unless it is not wanted.
pub fn setup() -> Outcome {
    if is_left_out() { Ok(()) } else { Toolchain::get().map(drop) }
}

fn is_left_out() -> bool {
    std::env::var_os("STRATA_SKIP_WASM").is_some_and(|value| value == "1")
}

/// What builds for the browser.
enum Toolchain {
    /// The one that runs, as it has the target.
    Own,
    /// Debian's, with a standard library we built.
    Debian { sysroot: PathBuf },
}

impl Toolchain {
    fn get() -> Result<Self, String> {
        let own = output(rustc().args(["--print", "target-libdir", "--target", TARGET]));
        if own.is_ok_and(|place| has_std(Path::new(place.trim()))) {
            return Ok(Toolchain::Own);
        }
        refuse_another().map_err(|error| format!("{error}; {BY_HAND}"))?;
        ensure(PACKAGES).map_err(|error| format!("{error}; {BY_HAND}"))?;
        let sysroot = sysroot().map_err(|error| format!("{error}; {BY_HAND}"))?;
        Ok(Toolchain::Debian { sysroot })
    }

    fn build(&self, title: &str, features: &[&str]) -> Outcome {
        let mut command = match self {
            Toolchain::Own => cargo(),
            Toolchain::Debian { sysroot } => {
                let mut command = debian_cargo();
                // Whatever flags are around are not meant for this compiler. These do not reach
                // build scripts and macros, as a target is named.
                let flags = ["--sysroot".as_ref(), sysroot.as_os_str()];
                command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f".as_ref()));
                command
            }
        };
        // A place of its own: two compilers in one would each build anew after the other.
        run(
            &format!("library for {TARGET}: {title}"),
            command
                .args(["rustc", "--package", "stratafs", "--lib", "--target", TARGET])
                .args(features)
                .arg("--target-dir")
                .arg(root().join("target").join("wasm"))
                .args(["--", "--deny", "warnings"]),
        )
    }
}

/// Fails where another compiler of Debian's stands in the place, one too old: installing ours
/// would remove it, and that is for its owner to do.
fn refuse_another() -> Outcome {
    let Ok(version) = output(Command::new(RUSTC).arg("-V")) else {
        return Ok(());
    };
    let stated = manifest::rust_version(&root())?;
    if oldest::release_of(&version) < oldest::release(&stated) {
        return Err(format!("{RUSTC} is {}, and {stated} is needed", version.trim()));
    }
    Ok(())
}

/// Debian's cargo with its own compiler, free of what the cargo that runs us has set.
fn debian_cargo() -> Command {
    let mut command = Command::new("/usr/bin/cargo");
    command.current_dir(root()).env("RUSTC", RUSTC);
    for name in ["LD_LIBRARY_PATH", "RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    command
}

/// A sysroot with the standard library for the target, built once for each compiler.
///
/// Debian has its source only. With it built beforehand, all that follows is plain cargo, with
/// no unstable option, and compiles it never again.
fn sysroot() -> Result<PathBuf, String> {
    let version = output(Command::new(RUSTC).arg("-V"))?;
    let name = format!("wasm-sysroot-{}", file_name(&version));
    let place = cache()?.join(&name);
    let libraries = Path::new("lib/rustlib").join(TARGET).join("lib");
    if has_std(&place.join(&libraries)) {
        return Ok(place);
    }
    // Built aside, and moved as a whole: what is at the place is complete.
    let aside = cache()?.join(format!("{name}-building-{}", std::process::id()));
    let (package, made) = (aside.join("package"), aside.join("sysroot"));
    let outcome = build_sysroot(&package, &made.join(&libraries)).and_then(|()| {
        let moved = std::fs::rename(&made, &place);
        // Another run may have been first.
        if has_std(&place.join(&libraries)) { Ok(()) } else { moved.map_err(|e| told(&place, &e)) }
    });
    let _ = std::fs::remove_dir_all(&aside);
    outcome.map(|()| place)
}

/// Builds an empty package together with the standard library, and keeps the latter.
fn build_sysroot(package: &Path, libraries: &Path) -> Outcome {
    let manifest = "[package]\nname = \"nothing\"\nedition = \"2024\"\n[workspace]\n";
    let source = package.join("src");
    std::fs::create_dir_all(&source).map_err(|error| told(&source, &error))?;
    for (file, text) in [(package.join("Cargo.toml"), manifest), (source.join("lib.rs"), "")] {
        std::fs::write(&file, text).map_err(|error| told(&file, &error))?;
    }
    let target = package.join("target");
    run(
        &format!("standard library for {TARGET}"),
        debian_cargo()
            .current_dir(package)
            .args(["build", "--release", "--target", TARGET, "--target-dir"])
            .arg(&target)
            .arg("-Zbuild-std=std,panic_abort,panic_unwind,test")
            .env("RUSTC_BOOTSTRAP", "1")
            // Without it no program with link-time optimisation can use the library.
            .env("CARGO_ENCODED_RUSTFLAGS", "-Cembed-bitcode=yes"),
    )?;
    let built = target.join(TARGET).join("release").join("deps");
    std::fs::create_dir_all(libraries).map_err(|error| told(libraries, &error))?;
    for entry in std::fs::read_dir(&built).map_err(|error| told(&built, &error))? {
        let entry = entry.map_err(|error| told(&built, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libnothing-") {
            let (from, to) = (entry.path(), libraries.join(name));
            std::fs::copy(&from, to).map_err(|error| told(&from, &error))?;
        }
    }
    Ok(())
}

/// Whether a directory of libraries has the standard one.
fn has_std(libraries: &Path) -> bool {
    std::fs::read_dir(libraries).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

/// A version as a file's name.
fn file_name(version: &str) -> String {
    let words = version.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn told(place: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", place.display())
}

#[test]
fn a_version_becomes_a_name() {
    assert_eq!(file_name("rustc 1.96.0 (ac68faa 2026-05-25)\n"), "rustc-1.96.0-ac68faa-2026-05-25");
}
