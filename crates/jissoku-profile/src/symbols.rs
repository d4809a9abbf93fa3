//! From locations to functions and source lines, by blazesym, after sampling has ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

use crate::address_space::{FileId, Files, Location};
use crate::frame::{Frame, base_name, tidy_name};
use crate::perf_map::PerfMap;

/// Functions at each location, innermost first: several where functions were inlined.
pub(crate) type Symbols = HashMap<Location, Vec<Frame>>;

/// Names all locations. Those without a symbol keep their library.
pub(crate) fn symbolize(locations: &BTreeSet<Location>, files: &Files) -> Symbols {
    let mut symbols = Symbols::new();
    let mut by_file: BTreeMap<FileId, Vec<u64>> = BTreeMap::new();
    let mut kernel = Vec::new();
    let mut maps: HashMap<i32, PerfMap> = HashMap::new();
    for &location in locations {
        match location {
            Location::File(id, offset) => by_file.entry(id).or_default().push(offset),
            Location::Kernel(address) => kernel.push(address),
            Location::Generated(pid, address) => {
                let map = maps.entry(pid).or_insert_with(|| read_map(pid));
                let unnamed = || library("[jit]");
                symbols.insert(location, vec![map.find(address).unwrap_or_else(unnamed)]);
            }
            Location::Vdso => {
                let _before = symbols.insert(location, vec![library("[vdso]")]);
            }
        }
    }
    for (id, offsets) in by_file {
        let name = base_name(&files.path(id).to_string_lossy());
        let source = Source::Elf(Elf::new(files.path(id)));
        let named = named(&source, Input::FileOffset(&offsets), &name);
        symbols.extend(offsets.into_iter().map(|at| Location::File(id, at)).zip(named));
    }
    let source = Source::Kernel(Kernel {
        vmlinux: MaybeDefault::None,
        debug_syms: false,
        ..Kernel::default()
    });
    let named = named(&source, Input::AbsAddr(&kernel), "[kernel]");
    symbols.extend(kernel.into_iter().map(Location::Kernel).zip(named));
    symbols
}

fn read_map(pid: i32) -> PerfMap {
    let text = std::fs::read(PerfMap::path(pid)).unwrap_or_default();
    PerfMap::parse(&String::from_utf8_lossy(&text))
}

/// Frames for each address of one source. A library's tables are freed before the next is read, so
/// that memory stays that of the largest.
fn named(source: &Source<'_>, addresses: Input<&[u64]>, name: &str) -> Vec<Vec<Frame>> {
    let count = addresses.as_inner_ref().len();
    if count == 0 {
        return Vec::new();
    }
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let Ok(found) = symbolizer.symbolize(source, addresses) else {
        return vec![vec![library(name)]; count];
    };
    found
        .iter()
        .map(|found| found.as_sym().map_or_else(|| vec![library(name)], |sym| frames(sym, name)))
        .collect()
}

fn library(name: &str) -> Frame {
    Frame { library: name.to_owned(), ..Frame::default() }
}

/// The function and those inlined into it, innermost first.
fn frames(sym: &Sym<'_>, library: &str) -> Vec<Frame> {
    let inlined = sym.inlined.iter().rev();
    let inlined = inlined.map(|one| frame(&one.name, one.code_info.as_ref(), library));
    inlined.chain([frame(&sym.name, sym.code_info.as_deref(), library)]).collect()
}

fn frame(name: &str, code: Option<&CodeInfo<'_>>, library: &str) -> Frame {
    Frame {
        function: tidy_name(name),
        library: library.to_owned(),
        file: code.map(|code| base_name(&code.file.to_string_lossy())).unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_symbol_keeps_its_library() {
        let none =
            named(&Source::Elf(Elf::new("/no/such/file")), Input::FileOffset(&[1]), "lib.so");
        assert_eq!(none, [[library("lib.so")]]);
        let found = symbolize(&BTreeSet::from([Location::Vdso]), &Files::default());
        assert_eq!(found[&Location::Vdso], [library("[vdso]")]);
    }
}
