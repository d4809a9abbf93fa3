//! Options of connections: where to, from where, and socket options.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::ArgAction;
use jissoku_load::{Address, ConnectTo};
use jissoku_os::socket::SocketOptions;

use crate::units;

/// How servers are reached.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConnectArgs {
    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "PATH")]
    pub(super) unix_socket: Option<PathBuf>,
    /// Connect to HOST2:PORT2 instead of HOST:PORT, as in curl; each may be empty; may be repeated
    #[arg(long, value_name = "HOST:PORT:HOST2:PORT2")]
    connect_to: Vec<ConnectTo>,
    /// Value of the Host field [default: the URL's]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Local addresses of connections, used in turn; each provides some 28,000 ports, and all of
    /// 127.0.0.0/8 is local [default: the kernel's choice]
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    pub(super) local_addr: Vec<IpAddr>,
    /// Send small requests at once, or (off) wait for acknowledgements, as Nagle's algorithm does
    #[arg(long, action = ArgAction::Set, value_parser = units::word([("on", true), ("off", false)]),
          value_name = "on|off", default_value = "on")]
    nodelay: bool,
    /// Receive buffer of each connection, such as 64KiB [default: the kernel's choice]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    rcvbuf: Option<u64>,
    /// Send buffer of each connection, such as 64KiB [default: the kernel's choice]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    sndbuf: Option<u64>,
}

impl ConnectArgs {
    /// Applies --connect-to, --unix-socket and --host to a URL.
    pub(super) fn apply(&self, address: &Address) -> Address {
        let mut address = address.clone();
        for connect_to in &self.connect_to {
            address = address.with_connect_to(connect_to);
        }
        if let Some(socket) = &self.unix_socket {
            address = address.with_unix_socket(socket);
        }
        match &self.host {
            Some(host) => address.with_host(host),
            None => address,
        }
    }

    pub(super) fn buffering(&self) -> SocketOptions {
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        SocketOptions {
            nagle: !self.nodelay,
            receive_size: self.rcvbuf.map(size),
            send_size: self.sndbuf.map(size),
        }
    }

    /// Validates the options.
    pub(super) fn check(&self, urls: &[Address]) -> Result<(), String> {
        if self.unix_socket.is_some() && urls.len() > 1 {
            return Err(
                "--unix-socket requires a single URL: write unix:/path.sock:/uri for several"
                    .into(),
            );
        }
        let stays = |host: &String| host.bytes().all(|byte| byte.is_ascii_graphic());
        match self.host.as_ref().filter(|host| host.is_empty() || !stays(host)) {
            Some(host) => Err(format!("invalid host name {host:?}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(words: &[&str], url: &str) -> Result<Address, String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            flags: ConnectArgs,
        }
        let words = ["load"].into_iter().chain(words.iter().copied());
        let line = <Line as clap::Parser>::try_parse_from(words).map_err(|bad| bad.to_string())?;
        let address: Address = url.parse().expect("it is a URL");
        line.flags.check(std::slice::from_ref(&address))?;
        Ok(line.flags.apply(&address))
    }

    #[test]
    fn a_url_is_led_elsewhere_and_named_otherwise() {
        let address = led(&["--connect-to", "a:80:127.0.0.1:81", "--host", "b"], "http://a/");
        let address = address.expect("it is fine");
        let endpoints = address.endpoints().expect("there is no name to look up");
        assert_eq!((endpoints[0].to_string(), address.authority()), ("127.0.0.1:81".into(), "b"));
        assert!(led(&["--host", "a\r\nb: c"], "http://a/").is_err());
        assert!(led(&["--connect-to", "nonsense"], "http://a/").is_err());
    }
}
