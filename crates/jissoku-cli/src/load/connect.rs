//! Flags of a connection: where it leads, where it comes from, and what it asks of the kernel.

use std::net::IpAddr;
use std::path::PathBuf;

use jissoku_load::{Address, Detour};
use jissoku_os::socket::Buffering;

use super::SwitchChoice;
use crate::units;

/// How servers are reached.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConnectFlags {
    /// Connect to this Unix socket, whatever host the URL names
    #[arg(long, value_name = "PATH")]
    pub(super) unix_socket: Option<PathBuf>,
    /// Connect to HOST2:PORT2 instead of HOST:PORT; any of the four may be empty, and several be given
    #[arg(long, value_name = "HOST:PORT:HOST2:PORT2")]
    connect_to: Vec<Detour>,
    /// Name this host in requests, whatever host the URL names
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Connect from these addresses in turn; each has some 28,000 ports, and all of 127.0.0.0/8 is ours
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    pub(super) local_addr: Vec<IpAddr>,
    /// Whether small requests leave at once, or wait for the acknowledgement of the last (Nagle)
    #[arg(long, value_enum, value_name = "on|off", default_value_t = SwitchChoice::On)]
    nodelay: SwitchChoice,
    /// Room for answers that were not read yet, such as 64KiB [default: the kernel's choice]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    rcvbuf: Option<u64>,
    /// Room for requests that were not acknowledged yet [default: the kernel's choice]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    sndbuf: Option<u64>,
}

impl ConnectFlags {
    /// A URL as it is to be connected to and named.
    pub(super) fn lead(&self, address: &Address) -> Address {
        let mut address = address.clone();
        for detour in &self.connect_to {
            address = address.around(detour);
        }
        if let Some(socket) = &self.unix_socket {
            address = address.through(socket);
        }
        match &self.host {
            Some(host) => address.named(host),
            None => address,
        }
    }

    pub(super) fn buffering(&self) -> Buffering {
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Buffering {
            collects: self.nodelay == SwitchChoice::Off,
            receive_size: self.rcvbuf.map(size),
            send_size: self.sndbuf.map(size),
        }
    }

    /// The sentence that says what is wrong with a name or with what goes with several URLs.
    pub(super) fn check(&self, urls: &[Address]) -> Result<(), String> {
        if self.unix_socket.is_some() && urls.len() > 1 {
            return Err(
                "--unix-socket goes with one URL: write unix:/path.sock:/uri for several".into()
            );
        }
        let stays = |host: &String| host.bytes().all(|byte| byte.is_ascii_graphic());
        match self.host.as_ref().filter(|host| host.is_empty() || !stays(host)) {
            Some(host) => Err(format!("{host:?} is no host name: it goes into a header field")),
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
            flags: ConnectFlags,
        }
        let words = ["load"].into_iter().chain(words.iter().copied());
        let line = <Line as clap::Parser>::try_parse_from(words).map_err(|bad| bad.to_string())?;
        let address: Address = url.parse().expect("it is a URL");
        line.flags.check(std::slice::from_ref(&address))?;
        Ok(line.flags.lead(&address))
    }

    #[test]
    fn a_url_is_led_elsewhere_and_named_otherwise() {
        let address = led(&["--connect-to", "a:80:127.0.0.1:81", "--host", "b"], "http://a/");
        let address = address.expect("it is fine");
        let endpoint = address.endpoint().expect("there is no name to look up");
        assert_eq!((endpoint.to_string(), address.authority()), ("127.0.0.1:81".into(), "b"));
        assert!(led(&["--host", "a\r\nb: c"], "http://a/").is_err());
        assert!(led(&["--connect-to", "nonsense"], "http://a/").is_err());
    }
}
