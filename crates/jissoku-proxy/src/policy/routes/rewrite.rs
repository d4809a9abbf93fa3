//! Other paths for servers: without the first segments of a route, behind a prefix.
//!
//! A route that takes `/api/**` must not be left by rewriting: if the server reads a rewritten path
//! (`readings.rs`) as one that is not below the prefix, or as one that belongs to another route here,
//! the path is refused.

use super::ambiguous_path::{Form, form};
use super::path::PathPattern;

const FORM: &str = "it is a path without a final slash, such as \"/api\"";

/// What is changed of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// How many segments are removed from the start.
    cut: usize,
    /// What is put before the rest: nothing, or a path that does not end with a slash.
    prefix: String,
    /// Paths below `prefix`.
    below: PathPattern,
}

impl Rewrite {
    /// Removes nothing, and adds nothing.
    pub fn new() -> Self {
        Self { cut: 0, prefix: String::new(), below: PathPattern::all() }
    }

    /// Also removes `prefix` from the paths of a route for `route`, which begins with it.
    ///
    /// # Errors
    ///
    /// It is no path, or the route is for others.
    pub fn without(self, prefix: &str, route: &PathPattern) -> Result<Self, String> {
        let below = checked(prefix)?;
        let cut = below.depth();
        if !route.begins_with(&below) {
            return Err("the path of the route does not begin with it".to_owned());
        }
        Ok(Self { cut, ..self })
    }

    /// Also adds `prefix`.
    ///
    /// # Errors
    ///
    /// It is no path that a server reads in one way only.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, String> {
        let below = checked(prefix)?;
        let is_plain = form(prefix.as_bytes()) == Ok(Form::Plain) && !prefix.contains('{');
        if !is_plain {
            return Err(FORM.to_owned());
        }
        Ok(Self { prefix: prefix.to_owned(), below, ..self })
    }

    /// What is put before the rest of a path.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether something is removed.
    pub const fn cuts(&self) -> bool {
        self.cut > 0
    }

    /// The size of what is removed from a path that its route takes, with its query or without it. The
    /// rest begins with a slash, or is empty but for the query.
    pub fn cut_size(&self, path: &[u8]) -> usize {
        after_segments(path, self.cut)
    }

    /// The path for a server. It begins with one slash.
    pub fn path(&self, path: &[u8]) -> Vec<u8> {
        let rest = path.get(self.cut_size(path)..).unwrap_or_default();
        let rest = if rest.is_empty() && self.prefix.is_empty() { b"/" } else { rest };
        [self.prefix.as_bytes(), rest].concat()
    }

    /// The path that would have been rewritten to `rewritten`, if that of a request is `path`. `None`
    /// if there is none: it is not below the prefix.
    pub(super) fn origin(&self, path: &[u8], rewritten: &[u8]) -> Option<Vec<u8>> {
        self.below.matches(rewritten)?;
        let rest = rewritten.get(after_segments(rewritten, self.below.depth())..)?;
        Some([path.get(..self.cut_size(path))?, rest].concat())
    }
}

impl Default for Rewrite {
    fn default() -> Self {
        Self::new()
    }
}

/// The paths below `prefix`, which is one itself.
fn checked(prefix: &str) -> Result<PathPattern, String> {
    if prefix.len() < 2 || prefix.ends_with('/') {
        return Err(FORM.to_owned());
    }
    PathPattern::below(prefix)
}

/// Where the first `count` segments of a path end.
fn after_segments(path: &[u8], count: usize) -> usize {
    let mut ends = path.iter().enumerate().filter(|(_, byte)| matches!(byte, b'/' | b'?'));
    let mut slashes = 0;
    let end = ends.find(|(_, byte)| {
        slashes += usize::from(**byte == b'/');
        slashes > count || **byte == b'?'
    });
    end.map_or(path.len(), |(at, _)| at)
}
