//! What stands between the clients and what is served.

use clap::Args;

/// Flags about the edge.
#[derive(Debug, Args)]
pub(super) struct Edge {}
