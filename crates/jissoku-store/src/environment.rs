//! The file of a store as LMDB's environment: the one place with `unsafe`.
#![expect(
    unsafe_code,
    reason = "LMDB maps a file that other processes change, which Rust cannot check"
)]

use std::path::Path;

use lmdb::{Env, EnvFlags, EnvOpenOptions, WithTls};

use crate::options::Durability;

/// Threads of all processes that read at the same time; each has a cache line of the lock file.
const READERS_MAX: u32 = 2048;

/// The indexes of `tables.rs`.
const TABLES_MAX: u32 = 2;

/// Room beyond the size of the store: pages that a transaction replaces are free only afterwards, and
/// a large value needs pages in a row.
const ROOM_MIN: u64 = 64 << 20;

/// The greatest page size of Linux on the supported machines.
const PAGE_SIZE_MAX: u64 = 64 << 10;

/// A reader has its place in the lock file by its thread (`WithTls`), and takes no lock to read.
pub(crate) type Environment = Env<WithTls>;

/// Bytes of address space for a store, and of its file at most.
pub(crate) fn map_size(size: u64) -> usize {
    let wanted = size.saturating_add(size / 2).saturating_add(ROOM_MIN);
    usize::try_from(wanted.next_multiple_of(PAGE_SIZE_MAX)).unwrap_or(usize::MAX / 2)
}

/// Opens the file in `folder`, which is created if there is none.
///
/// The caller has locked the folder, so that no process replaces the file meanwhile.
pub(crate) fn open(
    folder: &Path,
    size: u64,
    durability: Durability,
) -> Result<Environment, lmdb::Error> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_size(size)).max_dbs(TABLES_MAX).max_readers(READERS_MAX);
    if durability != Durability::Durable {
        // SAFETY: without synchronisation a failure of power may damage the file, which `page_check`
        // finds before the file is mapped again; the death of a process does not.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: the file is in a folder of this user alone, was checked by the first process that has
    // opened it, and is changed by LMDB only, whose locks order all processes. It is on a local file
    // system: `docs/store.md` asks for that.
    unsafe { options.open(folder) }
}
