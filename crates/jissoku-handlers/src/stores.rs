//! The stores of the configuration file, as handlers name them.
//!
//! A store that was opened stays open until the process ends, because handlers keep pointers to it.

#![expect(clippy::disallowed_types, reason = "locked when a store is named, and never to use it")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jissoku_store::{Error, Store, Ttl, default_folder};

static OPEN: Mutex<BTreeMap<String, &'static Store>> = Mutex::new(BTreeMap::new());

/// `JSK_STORE_INVALID` and the codes that follow it in the header.
const INVALID: i32 = -1;
const FULL: i32 = -2;
const NUMBER: i32 = -3;
const MISSING: i32 = -4;
const FAILED: i32 = -5;

/// Why a function of a store has had no effect.
#[derive(Debug)]
pub(crate) struct Failure {
    /// `JSK_STORE_INVALID` and so on.
    pub(crate) code: i32,
    /// A sentence.
    pub(crate) why: String,
}

impl Failure {
    /// What C has passed is not valid.
    pub(crate) fn of_argument(why: &str) -> Self {
        Self { code: INVALID, why: why.to_owned() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.of_any_entry() {
            Error::Name(_) | Error::KeySize(_) | Error::ValueSize(_) | Error::Size(_) => INVALID,
            Error::Full | Error::FileFull => FULL,
            Error::NotANumber | Error::OutOfRange => NUMBER,
            Error::Missing { .. } => MISSING,
            Error::Conflict(_)
            | Error::Nested
            | Error::Closing
            | Error::Entry { .. }
            | Error::Io { .. }
            | Error::Storage(_) => FAILED,
        };
        Self { code, why: error.to_string() }
    }
}

/// The store of this name, in the folder of the server.
pub(crate) fn open(name: &str) -> Result<&'static Store, Failure> {
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = all.get(name) {
        return Ok(store);
    }
    let Some(folder) = default_folder() else {
        let why = format!(
            "there is no store {name:?}: write [store.{name}] into the configuration file of the server"
        );
        return Err(Failure { code: MISSING, why });
    };
    let store: &'static Store = Box::leak(Box::new(Store::open(folder, name, None)?));
    all.insert(name.to_owned(), store);
    Ok(store)
}

/// The time to live of an entry: 0 is that of the store, and less than 0 none.
pub(crate) fn ttl_of(ms: i64) -> Ttl {
    match u64::try_from(ms) {
        Ok(0) => Ttl::Default,
        Ok(ms) => Ttl::Ms(ms),
        Err(_) => Ttl::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_no_configuration_names_is_missing() {
        let failure = open("none").expect_err("this process has no folder of stores");
        assert_eq!(failure.code, -4);
        assert!(failure.why.starts_with("there is no store \"none\": write [store.none]"));
    }

    #[test]
    fn times_to_live_are_those_of_the_header() {
        assert_eq!([-1, 0, 7].map(ttl_of), [Ttl::Never, Ttl::Default, Ttl::Ms(7)]);
    }
}
