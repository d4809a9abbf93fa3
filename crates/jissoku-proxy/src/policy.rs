//! The decisions of a gateway: which route takes a request, which server gets it, whether
//! it may be repeated, whether it is too much, and what answers a request to several.
//!
//! Pure: no socket, clock or thread. Times are arguments, in nanoseconds of any monotonic clock.
//! The handler that forwards requests asks these modules and carries out what they decide.

pub mod balance;
pub mod busy_peak;
pub mod closing_age;
pub mod configuration;
pub mod fan_out;
pub mod fields;
pub mod fleet;
pub mod health;
pub mod queue;
pub mod random;
pub mod rate;
pub mod redirect;
pub mod retry;
pub mod routes;
pub mod spelling;
pub mod statuses;
pub mod template;
