//! The stopwatch: sends requests, checks every answer, and measures time.
//!
//! It shares no protocol code with any server of ours, reads no configuration, and prints nothing: a
//! [`Plan`] goes in, an [`Outcome`] comes out, and [`report`] turns that into what is written.

mod address;
mod check;
mod chunked;
mod completion;
mod connection;
mod crew;
mod date;
mod deadline;
mod detour;
mod dial;
mod exchange;
mod expect;
mod fault;
mod figures;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod histogram;
mod interval;
mod lane;
mod later;
mod ledger;
mod objective;
mod open_loop;
mod outcome;
mod pace;
mod plan;
mod product_limit;
mod random;
mod reader;
pub mod report;
mod request;
mod rotation;
mod run;
mod schedule;
mod session;
mod shape;
mod tally;
mod template;
mod thread;
mod tls;
mod trace;
mod watch;
mod window;
mod wire;

pub use address::{Address, BadAddress};
pub use check::Check;
pub use detour::Detour;
pub use expect::{Expected, Verify};
pub use fault::{Fault, Faults};
pub use figures::{Figure, Support};
pub use histogram::{Histogram, Quantiles};
pub use interval::Interval;
pub use ledger::{Entry, Kind};
pub use objective::{BadObjective, Objective, Verdict};
pub use outcome::{LaneOutcome, Outcome, ThreadOutcome};
pub use plan::{
    Arrival, BadPlan, Driver, Idle, LanePlan, OnBusy, Pace, Plan, Reuse, Think, Timepiece, Until,
};
pub use request::{BadRequest, Request, Version};
pub use run::{Control, Failure, Listener, run};
pub use shape::Shape;
pub use tally::Tally;
pub use tls::{BadTls, Sessions, Tls, Trust};
pub use trace::{BadTrace, Trace};
pub use watch::Used;
pub use window::Edge;
pub use wire::Wire;
