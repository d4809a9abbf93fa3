//! Where the server listens.

use clap::Args;
use jissoku_os::socket::Endpoint;

/// Flags about listeners.
#[derive(Debug, Args)]
pub(super) struct Listen {
    /// Where to listen: HOST:PORT or unix:PATH; may be repeated; port 0 takes a free one
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8000")]
    pub(super) listen: Vec<Endpoint>,
}
