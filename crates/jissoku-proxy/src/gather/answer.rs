//! The response to a client: as a whole, or part by part as these end.

use jissoku_server::{BodyPart, DynamicResponse, Progress, Response};

use super::Gathering;
use crate::policy::fan_out::{Form, compose_json, ndjson_end, ndjson_line};

/// Unsent output of a client above which no more parts are written.
const UNSENT_HIGH: usize = 64 * 1024;

const LINES: &str = "Content-Type: application/x-ndjson\r\n";

impl Gathering {
    /// Whether the client is slower than the servers whose parts it gets as they end.
    pub(crate) fn is_behind(&self, response: &Response<'_>) -> bool {
        self.form == Form::Lines && response.unsent() > UNSENT_HIGH
    }

    /// The header lines of the response, of which these are its own.
    fn fields(&self, own: &str) -> Vec<u8> {
        self.route.fields.applied(own, &self.lines)
    }
}

/// Writes the response, or what there is of it.
pub(crate) fn write(gathering: &mut Gathering, response: &mut Response<'_>) -> Progress {
    if gathering.form == Form::Lines && !response.is_head() {
        return write_parts(gathering, response);
    }
    if !gathering.is_closed {
        return Progress::Pending;
    }
    let status = gathering.collection.status(&gathering.route.plan);
    let (media_type, body) = compose(gathering, response.now_ns());
    let complete = u8::from(gathering.collection.is_complete());
    let retry = if status == 503 { "Retry-After: 1\r\n" } else { "" };
    let own = format!("{media_type}Gather-Complete: ?{complete}\r\n{retry}");
    let fields = gathering.fields(&own);
    let body = vec![BodyPart::Bytes(body.into_bytes())];
    response.send_dynamic(&DynamicResponse::new(status, &fields, body));
    Progress::Complete
}

/// The field about the body, and the body.
fn compose(gathering: &Gathering, now_ns: u64) -> (&'static str, String) {
    let (plan, collection) = (&gathering.route.plan, &gathering.collection);
    let elapsed_ns = now_ns.saturating_sub(gathering.started_ns);
    match gathering.form {
        Form::Json => {
            let text = compose_json(plan, collection, plan.shape, elapsed_ns);
            ("Content-Type: application/json\r\n", text)
        }
        Form::Lines => {
            let parts = (0..plan.parts.len()).map(|part| ndjson_line(plan, collection, part));
            (LINES, parts.chain([ndjson_end(collection, elapsed_ns)]).collect())
        }
    }
}

/// Writes each part that has ended, and the end after all of them.
fn write_parts(gathering: &mut Gathering, response: &mut Response<'_>) -> Progress {
    let mut unsent = response.unsent();
    for part in 0..gathering.parts.len() {
        let is_new = gathering.written & 1 << part == 0;
        if !is_new || gathering.collection.result(part).is_none() {
            continue;
        }
        if unsent > UNSENT_HIGH {
            return Progress::Sent;
        }
        let text = ndjson_line(&gathering.route.plan, &gathering.collection, part);
        append(gathering, response, &text);
        gathering.collection.release_body(part);
        gathering.written |= 1 << part;
        unsent += text.len();
    }
    if !gathering.is_closed {
        return Progress::Pending;
    }
    let elapsed_ns = response.now_ns().saturating_sub(gathering.started_ns);
    let end = ndjson_end(&gathering.collection, elapsed_ns);
    append(gathering, response, &end);
    if gathering.is_chunked {
        response.append(b"0\r\n\r\n");
    }
    Progress::Complete
}

/// Writes a text, behind the head if it is the first.
fn append(gathering: &mut Gathering, response: &mut Response<'_>, text: &str) {
    if gathering.size == 0 {
        let framing = if gathering.is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        if !gathering.is_chunked {
            response.close_after();
        }
        let fields = gathering.fields(&format!("{LINES}{framing}"));
        response.send_dynamic(&DynamicResponse::without_body(200, &fields));
    }
    gathering.size += text.len() as u64;
    if gathering.is_chunked {
        response.append(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    } else {
        response.append(text.as_bytes());
    }
    response.set_sent(200, gathering.size);
}
