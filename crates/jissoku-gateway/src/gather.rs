//! One request of a client to several servers, and one response from theirs.
//!
//! Each part is an exchange of its own, on the connections of the worker. What has been received of
//! them, and whether the response is due, is decided by [`jissoku_upstream::fan_out::Collection`], a
//! pure state.

mod answer;
mod gathering;
mod part_error;
mod request;
mod state;

pub(crate) use answer::write;
pub use gathering::GatherRoute;
pub(crate) use gathering::{Gathering, LostGathering, PartState};
pub(crate) use part_error::error_of;
pub(crate) use request::{PartRequest, PassedFields, part_request};
pub(crate) use state::GatherState;
