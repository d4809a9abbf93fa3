//! Flags for the listeners.

use clap::Args;
use jissoku_os::socket::Endpoint;

/// Flags for listeners.
#[derive(Debug, Args)]
pub(super) struct Listen {
    /// Address to listen on: HOST:PORT or unix:PATH; may be repeated; port 0 selects a free port
    /// [default: the sockets passed by systemd, else 127.0.0.1:8000]
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Endpoint>,
    /// Mode of a Unix socket in octal, such as 660 [default: by the umask]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(super) socket_mode: Option<u32>,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits such as 660".to_owned())
}

/// The address without `--listen` and without systemd.
const DEFAULT: &str = "127.0.0.1:8000";

impl Listen {
    /// The addresses to listen on; `given` are those of inherited listeners.
    pub(super) fn endpoints(&self, given: &[Endpoint]) -> Vec<Endpoint> {
        match (&*self.listen, given) {
            ([], []) => vec![DEFAULT.parse().expect("a numeric address needs no resolver")],
            ([], given) => given.to_vec(),
            (wanted, _) => wanted.to_vec(),
        }
    }
}
