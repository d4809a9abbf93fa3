//! What a gathering route asks for, and when its answer is good enough.

use super::template::PartTemplate;

/// Parts of one request at most.
pub const PARTS_MAX: usize = 64;

/// Parts, times and bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In the order of the answer.
    pub parts: Vec<PartPlan>,
    /// From the request's arrival to the answer.
    pub deadline_ns: u64,
    /// From the first success: then the answer goes out as soon as it is good enough.
    pub soft_deadline_ns: Option<u64>,
    /// How many successes are good enough.
    pub quorum: Quorum,
    /// Whether an answer without all parts is an error.
    pub refuses_partial: bool,
    /// Requests at once to each upstream, of one client's request.
    pub parallel: usize,
    /// Bytes of one part's body at most.
    pub part_size_max: usize,
    /// Bytes of bodies held at once at most.
    pub answer_size_max: usize,
    /// The fields of the client that parts receive; `None`: the usual ones.
    pub fields: Option<Vec<String>>,
    /// The form of an answer whose client names none.
    pub form: Form,
    /// How the parts stand in an answer in JSON.
    pub shape: Shape,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPlan {
    /// Its name in the answer.
    pub id: String,
    /// Where its request goes.
    pub template: PartTemplate,
    /// Whether the answer is worthless without it.
    pub is_required: bool,
}

/// Successes that an answer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// This many.
    Count(usize),
    /// This share, rounded up.
    Percent(u8),
}

impl Plan {
    /// The usual times and bounds for these parts.
    pub const fn new(parts: Vec<PartPlan>) -> Self {
        Self {
            parts,
            deadline_ns: 1_000_000_000,
            soft_deadline_ns: None,
            quorum: Quorum::Count(1),
            refuses_partial: false,
            parallel: 8,
            part_size_max: 256 * 1024,
            answer_size_max: 4 * 1024 * 1024,
            fields: None,
            form: Form::Json,
            shape: Shape::List,
        }
    }

    /// Successes that are good enough.
    pub fn needed(&self) -> usize {
        match self.quorum {
            _ if self.refuses_partial => self.parts.len(),
            Quorum::Count(count) => count,
            Quorum::Percent(percent) => (self.parts.len() * usize::from(percent)).div_ceil(100),
        }
    }
}

/// The media type of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `application/json`.
    #[default]
    Json,
    /// `application/x-ndjson`: a line for each part as it ends.
    Lines,
}

/// The forms by their media types.
const KNOWN: [(&[u8], Form); 2] =
    [(b"application/json", Form::Json), (b"application/x-ndjson", Form::Lines)];

impl Form {
    /// The first form that is named in a value of Accept. Weights are ignored.
    pub fn accepted(accept: &[u8]) -> Option<Self> {
        let mut names = accept.split(|&byte| byte == b',').map(|range| {
            let name = range.split(|&byte| byte == b';').next().unwrap_or_default();
            name.trim_ascii()
        });
        names.find_map(|name| {
            let mut known = KNOWN.iter();
            let found = known.find(|(media_type, _)| name.eq_ignore_ascii_case(media_type));
            found.map(|(_, form)| *form)
        })
    }
}

/// The form of a JSON answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// `parts` is a list in the order of the plan.
    #[default]
    List,
    /// `parts` is an object by id.
    Object,
    /// The members of all parts that are objects, the first of a name; nothing else.
    Merge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_type_decides() {
        let check = |accept: &str, expected| {
            assert_eq!(Form::accepted(accept.as_bytes()), expected, "{accept}");
        };
        check("", None);
        check("*/*", None);
        check("text/html, application/X-NDJSON;q=0.5, application/json", Some(Form::Lines));
        check("multipart/mixed, text/event-stream", None);
        check("application/json", Some(Form::Json));
    }
}
