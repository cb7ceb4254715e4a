//! Notes the compiler, for the heading of reports.

use std::process::Command;

fn main() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    println!("cargo::rustc-env=BENCH_RUSTC={}", version.as_deref().unwrap_or("rustc").trim());
    println!("cargo::rerun-if-changed=build.rs");
}
