//! The files that a compiler has read, as it writes them for make (`-MD`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The prerequisites of the first rule. Of the syntax of make only what compilers write is
/// understood: escaped blanks and signs, and lines that continue.
pub(crate) fn of_rule(rule: &[u8]) -> Vec<PathBuf> {
    let start = rule.windows(2).position(|pair| pair[0] == b':' && pair[1].is_ascii_whitespace());
    let Some(start) = start else { return Vec::new() };
    let (mut files, mut name) = (Vec::new(), Vec::new());
    let mut rest = &rule[start + 1..];
    loop {
        rest = match rest {
            [b'\n', ..] | [] => {
                take(&mut name, &mut files);
                return files;
            }
            [b' ' | b'\t' | b'\r', rest @ ..]
            | [b'\\', b'\n', rest @ ..]
            | [b'\\', b'\r', b'\n', rest @ ..] => {
                take(&mut name, &mut files);
                rest
            }
            [b'\\', sign @ (b' ' | b'#' | b'\\'), rest @ ..]
            | [b'$', sign @ b'$', rest @ ..]
            | [sign, rest @ ..] => {
                name.push(*sign);
                rest
            }
        };
    }
}

fn take(name: &mut Vec<u8>, files: &mut Vec<PathBuf>) {
    if !name.is_empty() {
        files.push(OsString::from_vec(std::mem::take(name)).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_lines_that_continue_are_understood() {
        let rule =
            b"/a/out.so: hello.c \\\n /usr/include/a.h my\\ own.h \\\n  x$$y\\#.h\n\nother: z\n";
        let expected = ["hello.c", "/usr/include/a.h", "my own.h", "x$y#.h"];
        assert_eq!(of_rule(rule), expected.map(PathBuf::from));
        assert_eq!(of_rule(b"no rule"), Vec::<PathBuf>::new());
        assert_eq!(of_rule(b"out:"), Vec::<PathBuf>::new());
    }
}
