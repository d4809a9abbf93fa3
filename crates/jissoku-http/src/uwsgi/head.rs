//! The request head of a packet.

use super::packet::Packet;
use super::target;
use crate::head::{Head, HeadReader, Version};
use crate::limits::Limits;
use crate::reject::Reject;
use crate::scan;

/// A packet as a request head of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UwsgiHead {
    /// The head, parsed from [`UwsgiHead::text`]. Its version is 1.0, whatever the client of the
    /// front-end speaks: the response ends with the connection, and is never chunked.
    pub head: Head,
    /// A request line and header fields.
    pub text: Vec<u8>,
}

impl Packet<'_> {
    /// The request head: the fields are the variables with `HTTP_`, `CONTENT_TYPE` and `CONTENT_LENGTH`.
    ///
    /// # Errors
    /// As [`HeadReader::read`]; [`Reject::PacketInvalid`] for a packet without `REQUEST_METHOD`.
    pub fn to_head(&self, limits: &Limits) -> Result<UwsgiHead, Reject> {
        let text = self.write_head()?;
        let head = HeadReader::default().read(&text, limits)?.ok_or(Reject::PacketInvalid)?;
        let head =
            Head { version: Version::Http10, keeps_alive: false, expects_continue: false, ..head };
        Ok(UwsgiHead { head, text })
    }

    fn write_head(&self) -> Result<Vec<u8>, Reject> {
        let method = self.variables.get(b"REQUEST_METHOD").ok_or(Reject::PacketInvalid)?;
        if !scan::is_whole_token(method) {
            return Err(Reject::MethodInvalid);
        }
        let set = |name: &[u8]| self.variables.get(name).filter(|value| !value.is_empty());
        // The last of several values of a field counts, as for a front-end that sets one again.
        let content_length = set(b"CONTENT_LENGTH");
        let mut text = Vec::with_capacity(self.size);
        text.extend_from_slice(method);
        text.push(b' ');
        target::write(&self.variables, &mut text)?;
        // HTTP/1.1 allows a chunked body, and requires Host.
        let has_host = set(b"HTTP_HOST").is_some();
        text.extend_from_slice(if has_host { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" });
        for (name, value) in &self.variables {
            let Some(name) = name.strip_prefix(b"HTTP_") else { continue };
            let is_field = match name {
                b"CONTENT_LENGTH" | b"CONTENT_TYPE" | b"CONNECTION" => false,
                b"HOST" => has_host && !value.is_empty(),
                // A front-end that has collected a chunked body knows its size.
                b"TRANSFER_ENCODING" => content_length.is_none(),
                _ => true,
            };
            if is_field {
                write_field(name, value, &mut text)?;
            }
        }
        for (name, value) in [
            (b"CONTENT_TYPE".as_slice(), set(b"CONTENT_TYPE")),
            (b"CONTENT_LENGTH", content_length),
        ] {
            if let Some(value) = value {
                write_field(name, value, &mut text)?;
            }
        }
        if content_length.is_none() && !has_host {
            // HTTP/1.0 requires it of some methods. Without it, a packet has no body.
            write_field(b"CONTENT_LENGTH", b"0", &mut text)?;
        }
        text.extend_from_slice(b"\r\n");
        Ok(text)
    }
}

/// Writes a field with the name of its variable, in lower case.
fn write_field(name: &[u8], value: &[u8], text: &mut Vec<u8>) -> Result<(), Reject> {
    if !scan::is_whole_token(name) {
        return Err(Reject::FieldNameInvalid);
    }
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(Reject::ControlByte);
    }
    text.extend(name.iter().map(|byte| match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    }));
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
    Ok(())
}
