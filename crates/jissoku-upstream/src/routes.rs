//! Which route takes a request: the first whose host, methods and path fit.
//!
//! The path is compared byte by byte after percent-decoding (RFC 3986 section 6.2.2), and forwarded
//! as it came. A path that a server behind us could read differently is refused before it is
//! compared (`hazard.rs`): a rule for `/admin/**` must not be circumvented by another spelling.

mod hazard;
mod host;
mod path;
mod reachability;
mod rule;

pub use hazard::{Hazard, of_path as hazard_of};
pub use host::HostPattern;
pub use path::{Captures, PATH_VARIABLES_MAX, PathPattern, PatternError};
pub use rule::{Mismatch, Rule};

/// Rules in the order in which they are tried.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    rules: Vec<Rule>,
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
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The rule of this index takes the request.
    Take {
        /// The rule's place, counted from 0.
        index: usize,
        /// Where in the path its variables are.
        captures: Captures,
    },
    /// Host and path fit rules, the method none of them: 405, with `Routes::allow`.
    MethodNotAllowed,
    /// No rule fits: 404.
    NotFound,
    /// The path has more than one reading: 400.
    Refuse(Hazard),
}

impl Routes {
    /// Takes the rules in their order.
    ///
    /// # Errors
    ///
    /// A rule that no request can reach, because earlier ones take all that fits it.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Unreachable> {
        reachability::first_unreachable(&rules)
            .map_or_else(|| Ok(Self { rules }), |(index, by)| Err(Unreachable { index, by }))
    }

    /// The rules in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides about one request. No allocation, unless the path has empty segments.
    pub fn find(&self, subject: &Subject<'_>) -> Decision {
        if let Some(hazard) = hazard::of_path(subject.path) {
            return Decision::Refuse(hazard);
        }
        let decision = self.first_fit(subject);
        if let Some(merged) = hazard::merge_slashes(subject.path) {
            // Many servers merge empty segments. If that leads to another rule, neither is right.
            let other = self.first_fit(&Subject { path: &merged, ..*subject });
            if other.index() != decision.index() {
                return Decision::Refuse(Hazard::EmptySegment);
            }
        }
        decision
    }

    fn first_fit(&self, subject: &Subject<'_>) -> Decision {
        let mut otherwise = Decision::NotFound;
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.compare(subject.method, subject.host, subject.path) {
                Ok(captures) => return Decision::Take { index, captures },
                Err(Mismatch::Method) => otherwise = Decision::MethodNotAllowed,
                Err(Mismatch::Host | Mismatch::Path) => {}
            }
        }
        otherwise
    }

    /// The methods that rules accept for this host and path: the value of Allow in a 405
    /// (RFC 9110 section 15.5.6).
    pub fn allow(&self, subject: &Subject<'_>) -> Vec<&str> {
        let mut allowed = Vec::new();
        for rule in &self.rules {
            if rule.compare(subject.method, subject.host, subject.path) == Err(Mismatch::Method) {
                for method in rule.methods() {
                    if !allowed.contains(&method) {
                        allowed.push(method);
                    }
                }
            }
        }
        allowed
    }

    /// Why each rule up to the one that takes the request does not take it, in order. The rule that
    /// takes it follows them; `find` names it.
    pub fn mismatches(&self, subject: &Subject<'_>) -> Vec<Mismatch> {
        self.rules
            .iter()
            .map_while(|rule| rule.compare(subject.method, subject.host, subject.path).err())
            .collect()
    }
}

impl Decision {
    /// The index of the rule that takes the request, if one does.
    pub const fn index(&self) -> Option<usize> {
        match self {
            Self::Take { index, .. } => Some(*index),
            Self::MethodNotAllowed | Self::NotFound | Self::Refuse(_) => None,
        }
    }
}

/// A rule that never matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    /// The rule's place, counted from 0.
    pub index: usize,
    /// An earlier rule that takes requests meant for it.
    pub by: usize,
}

#[cfg(test)]
mod tests;
