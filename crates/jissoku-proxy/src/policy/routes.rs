//! Which route takes a request: the first whose host, methods and path fit.
//!
//! The path is compared byte by byte after percent-decoding (RFC 3986 section 6.2.2), and forwarded
//! as it came. A rule for `/admin/**` must not be circumvented by another spelling: if a server behind
//! us may read the path as one of another route (`readings.rs`), it is refused.

mod ambiguous_path;
mod host;
mod path;
mod readings;
mod rewrite;
mod rule;

use ambiguous_path::Form;

pub use ambiguous_path::{AmbiguousPath, of_path as ambiguity_of};
pub use host::HostPattern;
pub use path::{Captures, PATH_VARIABLES_MAX, PathPattern};
pub use rewrite::Rewrite;
pub use rule::{Encoded, Mismatch, Rule, Subject};

/// Rules in the order in which they are tried.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    rules: Vec<Rule>,
    compares_hosts: bool,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The rule of this index takes the request.
    Take {
        /// The rule's place, counted from 0.
        index: usize,
        /// Where in the path its variables are.
        captures: Captures,
        /// The path, if it is not passed as it came.
        path: Option<Vec<u8>>,
    },
    /// Host and path fit rules, the method none of them: 405, with `Routes::allow`.
    MethodNotAllowed,
    /// No rule fits: 404.
    NotFound,
    /// The path has more than one reading: 400.
    Refuse(AmbiguousPath),
}

impl Routes {
    /// Takes the rules in their order.
    ///
    /// # Errors
    ///
    /// A rule that no request can reach, because earlier ones take all that fits it.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Unreachable> {
        match first_unreachable(&rules) {
            Some((index, by)) => Err(Unreachable { index, by }),
            None => Ok(Self::of(rules)),
        }
    }

    fn of(rules: Vec<Rule>) -> Self {
        Self { compares_hosts: rules.iter().any(|rule| rule.host.is_some()), rules }
    }

    /// One rule.
    pub fn single(rule: Rule) -> Self {
        Self::of(vec![rule])
    }

    /// The rules in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether the host of a request is compared.
    pub const fn compares_hosts(&self) -> bool {
        self.compares_hosts
    }

    /// Decides about one request. No allocation, unless the path has several readings.
    pub fn find(&self, subject: &Subject<'_>) -> Decision {
        let special = match ambiguous_path::form(subject.path) {
            Ok(Form::Plain) => return self.first_fit(subject),
            Ok(Form::Special(ambiguity)) => ambiguity,
            Err(ambiguity) => return Decision::Refuse(ambiguity),
        };
        let decision = self.first_fit(subject);
        let rule = decision.index().and_then(|index| self.rules.get(index));
        let decision = self.find_special(subject, decision, (special, rule));
        match rule.and_then(|rule| rule.rewrite.as_ref()) {
            Some(rewrite) => self.unless_left(subject, decision, rewrite),
            None => decision,
        }
    }

    /// The decision about a path that has several readings, for this reason; `decision` is that of the
    /// rule, without regard to the others.
    fn find_special(
        &self,
        subject: &Subject<'_>,
        decision: Decision,
        (special, rule): (AmbiguousPath, Option<&Rule>),
    ) -> Decision {
        match rule.map_or_else(Encoded::default, |rule| rule.encoded) {
            Encoded::Pass => decision,
            Encoded::Refuse if special != AmbiguousPath::OtherRoute => Decision::Refuse(special),
            Encoded::Safe | Encoded::Refuse => self.unless_ambiguous(subject, decision),
            Encoded::Decode => {
                let (subject_path, plain) = (subject.path, readings::plain(subject.path));
                let subject = Subject { path: &plain, ..*subject };
                let index = decision.index();
                match self.unless_ambiguous(&subject, self.first_fit(&subject)) {
                    Decision::Take { index: other, captures, .. } if Some(other) == index => {
                        let path = (plain != subject_path).then_some(plain);
                        Decision::Take { index: other, captures, path }
                    }
                    _ => Decision::Refuse(AmbiguousPath::OtherRoute),
                }
            }
        }
    }

    /// The decision about a request, if its path can be rewritten so that a server does not read the
    /// result as a path that does not belong to the route.
    fn unless_left(
        &self,
        subject: &Subject<'_>,
        decision: Decision,
        rewrite: &Rewrite,
    ) -> Decision {
        let Decision::Take { index, path, .. } = &decision else { return decision };
        let path = path.as_deref().unwrap_or(subject.path);
        let rewritten = rewrite.path(path);
        // The authority of a URL would follow `//`.
        let is_path =
            rewritten.first() == Some(&b'/') && !matches!(rewritten.get(1), Some(b'/' | b'\\'));
        let belongs = |reading: &Vec<u8>| {
            let origin = rewrite.origin(path, reading);
            origin.is_some_and(|path| {
                self.first_fit(&Subject { path: &path, ..*subject }).index() == Some(*index)
            })
        };
        let passes = self.rules.get(*index).is_some_and(|rule| rule.encoded == Encoded::Pass);
        let stays = || match readings::of_path(&rewritten) {
            Some(readings) => readings.iter().all(belongs),
            None => false,
        };
        if is_path && (passes || stays()) {
            decision
        } else {
            Decision::Refuse(AmbiguousPath::OtherRoute)
        }
    }

    /// The decision about a request, if that about each reading of its path is the same.
    fn unless_ambiguous(&self, subject: &Subject<'_>, decision: Decision) -> Decision {
        let is_same = |path: &Vec<u8>| {
            self.first_fit(&Subject { path, ..*subject }).index() == decision.index()
        };
        match readings::of_path(subject.path) {
            Some(readings) if readings.iter().all(is_same) => decision,
            _ => Decision::Refuse(AmbiguousPath::OtherRoute),
        }
    }

    fn first_fit(&self, subject: &Subject<'_>) -> Decision {
        let mut otherwise = Decision::NotFound;
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.compare(subject) {
                Ok(captures) => return Decision::Take { index, captures, path: None },
                Err(Mismatch::Method) => otherwise = Decision::MethodNotAllowed,
                Err(Mismatch::Host | Mismatch::Scheme | Mismatch::Path) => {}
            }
        }
        otherwise
    }

    /// The methods that rules accept for this host and path: the value of Allow in a 405
    /// (RFC 9110 section 15.5.6).
    pub fn allow(&self, subject: &Subject<'_>) -> Vec<&str> {
        let mut allowed = Vec::new();
        for rule in &self.rules {
            if rule.compare(subject) == Err(Mismatch::Method) {
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
        self.rules.iter().map_while(|rule| rule.compare(subject).err()).collect()
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

/// Stands for a method that no rule names; not a token, so that none can.
const OTHER_METHOD: &str = "";

/// The first rule that earlier ones cover, and one of these.
///
/// Exact: a segment or host that differs from every literal is covered by one pattern or by none, so
/// only three things are covered by several rules together: the methods of a rule, both schemes, and
/// the paths of a prefix, which are the prefix alone, with a slash, and what is below it.
fn first_unreachable(rules: &[Rule]) -> Option<(usize, usize)> {
    let depth_max = rules.iter().map(|rule| rule.path.depth()).max().unwrap_or_default();
    rules.iter().enumerate().find_map(|(index, rule)| {
        let earlier = rules.get(..index)?;
        let mut methods: Vec<&str> = rule.methods().collect();
        if methods.is_empty() {
            methods = rules.iter().flat_map(Rule::methods).collect();
            methods.push(OTHER_METHOD);
        }
        let of_schemes = rule.of_each_scheme();
        let kinds = of_schemes.iter().flat_map(|it| methods.iter().map(move |name| (it, name)));
        let covering = kinds.map(|(rule, method)| covering(earlier, rule, method, depth_max));
        let all: Option<Vec<usize>> = covering.collect();
        Some((index, *all?.last()?))
    })
}

/// One of the rules that together take every request of `method` that fits `rule`.
fn covering(earlier: &[Rule], rule: &Rule, method: &str, depth_max: usize) -> Option<usize> {
    let covers = |other: &Rule| other.takes(method.as_bytes()) && other.covers_place(rule);
    if let Some(by) = earlier.iter().position(covers) {
        return Some(by);
    }
    // No rule has a segment beyond the deepest one's.
    if rule.path.depth() > depth_max {
        return None;
    }
    let parts = rule.path.split_prefix()?;
    let found = parts
        .into_iter()
        .map(|path| covering(earlier, &Rule { path, ..rule.clone() }, method, depth_max));
    found.collect::<Option<Vec<usize>>>()?.pop()
}

#[cfg(test)]
mod tests;
