//! Several processes: exact sums, whole values, and nothing lost when a process is killed.
//!
//! A child is this program again, with one test that does nothing else. What it is to do is in
//! environment variables.

mod child;
mod killed;
mod shared;
