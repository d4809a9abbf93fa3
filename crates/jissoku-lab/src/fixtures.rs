//! Laboratory services: what benchmarks need of a server and users do not.
//!
//! The benchmark contract, 42 and echo are services like any other. [`Faulty`] adds injected faults
//! to them, through the same interface ([`jissoku_server::Handler`]) and [`Settings`]
//! ([`adjust`]), so that the server itself knows of none of them.
//!
//! [`Settings`]: jissoku_server::Settings

mod busy_loop;
mod contract;
mod echo;
mod faults;
mod faulty;
mod fixture;
mod forty_two;
mod slow_text;

pub use contract::{Contract, ContractHandler, ContractRequest};
pub use echo::{Echo, EchoHandler, EchoRequest};
pub use faults::{InjectedFault, InjectedFaultError, adjust};
pub use faulty::{Faulty, FaultyConnection, FaultyHandler, FaultyRequest};
pub use fixture::{Fixture, FixtureHandler, FixtureRequest};
pub use forty_two::{FortyTwo, FortyTwoHandler, FortyTwoRequest};
pub use slow_text::{SlowText, SlowTextHandler};
