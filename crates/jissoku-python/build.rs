//! Writes into the extension from what it was built, so that every record can say so.

use std::process::Command;

fn main() {
    let profile = std::env::var_os("PROFILE").unwrap_or_default();
    let revision =
        git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "no revision".into());
    let dirty =
        git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.toml"])
            .is_some_and(|changes| !changes.is_empty());
    let state = if dirty { ", dirty" } else { "" };
    println!("cargo::rustc-env=JISSOKU_BUILD={}, {revision}{state}", profile.display());
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/index");
    println!("cargo::rerun-if-changed=../");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir("../..").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
