//! What serves an exchange: servers, connections, retries, second copies, and the time for all of it.

use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_server::HedgeResult;

use super::{Assignment, ClientState, CopyStage, Ending, Exchange, OrphanStep, Record, Stage};
use crate::config::Forwarding;
use crate::diagnostics::Phases;

use crate::Key;
use crate::policy::balance::Selection;
use crate::policy::retry::{Attempt, Received, RetryPolicy};

impl Exchange {
    /// The request is to be forwarded. Returns whether it is for the first time.
    pub(crate) const fn begin(&mut self, now_ns: u64) -> bool {
        let is_first = self.assignment.until_ns == 0;
        if is_first {
            self.assignment.until_ns = now_ns + self.forwarding.head_ns;
            self.record.phases = Phases::new(now_ns);
        }
        is_first
    }

    /// The response of which it is a part has to be there at this time.
    pub(crate) const fn limit_whole(&mut self, until_ns: u64) {
        self.assignment.whole_until_ns = until_ns;
    }

    /// Whether the time for the head of its response is over.
    pub(crate) const fn is_late(&self, now_ns: u64) -> bool {
        self.assignment.until_ns <= now_ns
    }

    /// When the head of the response has to be there.
    pub(crate) const fn until_ns(&self) -> u64 {
        self.assignment.until_ns
    }

    /// When the head of a response to a request that is sent now has to be there.
    pub(crate) fn head_deadline_ns(&self, now_ns: u64) -> u64 {
        let try_ns = self.forwarding.try_ns.unwrap_or(u64::MAX);
        self.assignment.until_ns.min(now_ns.saturating_add(try_ns))
    }

    /// What its server is chosen by, of the servers of this version.
    pub(crate) fn selection(&mut self, version: u64, now_ns: u64) -> Selection<'_> {
        let assignment = &mut self.assignment;
        if assignment.version != version {
            assignment.version = version;
            assignment.tried.clear();
        }
        Selection { hash: assignment.hash, tried: &assignment.tried, now_ns }
    }

    pub(crate) fn set_server(&mut self, index: usize, endpoint: Arc<Endpoint>) {
        self.assignment.server = Some(index);
        self.assignment.endpoint = Some(endpoint);
    }

    /// The address of its last server.
    pub(crate) const fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        self.assignment.endpoint.as_ref()
    }

    /// Whether it was sent to a server, whose index is one of this version.
    pub(crate) fn has_tried(&self, index: usize, version: u64) -> bool {
        self.assignment.version == version && self.assignment.tried.contains(&index)
    }

    /// It waits for its turn.
    pub(crate) const fn queue(&mut self) {
        self.stage = Stage::Queued;
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.stage == Stage::Queued
    }

    /// A connection serves it from now on, which was used before or not.
    pub(crate) fn enter_connection(&mut self, connection: Key, is_reused: bool, now_ns: u64) {
        self.stage = Stage::Served(connection);
        self.assignment.is_reused = is_reused;
        self.assignment.connections += 1;
        self.record.phases.connect(now_ns);
    }

    /// No connection serves it any more.
    pub(crate) const fn leave_connection(&mut self) {
        self.stage = Stage::None;
    }

    /// How far it has come.
    pub(crate) fn attempt(&self, now_ns: u64) -> Attempt {
        Attempt {
            is_reused: self.assignment.is_reused,
            received: self.received,
            has_relayed: self.output.has_interim() || self.received == Received::Head,
            is_repeatable: self.is_repeatable(),
            tries: self.assignment.tries,
            was_replaced: self.assignment.was_replaced,
            left_ns: self.assignment.until_ns.saturating_sub(now_ns),
        }
    }

    /// Its connection, which was used before, has ended, and it gets a new one to the same server.
    pub(crate) const fn record_replacement(&mut self) {
        self.assignment.was_replaced = true;
    }

    /// Its server has failed: it waits, and is then sent to another. `failure` is the reason if none
    /// is left, by status and error type; `counts` if that was a try.
    pub(crate) fn wait_for_other(&mut self, failure: Option<(u16, &'static str)>, counts: bool) {
        let assignment = &mut self.assignment;
        assignment.tried.extend(assignment.server.take());
        assignment.was_replaced = false;
        assignment.tries += u32::from(counts);
        self.stage = Stage::Waiting;
        self.received = Received::Nothing;
        self.record.failure = failure;
        self.record.phases.wait();
    }

    /// The time has come at which it is sent again. Returns whether it waits for that.
    pub(crate) fn end_waiting(&mut self) -> bool {
        let is_waiting = self.stage == Stage::Waiting;
        if is_waiting {
            self.stage = Stage::None;
        }
        is_waiting
    }

    /// No server takes it: the response is this status, unless a server has failed before, which is
    /// the reason then. Returns whether one has.
    pub(crate) fn refuse(&mut self, (status, error): (u16, &'static str)) -> bool {
        let before = self.record.failure;
        let (status, error) = before.unwrap_or((status, error));
        self.fail(status, error);
        before.is_some()
    }

    /// The response is one with this status, because of an error of this type.
    pub(crate) const fn fail(&mut self, status: u16, error: &'static str) {
        self.stage = Stage::None;
        self.ending = Some(Ending::Failed(status, error));
    }

    /// The response ends before its last byte, because of an error of this type.
    pub(crate) const fn truncate(&mut self, error: &'static str) {
        self.stage = Stage::None;
        self.record.error = Some(error);
        self.ending = Some(Ending::Truncated);
    }

    // Second copies.

    /// What is said about second copies of its route, if it got its first connection and may have one.
    pub(crate) fn hedge_to_watch(&self) -> Option<usize> {
        let is_first = self.assignment.connections == 1 && self.is_copyable();
        self.forwarding.hedge.filter(|_| is_first)
    }

    /// Whether the head of its response is awaited from a server.
    pub(crate) fn is_awaited(&self) -> bool {
        self.connection().is_some() && self.ending.is_none() && self.received != Received::Head
    }

    /// Its second copy is put off, unless it was before.
    pub(crate) const fn put_off_copy(&mut self) -> bool {
        !std::mem::replace(&mut self.is_copy_put_off, true)
    }

    /// The request once more, for another server than those that this one was sent to.
    pub(crate) fn second_copy(&self) -> Self {
        let mut tried = self.assignment.tried.clone();
        tried.extend(self.assignment.server);
        let assignment = Assignment {
            tried,
            version: self.assignment.version,
            until_ns: self.assignment.until_ns,
            whole_until_ns: self.assignment.whole_until_ns,
            ..Assignment::new(self.assignment.hash)
        };
        let phases = Phases::new(self.record.phases.begun_ns);
        let notes = self.record.notes;
        let record = Record { notes, ..Record::new(phases, self.record.is_diagnosed) };
        let forwarding = Forwarding { hedge: None, retry: RetryPolicy::NONE, ..self.forwarding };
        let request = (self.method, self.version, self.protocol);
        Self {
            request: self.request.clone(),
            head_size: self.head_size,
            offer: self.offer,
            response_edit: self.response_edit.clone(),
            part: self.part.as_ref().map(|_| Box::default()),
            ..Self::unsent(self.client, request, forwarding, (assignment, record))
        }
    }

    /// Its second copy is under way, at the copy's server.
    pub(crate) fn set_copy(&mut self, key: Key, copy_server: Option<usize>) {
        self.assignment.tried.extend(copy_server);
        self.copy = Some(key);
    }

    /// The server that was chosen last, by its index.
    pub(crate) const fn server(&self) -> Option<usize> {
        self.assignment.server
    }

    pub(crate) const fn copy(&self) -> Option<Key> {
        self.copy
    }

    pub(crate) const fn take_copy(&mut self) -> Option<Key> {
        self.copy.take()
    }

    /// How far it has come, if it is one of two copies.
    pub(crate) fn copy_stage(&self) -> CopyStage {
        match self.ending {
            Some(Ending::Failed(..)) => CopyStage::Failed,
            None if self.received != Received::Head => CopyStage::Awaited,
            _ => CopyStage::Responded,
        }
    }

    /// What the other of two copies takes over from it: how many connections it was tried on, and what
    /// is known of the client.
    pub(crate) const fn share(&self) -> (u32, ClientState) {
        (self.assignment.connections, self.client_state)
    }

    /// Its response is used, and that of the other copy, which had this share, is not.
    pub(crate) fn win_over(&mut self, share: Option<(u32, ClientState)>, result: HedgeResult) {
        if let Some((connections, client_state)) = share {
            self.assignment.connections += connections;
            self.client_state = self.client_state.max(client_state);
        }
        self.hedge = Some(result);
    }

    /// Another copy of its request was responded to: its response is received until then, and dropped.
    pub(crate) fn become_unused(&mut self, until_ns: u64) {
        self.part = None;
        self.unused_until_ns = Some(until_ns);
    }

    /// Whether another copy of its request was responded to.
    pub(crate) const fn is_unused(&self) -> bool {
        self.unused_until_ns.is_some()
    }

    // Without a client.

    /// It continues without its client, which does not wait for another server.
    pub(crate) const fn detach_client(&mut self) {
        self.client_state = ClientState::Gone;
        self.forwarding.retry = RetryPolicy::NONE;
        self.forwarding.hedge = None;
    }

    /// Until when its response is received: for a limited time, once it has begun, since it may have no
    /// end.
    pub(crate) const fn orphan_until_ns(&self, read_ns: u64) -> Option<u64> {
        match (self.unused_until_ns, self.record.phases.head_ns) {
            (Some(until_ns), _) => Some(until_ns),
            (None, 0) => None,
            (None, head_ns) => Some(head_ns + read_ns),
        }
    }

    /// Drops what was received of the response.
    pub(crate) fn drop_output(&mut self) -> OrphanStep {
        let was_held = self.is_held();
        drop(self.output.take());
        // Its request may still be being sent.
        let is_finishing = self.connection().is_some() && self.ending == Some(Ending::Complete);
        if self.ending.is_some() && !is_finishing {
            OrphanStep::End
        } else if was_held {
            OrphanStep::Resume
        } else {
            OrphanStep::Wait
        }
    }
}
