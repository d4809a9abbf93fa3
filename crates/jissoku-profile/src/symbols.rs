//! From locations to functions and source lines, by blazesym, after sampling has ended.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use jissoku_os::memory;

use crate::address_space::{FileId, Files, Location};
use crate::frame::{Frame, base_name, tidy_name};
use crate::kernel_symbols;
use crate::perf_map::PerfMap;

/// Addresses of a file that are looked up with the same tables: blazesym keeps those of all units of debug
/// information that it met.
const PART: usize = 1_024;

/// Neighbouring addresses that are looked up before the pages are released from which they were read: all
/// that were met would be tens of MiB of a large program.
const NEIGHBOURS: usize = 64;

/// Functions, each once, by number.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    ids: HashMap<Rc<Frame>, u32>,
    all: Vec<Rc<Frame>>,
}

impl Functions {
    /// The number of a function.
    pub(crate) fn id(&mut self, frame: Frame) -> u32 {
        if let Some(&id) = self.ids.get(&frame) {
            return id;
        }
        let id = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let frame = Rc::new(frame);
        self.all.push(Rc::clone(&frame));
        self.ids.insert(frame, id);
        id
    }

    /// All, by number.
    pub(crate) fn into_all(self) -> Vec<Frame> {
        drop(self.ids);
        self.all.into_iter().map(Rc::unwrap_or_clone).collect()
    }
}

/// Numbers of the functions at each location, innermost first: several where functions were inlined.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Parts of `functions`, by the location's number.
    ranges: Vec<Range<usize>>,
    functions: Vec<u32>,
}

impl Symbols {
    /// The functions at a location, by its number.
    pub(crate) fn of(&self, location: u32) -> &[u32] {
        let range = self.ranges.get(location as usize).cloned().unwrap_or_default();
        &self.functions[range]
    }

    fn set(&mut self, location: usize, functions: impl Iterator<Item = u32>) {
        let start = self.functions.len();
        self.functions.extend(functions);
        self.ranges[location] = start..self.functions.len();
    }
}

/// Names locations, by their number; `None` is no known code. Those without a symbol keep their library.
pub(crate) fn symbolize(
    locations: &[Option<Location>],
    files: &Files,
    functions: &mut Functions,
) -> Symbols {
    let mut symbols = Symbols { ranges: vec![0..0; locations.len()], functions: Vec::new() };
    let mut by_file: BTreeMap<FileId, Vec<(u64, usize)>> = BTreeMap::new();
    let mut by_process: BTreeMap<i32, Vec<(u64, usize)>> = BTreeMap::new();
    let mut kernel = Vec::new();
    for (number, location) in locations.iter().enumerate() {
        match *location {
            Some(Location::File(id, offset)) => {
                by_file.entry(id).or_default().push((offset, number));
            }
            Some(Location::Kernel(address)) => kernel.push((address, number)),
            Some(Location::Generated(pid, address)) => {
                by_process.entry(pid).or_default().push((address, number));
            }
            Some(Location::Vdso) => {
                symbols.set(number, [functions.id(library("[vdso]"))].into_iter());
            }
            None => {
                symbols.set(number, [functions.id(library("[unknown]"))].into_iter());
            }
        }
    }
    kernel.sort_unstable();
    let addresses: Vec<u64> = kernel.iter().map(|(address, _)| *address).collect();
    for ((_, number), name) in kernel.into_iter().zip(kernel_symbols::names(&addresses)) {
        let frame = frame(&name.unwrap_or_default(), None, "[kernel]");
        symbols.set(number, [functions.id(frame)].into_iter());
    }
    for (pid, generated) in by_process {
        let map = read_map(pid);
        for (address, number) in generated {
            let frame = map.find(address).unwrap_or_else(|| library("[jit]"));
            symbols.set(number, [functions.id(frame)].into_iter());
        }
    }
    for (id, mut offsets) in by_file {
        offsets.sort_unstable();
        for part in offsets.chunks(PART) {
            let offsets: Vec<u64> = part.iter().map(|(offset, _)| *offset).collect();
            for ((_, number), named) in part.iter().zip(named(files.path(id), &offsets)) {
                symbols.set(*number, named.into_iter().map(|frame| functions.id(frame)));
            }
        }
    }
    symbols
}

fn read_map(pid: i32) -> PerfMap {
    let text = std::fs::read(PerfMap::path(pid)).unwrap_or_default();
    PerfMap::parse(&String::from_utf8_lossy(&text))
}

/// Frames for each offset of a file. Its tables are freed when it returns.
fn named(path: &Path, offsets: &[u64]) -> Vec<Vec<Frame>> {
    let name = base_name(&path.to_string_lossy());
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let source = Source::Elf(Elf::new(path));
    let mut all = Vec::with_capacity(offsets.len());
    // With the first the index of the file is read, from pages all over it.
    let (first, rest) = offsets.split_at(offsets.len().min(1));
    for few in [first].into_iter().chain(rest.chunks(NEIGHBOURS)) {
        match symbolizer.symbolize(&source, Input::FileOffset(few)) {
            Ok(found) => all.extend(found.iter().map(|found| {
                found.as_sym().map_or_else(|| vec![library(&name)], |sym| frames(sym, &name))
            })),
            Err(_) => all.extend(few.iter().map(|_| vec![library(&name)])),
        }
        memory::release_read_pages();
    }
    all
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
    use crate::address_space::AddressSpace;

    #[test]
    fn what_has_no_symbol_keeps_its_library() {
        assert_eq!(named(Path::new("/no/such/lib.so"), &[1]), [[library("lib.so")]]);
        let mut functions = Functions::default();
        let locations = [Some(Location::Vdso), None, Some(Location::Kernel(0))];
        let symbols = symbolize(&locations, &Files::default(), &mut functions);
        let all = functions.into_all();
        let found = [0, 1, 2].map(|location| {
            let [id] = symbols.of(location) else { panic!("each has one") };
            all[*id as usize].clone()
        });
        assert_eq!(found, ["[vdso]", "[unknown]", "[kernel]"].map(library));
    }

    #[test]
    fn a_part_is_named_like_each_address_alone() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        let mut files = Files::default();
        let space = AddressSpace::of_process(own, &mut files);
        let here = symbolize as *const () as usize as u64;
        let Some(Location::File(id, start)) = space.locate(here) else { panic!("it is code") };
        let offsets: Vec<u64> = (0..300).map(|index| start + 40 * index).collect();
        let together = named(files.path(id), &offsets);
        let alone = offsets.iter().step_by(50).map(|at| named(files.path(id), &[*at]));
        assert_eq!(together.len(), offsets.len());
        let is_here = |frame: &Frame| frame.function.ends_with("::symbolize") && frame.line > 0;
        assert!(together[0].last().is_some_and(is_here), "{:?}", together[0]);
        assert!(together.iter().step_by(50).zip(alone).all(|(one, alone)| [one.clone()] == *alone));
    }
}
