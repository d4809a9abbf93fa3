//! The whole parser from the outside: what a connection's bytes mean, and that it never depends on
//! how they were cut.

mod agreement;
mod cases;
mod oracle;
mod splits;
mod transcript;
