//! One request to several servers, and one answer from theirs.
//!
//! A plan names the parts; a collection follows them, whatever the order of events, until enough
//! have answered or the deadline comes; a composition writes the answer. Each part that was asked
//! for is in the answer exactly once, with a response or with the reason why there is none.

mod collection;
mod composition;
mod part;
mod plan;
mod template;

pub use collection::{Collection, Effect};
pub use composition::{compose_json, ndjson_end, ndjson_line};
pub use part::{PartError, PartResponse, PartResult};
pub use plan::{Form, PARTS_MAX, PartPlan, Plan, Quorum, Shape};
pub use template::PartTemplate;

#[cfg(test)]
mod tests;
