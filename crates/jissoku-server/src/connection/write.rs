//! Writes responses: the status line and connection header, and what the handler returned.

use std::sync::Arc;

use jissoku_http::Reject;
use jissoku_http::response::{self, ConnectionHeader, StaticResponse};
use jissoku_os::driver::SendBuffer;

use crate::handler::{ResponsePlan, ResponseRef};
use crate::limits::RETRY_AFTER_S;
use crate::worker::WorkerContext;

/// Which part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponsePart {
    Whole,
    Head,
    Body,
}

impl ResponsePart {
    const fn of(self, answer: &StaticResponse) -> &[u8] {
        match self {
            Self::Whole => answer.bytes(),
            Self::Head => answer.head(),
            Self::Body => answer.body(),
        }
    }
}

/// Writes a response, or a part of it.
#[inline]
pub(super) fn write(
    plan: &ResponsePlan,
    persistence: ConnectionHeader,
    part: ResponsePart,
    context: &WorkerContext,
    output: &mut SendBuffer,
) {
    let reply = context.service().reply(&plan.kind);
    let status = match reply {
        ResponseRef::Verbatim { keep_alive, close } => {
            let answer = if persistence == ConnectionHeader::Close { close } else { keep_alive };
            return output.append(part.of(answer));
        }
        ResponseRef::Whole(status, _)
        | ResponseRef::Split(status, ..)
        | ResponseRef::File(status, ..) => status,
        ResponseRef::Dynamic(made) => made.status,
    };
    if part != ResponsePart::Body {
        context.status_lines().with(status, |opening| output.append(opening));
        output.append(persistence.field());
    }
    match reply {
        ResponseRef::Whole(_, answer)
        | ResponseRef::Split(_, answer, _)
        | ResponseRef::File(_, answer, _) => {
            output.append(part.of(answer));
        }
        ResponseRef::Dynamic(made) if part != ResponsePart::Body => output.append(&made.head),
        ResponseRef::Dynamic(_) | ResponseRef::Verbatim { .. } => {}
    }
    if part == ResponsePart::Head {
        return;
    }
    match reply {
        ResponseRef::Split(_, _, bytes) => output.share(Arc::clone(bytes)),
        ResponseRef::File(_, _, file) => output.file(Arc::clone(file), 0..file.stamp().size),
        ResponseRef::Dynamic(made) => made.write_body(output),
        ResponseRef::Whole(..) | ResponseRef::Verbatim { .. } => {}
    }
}

/// Writes an error response and returns the size of its body. The connection is closed after it.
/// `part` is [`ResponsePart::Head`] for a HEAD request.
#[cold]
pub(super) fn write_rejection(
    reject: Reject,
    part: ResponsePart,
    context: &WorkerContext,
    output: &mut SendBuffer,
) -> u64 {
    let text = match reject {
        Reject::TlsMissing => "This port speaks TLS: write https:// instead.",
        reject => response::reason(reject.status()),
    };
    let answer = last(reject.status(), "", text, context, output);
    output.append(part.of(&answer));
    if part == ResponsePart::Head { 0 } else { answer.body_size() }
}

/// Writes a 503 for a connection over the limit.
#[cold]
pub(super) fn write_over_limit(context: &WorkerContext, output: &mut SendBuffer) {
    let fields = format!("Retry-After: {RETRY_AFTER_S}\r\n");
    let answer = last(503, &fields, response::reason(503), context, output);
    // No request was read, so it is not known to be a HEAD.
    output.append(answer.bytes());
}

/// Writes the first lines of a final response and returns the rest.
fn last(
    status: u16,
    fields: &str,
    text: &str,
    context: &WorkerContext,
    output: &mut SendBuffer,
) -> StaticResponse {
    context.status_lines().with(status, |opening| output.append(opening));
    output.append(ConnectionHeader::Close.field());
    let fields = format!("{fields}Content-Type: text/plain\r\n");
    StaticResponse::new(&fields, format!("{text}\n").as_bytes())
}
