//! What one route is for: host, methods and path.

use std::fmt;

use jissoku_http::is_whole_token;

use super::host::HostPattern;
use super::path::{Captures, PathPattern};
use super::rewrite::Rewrite;

/// Host, methods and path of a route; an absent host or no methods: all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The host, if it is for one.
    pub host: Option<HostPattern>,
    pub(super) methods: Vec<String>,
    /// The path.
    pub path: PathPattern,
    /// What becomes of paths that have several readings.
    pub encoded: Encoded,
    /// Whether it is for clients that use TLS, or for those that do not; else for all.
    pub is_secure: Option<bool>,
    /// What servers get another path by, if they do.
    pub rewrite: Option<Rewrite>,
}

/// What becomes of a path that another server may read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoded {
    /// It is passed as it came, unless one of its readings belongs to another route.
    #[default]
    Safe,
    /// It is passed as it came.
    Pass,
    /// It is refused if it has dot segments, backslashes, or encoded dots, slashes or backslashes.
    Refuse,
    /// These are decoded and resolved, and the result is passed if it belongs to the same route.
    Decode,
}

/// The first difference between a request and a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The rule is for another host.
    Host,
    /// The rule is for another scheme.
    Scheme,
    /// The rule is for another path.
    Path,
    /// Host and path fit, the method does not.
    Method,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "another host",
            Self::Scheme => "another scheme",
            Self::Path => "another path",
            Self::Method => "another method",
        })
    }
}

impl Rule {
    /// A rule for a path, on every host and for every method.
    pub fn new(path: PathPattern) -> Self {
        let encoded = Encoded::Safe;
        Self { host: None, methods: Vec::new(), path, encoded, is_secure: None, rewrite: None }
    }

    /// It is for these methods alone. GET includes HEAD (RFC 9110 section 9.3.2).
    ///
    /// # Errors
    ///
    /// No methods, or a name that is not a token (RFC 9110 section 5.6.2).
    pub fn set_methods(&mut self, methods: Vec<String>) -> Result<(), String> {
        if methods.is_empty() || !methods.iter().all(|name| is_whole_token(name.as_bytes())) {
            return Err("methods are a list of names, such as [\"GET\", \"POST\"]".to_owned());
        }
        self.methods = methods;
        if self.takes(b"GET") && !self.takes(b"HEAD") {
            self.methods.push("HEAD".to_owned());
        }
        Ok(())
    }

    /// Whether it is for the same hosts, methods and paths.
    pub fn is_for_same(&self, other: &Self) -> bool {
        let place = |rule: &Self| (rule.host.clone(), rule.is_secure, rule.path.clone());
        place(self) == place(other) && self.methods == other.methods
    }

    /// The methods of the rule; none if it is for all.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.methods.iter().map(String::as_str)
    }

    pub(super) fn compare(&self, subject: &Subject<'_>) -> Result<Captures, Mismatch> {
        let Subject { method, host, path, is_secure } = *subject;
        if self.is_secure.is_some_and(|wanted| wanted != is_secure) {
            return Err(Mismatch::Scheme);
        }
        let is_host = |pattern: &HostPattern| host.is_some_and(|host| pattern.matches(host));
        if !self.host.as_ref().is_none_or(is_host) {
            return Err(Mismatch::Host);
        }
        let captures = self.path.matches(path).ok_or(Mismatch::Path)?;
        if self.takes(method) { Ok(captures) } else { Err(Mismatch::Method) }
    }

    pub(super) fn takes(&self, method: &[u8]) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|name| name.as_bytes() == method)
    }

    /// The same for each scheme that it is for.
    pub(super) fn of_each_scheme(&self) -> Vec<Self> {
        let schemes = self.is_secure.map_or_else(|| vec![false, true], |wanted| vec![wanted]);
        schemes.into_iter().map(|it| Self { is_secure: Some(it), ..self.clone() }).collect()
    }

    /// Whether every host and path that fit `other` fit this rule.
    pub(super) fn covers_place(&self, other: &Self) -> bool {
        let host = match (&self.host, &other.host) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => ours.covers(theirs),
        };
        let scheme = self.is_secure.is_none() || self.is_secure == other.is_secure;
        host && scheme && self.path.covers(&other.path)
    }
}

/// What a request is compared with the rules by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The method, case-sensitive (RFC 9110 section 9.1).
    pub method: &'a [u8],
    /// The value of Host or the authority of an absolute target; `None` without either.
    pub host: Option<&'a [u8]>,
    /// The path of the target, from its `/` to before `?`.
    pub path: &'a [u8],
    /// Whether the client uses TLS.
    pub is_secure: bool,
}
