//! Puts out answers: the lines that change from one to the next, and what the site gave.

use std::sync::Arc;

use jissoku_http::Reject;
use jissoku_http::response::{self, Answer, Persistence};
use jissoku_os::driver::Output;
use jissoku_os::file::File;

use crate::handler::{Plan, Reply};
use crate::limits::RETRY_AFTER_S;
use crate::worker::Desk;

/// Puts out one answer.
#[inline]
pub(super) fn write(plan: &Plan, persistence: Persistence, desk: &Desk, output: &mut Output) {
    let (status, answer, body) = match desk.service().reply(&plan.page) {
        Reply::Whole(status, answer) => (status, answer, Elsewhere::Nothing),
        Reply::Split(status, answer, bytes) => (status, answer, Elsewhere::Memory(bytes)),
        Reply::File(status, answer, file) => (status, answer, Elsewhere::File(file)),
        Reply::Verbatim { lives, ends } => {
            let answer = if persistence == Persistence::Ends { ends } else { lives };
            output.append(if plan.is_head_only { answer.head() } else { answer.whole() });
            return;
        }
        Reply::Made(made) => {
            desk.openings().with(made.status, |opening| output.append(opening));
            output.append(persistence.field());
            made.write(plan.is_head_only, output);
            return;
        }
    };
    desk.openings().with(status, |opening| output.append(opening));
    output.append(persistence.field());
    if plan.is_head_only {
        output.append(answer.head());
        return;
    }
    output.append(answer.whole());
    match body {
        Elsewhere::Nothing => {}
        Elsewhere::Memory(bytes) => output.share(Arc::clone(bytes)),
        Elsewhere::File(file) => output.file(Arc::clone(file), 0..file.identity().size),
    }
}

/// What of a body does not follow its head in memory.
enum Elsewhere<'a> {
    Nothing,
    Memory(&'a Arc<[u8]>),
    File(&'a Arc<File>),
}

/// Puts out why a request is refused. The connection ends with it.
#[cold]
pub(super) fn write_refusal(reject: Reject, desk: &Desk, output: &mut Output) {
    write_last(reject.status(), "", desk, output);
}

/// Puts out that there is no room for another connection.
#[cold]
pub(super) fn write_turned_away(desk: &Desk, output: &mut Output) {
    write_last(503, &format!("Retry-After: {RETRY_AFTER_S}\r\n"), desk, output);
}

fn write_last(status: u16, fields: &str, desk: &Desk, output: &mut Output) {
    desk.openings().with(status, |opening| output.append(opening));
    output.append(Persistence::Ends.field());
    let body = format!("{}\n", response::reason(status));
    let fields = format!("{fields}Content-Type: text/plain\r\n");
    output.append(Answer::new(&fields, body.as_bytes()).whole());
}
