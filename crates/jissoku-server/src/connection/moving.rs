//! Connections that go from one worker to another while they are idle.

use jissoku_os::driver::Next;

use super::Connection;
use super::phase::Phase;
use crate::context::WorkerContext;
use crate::handler::Handler;

impl<H: Handler> Connection<H> {
    /// A connection of plain text, which may be passed on to another worker.
    pub(crate) fn with_moves(mut self) -> Self {
        self.is_movable = self.intermediary.as_ref().is_none_or(|it| it.is_of_requests());
        self
    }

    /// A connection that another worker has passed on while it was idle.
    pub(crate) const fn after_move(mut self) -> Self {
        if matches!(self.phase, Phase::AwaitingFirst) {
            self.phase = Phase::Idle;
        }
        self
    }

    /// As [`Connection::next`], unless another worker is to go on.
    #[inline]
    pub(super) fn next_or_move(&self, context: &WorkerContext<H>) -> Next {
        let is_idle = matches!(self.phase, Phase::Idle | Phase::AwaitingFirst);
        if is_idle && self.input.is_empty() && self.moves(context) {
            return Next::Move;
        }
        self.next()
    }

    /// Whether another worker serves the next request.
    #[inline]
    pub(super) fn moves(&self, context: &WorkerContext<H>) -> bool {
        self.is_movable && context.moves_connections()
    }
}
