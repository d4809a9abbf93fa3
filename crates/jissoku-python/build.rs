//! Writes the sources of the floor into the extension: every record says from which of them it was
//! compiled, and they stay the same from one commit to another. Gathers the sources that a wheel brings
//! along for the target `parsers`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What the floor is compiled from: its modules, and those of another crate that it uses.
const FLOOR: [&str; 3] =
    ["../jissoku-lab/src/floor", "../jissoku-os/src/epoll", "../jissoku-os/src/socket"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=../");
    let output = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(output.join("floor-sources"), floor_sources()?)?;
    // `include` in pyproject.toml puts them where `parsers/gather.py` looks for them.
    let parsers = output.join("parsers");
    if parsers.exists() {
        fs::remove_dir_all(&parsers)?;
    }
    copy_sources(Path::new("../jissoku-http/src"), &parsers.join("http/src"))?;
    copy_sources(Path::new("../jissoku-load/shapes"), &parsers.join("shapes"))
}

/// The sources of the floor without those of tests, each behind its name, in the order of the names.
fn floor_sources() -> io::Result<Vec<u8>> {
    let mut files = Vec::new();
    for place in FLOOR {
        let (folder, file) = (PathBuf::from(place), PathBuf::from(format!("{place}.rs")));
        if file.is_file() {
            files.push(file);
        }
        if folder.is_dir() {
            add_sources(&folder, &mut files)?;
        }
    }
    files.sort();
    let mut text = Vec::new();
    for file in files {
        let name = file.strip_prefix("..").unwrap_or(&file);
        text.extend_from_slice(format!("{}\n", name.display()).as_bytes());
        text.extend(fs::read(&file)?);
    }
    Ok(text)
}

fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            add_sources(&path, files)?;
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            files.push(path);
        }
    }
    Ok(())
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
