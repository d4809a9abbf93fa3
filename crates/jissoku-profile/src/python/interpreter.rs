//! An interpreter of a process: where it is, and which functions a stopped thread is in.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use jissoku_os::tracee::read_memory;
use object::read::ReadCache;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};

use super::layout::{self, Layout, WORDS};
use crate::frame::{Frame, base_name, tidy_name};

/// Frames of a stack at most; `CPython` itself ends recursion at 1,000.
const DEPTH_MAX: usize = 1_024;

/// Threads of an interpreter that are examined at most, in case the list is changed meanwhile.
const THREADS_MAX: usize = 10_000;

/// Code objects whose names are kept.
const CODES_MAX: usize = 20_000;

/// Bytes of a name or table at most.
const SIZE_MAX: u64 = 1 << 20;

/// Frames of this owner or of a higher number are the interpreter's own, between C and Python.
const OWNED_BY_C: u8 = 3;

/// Parts of the paths of modules that are not the application's, and of code without a file.
const OF_LIBRARIES: [&str; 4] = ["/lib/python3", "/site-packages/", "/dist-packages/", "<"];

const PAGE: usize = 4096;

/// The Python functions that a stopped thread was running.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Functions, innermost first.
    Frames(Vec<Frame>),
    /// The thread is none of the interpreter's, or runs no function of Python.
    Outside,
    /// The stack cannot be right, or not be read.
    Unread(&'static str),
}

/// The interpreter of a process.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pid: i32,
    runtime: u64,
    code_type: u64,
    layout: Layout,
    /// `PyThreadState` by number of the thread.
    threads: HashMap<i32, u64>,
    codes: HashMap<u64, Code>,
}

/// What is known of a code object; another one may get its address, but not its name and table.
#[derive(Debug)]
struct Code {
    identity: [u64; 2],
    function: String,
    file: String,
    /// Whether it is the application's, and not that of a library.
    is_own: bool,
    first_line: u32,
    lines: Vec<(u64, u32)>,
}

impl Interpreter {
    /// The interpreter of a process; `None` if it runs no Python.
    ///
    /// # Errors
    /// Why it cannot be read, in words that continue "Python functions are not named: ".
    pub(crate) fn find(pid: i32) -> Option<Result<Self, String>> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let files = maps.lines().filter_map(first_mapping);
        let mut is_python = false;
        for (start, path) in files {
            let name = base_name(path).to_lowercase();
            if name.contains("pypy") {
                return Some(Err("PyPy is not read, CPython 3.11 to 3.14 are".to_owned()));
            }
            let is_named_so = name.starts_with("python") || name.starts_with("libpython");
            if !is_named_so && exe.to_str() != Some(path) {
                continue;
            }
            is_python |= is_named_so;
            if let Some(symbols) = Symbols::read(pid, path) {
                return Some(Self::at(pid, start, &symbols));
            }
        }
        is_python.then(|| Err("the symbols of its interpreter were removed".to_owned()))
    }

    fn at(pid: i32, start: u64, symbols: &Symbols) -> Result<Self, String> {
        let moved = |address: u64| start.wrapping_add(address.wrapping_sub(symbols.base));
        let mut memory = Memory::new(pid);
        let mut bytes = [0; WORDS * 8];
        let runtime = moved(symbols.runtime);
        read_memory(pid, runtime, &mut bytes)
            .map_err(|error| format!("its memory cannot be read ({error})"))?;
        let chunks = bytes.as_chunks().0;
        let words: [u64; WORDS] = std::array::from_fn(|at| u64::from_ne_bytes(chunks[at]));
        let version = symbols.version.and_then(|address| memory.u64(moved(address)));
        // Before 3.11 there is no such symbol.
        let version = version.ok_or("CPython before 3.11 is not read")?;
        let layout = layout::of_interpreter(&words, version)?;
        let code_type = moved(symbols.code_type);
        let (threads, codes) = (HashMap::new(), HashMap::new());
        let found = Self { pid, runtime, code_type, layout, threads, codes };
        if !found.all_threads(&mut memory).is_empty() {
            return Ok(found);
        }
        Err("none of its threads is where this version of CPython has them".to_owned())
    }

    /// `PyThreadState` and number of the threads that exist.
    fn all_threads(&self, memory: &mut Memory) -> Vec<(u64, i32)> {
        let layout = &self.layout;
        let list = |memory: &mut Memory, first: u64, next: u64| {
            let mut at = memory.u64(first).unwrap_or(0);
            let mut found = Vec::new();
            while at != 0 && found.len() < THREADS_MAX {
                found.push(at);
                at = memory.u64(at + next).unwrap_or(0);
            }
            found
        };
        let interpreters =
            list(memory, self.runtime + layout.interpreters, layout.next_interpreter);
        let threads = interpreters
            .into_iter()
            .flat_map(|one| list(memory, one + layout.threads, layout.next_thread))
            .collect::<Vec<_>>();
        let numbered = threads.into_iter().filter_map(|thread| {
            let id = i32::try_from(memory.u64(thread + layout.native_id)?).ok()?;
            Some((thread, id))
        });
        numbered.filter(|&(_, id)| id > 0).collect()
    }

    /// Reads the Python functions that a thread is running; it has to be stopped.
    pub(super) fn read(&mut self, tid: i32) -> Reading {
        let mut memory = Memory::new(self.pid);
        let Some(innermost) = self.innermost(tid, &mut memory) else { return Reading::Outside };
        match self.frames(innermost, &mut memory) {
            Ok(found) if found.is_empty() => Reading::Outside,
            Ok(found) => Reading::Frames(found.into_iter().map(|(frame, _)| frame).collect()),
            Err(reason) => Reading::Unread(reason),
        }
    }

    /// Where a thread is that does not run: the innermost function of the application and its line,
    /// behind the function of a library that it calls; of a thread without any, the innermost one.
    pub(crate) fn place(&mut self, tid: i32) -> Option<String> {
        let mut memory = Memory::new(self.pid);
        let innermost = self.innermost(tid, &mut memory)?;
        let found = self.frames(innermost, &mut memory).ok()?;
        let at = found.iter().position(|(_, is_own)| *is_own).unwrap_or(0);
        let (own, _) = found.get(at)?;
        let called = at.checked_sub(1).and_then(|callee| found.get(callee));
        let called = called
            .map_or_else(String::new, |(callee, _)| format!("{}, called by ", callee.function));
        Some(format!("{called}{} at {}:{}", own.function, own.file, own.line))
    }

    /// The frame that a thread is in. A new thread has the number of the one that started it for a
    /// moment, so a frame is looked for in all that have this number.
    fn innermost(&mut self, tid: i32, memory: &mut Memory) -> Option<u64> {
        let frame = |thread: u64, memory: &mut Memory| {
            let current = memory.u64(thread + self.layout.current_frame)?;
            let frame = match self.layout.in_c_frame {
                Some(_) if current == 0 => 0,
                Some(offset) => memory.u64(current + offset)?,
                None => current,
            };
            (frame != 0).then_some(frame)
        };
        let known =
            self.threads.get(&tid).copied().filter(|thread| {
                memory.u64(thread + self.layout.native_id) == u64::try_from(tid).ok()
            });
        if let Some(found) = known.and_then(|thread| frame(thread, memory)) {
            return Some(found);
        }
        let all = self.all_threads(memory);
        let mut same = all.into_iter().filter(|&(_, id)| id == tid).map(|(thread, _)| thread);
        let (thread, found) = same.find_map(|thread| Some((thread, frame(thread, memory)?)))?;
        if self.threads.len() >= THREADS_MAX {
            self.threads.clear();
        }
        self.threads.insert(tid, thread);
        Some(found)
    }

    /// All functions from a frame on, each with whether it is the application's.
    fn frames(
        &mut self,
        mut at: u64,
        memory: &mut Memory,
    ) -> Result<Vec<(Frame, bool)>, &'static str> {
        let layout = self.layout;
        let mut found = Vec::new();
        let mut own = 0;
        while at != 0 {
            if found.len() + own >= DEPTH_MAX {
                return Err("the stack is deeper than 1,024 functions");
            }
            let words = (memory.u64(at + layout.code), memory.u64(at + layout.previous));
            let (Some(code), Some(previous), Some(owner)) =
                (words.0, words.1, memory.byte(at + layout.owner))
            else {
                return Err("a frame is in no memory");
            };
            if owner >= OWNED_BY_C {
                own += 1;
            } else {
                // The lowest bits of a reference are a mark from 3.14 on.
                let instruction = memory.u64(at + layout.instruction).unwrap_or(0);
                let Some(frame) = self.frame(code & !7, instruction, memory) else {
                    return Err("a frame has no code");
                };
                found.push(frame);
            }
            at = previous;
        }
        Ok(found)
    }

    fn frame(&mut self, code: u64, instruction: u64, memory: &mut Memory) -> Option<(Frame, bool)> {
        let layout = self.layout;
        if memory.u64(code + 8)? != self.code_type {
            return None;
        }
        let name = memory.u64(code + layout.qualified_name)?;
        let table = memory.u64(code + layout.line_table)?;
        let identity = [name, table];
        if self.codes.get(&code).is_none_or(|known| known.identity != identity) {
            if self.codes.len() >= CODES_MAX {
                self.codes.clear();
            }
            let file = memory.u64(code + layout.file_name)?;
            let mut number = [0; 4];
            memory.fill(code + layout.first_line, &mut number)?;
            let first_line = u32::from_ne_bytes(number);
            let path = memory.text(file, &layout)?;
            let known = Code {
                identity,
                function: tidy_name(&memory.text(name, &layout)?),
                file: base_name(&path),
                is_own: !OF_LIBRARIES.iter().any(|part| path.contains(part)),
                first_line,
                lines: layout::lines(&memory.bytes_object(table)?, first_line),
            };
            self.codes.insert(code, known);
        }
        let known = self.codes.get(&code)?;
        let offset = instruction.wrapping_sub(code + layout.instructions) / 2;
        let line = known.lines.iter().find(|(end, _)| offset < *end);
        let frame = Frame {
            function: known.function.clone(),
            library: super::LIBRARY.to_owned(),
            file: known.file.clone(),
            // Before the first instruction it is just called.
            line: line.map_or(known.first_line, |(_, line)| *line),
        };
        Some((frame, known.is_own))
    }
}

/// Start and path of the first mapping of a file.
fn first_mapping(line: &str) -> Option<(u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (start, _) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let path = words.nth(2)?.trim_start();
    let is_first = u64::from_str_radix(offset, 16) == Ok(0) && path.starts_with('/');
    is_first.then_some((u64::from_str_radix(start, 16).ok()?, path))
}

/// Addresses that a file states.
#[derive(Debug)]
struct Symbols {
    /// Address of the page that is mapped first.
    base: u64,
    runtime: u64,
    code_type: u64,
    version: Option<u64>,
}

impl Symbols {
    fn read(pid: i32, path: &str) -> Option<Self> {
        let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
        let cache = ReadCache::new(File::open(inside).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        let first = elf.segments().next()?;
        let mut found = HashMap::new();
        for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
            if symbol.is_definition()
                && let Ok(name @ ("_PyRuntime" | "PyCode_Type" | "Py_Version")) = symbol.name()
            {
                found.insert(name.to_owned(), symbol.address());
            }
        }
        Some(Self {
            base: first.address() & !(PAGE as u64 - 1),
            runtime: *found.get("_PyRuntime")?,
            code_type: *found.get("PyCode_Type")?,
            version: found.get("Py_Version").copied(),
        })
    }
}

/// Memory of a process while a thread of it is stopped, read by pages.
#[derive(Debug)]
struct Memory {
    pid: i32,
    pages: HashMap<u64, [u8; PAGE]>,
}

impl Memory {
    fn new(pid: i32) -> Self {
        Self { pid, pages: HashMap::new() }
    }

    fn fill(&mut self, mut address: u64, mut into: &mut [u8]) -> Option<()> {
        while !into.is_empty() {
            let start = address & !(PAGE as u64 - 1);
            let at = usize::try_from(address - start).ok()?;
            if !self.pages.contains_key(&start) {
                let mut page = [0; PAGE];
                read_memory(self.pid, start, &mut page).ok()?;
                self.pages.insert(start, page);
            }
            let page = self.pages.get(&start)?;
            let length = into.len().min(PAGE - at);
            let (now, later) = std::mem::take(&mut into).split_at_mut(length);
            now.copy_from_slice(&page[at..at + length]);
            address = address.checked_add(length as u64)?;
            into = later;
        }
        Some(())
    }

    fn u64(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.fill(address, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    fn byte(&mut self, address: u64) -> Option<u8> {
        let mut bytes = [0];
        self.fill(address, &mut bytes)?;
        Some(bytes[0])
    }

    fn vector(&mut self, address: u64, size: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(size).ok().filter(|_| size <= SIZE_MAX)?];
        self.fill(address, &mut bytes)?;
        Some(bytes)
    }

    /// `PyBytesObject`: its size follows the head of 16 bytes, its bytes a hash after that.
    fn bytes_object(&mut self, at: u64) -> Option<Vec<u8>> {
        let size = self.u64(at + 16)?;
        self.vector(at + 32, size)
    }

    /// `PyUnicodeObject`, as names have it: the characters follow its head.
    fn text(&mut self, at: u64, layout: &Layout) -> Option<String> {
        let length = self.u64(at + 16)?;
        let state = self.u64(at + 32)? >> layout.kind_bit;
        let (kind, is_ascii) = (state & 7, state >> 4 & 1 != 0);
        let head = if is_ascii { layout.ascii } else { layout.compact };
        let bytes = self.vector(at + head, length.checked_mul(kind)?)?;
        let characters: Vec<u32> = match kind {
            1 => bytes.iter().copied().map(u32::from).collect(),
            2 => bytes.as_chunks().0.iter().map(|two| u16::from_ne_bytes(*two).into()).collect(),
            4 => bytes.as_chunks().0.iter().map(|four| u32::from_ne_bytes(*four)).collect(),
            _ => return None,
        };
        let known = characters.into_iter().map(char::from_u32);
        Some(known.map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    }
}
