//! Bodies of requests, whole or by parts, which the handler may pause.

use jissoku_os::driver::ConnectionId;
use jissoku_server::Progress;

use super::{Request, WorkerHandler};
use crate::call::{Call, Waiting};
use crate::ffi::in_request;

/// The index of a handler, and the connection of its request.
type Place = (usize, ConnectionId);

impl WorkerHandler {
    /// Keeps a part of the body, or passes it to a handler that takes it by parts.
    pub(super) fn take_body(&mut self, request: &mut Request, bytes: &[u8]) {
        let place = (request.part, request.connection);
        let Some(call) = &mut request.call else { return };
        if call.is_answered_early {
            return;
        }
        if !request.takes_parts {
            call.push_body(bytes);
        } else if call.is_paused() {
            // It was received together with the part before it.
            call.held.extend_from_slice(bytes);
        } else {
            self.pass_part(place, call, bytes);
        }
    }

    /// Goes on with a body that is paused, if its time has come. `None` if the whole body was passed,
    /// or there is a response before its end.
    pub(super) fn continue_body(
        &mut self,
        place: Place,
        call: &mut Call,
        is_receiving: bool,
        now_ns: u64,
    ) -> Option<Progress> {
        let is_pause = |waiting: &mut Waiting| matches!(waiting, Waiting::Body(_));
        while let Some(Waiting::Body(pause)) = call.waiting.take_if(is_pause) {
            if pause.due_ns > now_ns && !self.deferred.is_resumed(pause.token) {
                call.waiting = Some(Waiting::Body(pause));
                return Some(Progress::Pending);
            }
            self.deferred.remove(pause.token);
            if let Some(resume) = pause.resume {
                call.begin_part();
                let code = in_request(call, |call| resume(Some(call)));
                self.end_part(place, call, code);
            }
            if call.is_paused() {
                continue;
            }
            let held = std::mem::take(&mut call.held);
            if !held.is_empty() && !call.is_answered_early {
                self.pass_part(place, call, &held);
            }
        }
        // What the client still sends is then discarded by the server.
        (is_receiving && !call.is_answered_early).then_some(Progress::Pending)
    }

    fn pass_part(&mut self, place: Place, call: &mut Call, bytes: &[u8]) {
        call.begin_part();
        let code = self.service.handlers[place.0].functions.take_part(call, bytes);
        self.end_part(place, call, code);
    }

    fn end_part(&mut self, (part, connection): Place, call: &mut Call, code: i32) {
        if let Err(why) = in_request(call, |call| call.end_part(code)) {
            self.cancel(call);
            self.report(part, call, &why);
            call.fail_early();
        } else if let Some(Waiting::Body(pause)) = &call.waiting {
            self.deferred.add_pause(pause.token, pause.due_ns, connection);
        }
    }
}
