//! The kernel as jissoku uses it: sockets, clocks, cores, readiness.
//!
//! This crate knows nothing of HTTP. It is the only one that names `libc`, `rustix` or `io-uring`, so a
//! question about a system call has one place to be asked.

mod buffering;
pub mod clock;
pub mod core;
pub mod descriptors;
pub mod driver;
pub mod epoll;
pub mod file;
pub mod inherited;
mod listening;
pub mod machine;
pub mod notify;
pub mod privilege;
pub mod process;
pub mod signal;
pub mod socket;
pub mod successor;
pub mod timer;
pub mod tsc;
pub mod uring;
