//! The PROXY protocol, versions 1 and 2:
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.
//!
//! A proxy sends the address of its client once, in front of everything else.

#[cfg(test)]
mod tests;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::reject::Reject;

/// Size of the longest line of version 1 (section 2.1).
const LINE_SIZE_MAX: usize = 107;

/// The start of a header of version 2 (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Size of a header of version 2 without its addresses.
const FIXED_SIZE: usize = 16;

/// Size of addresses and extensions, beyond which a header is refused.
const REST_SIZE_MAX: usize = 4096;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its size in bytes.
    pub size: usize,
    /// The address of the client; `None` if the proxy speaks for itself, or of a client that has no
    /// IP address.
    pub client: Option<SocketAddr>,
}

/// Parses the header that starts with `bytes`; `None` if it is incomplete.
///
/// # Errors
/// [`Reject::ProxyHeaderInvalid`]: it is none.
pub fn read(bytes: &[u8]) -> Result<Option<ProxyHeader>, Reject> {
    let starts_as = |start: &[u8]| {
        let size = bytes.len().min(start.len());
        bytes[..size] == start[..size]
    };
    if starts_as(SIGNATURE) {
        read_binary(bytes)
    } else if starts_as(b"PROXY ") {
        read_line(bytes)
    } else {
        Err(Reject::ProxyHeaderInvalid)
    }
}

/// Version 1, such as `PROXY TCP4 192.0.2.1 192.0.2.2 4000 80`.
fn read_line(bytes: &[u8]) -> Result<Option<ProxyHeader>, Reject> {
    let window = &bytes[..bytes.len().min(LINE_SIZE_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if window.len() < LINE_SIZE_MAX {
            Ok(None)
        } else {
            Err(Reject::ProxyHeaderInvalid)
        };
    };
    let words = str::from_utf8(&window[..end]).ok().and_then(|line| line.strip_prefix("PROXY "));
    let words = words.ok_or(Reject::ProxyHeaderInvalid)?;
    let client = if words == "UNKNOWN" || words.starts_with("UNKNOWN ") {
        None
    } else {
        Some(client_of_words(words).ok_or(Reject::ProxyHeaderInvalid)?)
    };
    Ok(Some(ProxyHeader { size: end + 2, client }))
}

/// The client of a valid line that names one.
fn client_of_words(words: &str) -> Option<SocketAddr> {
    let mut words = words.split(' ');
    let family = words.next()?;
    let mut address = || -> Option<IpAddr> {
        let text = words.next()?;
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (client, _) = (address()?, address()?);
    let mut port = || words.next().filter(|port| !port.starts_with('+'))?.parse::<u16>().ok();
    let (client_port, _) = (port()?, port()?);
    let is_whole = words.next().is_none();
    is_whole.then_some(SocketAddr::new(client.to_canonical(), client_port))
}

fn read_binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, Reject> {
    // Version 2; LOCAL is 0, PROXY is 1.
    if bytes.get(12).is_some_and(|byte| !matches!(byte, 0x20 | 0x21)) {
        return Err(Reject::ProxyHeaderInvalid);
    }
    let Some(fixed) = bytes.first_chunk::<FIXED_SIZE>() else { return Ok(None) };
    let rest_size = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if rest_size > REST_SIZE_MAX {
        return Err(Reject::ProxyHeaderInvalid);
    }
    let size = FIXED_SIZE + rest_size;
    let Some(rest) = bytes.get(FIXED_SIZE..size) else { return Ok(None) };
    let client = match (fixed[12], fixed[13] >> 4) {
        (0x21, 1) => {
            let (ip, ports) = (rest.first_chunk::<4>(), rest.get(8..10));
            Some(socket(ip.map(|ip| Ipv4Addr::from(*ip).into()), ports)?)
        }
        (0x21, 2) => {
            let (ip, ports) = (rest.first_chunk::<16>(), rest.get(32..34));
            Some(socket(ip.map(|ip| Ipv6Addr::from(*ip).into()), ports)?)
        }
        _ => None,
    };
    Ok(Some(ProxyHeader { size, client }))
}

fn socket(ip: Option<IpAddr>, port: Option<&[u8]>) -> Result<SocketAddr, Reject> {
    match (ip, port) {
        (Some(ip), Some(&[high, low])) => {
            Ok(SocketAddr::new(ip.to_canonical(), u16::from_be_bytes([high, low])))
        }
        _ => Err(Reject::ProxyHeaderInvalid),
    }
}
