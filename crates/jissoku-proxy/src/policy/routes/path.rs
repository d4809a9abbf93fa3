//! Patterns for paths: literal segments, `{name}` for one segment, `**` at the end for all below.

use std::ops::Range;

use jissoku_http::percent;

use super::ambiguous_path;

/// Variables that one pattern may have: their places are kept without an allocation.
pub const PATH_VARIABLES_MAX: usize = 8;

const WILDCARD: &str = "`*` is for the end of a path only, as `/**`";

/// A path that a route is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<Segment>,
    /// The pattern ends with `/**`.
    is_prefix: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// Percent-decoded.
    Literal(Vec<u8>),
    Variable(String),
}

/// The places of a pattern's variables in the path that it matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Captures {
    spans: [(u32, u32); PATH_VARIABLES_MAX],
    count: usize,
}

impl Captures {
    /// The place of a variable by its index in `PathPattern::variables`, in bytes of the path.
    pub fn span(&self, index: usize) -> Option<Range<usize>> {
        let &(start, end) = self.spans.get(..self.count)?.get(index)?;
        Some(start as usize..end as usize)
    }

    fn push(&mut self, place: &Range<usize>) {
        let ends = (u32::try_from(place.start), u32::try_from(place.end));
        if let ((Ok(start), Ok(end)), Some(span)) = (ends, self.spans.get_mut(self.count)) {
            *span = (start, end);
            self.count += 1;
        }
    }
}

impl PathPattern {
    /// Parses `/`, `/exact/path`, `/home/{id}`, `/api/**`. The last also takes `/api`.
    ///
    /// # Errors
    ///
    /// What a pattern cannot mean, or no request path can be, in one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix('/').ok_or("a path begins with a slash")?;
        if text.contains('?') {
            return Err("routes are chosen by path, not by query: remove `?`".to_owned());
        }
        let (path, is_prefix) = match path.strip_suffix("**") {
            Some("") => return Ok(Self::all()),
            Some(rest) => (rest.strip_suffix('/').ok_or(WILDCARD)?, true),
            None => (path, false),
        };
        let pieces: Vec<&str> = path.split('/').collect();
        let mut pattern = Self { segments: Vec::new(), is_prefix };
        for (index, piece) in pieces.iter().enumerate() {
            // `/a/` ends with an empty segment: a path of its own.
            if piece.is_empty() && (is_prefix || index + 1 < pieces.len()) {
                return Err("the path has an empty segment (`//`)".to_owned());
            }
            pattern.segments.push(pattern.segment(piece)?);
        }
        Ok(pattern)
    }

    /// The pattern `/**`.
    pub const fn all() -> Self {
        Self { segments: Vec::new(), is_prefix: true }
    }

    /// The pattern `prefix/**`.
    pub(super) fn below(prefix: &str) -> Result<Self, String> {
        Self::parse(&format!("{prefix}/**"))
    }

    /// Whether the segments of `start`, variables with their names, are the first ones of this.
    pub(super) fn begins_with(&self, start: &Self) -> bool {
        self.segments.starts_with(&start.segments)
    }

    fn segment(&self, piece: &str) -> Result<Segment, String> {
        if let Some(name) = piece.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(is_word) {
                let why = "a variable's name has letters, digits and `_`, as in `{id}`";
                return Err(why.to_owned());
            }
            if self.variables().any(|known| known == name) {
                return Err("two variables have the same name".to_owned());
            }
            if self.variables().count() == PATH_VARIABLES_MAX {
                return Err("a path has at most 8 variables".to_owned());
            }
            return Ok(Segment::Variable(name.to_owned()));
        }
        if piece.contains('*') {
            return Err(WILDCARD.to_owned());
        }
        if piece.contains(['{', '}']) {
            return Err("a variable is a whole segment, as in `/home/{id}`".to_owned());
        }
        ambiguous_path::of_path(format!("/{piece}").as_bytes()).map_or_else(
            || Ok(Segment::Literal(percent::decoded(piece.as_bytes()).collect())),
            |ambiguity| Err(ambiguity.to_string()),
        )
    }

    /// The names of the variables, in the order of their places.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Variable(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// Where the variables are, if a path without hazards fits.
    pub fn matches(&self, path: &[u8]) -> Option<Captures> {
        let mut captures = Captures::default();
        // The place of the next segment; behind the path if none is left.
        let mut start = 1;
        for segment in &self.segments {
            let rest = path.get(start..)?;
            let length = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let found = rest.get(..length)?;
            match segment {
                Segment::Literal(wanted) if percent::decoded(found).eq(wanted.iter().copied()) => {}
                Segment::Variable(_) if length > 0 => captures.push(&(start..start + length)),
                Segment::Literal(_) | Segment::Variable(_) => return None,
            }
            start += length + 1;
        }
        (self.is_prefix || start > path.len()).then_some(captures)
    }

    /// Segments before the `**`.
    pub(super) const fn depth(&self) -> usize {
        self.segments.len()
    }

    /// A prefix `/a/**` as `/a`, `/a/` and `/a/{}/**`: together the same, but for empty segments.
    pub(super) fn split_prefix(&self) -> Option<Vec<Self>> {
        let with = |segment: Segment, is_prefix: bool| {
            let mut segments = self.segments.clone();
            segments.push(segment);
            Self { segments, is_prefix }
        };
        self.is_prefix.then(|| {
            let alone = Self { is_prefix: false, ..self.clone() };
            let parts = [
                with(Segment::Literal(Vec::new()), false),
                with(Segment::Variable(String::new()), true),
            ];
            // The path of no segments at all would be empty.
            parts.into_iter().chain((self.depth() > 0).then_some(alone)).collect()
        })
    }

    /// Whether every path that fits `other` fits this pattern.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let is_long_enough = if self.is_prefix {
            other.segments.len() >= self.segments.len()
        } else {
            !other.is_prefix && other.segments.len() == self.segments.len()
        };
        is_long_enough
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (Segment::Literal(ours), Segment::Literal(theirs)) => ours == theirs,
                (Segment::Literal(_), Segment::Variable(_)) => false,
                (Segment::Variable(_), Segment::Literal(theirs)) => !theirs.is_empty(),
                (Segment::Variable(_), Segment::Variable(_)) => true,
            })
    }
}
