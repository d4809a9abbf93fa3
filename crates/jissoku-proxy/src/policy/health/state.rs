//! What all workers share about one server: a cache line of relaxed atomics.
//!
//! Each word changes by itself and consistently; between two of them no order is needed.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use super::latency::Latency;
use super::passive::{Ejection, Passive};
use super::policy::HealthPolicy;
use super::window::Window;

/// The weight of a server that begins to serve, in thousandths.
const SLOW_START_PERMILLE: u64 = 100;

/// One server's requests in flight and health.
#[derive(Debug)]
#[repr(align(64))]
pub struct ServerState {
    passive: AtomicU64,
    window: AtomicU64,
    latency: AtomicU64,
    in_flight: AtomicU32,
    is_probed_dead: AtomicBool,
    /// Whether its requests fail although it serves: too few others are left to eject it.
    is_failing: AtomicBool,
    /// The [`Use`] that was reported last.
    reported_use: AtomicU8,
}

/// How a server is used, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// As usual.
    Normal,
    /// As usual, although its requests fail: too few others are left to eject it.
    Failing,
    /// It is ejected, or its checks fail.
    Not,
}

impl Use {
    const fn unpack(number: u8) -> Self {
        match number {
            0 => Self::Normal,
            1 => Self::Failing,
            _ => Self::Not,
        }
    }
}

/// What a request's end says about its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Success,
    /// It failed in a way that counts against its health.
    Failure,
    /// It refused the connection.
    Refused,
    /// Neither: the client's fault, or ours, or a cancelled request.
    Neutral,
}

/// Whether a server may get a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// As usual.
    Serving,
    /// One, to see whether it serves again.
    Trial,
    /// Only if no server is left.
    Ejected,
    /// None: it refuses connections, or its probes fail.
    Never,
}

impl Default for ServerState {
    fn default() -> Self {
        Self {
            passive: AtomicU64::new(Passive::INITIAL.pack()),
            window: AtomicU64::new(Window::default().pack()),
            latency: AtomicU64::new(Latency::default().pack()),
            in_flight: AtomicU32::new(0),
            is_probed_dead: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            reported_use: AtomicU8::new(Use::Normal as u8),
        }
    }
}

impl ServerState {
    /// Requests in flight, of all workers.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Adds a request unless that would exceed `max`.
    pub(crate) fn begin(&self, max: u32) -> bool {
        let is_within = self.in_flight.fetch_add(1, Relaxed) < max;
        if !is_within {
            self.end();
        }
        is_within
    }

    pub(crate) fn end(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// The latency of its requests, in nanoseconds; `None` if there was none.
    pub(crate) fn latency_ns(&self, now_ns: u64) -> Option<f32> {
        Latency::unpack(self.latency.load(Relaxed)).at(now_ns)
    }

    /// Notes the latency of a request.
    pub(crate) fn record_latency(&self, latency_ns: u64, now_ns: u64) {
        let observe = |word| Some(Latency::unpack(word).observed(latency_ns, now_ns).pack());
        // Never refused, so there is no result.
        let _before = self.latency.fetch_update(Relaxed, Relaxed, observe);
    }

    /// The passive state.
    pub fn passive(&self) -> Passive {
        Passive::unpack(self.passive.load(Relaxed))
    }

    /// Whether it may get a request now.
    pub fn admission(&self, now_ns: u64) -> Admission {
        let passive = self.passive();
        if self.is_probed_dead.load(Relaxed) {
            Admission::Never
        } else if passive.ejection == Ejection::Serving {
            Admission::Serving
        } else if passive.is_trial_due(now_ns) {
            Admission::Trial
        } else if passive.is_refusing {
            Admission::Never
        } else {
            Admission::Ejected
        }
    }

    /// Takes the trial, which only one request gets.
    pub(crate) fn claim_trial(&self, now_ns: u64, policy: &HealthPolicy) -> bool {
        self.update(|passive| passive.claimed(now_ns, policy)).is_some()
    }

    /// Ends a trial without a result.
    pub(crate) fn release_trial(&self) {
        self.update(|passive| (passive.ejection == Ejection::Trial).then(|| passive.released()));
    }

    /// Notes the result of a request. `proves`: it was sent although the server was ejected, so a
    /// success ends the ejection. `may_eject`: fewer than the permitted share are ejected. Returns
    /// whether the server was ejected, or its ejection prolonged or ended; or its requests begin or cease
    /// to fail while it serves.
    pub(crate) fn note(
        &self,
        outcome: Outcome,
        now_ns: u64,
        policy: &HealthPolicy,
        (proves, may_eject): (bool, impl Fn() -> bool),
    ) -> bool {
        let is_failure = match outcome {
            Outcome::Success => false,
            Outcome::Failure | Outcome::Refused => true,
            Outcome::Neutral => return false,
        };
        let count = |word| Some(Window::unpack(word).counted(is_failure, now_ns).pack());
        let before = self.window.fetch_update(Relaxed, Relaxed, count).unwrap_or_default();
        let window = Window::unpack(before).counted(is_failure, now_ns);
        let is_refusing = outcome == Outcome::Refused;
        let is_unhealthy = window.is_unhealthy(policy.failures);
        let changed = self.update(|passive| match (passive.ejection, is_failure) {
            (Ejection::Serving, true) => {
                (is_unhealthy && may_eject()).then(|| passive.ejected(now_ns, policy, is_refusing))
            }
            (Ejection::Trial, true) if proves => Some(passive.ejected(now_ns, policy, is_refusing)),
            (Ejection::Trial | Ejection::Ejected, false) if proves => {
                Some(passive.returned(now_ns))
            }
            _ => None,
        });
        if changed.is_some() {
            // What led here is spent: the next ejection needs failures of its own.
            self.window.store(Window::default().pack(), Relaxed);
            self.is_failing.store(false, Relaxed);
            return true;
        }
        let was_failing = self.is_failing.load(Relaxed);
        let is_failing = if is_failure {
            let fails = (is_unhealthy || is_refusing) && self.is_used() && !may_eject();
            was_failing || fails
        } else {
            was_failing && is_unhealthy
        };
        if is_failing != was_failing {
            self.is_failing.store(is_failing, Relaxed);
        }
        is_failing != was_failing
    }

    /// Publishes the state of the probes. A passing probe ends no passive ejection: the path that
    /// is probed may work where others fail.
    pub fn set_probe(&self, is_up: bool, now_ns: u64) {
        let was_dead = self.is_probed_dead.swap(!is_up, Relaxed);
        if was_dead && is_up {
            self.begin_slow_start(now_ns);
        }
    }

    /// Whether its probes have failed.
    pub fn is_probed_dead(&self) -> bool {
        self.is_probed_dead.load(Relaxed)
    }

    /// Whether it is used as usual: neither ejected nor failing its checks.
    pub fn is_used(&self) -> bool {
        !self.is_probed_dead() && self.passive().ejection == Ejection::Serving
    }

    /// How it is used.
    pub fn present_use(&self) -> Use {
        if !self.is_used() {
            Use::Not
        } else if self.is_failing.load(Relaxed) {
            Use::Failing
        } else {
            Use::Normal
        }
    }

    /// Whether the last report says something else about how it is used.
    pub fn has_unreported_change(&self) -> bool {
        Use::unpack(self.reported_use.load(Relaxed)) != self.present_use()
    }

    /// How it was used as of the last report, and how it is used, to be reported now; `None` if another
    /// worker was faster.
    pub fn take_change(&self) -> Option<(Use, Use)> {
        let present = self.present_use();
        let before = Use::unpack(self.reported_use.swap(present as u8, Relaxed));
        (before != present).then_some((before, present))
    }

    /// Lets the weight grow from now on.
    pub(crate) fn begin_slow_start(&self, now_ns: u64) {
        self.update(|passive| {
            (passive.ejection == Ejection::Serving).then(|| passive.returned(now_ns))
        });
    }

    /// The share of its weight that it has now, in thousandths: grows linearly from 100 to 1,000.
    pub fn weight_permille(&self, now_ns: u64, policy: &HealthPolicy) -> u64 {
        let passive = self.passive();
        let since_ns = now_ns.saturating_sub(passive.at_ms * 1_000_000);
        let is_grown = passive.ejection != Ejection::Serving
            || passive.at_ms == 0
            || since_ns >= policy.slow_start_ns;
        if is_grown {
            return 1000;
        }
        SLOW_START_PERMILLE + (1000 - SLOW_START_PERMILLE) * since_ns / policy.slow_start_ns
    }

    /// The state that `change` led to; it is asked again if another worker was faster.
    fn update(&self, change: impl Fn(Passive) -> Option<Passive>) -> Option<Passive> {
        let mut before = self.passive.load(Relaxed);
        loop {
            let after = change(Passive::unpack(before))?;
            match self.passive.compare_exchange_weak(before, after.pack(), Relaxed, Relaxed) {
                Ok(_) => return Some(after),
                Err(now) => before = now,
            }
        }
    }
}
