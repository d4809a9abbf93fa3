//! The validation of a plan.

use crate::plan::invalid::Invalid;
use crate::plan::options::{Idle, Order, Reuse, Think};
use crate::plan::pace::{Arrival, OnBusy, Pace};
use crate::plan::request_spec::RequestSpec;
use crate::plan::{Plan, TargetPlan};
use crate::protocol::response_reader::ResponseFraming;

/// Limit of the targets of one run.
const TARGETS_MAX: usize = 64;

/// Limit of the requests in a cycle.
const REQUEST_SPECS_MAX: usize = 65_535;

/// Limit of the rate of Poisson arrivals, which are drawn one by one.
const POISSON_RPS_MAX: f64 = 1e7;

/// Limit of the pipeline depth; a deeper one would mostly measure socket buffers.
const PIPELINE_MAX: u16 = 4096;

impl Plan {
    /// Validates the plan.
    ///
    /// # Errors
    /// The first problem, as a message.
    pub fn check(&self) -> Result<(), Invalid> {
        let no = |why: String| Err(Invalid(why));
        let (threads, connections) = (self.threads, self.connections);
        if self.targets.is_empty() || self.targets.len() > TARGETS_MAX {
            return no(format!("between 1 and {TARGETS_MAX} URLs can be loaded in one run"));
        }
        let rotation_fits =
            |target: &TargetPlan| (1..=REQUEST_SPECS_MAX).contains(&target.specs.len());
        if !self.targets.iter().all(rotation_fits) {
            return no(format!(
                "between 1 and {REQUEST_SPECS_MAX} requests can be sent cyclically"
            ));
        }
        if let Some(target) =
            self.targets.iter().find(|target| target.address.is_secure() != target.tls.is_some())
        {
            return no(format!("{}: TLS settings go with https URLs only", target.address));
        }
        if connections == 0 {
            return no("zero connections: give -c at least 1".to_owned());
        }
        if threads == 0 {
            return no("zero threads: give -t at least 1".to_owned());
        }
        if threads > connections {
            return no(format!(
                "{threads} threads cannot share {connections} connections: give -t at most {connections}"
            ));
        }
        if connections.checked_mul(self.targets.len()).is_none_or(|all| all > u32::MAX as usize) {
            return no(format!("{connections} connections: too many"));
        }
        if self.pipeline == 0 {
            return no("a pipeline of zero requests: give --pipeline at least 1".into());
        }
        if self.pipeline > PIPELINE_MAX {
            return no(format!("--pipeline may be at most {PIPELINE_MAX}"));
        }
        if self.pipeline > 1 && self.reuse == Reuse::Close {
            return no("--pipeline and --no-keepalive exclude each other".to_owned());
        }
        if self.pipeline > 1 && self.order != Order::PerConnection {
            return no("--pipeline and --urls exclude each other".to_owned());
        }
        if self.reuse == Reuse::Requests(0) {
            return no("zero requests per connection: give -r at least 1".to_owned());
        }
        self.check_messages()?;
        self.check_pace()?;
        self.check_slices()?;
        if self.stop.duration_ns.is_none_or(|duration| duration == 0)
            && self.requests().is_none_or(|requests| requests == 0)
        {
            return no("nothing to measure: give -d or -n more than zero".to_owned());
        }
        if self.stop.requests.is_some() && self.warmup_ns > 0 {
            return no("--warmup requires -d: with -n every request counts".to_owned());
        }
        if self.timeout_ns == 0 {
            return no(
                "a timeout of zero fails every request: give --timeout more than zero".to_owned()
            );
        }
        Ok(())
    }

    /// A connection is a WebSocket if it carries messages, and is used for one at a time.
    fn check_messages(&self) -> Result<(), Invalid> {
        let no = |why: &str| Err(Invalid(why.to_owned()));
        let is_message = |spec: &RequestSpec| matches!(spec.framing, ResponseFraming::Message(_));
        let fits = |target: &TargetPlan| {
            target.specs.iter().all(|spec| is_message(spec) == target.handshake.is_some())
        };
        if !self.targets.iter().all(fits) {
            return no("messages require a WebSocket handshake, and HTTP requests exclude it");
        }
        let websockets = || self.targets.iter().filter(|target| target.handshake.is_some());
        if websockets().next().is_none() {
            return Ok(());
        }
        if websockets().any(|target| target.tls.is_some()) {
            return no(
                "--websocket requires an http or unix URL: WebSockets over TLS are not supported",
            );
        }
        if self.reuse == Reuse::Close {
            return no(
                "--websocket and --no-keepalive exclude each other: give -r for short connections",
            );
        }
        if self.pipeline > 1 {
            return no("--websocket and --pipeline exclude each other");
        }
        Ok(())
    }

    fn check_trace(&self) -> Result<(), Invalid> {
        let no = |why: &str| Err(Invalid(why.to_owned()));
        if self.targets.len() > 1 {
            return no(
                "--arrival trace:FILE requires one URL: of two, one would always be loaded after the other",
            );
        }
        if self.arrival != Arrival::Constant {
            return no("a trace determines its own arrivals: leave --arrival poisson out");
        }
        if self.warmup_ns > 0 {
            return no("every request of a trace counts: leave --warmup out");
        }
        if self.threads > 1 && self.targets.iter().any(|target| target.watch_pid.is_some()) {
            return no(
                "--watch with a trace requires -t 1: each thread ends with its share of the trace",
            );
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), Invalid> {
        let no = |why: &str| Err(Invalid(why.to_owned()));
        let paused = self.think != Think::Never || self.ramp_up_ns > 0;
        if paused && !self.pace.is_closed() {
            return no("--think and --ramp-up require the closed loop: leave -R and traces out");
        }
        if self.pace.trace().is_some() {
            self.check_trace()?;
            return self.check_busy();
        }
        let Some((from, to)) = self.pace.rates() else {
            if self.idle == Idle::Hybrid {
                return no("--idle hybrid requires -R: a closed loop has no due times");
            }
            if self.arrival != Arrival::Constant {
                return no("--arrival requires -R: a closed loop has no due times");
            }
            if self.on_busy != OnBusy::Queue || self.deadline_ns.is_some() {
                return no(
                    "--on-busy and --deadline require -R: in a closed loop no request waits",
                );
            }
            return Ok(());
        };
        if from.requests == 0 || to.requests == 0 {
            return no("a rate of zero: give -R more than zero");
        }
        if from != to && self.stop.duration_ns.is_none() {
            return no("a changing rate requires a window of fixed length: give -d");
        }
        if self.arrival == Arrival::Poisson && from.rps().max(to.rps()) > POISSON_RPS_MAX {
            return no("the rate of Poisson arrivals is limited: give -R at most 10M");
        }
        self.check_busy()
    }

    /// Time slices consist of evenly spaced requests, sent by one spinning worker.
    fn check_slices(&self) -> Result<(), Invalid> {
        let no = |why: &str| Err(Invalid(why.to_owned()));
        let Some(slice_ns) = self.slice_ns else {
            if self.warmup_requests > 0 || self.settling_requests > 0 || self.slot_ns.is_some() {
                return no("--warmup-requests, --settle and --slot require --slice");
            }
            return Ok(());
        };
        if slice_ns == 0 {
            return no("a time slice of zero: give --slice more than zero");
        }
        if !matches!(self.pace, Pace::Constant { .. }) || self.arrival != Arrival::Constant {
            return no("--slice requires a constant rate: give -R, and no --arrival");
        }
        if self.threads > 1 {
            return no("--slice requires one thread: give -t 1");
        }
        if self.idle != Idle::Spin {
            return no("--slice requires --idle spin");
        }
        if self.stop.requests.is_some() {
            return no("--slice requires -d: the window consists of complete cycles");
        }
        if self.slot_ns.is_some_and(|slot_ns| slot_ns < slice_ns) {
            return no("--slot must be at least --slice: a slice ends before the next one begins");
        }
        if self.slot_ns.is_some() && self.settling_requests > 0 {
            return no("--slot and --settle exclude each other");
        }
        if self.on_busy != OnBusy::Queue || self.deadline_ns.is_some() {
            return no("--on-busy and --deadline exclude --slice: a slice waits for its responses");
        }
        Ok(())
    }

    fn check_busy(&self) -> Result<(), Invalid> {
        match self.on_busy {
            OnBusy::Open { connections_max } if connections_max < self.connections => {
                Err(Invalid("--max-connections must be at least -c".to_owned()))
            }
            OnBusy::Open { .. } | OnBusy::Queue | OnBusy::Drop => Ok(()),
        }
    }
}
