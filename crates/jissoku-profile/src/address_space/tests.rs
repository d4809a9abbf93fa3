use object::read::ReadCache;
use object::{Object as _, ObjectSymbol as _};
use proptest::prelude::*;

use super::*;

/// A function whose address is known here and from the program's table of symbols.
#[inline(never)]
fn known_in_two_places() -> u64 {
    std::hint::black_box(7)
}

#[test]
fn this_program_lies_where_its_symbols_say() {
    let program = std::env::current_exe().expect("a program has a path");
    let cache = ReadCache::new(std::fs::File::open(program).expect("it can be read"));
    let elf = object::File::parse(&cache).expect("it is of ELF");
    let is_it = |name: &str| name.contains("known_in_two_places");
    let symbol = elf.symbols().find(|one| one.name().is_ok_and(is_it)).expect("a symbol");
    let address = known_in_two_places as fn() -> u64 as usize as u64;
    let mut files = Files::default();
    let own = i32::try_from(std::process::id()).expect("a process number");
    let space = AddressSpace::of_process(own, &mut files);
    let mapping = space.mapping(address).expect("it is code");
    let Backing::File { id, offset, has_tables: true } = mapping.backing else {
        panic!("a file with tables")
    };
    let stated = files.info(id).stated_address(offset).expect("a segment of code");
    assert_eq!(address - mapping.start + stated, symbol.address());
}

#[test]
fn the_kernels_walk_is_followed_through_code_without_tables_only() {
    let mut files = Files::default();
    let mut space = AddressSpace::new(7);
    space.map(0x1000..0x2000, 0, "//anon", &mut files);
    let own = std::env::current_exe().expect("a program has a path");
    space.map(0x8000..0x9000, 0, &own.to_string_lossy(), &mut files);
    let follow = |known: &[u64], chain: &[u64]| {
        let mut addresses = known.to_vec();
        space.follow_pointers(&mut addresses, chain);
        addresses
    };
    let chain = [0x1111, 0x1222, 0x8333, 0x8444];
    assert_eq!(follow(&[0x1000, 0x1222], &chain), [0x1000, 0x1222, 0x8333]);
    assert_eq!(follow(&[0x1000, 0x8333], &chain), [0x1000, 0x8333], "it has tables");
    assert_eq!(follow(&[0x1000], &chain), [0x1000], "the walk did not pass here");
    assert_eq!(follow(&[0x1111], &[0x1111, 0x5555, 0x1222]), [0x1111], "no code");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_return_address_that_is_no_code_ends_a_stack() {
    let mut files = Files::default();
    let mut space = AddressSpace::new(7);
    space.map(0x1000..0x2000, 0, "//anon", &mut files);
    // Frame pointers: the second frame's return address lies in no code.
    let words = [0x7020, 0x1200, 0, 0, 0x7040, 0x5000, 0, 0, 0, 0x1300];
    let stack: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
    let mut registers = [0; REGISTERS];
    // Frame pointer, stack pointer and instruction pointer.
    registers[6..9].copy_from_slice(&[0x7000, 0x7000, 0x1100]);
    let sample = Sample {
        ip: 0x1100,
        pid: 7,
        tid: 7,
        kernel: crate::record::Addresses::default(),
        user: crate::record::Addresses::default(),
        registers: Some(registers),
        stack: &stack,
        stack_is_cut: false,
    };
    assert_eq!(space.unwind(&sample, &files), (vec![0x1100, 0x11ff], false));
}

#[test]
fn a_forked_process_takes_no_memory_for_what_its_parent_has_mapped() {
    let mut files = Files::default();
    let mut parent = AddressSpace::new(7);
    parent.map(0x1000..0x2000, 0, "//anon", &mut files);
    let mut child = parent.fork(8);
    assert!(Rc::ptr_eq(&parent.code, &child.code) && !child.has_cache());
    child.map(0x1000..0x2000, 0, "/no/such/file", &mut files);
    assert_eq!(child.locate(0x1010), Some(Location::File(0, 0x10)));
    assert_eq!(parent.locate(0x1010), Some(Location::Generated(7, 0x1010)));
}

#[test]
fn a_line_of_maps_is_read() {
    let line = "7f00-8f00 r-xp 00001000 fd:01 1234    /usr/lib/a b.so";
    assert_eq!(executable(line), Some((0x7f00, 0x8f00, 0x1000, "/usr/lib/a b.so")));
    assert_eq!(executable("7f00-8f00 rw-p 00001000 fd:01 1234 /x"), None);
    assert_eq!(executable("7f00-8f00 r-xp 00000000 00:00 0"), Some((0x7f00, 0x8f00, 0, "")));
}

#[test]
fn a_new_mapping_replaces_an_old_one() {
    let mut files = Files::default();
    let mut space = AddressSpace::new(7);
    space.map(0x1000..0x3000, 0x100, "/no/such/file", &mut files);
    space.map(0x5000..0x6000, 0, "//anon", &mut files);
    space.map(0x6000..0x7000, 0, "[vdso]", &mut files);
    assert_eq!(space.locate(0x1010), Some(Location::File(0, 0x110)));
    assert_eq!(space.locate(0x3000), None);
    assert_eq!(space.locate(0x5001), Some(Location::Generated(7, 0x5001)));
    assert_eq!(space.locate(0x6001), Some(Location::Vdso));
    space.map(0x2000..0x4000, 0, "//anon", &mut files);
    assert_eq!(space.locate(0x1010), Some(Location::File(0, 0x110)), "what is left of it");
    assert_eq!(space.locate(0x2010), Some(Location::Generated(7, 0x2010)));
    space.map(0x1800..0x1900, 0, "//anon", &mut files);
    assert_eq!(space.locate(0x1800), Some(Location::Generated(7, 0x1800)));
    assert_eq!(space.locate(0x1900), Some(Location::File(0, 0xa00)));
    assert_eq!(space.locate(0x17ff), Some(Location::File(0, 0x8ff)));
    assert_eq!(space.fork(8).locate(0x2000), Some(Location::Generated(8, 0x2000)));
}

proptest! {
    #[test]
    fn any_line_is_read(line in "[0-9a-f-]{0,12} [rwxp-]{0,5} [0-9a-f ]{0,12}.{0,20}") {
        let _mapping = executable(&line);
    }
}
