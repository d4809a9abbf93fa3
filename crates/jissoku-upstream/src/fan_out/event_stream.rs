//! Answers as `text/event-stream` (HTML Standard, section 9.2 "Server-sent events").
//!
//! All parts have events of one type. Their ids could be the name of an event that a browser
//! dispatches itself, such as `error`.

use super::collection::Collection;
use super::composition::{ndjson_end, ndjson_line};
use super::plan::Plan;

/// The id of the last event. A browser that opens the stream again sends it as Last-Event-ID.
pub const END_EVENT_ID: &str = "end";

/// One part as an event.
pub fn part_event(plan: &Plan, collection: &Collection, part: usize) -> String {
    format!("event: part\ndata: {}\n", ndjson_line(plan, collection, part))
}

/// The last event.
pub fn end_event(collection: &Collection, elapsed_ns: u64) -> String {
    let data = ndjson_end(collection, elapsed_ns);
    format!("event: end\nid: {END_EVENT_ID}\ndata: {data}\n")
}
