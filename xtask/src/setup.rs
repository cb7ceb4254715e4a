//! What the tests and gates need and cargo does not bring: system packages, and programs built
//! once and kept by version.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::step::{Outcome, cargo, has_program, run};
use crate::wasm;

/// A system package, and a program or file that shows it is there.
pub struct Package {
    /// As apt-get knows it.
    pub name: &'static str,
    /// A program in `PATH`, or a file by its whole path.
    pub program: &'static str,
}

impl Package {
    fn is_there(&self) -> bool {
        match self.program.starts_with('/') {
            true => std::path::Path::new(self.program).exists(),
            false => has_program(self.program),
        }
    }
}

const PACKAGES: &[Package] = &[
    Package { name: "fuse3", program: "fusermount3" },
    Package { name: "git", program: "git" },
    Package { name: "zip", program: "zip" },
    Package { name: "sqlite3", program: "sqlite3" },
    Package { name: "python3", program: "python3" },
    Package { name: "perl", program: "perl" },
    Package { name: "bsdutils", program: "script" },
    Package { name: "util-linux", program: "setpriv" },
    Package { name: "libphysfs-dev", program: "/usr/include/physfs.h" },
    Package { name: "gcc", program: "cc" },
];

/// A program from the crate registry.
#[derive(Clone, Copy)]
pub struct Tool {
    name: &'static str,
    version: &'static str,
}

impl Tool {
    /// What the tests run: POSIX conformance, and random operations checked against a model.
    pub const TESTS: &[Tool] =
        &[Tool { name: "pjdfstest", version: "0.2.2" }, Tool { name: "fsx", version: "0.3.2" }];

    /// Licences and origins of the crates we build on.
    pub const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

    /// The program itself, whether it is there or not.
    pub fn program(self) -> Result<PathBuf, String> {
        Ok(self.directory()?.join("bin").join(self.name))
    }

    fn directory(self) -> Result<PathBuf, String> {
        Ok(cache()?.join(format!("{}-{}", self.name, self.version)))
    }
}

/// Where what was built is kept: across checkouts, by version.
pub fn cache() -> Result<PathBuf, String> {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => return Err("neither XDG_CACHE_HOME nor HOME is set".into()),
    };
    Ok(base.join("stratafs").join("tools"))
}

/// Installs what is missing, or says what is.
pub fn setup() -> Outcome {
    ensure(PACKAGES)?;
    for &tool in Tool::TESTS.iter().chain(&[Tool::DENY]) {
        let directory = tool.directory()?;
        if tool.program()?.is_file() {
            continue;
        }
        run(
            &format!("building {} {}", tool.name, tool.version),
            cargo()
                .args(["install", tool.name, "--locked", "--version", tool.version, "--root"])
                .arg(&directory),
        )?;
    }
    wasm::setup()?;
    if !std::path::Path::new("/dev/fuse").exists() {
        eprintln!(
            "xtask: /dev/fuse is missing: the tests that mount will fail. On a virtual machine \
             `modprobe fuse` may bring it; in a container it must be passed in \
             (--device /dev/fuse --cap-add SYS_ADMIN). STRATA_SKIP_MOUNT_TESTS=1 leaves them out."
        );
    }
    Ok(())
}

/// Installs those packages that are missing, or says which are.
pub fn ensure(packages: &[Package]) -> Outcome {
    let missing: Vec<&str> =
        packages.iter().filter(|package| !package.is_there()).map(|package| package.name).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

fn install(packages: &[&str]) -> Outcome {
    let by_hand = format!("install these system packages: {}", packages.join(" "));
    if !has_program("apt-get") || !is_root() {
        return Err(by_hand);
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run("package lists", apt().args(["update", "--quiet"]))?;
    run(
        "system packages",
        apt().args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(packages),
    )
    .map_err(|error| format!("{error}; {by_hand}"))
}

fn is_root() -> bool {
    // The standard library has no getuid; the kernel says it in the owner of our own entry.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// `PATH` with the test programs in front.
pub fn tools_path(tools: &[Tool]) -> Result<OsString, String> {
    let mut places = Vec::new();
    for tool in tools {
        places.push(tool.directory()?.join("bin"));
    }
    let known = std::env::var_os("PATH").unwrap_or_default();
    places.extend(std::env::split_paths(&known));
    std::env::join_paths(places).map_err(|error| error.to_string())
}
