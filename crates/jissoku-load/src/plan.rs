//! What is to be measured, as asked for, and whether it makes sense.

use std::fmt;
use std::net::IpAddr;

use jissoku_os::socket::Buffering;

use crate::address::Address;
pub use crate::pace::{Arrival, OnBusy, Pace};
use crate::shape::Shape;
use crate::tls::Tls;
use crate::trace::Trace;

/// More lanes than this are not driven by one loop.
const LANES_MAX: usize = 64;

/// More requests than this are not sent in rotation.
const SHAPES_MAX: usize = 1024;

/// Poisson arrivals come no faster.
const POISSON_RPS_MAX: u64 = 10_000_000;

/// A deeper pipeline would measure little but the buffers in between.
const PIPELINE_MAX: u16 = 4096;

/// How long a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// As long as the server keeps it.
    KeepAlive,
    /// For one request.
    Close,
    /// For so many requests.
    Requests(u32),
}

/// How threads learn what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// By readiness (`epoll(7)`): a receive and a send for each request.
    Epoll,
    /// By completion (`io_uring(7)`): one call for all that a turn brings.
    Uring,
}

/// What a thread does when nothing is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It sleeps until an answer comes or a request is due.
    Block,
    /// It keeps looking, so that nobody has to wake it.
    Spin,
    /// It sleeps until shortly before a request is due, and keeps looking from there (open loop).
    Hybrid,
}

/// What time is read from, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timepiece {
    /// The processor's counter where it can be trusted, else the kernel's clock; once for each answer.
    Best,
    /// The kernel's clock, once for each answer.
    Kernel,
    /// As the best, but once for all answers of one wait, which errs by as long as they take.
    Batch,
}

/// How long a connection of the closed loop waits between an answer and its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// Not at all.
    Never,
    /// Always equally long.
    Constant {
        /// So long.
        think_ns: u64,
    },
    /// Exponentially distributed.
    Exponential {
        /// On average.
        mean_ns: u64,
    },
}

/// When the measurement ends: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// Length of the window.
    pub duration_ns: Option<u64>,
    /// Requests on each lane; then no more are sent.
    pub requests: Option<u64>,
}

/// One server that is asked, and what of it.
#[derive(Debug)]
pub struct LanePlan {
    /// Where it is.
    pub address: Address,
    /// How it is spoken to; none means in the clear.
    pub tls: Option<Tls>,
    /// What is sent, in rotation on each connection.
    pub shapes: Vec<Shape>,
    /// Root of the processes whose CPU time is measured along.
    pub watch: Option<i32>,
}

/// A whole measurement.
#[derive(Debug)]
pub struct Plan {
    /// Asked at the same time by the same threads; several make a duet.
    pub lanes: Vec<LanePlan>,
    /// Open connections on each lane, over all threads.
    pub connections: usize,
    /// Threads of the stopwatch.
    pub threads: usize,
    /// Requests in flight on one connection.
    pub pipeline: u16,
    /// When requests are sent.
    pub pace: Pace,
    /// How the requests of the open loop lie in time.
    pub arrival: Arrival,
    /// What becomes of a due request while every connection is busy.
    pub on_busy: OnBusy,
    /// A request of the open loop that has waited longer for a connection is given up.
    pub deadline_ns: Option<u64>,
    /// How long connections live.
    pub reuse: Reuse,
    /// Between an answer and the next request of the closed loop.
    pub think: Think,
    /// The closed loop's connections ask their first request spread over so long.
    pub ramp_up_ns: u64,
    /// Connections come from these addresses in turn; none means from wherever the kernel likes.
    pub local: Vec<IpAddr>,
    /// Load before the window, which counts for nothing.
    pub warmup_ns: u64,
    /// When it ends.
    pub until: Until,
    /// After so long without its whole answer, a request has failed.
    pub timeout_ns: u64,
    /// How threads learn what has come.
    pub driver: Driver,
    /// What time is read from.
    pub clock: Timepiece,
    /// What connections ask of the kernel.
    pub buffering: Buffering,
    /// Whether every single request is kept, for a log of them all.
    pub keeps_entries: bool,
    /// What to do between events.
    pub idle: Idle,
    /// Decides the order of lanes in each round.
    pub seed: u64,
    /// Where thread i runs: on core i of these, cyclically; empty means anywhere.
    pub cores: Vec<usize>,
}

/// A plan that makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPlan(String);

impl fmt::Display for BadPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadPlan {}

impl Plan {
    /// Says what is wrong with the plan, if anything.
    ///
    /// # Errors
    /// The first thing that makes no sense, as a sentence.
    pub fn check(&self) -> Result<(), BadPlan> {
        let no = |why: String| Err(BadPlan(why));
        let (threads, connections) = (self.threads, self.connections);
        if self.lanes.is_empty() || self.lanes.len() > LANES_MAX {
            return no(format!("between 1 and {LANES_MAX} URLs can be loaded at once"));
        }
        let rotation_fits = |lane: &LanePlan| (1..=SHAPES_MAX).contains(&lane.shapes.len());
        if !self.lanes.iter().all(rotation_fits) {
            return no(format!("between 1 and {SHAPES_MAX} requests can be sent in rotation"));
        }
        if let Some(lane) =
            self.lanes.iter().find(|lane| lane.address.is_secure() != lane.tls.is_some())
        {
            return no(format!("{} and TLS must be asked for together", lane.address));
        }
        if connections == 0 {
            return no("zero connections measure nothing: give -c at least 1".to_owned());
        }
        if threads == 0 {
            return no("zero threads measure nothing: give -t at least 1".to_owned());
        }
        if threads > connections {
            return no(format!(
                "{threads} threads cannot share {connections} connections: give -t at most {connections}"
            ));
        }
        if connections.checked_mul(self.lanes.len()).is_none_or(|all| all > u32::MAX as usize) {
            return no(format!("{connections} connections are more than there can be"));
        }
        if self.pipeline == 0 {
            return no(
                "a pipeline of zero requests asks nothing: give --pipeline at least 1".into()
            );
        }
        if self.pipeline > PIPELINE_MAX {
            return no(format!("a pipeline holds at most {PIPELINE_MAX} requests"));
        }
        if self.pipeline > 1 && self.reuse == Reuse::Close {
            return no("--pipeline and --no-keepalive exclude each other".to_owned());
        }
        if self.reuse == Reuse::Requests(0) {
            return no("a connection for no request is none: give -r at least 1".to_owned());
        }
        self.check_pace()?;
        if self.until.duration_ns.is_none_or(|duration| duration == 0)
            && self.requests().is_none_or(|requests| requests == 0)
        {
            return no("nothing is to be measured: give -d or -n more than zero".to_owned());
        }
        if self.until.requests.is_some() && self.warmup_ns > 0 {
            return no("-n counts every request: a warm-up goes with -d alone".to_owned());
        }
        if self.timeout_ns == 0 {
            return no("a time-out of zero fails every request".to_owned());
        }
        Ok(())
    }

    /// Requests on each lane, if they end the measurement: so many are asked for, or in the trace.
    pub(crate) fn requests(&self) -> Option<u64> {
        let traced = self.pace.trace().map(Trace::requests);
        [self.until.requests, traced].into_iter().flatten().min()
    }

    fn check_trace(&self) -> Result<(), BadPlan> {
        let no = |why: &str| Err(BadPlan(why.to_owned()));
        if self.lanes.len() > 1 {
            return no(
                "a trace goes with one URL: of two, one would always be asked after the other",
            );
        }
        if self.arrival != Arrival::Constant {
            return no("a trace says itself how its requests lie in time");
        }
        if self.warmup_ns > 0 {
            return no("every request of a trace counts: leave --warmup out");
        }
        if self.threads > 1 && self.lanes.iter().any(|lane| lane.watch.is_some()) {
            return no(
                "with a trace each thread ends when its share is over: give -t 1 with --watch",
            );
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), BadPlan> {
        let no = |why: &str| Err(BadPlan(why.to_owned()));
        let paused = self.think != Think::Never || self.ramp_up_ns > 0;
        if paused && !self.pace.is_closed() {
            return no(
                "--think and --ramp-up are of the closed loop: the open one has its own times",
            );
        }
        if self.pace.trace().is_some() {
            self.check_trace()?;
            return self.check_busy();
        }
        let Some((from_rps, to_rps)) = self.pace.rates() else {
            if self.idle == Idle::Hybrid {
                return no("--idle hybrid goes with -R: nobody knows beforehand when answers come");
            }
            if self.arrival != Arrival::Constant {
                return no("--arrival goes with -R: the closed loop asks when it was answered");
            }
            if self.on_busy != OnBusy::Queue || self.deadline_ns.is_some() {
                return no("--on-busy and --deadline go with -R: in the closed loop nothing waits");
            }
            return Ok(());
        };
        if from_rps == 0 || to_rps == 0 {
            return no("a rate of zero asks nothing: give -R at least 1");
        }
        if from_rps != to_rps && self.until.duration_ns.is_none() {
            return no("a rate that changes does so over the window: give -d");
        }
        if self.arrival == Arrival::Poisson && from_rps.max(to_rps) > POISSON_RPS_MAX {
            return no("Poisson arrivals are drawn one by one: give -R at most 10M");
        }
        self.check_busy()
    }

    fn check_busy(&self) -> Result<(), BadPlan> {
        match self.on_busy {
            OnBusy::Open { connections_max } if connections_max < self.connections => {
                Err(BadPlan("--max-connections must be at least -c".to_owned()))
            }
            OnBusy::Open { .. } | OnBusy::Queue | OnBusy::Drop => Ok(()),
        }
    }
}
