//! Writes into the extension from what it was built, so that every record can say so, and gathers
//! the sources that a wheel brings along for the target `parsers`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let profile = env::var_os("PROFILE").unwrap_or_default();
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
    // `include` in pyproject.toml puts them where `parsers/gather.py` looks for them.
    let parsers = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("parsers");
    if parsers.exists() {
        fs::remove_dir_all(&parsers)?;
    }
    copy_sources(Path::new("../jissoku-http/src"), &parsers.join("http/src"))?;
    copy_sources(Path::new("../jissoku-load/shapes"), &parsers.join("shapes"))
}

fn copy_sources(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            copy_sources(&entry.path(), &to.join(entry.file_name()))?;
        } else {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir("../..").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
