//! A function on a stack, with its source line where that is known.

use serde::Serialize;

/// The longest name kept; C++ templates have longer ones.
const NAME_MAX: usize = 160;

/// A function. Paths of the machine are left out: files and libraries have their last component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Frame {
    /// Its demangled name; empty where there is no symbol.
    pub function: String,
    /// The file of the program or library; `[kernel]`, `[python]`, `[javascript]`, `[jit]`,
    /// `[vdso]` or `[unknown]` otherwise.
    pub library: String,
    /// The source file; empty where there is no debug information.
    pub file: String,
    /// The line in it, from 1; 0 if unknown.
    pub line: u32,
}

/// The last component of a path.
pub(crate) fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// A name without the hash of Rust's symbols and without parameters of C++, cut at [`NAME_MAX`].
pub(crate) fn tidy_name(name: &str) -> String {
    let is_hash =
        |tail: &str| tail.len() == 16 && tail.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name.rsplit_once("::h") {
        Some((head, tail)) if is_hash(tail) => head,
        _ => name,
    };
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    // A semicolon or a newline would end a frame in collapsed stacks.
    name[..end].replace(';', ":").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_hash_of_rust() {
        assert_eq!(tidy_name("app::burn::h0123456789abcdef"), "app::burn");
        assert_eq!(tidy_name("app::burn::help"), "app::burn::help");
        assert_eq!(tidy_name("Lapp;::burn"), "Lapp:::burn");
        assert_eq!(tidy_name(&"é".repeat(200)).len(), NAME_MAX);
        assert_eq!(base_name("/usr/lib/libz.so.1"), "libz.so.1");
    }
}
