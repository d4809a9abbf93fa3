//! What the observer is told of a connection and its requests.

use jissoku_http::Head;

use super::Connection;
use crate::handler::Plan;
use crate::log::Answered;
use crate::observer::Visit;
use crate::worker::Desk;

impl Connection {
    /// With what its observer wants kept.
    pub(crate) fn seen_by(self, visit: Visit) -> Self {
        Self { visit, ..self }
    }

    /// What its observer wants back.
    pub(crate) fn into_visit(self) -> Visit {
        self.visit
    }

    /// A request was understood, whose head is at the front of `bytes`.
    #[inline]
    pub(super) fn note_head(&mut self, head: &Head, bytes: &[u8], desk: &mut Desk) {
        desk.observer().begin(&mut self.visit, self.arrived_ns, head, bytes);
    }

    /// It was answered as planned.
    #[inline]
    pub(super) fn note_answer(&mut self, plan: &Plan, desk: &mut Desk) {
        if desk.observer().is_on() {
            let reply = desk.service().reply(&plan.page);
            let body_size = if plan.is_head_only { 0 } else { reply.body_size() };
            let answer = Answered { status: reply.status(), body_size, now_ns: desk.now_ns() };
            desk.observer().answer(&mut self.visit, answer);
        }
    }

    /// It was refused, or what has come instead of one: `bytes`, as far as they are still there.
    pub(super) fn note_refusal(
        &mut self,
        status: u16,
        body_size: u64,
        bytes: &[u8],
        desk: &mut Desk,
    ) {
        let answer = Answered { status, body_size, now_ns: desk.now_ns() };
        desk.observer().refuse(&mut self.visit, answer, bytes);
    }
}
