//! A forwarded request as a packet.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::packet::HEADER_SIZE;
use crate::head::Fields;
use crate::percent::decoded;

/// What a packet says of a request besides its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketOrigin {
    /// The address of the client; none over a Unix socket. Port 0 is an unknown one.
    pub client: Option<SocketAddr>,
    /// Whether the request came over TLS.
    pub is_secure: bool,
}

/// What a packet is usually longer by than the head that it is made from.
const ADDED_SIZE: usize = 512;

/// More fields than most requests have.
const USUAL_FIELDS: usize = 24;

/// The variables of a packet are larger than 65,535 bytes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTooLarge;

/// Appends a packet to `output`: the variables of `text`, a head that
/// [`crate::forward::write_request_head`] has written. They are those of nginx's `uwsgi_params`
/// without `DOCUMENT_ROOT`, and each field is one variable (RFC 3875 section 4.1.18).
///
/// # Errors
/// [`PacketTooLarge`]; what was appended has no meaning then.
pub fn write(
    text: &[u8],
    origin: PacketOrigin,
    output: &mut Vec<u8>,
) -> Result<(), PacketTooLarge> {
    let start = output.len();
    output.reserve(text.len() + ADDED_SIZE);
    output.extend_from_slice(&[0; HEADER_SIZE]);
    let line_size = text.iter().position(|&byte| byte == b'\r').unwrap_or(text.len());
    let (line, lines) = text.split_at(line_size);
    // Without the end of the request line, and the empty line.
    let lines = lines.get(2..lines.len().max(4) - 2).unwrap_or_default();
    let mut fields: Vec<Field<'_>> = Vec::with_capacity(USUAL_FIELDS);
    fields.extend(Fields::of_lines(lines));
    let mut list = Variables { output };
    list.write_line(line);
    list.write_own(&fields, origin);
    for (index, &(name, value)) in fields.iter().enumerate() {
        let is_same = |other: &&Field<'_>| other.0.eq_ignore_ascii_case(name);
        let is_apart = name.eq_ignore_ascii_case(b"content-length")
            || name.eq_ignore_ascii_case(b"content-type");
        if !is_apart && !fields[..index].iter().any(|field| is_same(&field)) {
            list.write_field(name, value, fields[index + 1..].iter().filter(is_same));
        }
    }
    let size = u16::try_from(output.len() - start - HEADER_SIZE).map_err(|_| PacketTooLarge)?;
    output[start + 1..start + 3].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

/// Appends a forwarded packet and what follows it to `output`, with one more field behind its
/// variables. The packet is at the start of `request` and has `packet_size` bytes.
///
/// # Errors
/// [`PacketTooLarge`]; what was appended has no meaning then.
pub fn add_field(
    request: &[u8],
    packet_size: usize,
    (name, value): (&str, &str),
    output: &mut Vec<u8>,
) -> Result<(), PacketTooLarge> {
    let start = output.len();
    let (packet, rest) = request.split_at(packet_size.min(request.len()));
    output.extend_from_slice(packet);
    Variables { output }.write_field(name.as_bytes(), value.as_bytes(), [].iter());
    let size = (output.len() - start).checked_sub(HEADER_SIZE).ok_or(PacketTooLarge)?;
    let size = u16::try_from(size).map_err(|_| PacketTooLarge)?;
    output[start + 1..start + 3].copy_from_slice(&size.to_le_bytes());
    output.extend_from_slice(rest);
    Ok(())
}

/// The name of a field, and its value.
type Field<'a> = (&'a [u8], &'a [u8]);

/// Variables that are being written. One that is too large makes the packet too large.
#[derive(Debug)]
struct Variables<'a> {
    output: &'a mut Vec<u8>,
}

impl Variables<'_> {
    fn write(&mut self, name: &[u8], value: &[u8]) {
        self.write_sized(|output| output.extend_from_slice(name));
        self.write_sized(|output| output.extend_from_slice(value));
    }

    /// Writes a text behind its length of 16 bits.
    fn write_sized(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; 2]);
        write(self.output);
        let size = u16::try_from(self.output.len() - start - 2).unwrap_or(u16::MAX);
        self.output[start..start + 2].copy_from_slice(&size.to_le_bytes());
    }

    /// Writes what follows from the request line.
    fn write_line(&mut self, line: &[u8]) {
        let mut words = line.split(|&byte| byte == b' ');
        let [method, target, protocol] = [(); 3].map(|()| words.next().unwrap_or_default());
        let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(end);
        self.write(b"QUERY_STRING", query.get(1..).unwrap_or_default());
        self.write(b"REQUEST_METHOD", method);
        self.write(b"REQUEST_URI", target);
        self.write(b"SCRIPT_NAME", b"");
        if path.contains(&b'%') {
            self.write_sized(|output| output.extend_from_slice(b"PATH_INFO"));
            self.write_sized(|output| output.extend(decoded(path)));
        } else {
            self.write(b"PATH_INFO", path);
        }
        self.write(b"SERVER_PROTOCOL", protocol);
    }

    /// Writes what follows from some fields and the connection.
    fn write_own(&mut self, fields: &[Field<'_>], origin: PacketOrigin) {
        let [mut kind, mut length, mut host] = [&b""[..]; 3];
        for &(name, value) in fields {
            match name.len() {
                4 if name.eq_ignore_ascii_case(b"host") => host = value,
                12 if name.eq_ignore_ascii_case(b"content-type") => kind = value,
                14 if name.eq_ignore_ascii_case(b"content-length") => length = value,
                _ => {}
            }
        }
        self.write(b"CONTENT_TYPE", kind);
        self.write(b"CONTENT_LENGTH", length);
        let (scheme, usual_port) = if origin.is_secure { ("https", "443") } else { ("http", "80") };
        self.write(b"REQUEST_SCHEME", scheme.as_bytes());
        if origin.is_secure {
            self.write(b"HTTPS", b"on");
        }
        let (name, port) = name_and_port(host);
        self.write(b"SERVER_NAME", name);
        self.write(b"SERVER_PORT", port.unwrap_or(usual_port.as_bytes()));
        if let Some(client) = origin.client {
            self.write_sized(|output| output.extend_from_slice(b"REMOTE_ADDR"));
            self.write_sized(|output| match client.ip().to_canonical() {
                IpAddr::V4(address) => push_octets(address, output),
                IpAddr::V6(address) => output.extend_from_slice(address.to_string().as_bytes()),
            });
            if client.port() != 0 {
                self.write_sized(|output| output.extend_from_slice(b"REMOTE_PORT"));
                self.write_sized(|output| push_decimal(client.port(), output));
            }
        }
    }

    /// Writes a field whose further values are those of `others`. Cookies are pairs with semicolons
    /// in between (RFC 6265 section 5.4).
    fn write_field<'a>(
        &mut self,
        name: &[u8],
        value: &[u8],
        others: impl Iterator<Item = &'a Field<'a>>,
    ) {
        let folded = name.iter().map(|byte| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        });
        self.write_sized(|output| {
            output.extend_from_slice(b"HTTP_");
            output.extend(folded);
        });
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b"," };
        self.write_sized(|output| {
            output.extend_from_slice(value);
            for (_, other) in others {
                output.extend_from_slice(separator);
                output.extend_from_slice(other);
            }
        });
    }
}

/// Appends an address as text, without a string in between.
fn push_octets(address: Ipv4Addr, output: &mut Vec<u8>) {
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            output.push(b'.');
        }
        push_decimal(octet.into(), output);
    }
}

/// Appends a number in decimal.
fn push_decimal(number: u16, output: &mut Vec<u8>) {
    let mut divisor = 10_000;
    while divisor > 1 && number < divisor {
        divisor /= 10;
    }
    while divisor > 0 {
        output.push(b'0' + u8::try_from(number / divisor % 10).unwrap_or(0));
        divisor /= 10;
    }
}

/// The name of a Host, and its port if it has one.
fn name_and_port(host: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colon = host.iter().rposition(|&byte| byte == b':');
    match colon {
        // The last colon of an IPv6 address without a port is within its brackets.
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) => {
            let port = &host[at + 1..];
            (&host[..at], (!port.is_empty()).then_some(port))
        }
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_written_as_the_standard_library_does() {
        for number in 0..=u16::MAX {
            let mut text = Vec::new();
            push_decimal(number, &mut text);
            assert_eq!(text, number.to_string().as_bytes());
        }
        for address in [[0, 0, 0, 0], [127, 0, 0, 1], [10, 200, 99, 255]].map(Ipv4Addr::from) {
            let mut text = Vec::new();
            push_octets(address, &mut text);
            assert_eq!(text, address.to_string().as_bytes());
        }
    }
}
