//! `[store.NAME]`: a store that the processes of the server share.

use super::table::Table;

const MIB: u64 = 1 << 20;

/// Bytes of a store.
const SIZE_MIN: u64 = MIB;
const SIZE_MAX: u64 = MIB * MIB;

/// Bytes of a store, unless the file says otherwise.
const SIZE: u64 = 256 * MIB;

/// Nanoseconds of the unit in which times to live are kept.
const MILLISECOND_NS: u64 = 1_000_000;

const NAME_SIZE_MAX: usize = 64;

/// What the file says about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// How it is opened.
    pub name: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// Bytes of its pages in use, at most.
    pub size: u64,
    /// Milliseconds after which an entry expires; `None`: never.
    pub ttl_ms: Option<u64>,
    /// What survives which failure.
    pub durability: StoreDurability,
    /// What happens to a write that does not fit.
    pub when_full: StoreWhenFull,
}

/// What survives which failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StoreDurability {
    /// The end of all processes.
    Memory,
    /// A failure of power, but for the last second.
    #[default]
    Lazy,
    /// A failure of power.
    Durable,
}

/// What happens to a write that does not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StoreWhenFull {
    /// It fails.
    #[default]
    Refuse,
    /// The oldest entries make room.
    Drop,
}

/// What is wrong is in the file of `table`, and what this returns is of no use then.
pub(super) fn read(name: &str, mut table: Table<'_, '_>) -> StoreOptions {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !begins_well || !name.bytes().all(is_sign) || name.len() > NAME_SIZE_MAX {
        table.refuse_whole(&format!(
            "the name of a store has 1 to {NAME_SIZE_MAX} letters, digits, - and _, and begins with a \
             letter or digit, not {name:?}"
        ));
    }
    let size = table.size_within("size", 1..=SIZE_MAX).unwrap_or(SIZE);
    if size < SIZE_MIN {
        table.refuse("size", format!("size is at least {} MiB", SIZE_MIN / MIB));
    }
    let ttl_ms = table.duration("ttl").map(|ns| ns / MILLISECOND_NS);
    if ttl_ms == Some(0) {
        table.refuse("ttl", "ttl is at least 1ms");
    }
    let durabilities = [
        ("memory", StoreDurability::Memory),
        ("lazy", StoreDurability::Lazy),
        ("durable", StoreDurability::Durable),
    ];
    let policies = [("refuse", StoreWhenFull::Refuse), ("drop", StoreWhenFull::Drop)];
    let durability = table.word("durability", &durabilities).unwrap_or_default();
    let when_full = table.word("when-full", &policies).unwrap_or_default();
    let line = table.line();
    table.finish();
    StoreOptions { name: name.to_owned(), line, size, ttl_ms, durability, when_full }
}
