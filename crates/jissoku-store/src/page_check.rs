//! Whether LMDB can use a file. LMDB itself trusts what it maps: a file that was cut off, or a page
//! that was never written, would end the process with a signal, at every start.
//!
//! Reads the pages of all trees, without the contents of large values, and checks what LMDB relies
//! on: that every page is in the file, is what the reference to it says, is referred to once, and has
//! its entries inside of it, in order. The layout is that of `mdb.c`, version 1, on machines of 64 bits.

use std::fs::File;
use std::io;
use std::mem::take;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;

/// Bytes before the contents of a page.
const PAGE_HEADER_SIZE: usize = 16;
/// Bytes before the key of an entry.
const NODE_HEADER_SIZE: usize = 8;
/// Bytes of a page of metadata that are used.
const META_SIZE: usize = 152;
/// Bytes of the record of a tree.
const TREE_SIZE: usize = 48;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;

/// The value is in pages of its own.
const IS_LARGE: u16 = 0x01;
/// The value is the record of a tree.
const IS_TREE: u16 = 0x02;

/// The keys of a tree are numbers in the order of the machine's bytes.
const NUMBERED: u16 = 0x08;

/// LMDB goes no deeper.
const DEPTH_MAX: u16 = 32;

/// The pages of metadata, which are the first ones.
const METAS: u64 = 2;

/// The root of an empty tree.
const NO_ROOT: u64 = u64::MAX;

/// What is wrong with a file, in a few words; `None` if nothing is, or if there is no file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn damage_of(path: &Path) -> io::Result<Option<String>> {
    if cfg!(not(all(target_pointer_width = "64", target_endian = "little"))) {
        return Ok(None);
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(None);
    }
    match Checker::begin(file, size).and_then(|mut checker| checker.check()) {
        Ok(()) => Ok(None),
        Err(Finding::Damage(why)) => Ok(Some(why)),
        Err(Finding::Io(error)) => Err(error),
    }
}

enum Finding {
    Damage(String),
    Io(io::Error),
}

fn damage<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Damage(why.into()))
}

/// The record of a tree.
#[derive(Clone, Copy)]
struct Tree {
    /// How keys are compared, and what LMDB keeps of the options in the record of the free pages.
    flags: u16,
    depth: u16,
    counts: Counts,
    root: u64,
}

/// What a tree consists of.
#[derive(Clone, Copy, Default, PartialEq)]
struct Counts {
    branch_pages: u64,
    leaf_pages: u64,
    overflow_pages: u64,
    entries: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Contents {
    /// Lists of free pages.
    Free,
    /// Entries, and the records of the indexes.
    Main,
    Index,
}

struct Checker {
    file: File,
    size: u64,
    page_size: usize,
    /// The last page that is in use or free.
    last: u64,
    trees: [Tree; 2],
    /// A bit for each page that was referred to.
    seen: Vec<u64>,
    /// What was found of the tree that is read.
    counts: Counts,
    /// The last key that was read of it.
    last_key: Option<Vec<u8>>,
}

impl Checker {
    /// Reads the newer one of the two pages of metadata.
    fn begin(file: File, size: u64) -> Result<Self, Finding> {
        let first = meta(&file, size, 0)?;
        let page_size = u32_at(&first, 40) as usize;
        if !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) {
            return damage("it has no valid page size");
        }
        let second = meta(&file, size, page_size as u64)?;
        if u32_at(&second, 40) as usize != page_size {
            return damage("its pages of metadata name different page sizes");
        }
        let newer = if u64_at(&second, 144) > u64_at(&first, 144) { second } else { first };
        let last = u64_at(&newer, 136);
        // Each page takes space, so a number beyond the file is wrong, or those pages are free and were
        // never written: in a transaction that has used them, and no longer needed them.
        let pages = size.div_ceil(page_size as u64);
        if last > pages.saturating_mul(4).saturating_add(1 << 20) {
            return damage(format!("it says that it has {last} pages, and has {pages}"));
        }
        let words = usize::try_from(last / 64 + 1).unwrap_or_default();
        let trees = [tree_at(&newer, 40), tree_at(&newer, 88)];
        Ok(Self {
            file,
            size,
            page_size,
            last,
            trees,
            seen: vec![0; words],
            counts: Counts::default(),
            last_key: None,
        })
    }

    fn check(&mut self) -> Result<(), Finding> {
        let [free, main] = self.trees;
        self.check_tree(free, Contents::Free)?;
        self.check_tree(main, Contents::Main)
    }

    fn check_tree(&mut self, tree: Tree, contents: Contents) -> Result<(), Finding> {
        let expected = if contents == Contents::Free { NUMBERED } else { 0 };
        if tree.flags != expected {
            return damage(format!("a tree has the flags {:#x}", tree.flags));
        }
        if tree.root == NO_ROOT && tree.counts == Counts::default() {
            return Ok(());
        }
        if tree.depth == 0 || tree.depth > DEPTH_MAX {
            return damage(format!("a tree has the depth {}", tree.depth));
        }
        let outer = (take(&mut self.counts), self.last_key.take());
        self.check_page(tree.root, tree.depth, contents)?;
        if self.counts != tree.counts {
            return damage("a tree has other pages than its record says");
        }
        (self.counts, self.last_key) = outer;
        Ok(())
    }

    fn check_page(&mut self, number: u64, levels: u16, contents: Contents) -> Result<(), Finding> {
        self.refer(number, 1)?;
        let page = self.read(number, self.page_size)?;
        let (lower, upper) = (usize::from(u16_at(&page, 12)), usize::from(u16_at(&page, 14)));
        let (expected, count) = if levels == 1 {
            (LEAF, &mut self.counts.leaf_pages)
        } else {
            (BRANCH, &mut self.counts.branch_pages)
        };
        *count += 1;
        // Without those flags that LMDB sets in memory alone: it would write to a page that has them
        // where it is mapped, or free it twice.
        if u64_at(&page, 0) != number || u16_at(&page, 10) != expected {
            return damage(format!("page {number} is not what refers to it says"));
        }
        if lower < PAGE_HEADER_SIZE || lower % 2 != 0 || lower > upper || upper > self.page_size {
            return damage(format!("page {number} has no valid bounds"));
        }
        check_entries(number, &page, (lower, upper), levels == 1)?;
        for place in (PAGE_HEADER_SIZE..lower).step_by(2) {
            let at = usize::from(u16_at(&page, place));
            let data_at = at + NODE_HEADER_SIZE + usize::from(u16_at(&page, at + 6));
            if levels > 1 {
                let high = u64::from(u16_at(&page, at + 4)) << 32;
                let child = u64::from(u32_at(&page, at)) | high;
                self.check_page(child, levels - 1, contents)?;
            } else {
                self.check_key(&page[at + NODE_HEADER_SIZE..data_at], contents)?;
                self.check_entry(number, (&page, at, data_at), contents)?;
            }
        }
        Ok(())
    }

    /// Checks that a key follows the last one.
    fn check_key(&mut self, key: &[u8], contents: Contents) -> Result<(), Finding> {
        self.counts.entries += 1;
        // Those of the free pages are numbers of transactions, in the order of the machine's bytes.
        let mut key = key.to_vec();
        if contents == Contents::Free {
            if key.len() != size_of::<u64>() {
                return damage("a list of free pages is of no transaction");
            }
            key.reverse();
        }
        if self.last_key.as_ref().is_some_and(|last| *last >= key) {
            return damage("the keys of a tree are not in order");
        }
        self.last_key = Some(key);
        Ok(())
    }

    /// Checks the value of an entry at `at` of a leaf, which begins at `data_at`.
    fn check_entry(
        &mut self,
        number: u64,
        (page, at, data_at): (&[u8], usize, usize),
        contents: Contents,
    ) -> Result<(), Finding> {
        let (size, flags) = (u32_at(page, at) as usize, u16_at(page, at + 4));
        if flags & !(IS_LARGE | IS_TREE) != 0 {
            return damage(format!("an entry of page {number} is of an unknown kind"));
        }
        if flags & IS_TREE != 0 {
            if contents != Contents::Main || size != TREE_SIZE || flags & IS_LARGE != 0 {
                return damage(format!("an entry of page {number} is no tree"));
            }
            return self.check_tree(tree_at(page, data_at), Contents::Index);
        }
        let large = if flags & IS_LARGE == 0 {
            None
        } else {
            Some(self.check_large(u64_at(page, data_at), size)?)
        };
        if contents != Contents::Free {
            return Ok(());
        }
        let list = match large {
            None => page[data_at..data_at + size].to_vec(),
            Some(first) => {
                let whole = self.read(first, PAGE_HEADER_SIZE + size)?;
                whole[PAGE_HEADER_SIZE..].to_vec()
            }
        };
        self.check_free(&list)
    }

    /// Checks the pages of a large value, and returns the first.
    fn check_large(&mut self, first: u64, size: usize) -> Result<u64, Finding> {
        self.refer(first, 1)?;
        let header = self.read(first, PAGE_HEADER_SIZE)?;
        let count = u64::from(u32_at(&header, 12));
        let needed = (PAGE_HEADER_SIZE - 1 + size) / self.page_size + 1;
        if u64_at(&header, 0) != first || u16_at(&header, 10) != OVERFLOW || count < needed as u64 {
            return damage(format!("page {first} does not begin a large value"));
        }
        self.counts.overflow_pages += count;
        self.refer(first + 1, count - 1)?;
        if (first + needed as u64) * self.page_size as u64 > self.size {
            return damage(format!("it ends inside of the value of page {first}"));
        }
        Ok(first)
    }

    fn check_free(&mut self, list: &[u8]) -> Result<(), Finding> {
        let (numbers, _) = list.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let count = numbers.next().unwrap_or(u64::MAX);
        if count > numbers.len() as u64 {
            return damage("a list of free pages is not as long as it says");
        }
        let mut last = u64::MAX;
        for number in numbers.take(usize::try_from(count).unwrap_or_default()) {
            if number >= last {
                return damage("a list of free pages is not in order");
            }
            self.refer(number, 1)?;
            last = number;
        }
        Ok(())
    }

    /// Takes note of a reference to `count` pages.
    fn refer(&mut self, first: u64, count: u64) -> Result<(), Finding> {
        let end = first.checked_add(count).filter(|end| *end <= self.last + 1);
        let Some(end) = end.filter(|_| first >= METAS) else {
            return damage(format!("something refers to page {first}, which does not exist"));
        };
        for number in first..end {
            let word = usize::try_from(number / 64).unwrap_or_default();
            let bit = 1 << (number % 64);
            if self.seen[word] & bit != 0 {
                return damage(format!("page {number} is used twice"));
            }
            self.seen[word] |= bit;
        }
        Ok(())
    }

    fn read(&self, number: u64, size: usize) -> Result<Vec<u8>, Finding> {
        read(&self.file, self.size, number * self.page_size as u64, size)
    }
}

/// Checks that the entries of a page are inside of it, behind `upper`, and do not overlap: LMDB moves
/// them by their sizes when one is removed.
fn check_entries(
    number: u64,
    page: &[u8],
    (lower, upper): (usize, usize),
    is_leaf: bool,
) -> Result<(), Finding> {
    let mut spans: Vec<(usize, usize)> = (PAGE_HEADER_SIZE..lower)
        .step_by(2)
        .map(|place| {
            let at = usize::from(u16_at(page, place));
            let key_size = usize::from(u16_at(page, at + 6));
            let value_size = match (is_leaf, u16_at(page, at + 4) & IS_LARGE) {
                (false, _) => 0,
                (true, 0) => u32_at(page, at) as usize,
                (true, _) => size_of::<u64>(),
            };
            (at, at + (NODE_HEADER_SIZE + key_size + value_size).next_multiple_of(2))
        })
        .collect();
    spans.sort_unstable();
    let mut free_from = upper;
    for (at, end) in spans {
        if at < free_from || at % 2 != 0 || end > page.len() {
            return damage(format!("entries of page {number} overlap, or are outside of it"));
        }
        free_from = end;
    }
    Ok(())
}

/// A page of metadata.
fn meta(file: &File, file_size: u64, at: u64) -> Result<Vec<u8>, Finding> {
    let page = read(file, file_size, at, META_SIZE)?;
    if u16_at(&page, 10) != META || u32_at(&page, 16) != MAGIC {
        return damage("it is no file of LMDB");
    }
    if u32_at(&page, 20) != VERSION {
        return damage(format!("it has version {} of the format", u32_at(&page, 20)));
    }
    Ok(page)
}

fn read(file: &File, file_size: u64, at: u64, size: usize) -> Result<Vec<u8>, Finding> {
    if at.checked_add(size as u64).is_none_or(|end| end > file_size) {
        return damage(format!("it ends after {file_size} bytes, inside of what it refers to"));
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, at).map_err(Finding::Io)?;
    Ok(bytes)
}

fn tree_at(bytes: &[u8], at: usize) -> Tree {
    let counts = Counts {
        branch_pages: u64_at(bytes, at + 8),
        leaf_pages: u64_at(bytes, at + 16),
        overflow_pages: u64_at(bytes, at + 24),
        entries: u64_at(bytes, at + 32),
    };
    let (flags, depth) = (u16_at(bytes, at + 4), u16_at(bytes, at + 6));
    Tree { flags, depth, counts, root: u64_at(bytes, at + 40) }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// The bytes at a place, whose end the caller has checked.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}
