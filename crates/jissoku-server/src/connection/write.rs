//! Puts out answers: the lines that change from one to the next, and what the site gave.

use std::sync::Arc;

use jissoku_http::Reject;
use jissoku_http::response::{self, Answer, Persistence};
use jissoku_os::driver::Output;

use crate::handler::{Plan, Reply};
use crate::limits::RETRY_AFTER_S;
use crate::worker::Desk;

/// How much of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    Head,
    Body,
}

impl Extent {
    const fn of(self, answer: &Answer) -> &[u8] {
        match self {
            Self::Whole => answer.whole(),
            Self::Head => answer.head(),
            Self::Body => answer.body(),
        }
    }
}

/// Puts out one answer, or the part of it that is asked for.
#[inline]
pub(super) fn write(
    plan: &Plan,
    persistence: Persistence,
    extent: Extent,
    desk: &Desk,
    output: &mut Output,
) {
    let reply = desk.service().reply(&plan.page);
    let status = match reply {
        Reply::Verbatim { lives, ends } => {
            let answer = if persistence == Persistence::Ends { ends } else { lives };
            return output.append(extent.of(answer));
        }
        Reply::Whole(status, _) | Reply::Split(status, ..) | Reply::File(status, ..) => status,
        Reply::Made(made) => made.status,
    };
    if extent != Extent::Body {
        desk.openings().with(status, |opening| output.append(opening));
        output.append(persistence.field());
    }
    match reply {
        Reply::Whole(_, answer) | Reply::Split(_, answer, _) | Reply::File(_, answer, _) => {
            output.append(extent.of(answer));
        }
        Reply::Made(made) if extent != Extent::Body => output.append(&made.head),
        Reply::Made(_) | Reply::Verbatim { .. } => {}
    }
    if extent == Extent::Head {
        return;
    }
    match reply {
        Reply::Split(_, _, bytes) => output.share(Arc::clone(bytes)),
        Reply::File(_, _, file) => output.file(Arc::clone(file), 0..file.identity().size),
        Reply::Made(made) => made.write_body(output),
        Reply::Whole(..) | Reply::Verbatim { .. } => {}
    }
}

/// Puts out why a request is refused, and returns the size of the body. The connection ends with it.
#[cold]
pub(super) fn write_refusal(reject: Reject, desk: &Desk, output: &mut Output) -> u64 {
    let text = match reject {
        Reject::TlsMissing => "This port speaks TLS: write https:// instead.",
        reject => response::reason(reject.status()),
    };
    write_last(reject.status(), "", text, desk, output)
}

/// Puts out that there is no room for another connection.
#[cold]
pub(super) fn write_turned_away(desk: &Desk, output: &mut Output) {
    let fields = format!("Retry-After: {RETRY_AFTER_S}\r\n");
    write_last(503, &fields, response::reason(503), desk, output);
}

fn write_last(status: u16, fields: &str, text: &str, desk: &Desk, output: &mut Output) -> u64 {
    desk.openings().with(status, |opening| output.append(opening));
    output.append(Persistence::Ends.field());
    let body = format!("{text}\n");
    let fields = format!("{fields}Content-Type: text/plain\r\n");
    output.append(Answer::new(&fields, body.as_bytes()).whole());
    body.len() as u64
}
