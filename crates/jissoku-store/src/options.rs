//! What is asked of a store: its size, how durable it is, and what happens when it is full.

/// Bytes of a key at most. LMDB has keys of up to 511 bytes, of which an index needs 8.
pub const KEY_SIZE_MAX: usize = 500;

/// Bytes of a value at most.
pub const VALUE_SIZE_MAX: usize = 16 << 20;

/// Bytes of a store at least.
pub const SIZE_MIN: u64 = 1 << 20;

/// Bytes of a store at most.
pub const SIZE_MAX: u64 = 1 << 40;

/// What survives which failure. The death of a process loses nothing in any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A file in memory (`/dev/shm`): a restart of the machine loses all.
    Memory,
    /// A file that is synchronised every second: a failure of power loses the last second, and may
    /// damage the file.
    Lazy,
    /// Every write is on the disk before it is acknowledged.
    Durable,
}

/// What happens to a write that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It fails.
    Refuse,
    /// The entries that were written least recently are removed until it fits.
    Drop,
}

/// The options of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the pages in use, at most.
    pub size: u64,
    /// The time after which an entry expires, in milliseconds, unless its write says otherwise.
    pub ttl_ms: Option<u64>,
    /// What survives which failure.
    pub durability: Durability,
    /// What happens to a write that does not fit.
    pub when_full: WhenFull,
}

impl Durability {
    /// All of them by their names in configuration files.
    pub const WORDS: [(&'static str, Self); 3] =
        [("memory", Self::Memory), ("lazy", Self::Lazy), ("durable", Self::Durable)];

    /// Its name in configuration files.
    pub fn word(self) -> &'static str {
        word_of(self, &Self::WORDS)
    }

    /// The one of a name.
    pub fn of_word(word: &str) -> Option<Self> {
        of_word(word, &Self::WORDS)
    }
}

impl WhenFull {
    /// All of them by their names in configuration files.
    pub const WORDS: [(&'static str, Self); 2] = [("refuse", Self::Refuse), ("drop", Self::Drop)];

    /// Its name in configuration files.
    pub fn word(self) -> &'static str {
        word_of(self, &Self::WORDS)
    }

    /// The one of a name.
    pub fn of_word(word: &str) -> Option<Self> {
        of_word(word, &Self::WORDS)
    }
}

impl Options {
    /// The options of a table without keys.
    pub const DEFAULT: Self = Self {
        size: 256 << 20,
        ttl_ms: None,
        durability: Durability::Lazy,
        when_full: WhenFull::Refuse,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

fn word_of<T: Copy + PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}

fn of_word<T: Copy>(word: &str, words: &[(&'static str, T)]) -> Option<T> {
    words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}
