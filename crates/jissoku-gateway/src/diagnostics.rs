//! What a response says about how its request was forwarded: Proxy-Status (RFC 9209) and
//! Server-Timing (<https://www.w3.org/TR/server-timing/>).

use std::fmt::Write;

use crate::phases::Phases;

/// What became of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Diagnostics<'a> {
    /// The name of the upstream; empty if there was none.
    pub(crate) next_hop: &'a str,
    /// The status of the server's response.
    pub(crate) received_status: Option<u16>,
    /// The error type of RFC 9209 section 2.3.
    pub(crate) error: Option<&'a str>,
    /// The phases of its exchange, and when the last one ends.
    pub(crate) phases: Option<(&'a Phases, u64)>,
}

impl Diagnostics<'_> {
    /// The header lines.
    pub(crate) fn lines(&self) -> String {
        let mut lines = "Proxy-Status: jissoku".to_owned();
        let is_plain = self.next_hop.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if is_plain && !self.next_hop.is_empty() {
            lines += "; next-hop=\"";
            for character in self.next_hop.chars() {
                // RFC 8941 section 3.3.3.
                if matches!(character, '"' | '\\') {
                    lines.push('\\');
                }
                lines.push(character);
            }
            lines.push('"');
        }
        if let Some(status) = self.received_status {
            lines += "; received-status=";
            lines += &status.to_string();
        }
        if let Some(error) = self.error {
            lines += "; error=";
            lines += error;
        }
        lines += "\r\n";
        if let Some((phases, end_ns)) = self.phases {
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
}

/// Writes a phase with its duration in milliseconds.
fn write_phase(name: &str, duration_ns: u64, lines: &mut String) {
    let duration_us = duration_ns / 1000;
    let (whole_ms, rest_us) = (duration_us / 1000, duration_us % 1000);
    write!(lines, "{name};dur={whole_ms}.{rest_us:03}").expect("memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_known() {
        let lines = |diagnostics: Diagnostics<'_>| diagnostics.lines();
        assert_eq!(lines(Diagnostics::default()), "Proxy-Status: jissoku\r\n");
        let error = Some("connection_refused");
        let failed = Diagnostics { next_hop: "a \"b\" \\", error, ..Diagnostics::default() };
        let expected =
            "Proxy-Status: jissoku; next-hop=\"a \\\"b\\\" \\\\\"; error=connection_refused\r\n";
        assert_eq!(lines(failed), expected);
        let unnamed = Diagnostics { next_hop: "\u{e9}", ..Diagnostics::default() };
        assert_eq!(lines(unnamed), "Proxy-Status: jissoku\r\n");
        let phases =
            Phases { begun_ns: 1, connecting_ns: 4001, sent_ns: 14_001, head_ns: 1_250_014_001 };
        let done = Diagnostics {
            next_hop: "app",
            received_status: Some(200),
            error: None,
            phases: Some((&phases, 2_000_000_000)),
        };
        let expected = "Proxy-Status: jissoku; next-hop=\"app\"; received-status=200\r\n\
            Server-Timing: wait;dur=0.004, connect;dur=0.010, head;dur=1250.000\r\n";
        assert_eq!(lines(done), expected);
    }
}
