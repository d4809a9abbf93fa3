//! Where the server listens.

use clap::Args;
use jissoku_os::socket::Endpoint;

/// Flags about listeners.
#[derive(Debug, Args)]
pub(super) struct Listen {
    /// Where to listen: HOST:PORT or unix:PATH; may be repeated; port 0 takes a free one [default:
    /// the sockets that systemd hands over, or 127.0.0.1:8000]
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Endpoint>,
    /// Who may connect to a Unix socket, in octal as for chmod, such as 660 [default: the umask says]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(super) socket_mode: Option<u32>,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits such as 660".to_owned())
}

/// Where to listen when nobody says where.
const DEFAULT: &str = "127.0.0.1:8000";

impl Listen {
    /// Where to listen; `given` is where somebody else has opened listeners for us.
    pub(super) fn endpoints(&self, given: &[Endpoint]) -> Vec<Endpoint> {
        match (&*self.listen, given) {
            ([], []) => vec![DEFAULT.parse().expect("a numeric address needs no resolver")],
            ([], given) => given.to_vec(),
            (wanted, _) => wanted.to_vec(),
        }
    }
}
