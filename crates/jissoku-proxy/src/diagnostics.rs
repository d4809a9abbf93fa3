//! What a response says about how its request was forwarded: Proxy-Status (RFC 9209) and
//! Server-Timing (<https://www.w3.org/TR/server-timing/>); and responses that are made here.

use std::fmt::Write;

use jissoku_http::response::reason;
use jissoku_server::{DynamicResponse, Response};

/// The times of an exchange on the monotonic clock; 0 as long as something has not happened.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "units end names")]
pub(crate) struct Phases {
    /// It was to be forwarded.
    pub(crate) begun_ns: u64,
    /// It got its last connection, which may yet have to be established.
    pub(crate) connecting_ns: u64,
    /// Its request was sent there.
    sent_ns: u64,
    /// The head of the response was received.
    pub(crate) head_ns: u64,
}

impl Phases {
    /// The phases of an exchange that is forwarded from `begun_ns` on.
    pub(crate) const fn new(begun_ns: u64) -> Self {
        Self { begun_ns, connecting_ns: 0, sent_ns: 0, head_ns: 0 }
    }

    /// Its request was sent.
    pub(crate) const fn send(&mut self, now_ns: u64) {
        self.sent_ns = now_ns;
    }

    /// The head of the response was received.
    pub(crate) const fn receive_head(&mut self, now_ns: u64) {
        self.head_ns = now_ns;
    }

    /// It gets a connection, the first one or another.
    pub(crate) const fn connect(&mut self, now_ns: u64) {
        *self = Self { connecting_ns: now_ns, ..Self::new(self.begun_ns) };
    }

    /// Its connection has failed, and it waits for another.
    pub(crate) const fn wait(&mut self) {
        *self = Self::new(self.begun_ns);
    }

    /// How long it waited for its connection, until its request was sent, until the head of the
    /// response, and from there to the end at `end_ns`. What did not begin took no time.
    pub(crate) fn durations_ns(&self, end_ns: u64) -> [u64; 4] {
        let begins = [self.begun_ns, self.connecting_ns, self.sent_ns, self.head_ns];
        std::array::from_fn(|phase| {
            let next = begins.get(phase + 1).copied().filter(|begin_ns| *begin_ns != 0);
            match begins[phase] {
                0 => 0,
                begin_ns => next.unwrap_or(end_ns).saturating_sub(begin_ns),
            }
        })
    }
}

/// Header lines about a request that was forwarded to `next_hop`, the name of an upstream, if it was:
/// the status that was received, the error type (RFC 9209 section 2.3), and the phases of its exchange
/// with the end of the last one.
pub(crate) fn lines(
    next_hop: &str,
    received_status: Option<u16>,
    error: Option<&str>,
    phases: Option<(&Phases, u64)>,
) -> String {
    let mut lines = "Proxy-Status: jissoku".to_owned();
    let is_plain = next_hop.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain && !next_hop.is_empty() {
        lines += "; next-hop=\"";
        for character in next_hop.chars() {
            // RFC 8941 section 3.3.3.
            if matches!(character, '"' | '\\') {
                lines.push('\\');
            }
            lines.push(character);
        }
        lines.push('"');
    }
    if let Some(status) = received_status {
        lines += "; received-status=";
        lines += &status.to_string();
    }
    if let Some(error) = error {
        lines += "; error=";
        lines += error;
    }
    lines += "\r\n";
    if let Some((phases, end_ns)) = phases {
        let [wait_ns, connect_ns, head_ns, _] = phases.durations_ns(end_ns);
        lines += "Server-Timing: ";
        write_phase("wait", wait_ns, &mut lines);
        lines += ", ";
        write_phase("connect", connect_ns, &mut lines);
        lines += ", ";
        write_phase("head", head_ns, &mut lines);
        lines += "\r\n";
    }
    lines
}

fn write_phase(name: &str, duration_ns: u64, lines: &mut String) {
    let duration_us = duration_ns / 1000;
    let (whole_ms, rest_us) = (duration_us / 1000, duration_us % 1000);
    write!(lines, "{name};dur={whole_ms}.{rest_us:03}").expect("memory takes everything");
}

/// Writes a response that does not come from the server, with these header lines.
pub(crate) fn write_error(status: u16, fields: &str, response: &mut Response<'_>) {
    if status == 204 {
        return response.send_dynamic(&DynamicResponse::without_body(status, fields.as_bytes()));
    }
    let retry = if status == 503 { "Retry-After: 1\r\n" } else { "" };
    let text = format!("{}\n", reason(status));
    let fields = format!("{retry}{fields}");
    response.send_dynamic(&DynamicResponse::text(status, &fields, text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_known() {
        assert_eq!(lines("", None, None, None), "Proxy-Status: jissoku\r\n");
        let expected =
            "Proxy-Status: jissoku; next-hop=\"a \\\"b\\\" \\\\\"; error=connection_refused\r\n";
        assert_eq!(lines("a \"b\" \\", None, Some("connection_refused"), None), expected);
        assert_eq!(lines("\u{e9}", None, None, None), "Proxy-Status: jissoku\r\n");
        let phases =
            Phases { begun_ns: 1, connecting_ns: 4001, sent_ns: 14_001, head_ns: 1_250_014_001 };
        let expected = "Proxy-Status: jissoku; next-hop=\"app\"; received-status=200\r\n\
            Server-Timing: wait;dur=0.004, connect;dur=0.010, head;dur=1250.000\r\n";
        assert_eq!(lines("app", Some(200), None, Some((&phases, 2_000_000_000))), expected);
    }

    #[test]
    fn each_phase_lasts_until_the_next() {
        let mut phases = Phases::new(10);
        assert_eq!(phases.durations_ns(15), [5, 0, 0, 0]);
        phases.connect(12);
        assert_eq!(phases.durations_ns(15), [2, 3, 0, 0]);
        phases.send(20);
        phases.receive_head(24);
        assert_eq!(phases.durations_ns(100), [2, 8, 4, 76]);
        phases.connect(30);
        assert_eq!(phases.durations_ns(31), [20, 1, 0, 0], "what came before was waiting");
        phases.wait();
        assert_eq!(phases.durations_ns(40), [30, 0, 0, 0]);
    }
}
