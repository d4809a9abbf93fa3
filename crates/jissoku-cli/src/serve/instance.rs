//! The name of this instance in Via, by which a gateway notices its own requests.
//!
//! Two instances of one program may be behind each other, so the name is random. A process that this
//! one starts in its place, or as its worker, gets the name by its environment.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// An environment variable, because it counts only for a process that this instance starts.
const VARIABLE: &str = "JISSOKU_INSTANCE";

static NAME: OnceLock<String> = OnceLock::new();

pub(super) fn name() -> &'static str {
    NAME.get_or_init(|| format!("jissoku-{:010x}", RandomState::new().hash_one(()) >> 24))
}

/// This process was started by one of the same instance.
pub(super) fn inherit() {
    let inherited = std::env::var_os(VARIABLE).and_then(|name| name.into_string().ok());
    if let Some(inherited) = inherited.filter(|name| is_name(name)) {
        // A process that has served before has its name.
        let _name = NAME.get_or_init(|| inherited);
    }
}

/// The environment of another process of this instance.
pub(super) fn environment() -> Vec<(OsString, OsString)> {
    let others = std::env::vars_os().filter(|(key, _)| key != VARIABLE);
    others.chain([(VARIABLE.into(), name().into())]).collect()
}

/// Parses a name: a token (RFC 9110 section 7.6.3).
pub(super) fn parse(text: &str) -> Result<String, String> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a name has letters, digits and -._".into())
    }
}

fn is_name(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.len() <= 64 && text.bytes().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_stays_and_goes_to_other_processes_of_the_instance() {
        assert!(is_name(name()) && name().starts_with("jissoku-"), "{}", name());
        assert_eq!(name(), name());
        let passed: Vec<_> = environment().into_iter().filter(|(key, _)| key == VARIABLE).collect();
        assert_eq!(passed, [(VARIABLE.into(), name().into())]);
        assert!(parse("edge-1").is_ok());
        for text in ["", "a b", "a,b", "a(b)", "\u{e9}", &"x".repeat(65)] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
