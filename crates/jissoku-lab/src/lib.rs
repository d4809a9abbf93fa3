//! Servers and services that measurements need, and users do not.
//!
//! Floor and oracle use `jissoku-os` and nothing else of ours: neither could be a reference otherwise.

pub mod fixtures;
pub mod floor;
pub mod network;
pub mod oracle;
