//! The store: keys and values that all processes of a server share, in a file.
//!
//! LMDB keeps the file (`docs/decisions/0063-a-store-on-lmdb.md`). This crate adds what a store of a
//! server needs: times to live, a limit of the size, options that all processes agree on, and a
//! check of the file before the first process uses it. It knows no HTTP and prints nothing.

mod counts;
mod environment;
mod error;
mod expiry;
mod housekeeping;
mod opening;
mod options;
mod page_check;
mod record;
mod registry;
mod store;
mod tables;

pub use counts::{Count, Counts};
pub use error::Error;
pub use expiry::Ttl;
pub use opening::names;
pub use options::{
    Durability, KEY_SIZE_MAX, Options, SIZE_MAX, SIZE_MIN, VALUE_SIZE_MAX, WhenFull,
};
pub use registry::{default_folder, set_default_folder};
pub use store::{Entry, Snapshot, Stats, Store, counts_of_server};
pub use tables::{Change, Visit};

#[cfg(test)]
mod tests;
