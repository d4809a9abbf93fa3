//! System interfaces that jissoku uses: sockets, clocks, CPU affinity, epoll and io_uring.
//!
//! Independent of HTTP. Only this crate uses `libc`, `rustix` and `io-uring`, so all system calls
//! are in one place.

pub mod affinity;
pub mod clock;
pub mod crash_stack;
pub mod driver;
pub mod epoll;
pub mod file;
pub mod host_info;
pub mod idle_time;
pub mod inherited;
pub mod library;
pub mod memory;
pub mod notify;
pub mod perf;
pub mod poll;
pub mod privilege;
pub mod process;
pub mod quantity;
pub mod reexec;
pub mod run_queue;
pub mod sealed_file;
pub mod signal;
pub mod slab;
pub mod socket;
pub mod temporary_file;
pub mod timer;
pub mod timers;
pub mod tracee;
pub mod tsc;
pub mod tun;
pub mod uring;
