//! Why a store cannot do what was asked, in one sentence each.

use std::fmt::{self, Display};
use std::io;
use std::path::PathBuf;

use crate::options::{KEY_SIZE_MAX, VALUE_SIZE_MAX};

/// An error of a store.
#[derive(Debug)]
pub enum Error {
    /// This cannot be the name of a store.
    Name(String),
    /// A key has this many bytes.
    KeySize(usize),
    /// A value has this many bytes.
    ValueSize(usize),
    /// The options say a size that no store has.
    Size(u64),
    /// One of several writes of a transaction has failed, so that there was none.
    Entry {
        /// Which of them, counted from 0.
        index: usize,
        /// Why.
        error: Box<Self>,
    },
    /// There is no room for the write, or not enough of it can be made.
    Full,
    /// The file of the store has no room, although the store has.
    FileFull,
    /// The value to be incremented is not a whole number.
    NotANumber,
    /// The sum does not fit into 64 bits.
    OutOfRange,
    /// There is no such store in the folder.
    Missing {
        /// Its name.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Others have opened the store with other options.
    Conflict(String),
    /// A thread reads the store inside of a read of it.
    Nested,
    /// The store is being closed by another thread.
    Closing,
    /// A call to the operating system failed.
    Io {
        /// What was done.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// LMDB has failed otherwise; what it says.
    Storage(String),
}

impl Error {
    /// An error of the operating system while `what` was done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }

    /// The error of one of several entries.
    pub(crate) fn of_entry(self, index: usize) -> Self {
        Self::Entry { index, error: Box::new(self) }
    }

    /// The error itself, if it is that of one of several entries.
    pub fn of_any_entry(&self) -> &Self {
        if let Self::Entry { error, .. } = self { error } else { self }
    }

    /// Whether the caller has to ask for something else: nothing is wrong with the store.
    pub fn is_bad_input(&self) -> bool {
        match self.of_any_entry() {
            Self::Name(_)
            | Self::KeySize(_)
            | Self::ValueSize(_)
            | Self::Size(_)
            | Self::NotANumber
            | Self::OutOfRange
            | Self::Missing { .. }
            | Self::Conflict(_)
            | Self::Nested => true,
            Self::Entry { .. }
            | Self::Full
            | Self::FileFull
            | Self::Closing
            | Self::Io { .. }
            | Self::Storage(_) => false,
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "{name:?} is no name of a store: it has 1 to 64 letters, digits, - and _, and begins \
                 with a letter or digit"
            ),
            Self::KeySize(size) => {
                write!(f, "a key has 1 to {KEY_SIZE_MAX} bytes, and this one {size}")
            }
            Self::ValueSize(size) => {
                write!(f, "a value has at most {VALUE_SIZE_MAX} bytes, and this one {size}")
            }
            Self::Size(size) => {
                write!(f, "a store has 1 MiB to 1 TiB, and this one is to have {size} bytes")
            }
            Self::Entry { index, error } => write!(f, "entries[{index}]: {error}"),
            Self::Full | Self::FileFull => f.write_str(
                "the store is full: remove entries, give it a larger size, or when-full = \"drop\"",
            ),
            Self::NotANumber => f.write_str("the value is not a whole number of 64 bits"),
            Self::OutOfRange => f.write_str("the sum is not a whole number of 64 bits"),
            Self::Missing { name, folder } => {
                write!(f, "there is no store {name:?} in {}", folder.display())
            }
            Self::Conflict(why) | Self::Storage(why) => f.write_str(why),
            Self::Nested => f.write_str("this thread reads the store already: end that read first"),
            Self::Closing => f.write_str("the store is being closed"),
            Self::Io { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<lmdb::Error> for Error {
    fn from(error: lmdb::Error) -> Self {
        match error {
            lmdb::Error::Mdb(lmdb::MdbError::MapFull | lmdb::MdbError::TxnFull) => Self::FileFull,
            lmdb::Error::Mdb(lmdb::MdbError::BadRslot) => Self::Nested,
            lmdb::Error::EnvAlreadyOpened => Self::Closing,
            lmdb::Error::Io(error) => Self::Io { what: "use the file of the store".into(), error },
            other => Self::Storage(other.to_string()),
        }
    }
}
