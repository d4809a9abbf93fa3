//! The state of a fan-out: which parts wait, run and have ended, and whether the answer is due.
//!
//! Pure transitions. A part ends once; what comes for it later is ignored, so that late, repeated
//! and contradicting events cannot change an answer.

use super::part::{PartError, PartResponse, PartResult};
use super::plan::Plan;

/// One client's request.
#[derive(Debug)]
pub struct Collection {
    states: Vec<State>,
    started_ns: u64,
    first_success_ns: Option<u64>,
    /// Bytes of bodies that are held.
    held: usize,
    is_closed: bool,
}

#[derive(Debug)]
enum State {
    Waiting,
    Running(PartResponse),
    Ended { result: PartResult, elapsed_ns: u64 },
}

/// What an event led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The part continues.
    Continues,
    /// The part has ended with this event; its exchange too.
    Ended,
    /// The part has ended and its exchange continues: cancel it.
    Cancel,
    /// The part had ended before. Its exchange's result still counts for its server's health.
    Ignored,
}

impl Collection {
    /// All parts wait.
    pub fn new(plan: &Plan, now_ns: u64) -> Self {
        Self {
            states: plan.parts.iter().map(|_| State::Waiting).collect(),
            started_ns: now_ns,
            first_success_ns: None,
            held: 0,
            is_closed: false,
        }
    }

    /// The next part to send, if fewer than permitted run at its upstream. It runs from now on.
    pub fn begin_next(&mut self, plan: &Plan) -> Option<usize> {
        let upstream = |index: usize| plan.parts.get(index).map(|part| part.template.upstream());
        let next = (0..self.states.len()).find(|&index| {
            let is_running = |(other, state): &(usize, &State)| {
                matches!(state, State::Running(_)) && upstream(*other) == upstream(index)
            };
            matches!(self.states.get(index), Some(State::Waiting))
                && self.states.iter().enumerate().filter(is_running).count() < plan.parallel
        })?;
        *self.states.get_mut(next)? = State::Running(PartResponse::default());
        Some(next)
    }

    /// The head of a part's response. A retry may send another.
    pub fn on_head(
        &mut self,
        part: usize,
        status: u16,
        fields: Vec<(&'static str, String)>,
    ) -> Effect {
        let Some(State::Running(response)) = self.states.get_mut(part) else {
            return Effect::Ignored;
        };
        self.held -= response.body.len();
        *response = PartResponse { status, fields, body: Vec::new() };
        Effect::Continues
    }

    /// Bytes of a part's body.
    pub fn on_body(&mut self, plan: &Plan, part: usize, bytes: &[u8], now_ns: u64) -> Effect {
        let Some(State::Running(response)) = self.states.get_mut(part) else {
            return Effect::Ignored;
        };
        let is_too_large = response.body.len() + bytes.len() > plan.part_size_max
            || self.held + bytes.len() > plan.answer_size_max;
        if is_too_large {
            self.end(part, PartResult::Error(PartError::RESPONSE_BODY_SIZE), now_ns);
            return Effect::Cancel;
        }
        response.body.extend_from_slice(bytes);
        self.held += bytes.len();
        Effect::Continues
    }

    /// The end of a part's response.
    pub fn on_end(&mut self, part: usize, now_ns: u64) -> Effect {
        let Some(State::Running(response)) = self.states.get_mut(part) else {
            return Effect::Ignored;
        };
        let response = std::mem::take(response);
        self.held -= response.body.len();
        let result = match response.status {
            0 => PartResult::Error(PartError::PROTOCOL_ERROR),
            _ => PartResult::Response(response),
        };
        self.end(part, result, now_ns);
        Effect::Ended
    }

    /// A part's failure, after all retries.
    pub fn on_failure(&mut self, part: usize, error: PartError, now_ns: u64) -> Effect {
        if matches!(self.states.get(part), None | Some(State::Ended { .. })) {
            return Effect::Ignored;
        }
        self.end(part, PartResult::Error(error), now_ns);
        Effect::Ended
    }

    /// Ends the collection if its answer is due: all parts have ended, the deadline has come, or the
    /// soft one has and the answer is good enough. Parts that run are late, and returned: cancel
    /// them. `None`: not due yet, or closed before.
    pub fn close_if_due(&mut self, plan: &Plan, now_ns: u64) -> Option<Vec<usize>> {
        let has_all = self.states.iter().all(|state| matches!(state, State::Ended { .. }));
        let is_due = has_all
            || now_ns >= self.started_ns.saturating_add(plan.deadline_ns)
            || (self.soft_deadline_ns(plan).is_some_and(|at| now_ns >= at)
                && self.is_good_enough(plan));
        if self.is_closed || !is_due {
            return None;
        }
        self.is_closed = true;
        let mut late = Vec::new();
        for part in 0..self.states.len() {
            match self.states.get(part) {
                Some(State::Running(_)) => late.push(part),
                Some(State::Waiting) => {}
                Some(State::Ended { .. }) | None => continue,
            }
            self.end(part, PartResult::Error(PartError::RESPONSE_TIMEOUT), now_ns);
        }
        Some(late)
    }

    /// When to call `close_if_due` without an event.
    pub fn next_deadline_ns(&self, plan: &Plan) -> u64 {
        let hard = self.started_ns.saturating_add(plan.deadline_ns);
        // A soft deadline that found too little waits for events.
        let soft = self.soft_deadline_ns(plan).filter(|_| self.is_good_enough(plan));
        soft.map_or(hard, |soft| soft.min(hard))
    }

    fn soft_deadline_ns(&self, plan: &Plan) -> Option<u64> {
        Some(self.first_success_ns?.saturating_add(plan.soft_deadline_ns?))
    }

    fn end(&mut self, part: usize, result: PartResult, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.started_ns);
        let Some(state) = self.states.get_mut(part) else { return };
        if let State::Running(response) = state {
            self.held -= response.body.len();
        }
        if result.is_success() {
            self.first_success_ns.get_or_insert(now_ns);
        }
        if let PartResult::Response(response) = &result {
            self.held += response.body.len();
        }
        *state = State::Ended { result, elapsed_ns };
    }

    /// A part's result and the time that it took, once it has ended.
    pub fn result(&self, part: usize) -> Option<(&PartResult, u64)> {
        match self.states.get(part) {
            Some(State::Ended { result, elapsed_ns }) => Some((result, *elapsed_ns)),
            Some(State::Waiting | State::Running(_)) | None => None,
        }
    }

    /// Frees the body of a part that has been written.
    pub fn release_body(&mut self, part: usize) {
        if let Some(State::Ended { result: PartResult::Response(response), .. }) =
            self.states.get_mut(part)
        {
            self.held -= std::mem::take(&mut response.body).len();
        }
    }

    /// Bytes of bodies that are held, for the worker's limit.
    pub const fn held(&self) -> usize {
        self.held
    }

    fn successes(&self) -> usize {
        (0..self.states.len()).filter(|part| self.is_success(*part)).count()
    }

    fn is_success(&self, part: usize) -> bool {
        self.result(part).is_some_and(|(result, _)| result.is_success())
    }

    /// Whether every part succeeded.
    pub fn is_complete(&self) -> bool {
        self.successes() == self.states.len()
    }

    fn is_good_enough(&self, plan: &Plan) -> bool {
        let required = plan.parts.iter().enumerate().filter(|(_, part)| part.is_required);
        self.successes() >= plan.needed()
            && required.into_iter().all(|(index, _)| self.is_success(index))
    }

    /// The status of the answer: 200 if it is good enough, 504 if time was the reason, 503 if this
    /// process lacked memory, descriptors or ports, else 502.
    pub fn status(&self, plan: &Plan) -> u16 {
        if self.is_good_enough(plan) {
            return 200;
        }
        let errors = || {
            (0..self.states.len()).filter_map(|part| match self.result(part) {
                Some((PartResult::Error(error), _)) => Some(*error),
                Some((PartResult::Response(_), _)) | None => None,
            })
        };
        let timeouts = [PartError::CONNECTION_TIMEOUT, PartError::RESPONSE_TIMEOUT];
        if errors().any(|error| timeouts.contains(&error)) {
            504
        } else if errors().any(|error| error == PartError::SHORTAGE) {
            503
        } else {
            502
        }
    }
}
