//! Writes into the program from what it was built: the profile, and the commit.

use std::process::Command;
use std::{env, fs};

fn main() {
    let profile = env::var_os("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=JISSOKU_BUILD={}, {}", profile.display(), commit());
    println!("cargo::rerun-if-changed=../");
    for path in watched() {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// Files that change with the commit. The log of HEAD does whenever another is checked out or made;
/// where logs are switched off, HEAD and the index do, which every `git status` may write again.
fn watched() -> Vec<String> {
    let place = |file| git(&["rev-parse", "--path-format=absolute", "--git-path", file]);
    let log = place("logs/HEAD").filter(|path| fs::exists(path).unwrap_or(false));
    match log {
        Some(log) => vec![log],
        None => ["HEAD", "index"].into_iter().filter_map(place).collect(),
    }
}

/// The commit, and whether files differ from it. An archive of the sources has none, even if it is
/// unpacked inside of another repository.
fn commit() -> String {
    let root = git(&["rev-parse", "--show-toplevel"]).and_then(|path| fs::canonicalize(path).ok());
    let is_ours = root.is_some() && root == fs::canonicalize("../..").ok();
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]).filter(|_| is_ours) else {
        return "no commit: built from a source archive".into();
    };
    let changes =
        git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.toml"]);
    let is_dirty = changes.is_some_and(|changes| !changes.is_empty());
    commit + if is_dirty { ", dirty" } else { "" }
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Reading the state is not to write the index.
    command.arg("--no-optional-locks").args(arguments).current_dir("../..");
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
