//! Functions of the kernel, by address (`/proc/kallsyms`).
//!
//! The list is read line by line and never kept: of its more than 100,000 symbols a profile has some
//! hundreds.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Names of the functions at some addresses, which ascend; `None` where none is before it.
pub(crate) fn names(addresses: &[u64]) -> Vec<Option<String>> {
    let list = File::open("/proc/kallsyms").map(BufReader::new);
    list.and_then(|list| names_in(list, addresses)).unwrap_or_else(|_| vec![None; addresses.len()])
}

/// Each symbol is the nearest so far of the first address that it is not after; what is nearest of an
/// address without its own is that of the address before.
fn names_in(mut list: impl BufRead, addresses: &[u64]) -> io::Result<Vec<Option<String>>> {
    let mut nearest: Vec<Option<(u64, String)>> = vec![None; addresses.len()];
    let mut line = String::new();
    while list.read_line(&mut line)? > 0 {
        if let Some((start, name)) = symbol(&line) {
            let first = addresses.partition_point(|address| *address < start);
            // Of several names of an address the first is meant.
            if let Some(found) = nearest.get_mut(first)
                && found.as_ref().is_none_or(|(known, _)| *known < start)
            {
                *found = Some((start, name.to_owned()));
            }
        }
        line.clear();
    }
    let mut last = None;
    let names = nearest.into_iter().map(|found| {
        last = found.map(|(_, name)| demangled(&name)).or_else(|| last.take());
        last.clone()
    });
    Ok(names.collect())
}

/// Address and name of a line `ADDRESS TYPE NAME [MODULE]`. To those who may not see addresses the
/// kernel shows 0.
fn symbol(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok().filter(|start| *start > 0)?;
    Some((start, words.nth(1)?))
}

/// The kernel has functions in C and in Rust.
fn demangled(name: &str) -> String {
    rustc_demangle::try_demangle(name)
        .map_or_else(|_| name.to_owned(), |readable| format!("{readable:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "0000000000000000 A fixed_percpu_data\n\
        0000000000001000 T first\n\
        0000000000001000 T alias\n\
        0000000000001040 t inner\n\
        0000000000003000 t _RNvC6kernel4work\t[rust_module]\n\
        no line\n\
        0000000000002000 t earlier\t[module]\n";

    #[test]
    fn a_function_is_the_nearest_before_an_address() {
        let found = |addresses: &[u64]| names_in(LIST.as_bytes(), addresses).expect("it is text");
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            found(&[0xfff, 0x1000, 0x103f, 0x1040, 0x1041, 0x1fff, 0x2fff, 0x3001, u64::MAX]),
            [
                None,
                some("first"),
                some("first"),
                some("inner"),
                some("inner"),
                some("inner"),
                some("earlier"),
                some("kernel::work"),
                some("kernel::work")
            ]
        );
        assert_eq!(found(&[0x5000]), [some("kernel::work")]);
        assert_eq!(found(&[]), []);
        assert_eq!(names_in("0 T hidden\n".as_bytes(), &[1]).expect("it is text"), [None]);
    }
}
