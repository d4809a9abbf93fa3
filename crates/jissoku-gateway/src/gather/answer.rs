//! The response to a client: as a whole, or a line for each part as it ends.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use jissoku_server::{BodyPart, DynamicResponse, Progress, Response};
use jissoku_upstream::fan_out::{compose_json, compose_multipart, ndjson_end, ndjson_line};

use super::form::Form;
use super::gathering::Gathering;

/// Unsent output of a client above which no more lines are written.
const UNSENT_HIGH: usize = 64 * 1024;

const LINES: &str = "Content-Type: application/x-ndjson\r\n";

impl Gathering {
    /// Whether the client is slower than the servers whose lines it gets.
    pub(crate) fn is_behind(&self, response: &Response<'_>) -> bool {
        self.form == Form::Lines && response.unsent() > UNSENT_HIGH
    }
}

/// Writes the response, or what there is of it.
pub(crate) fn write(gathering: &mut Gathering, response: &mut Response<'_>) -> Progress {
    if gathering.form == Form::Lines && !response.is_head() {
        return write_lines(gathering, response);
    }
    if !gathering.is_closed {
        return Progress::Pending;
    }
    let status = gathering.collection.status(&gathering.route.plan);
    let (media_type, body) = compose(gathering, response.now_ns());
    let complete = u8::from(gathering.collection.is_complete());
    let fields = format!("{media_type}Gather-Complete: ?{complete}\r\n");
    response.send_dynamic(&DynamicResponse::new(status, &fields, vec![BodyPart::Bytes(body)]));
    Progress::Complete
}

/// The field Content-Type, and the body.
fn compose(gathering: &Gathering, now_ns: u64) -> (String, Vec<u8>) {
    let (plan, collection) = (&gathering.route.plan, &gathering.collection);
    let elapsed_ns = now_ns.saturating_sub(gathering.started_ns);
    match gathering.form {
        Form::Json => {
            let text = compose_json(plan, collection, plan.shape, elapsed_ns);
            ("Content-Type: application/json\r\n".to_owned(), text.into_bytes())
        }
        Form::Multipart => {
            let boundary = boundary();
            let field = format!("Content-Type: multipart/mixed; boundary={boundary:032x}\r\n");
            (field, compose_multipart(plan, collection, boundary))
        }
        Form::Lines => {
            let lines = (0..plan.parts.len()).map(|part| ndjson_line(plan, collection, part));
            let text = lines.chain([ndjson_end(collection, elapsed_ns)]).collect::<String>();
            (LINES.to_owned(), text.into_bytes())
        }
    }
}

/// 128 bits that no server can guess: hashes under keys from the system's random numbers.
fn boundary() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

/// Writes a line for each part that has ended, and the last one after all of them.
fn write_lines(gathering: &mut Gathering, response: &mut Response<'_>) -> Progress {
    let mut unsent = response.unsent();
    for part in 0..gathering.parts.len() {
        let is_new = gathering.written & 1 << part == 0;
        if !is_new || gathering.collection.result(part).is_none() {
            continue;
        }
        if unsent > UNSENT_HIGH {
            return Progress::Sent;
        }
        let line = ndjson_line(&gathering.route.plan, &gathering.collection, part);
        append(gathering, response, &line);
        gathering.collection.release_body(part);
        gathering.written |= 1 << part;
        unsent += line.len();
    }
    if !gathering.is_closed {
        return Progress::Pending;
    }
    let elapsed_ns = response.now_ns().saturating_sub(gathering.started_ns);
    append(gathering, response, &ndjson_end(&gathering.collection, elapsed_ns));
    if gathering.is_chunked {
        response.append(b"0\r\n\r\n");
    }
    Progress::Complete
}

/// Writes a line, behind the head if it is the first.
fn append(gathering: &mut Gathering, response: &mut Response<'_>, line: &str) {
    if gathering.size == 0 {
        let framing = if gathering.is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        if !gathering.is_chunked {
            response.close_after();
        }
        let fields = format!("{LINES}{framing}");
        response.send_dynamic(&DynamicResponse::without_body(200, &fields));
    }
    gathering.size += line.len() as u64;
    if gathering.is_chunked {
        response.append(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes());
    } else {
        response.append(line.as_bytes());
    }
    response.set_sent(200, gathering.size);
}
