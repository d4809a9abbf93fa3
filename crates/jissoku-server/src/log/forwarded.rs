//! The requests to other servers in the access log's record of a request.

use super::escape::{put, quote, write_field};

/// The phases of a forwarded request, in their order.
const PHASES: [&str; 4] = ["wait", "connect", "head", "body"];

/// A request to another server, for the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// The part of a gathered response; empty if it is not one.
    pub part: &'a str,
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The address of the server; empty if there was none for it.
    pub server: &'a str,
    /// The start of the server's response, if that is malformed.
    pub response: &'a [u8],
    /// Its outcome.
    pub outcome: ForwardedOutcome,
}

/// The outcome of a request to another server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedOutcome {
    /// The status of the server's response; 0 if there is none.
    pub status: u16,
    /// Connections that it was tried on.
    pub tries: u32,
    /// Whether the last of them had served another request before.
    pub is_reused: bool,
    /// How long it waited for its last connection, until that was established and the request sent,
    /// until the head of the response, and until its end; in nanoseconds.
    pub phases_ns: [u64; 4],
    /// What became of the second copy of the request, if one was sent.
    pub hedge: Option<HedgeResult>,
    /// What else was unusual.
    pub notes: Anomalies,
    /// The error type (RFC 9209 section 2.3) if the response is not complete.
    pub error: Option<&'static str>,
}

/// What was unusual about a request to another server, without being an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies(u8);

impl Anomalies {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The final response began before the whole request was sent.
    pub const EARLY: Self = Self(1);
    /// Bytes followed a response that was complete.
    pub const EXCESS: Self = Self(2);
    /// The request is beyond the rate of its route, which is a dry run.
    pub const OVER_RATE: Self = Self(4);

    /// With their names.
    const ALL: [(Self, &'static str); 3] =
        [(Self::EARLY, "early"), (Self::EXCESS, "excess"), (Self::OVER_RATE, "over-rate")];

    /// Adds these.
    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether these are among them.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let present = Self::ALL.into_iter().filter(move |(note, _)| self.has(*note));
        present.map(|(_, name)| name)
    }
}

/// What became of the second copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeResult {
    /// Its response was used.
    Won,
    /// It was not.
    Lost,
}

impl HedgeResult {
    const fn name(self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Lost => "lost",
        }
    }
}

/// Appends ` key=value` for each property, for a format of text. Times are in microseconds.
pub(super) fn write_text(lines: &mut Vec<u8>, forwarded: &Forwarded<'_>) {
    let Forwarded { part, upstream, server, response, outcome } = forwarded;
    for (name, text) in [("part", part), ("upstream", upstream), ("server", server)] {
        if !text.is_empty() {
            put(lines, format_args!(" {name}="));
            quote(lines, text.as_bytes());
        }
    }
    put(lines, format_args!(" server_status={} tries={}", outcome.status, outcome.tries));
    // A response of the gateway itself has no connection to a server.
    if outcome.tries > 0 {
        let connection = if outcome.is_reused { "reused" } else { "new" };
        put(lines, format_args!(" connection={connection}"));
    }
    for (name, time_ns) in PHASES.iter().zip(outcome.phases_ns) {
        put(lines, format_args!(" {name}_us={}", time_ns / 1000));
    }
    if let Some(hedge) = outcome.hedge {
        put(lines, format_args!(" hedge={}", hedge.name()));
    }
    for (place, name) in outcome.notes.names().enumerate() {
        put(lines, format_args!("{}{name}", if place == 0 { " note=" } else { "," }));
    }
    put(lines, format_args!(" error={}", outcome.error.unwrap_or("-")));
    if !response.is_empty() {
        lines.extend_from_slice(b" response=");
        quote(lines, response);
    }
}

/// Appends a JSON object. Times are in nanoseconds.
pub(super) fn write_json(lines: &mut Vec<u8>, forwarded: &Forwarded<'_>) {
    let Forwarded { part, upstream, server, response, outcome } = forwarded;
    let ForwardedOutcome { status, tries, is_reused, phases_ns, hedge, notes, error } = *outcome;
    put(lines, format_args!("{{\"tries\":{tries}"));
    if tries > 0 {
        put(lines, format_args!(",\"is_reused\":{is_reused}"));
    }
    for (name, text) in [("part", *part), ("upstream", *upstream), ("server", *server)] {
        if !text.is_empty() {
            write_field(lines, name, text.as_bytes());
        }
    }
    if status != 0 {
        put(lines, format_args!(",\"status\":{status}"));
    }
    for (name, time_ns) in PHASES.iter().zip(phases_ns) {
        put(lines, format_args!(",\"{name}_ns\":{time_ns}"));
    }
    if let Some(hedge) = hedge {
        write_field(lines, "hedge", hedge.name().as_bytes());
    }
    for (place, name) in notes.names().enumerate() {
        put(lines, format_args!("{}\"{name}\"", if place == 0 { ",\"notes\":[" } else { "," }));
    }
    if notes != Anomalies::NONE {
        lines.push(b']');
    }
    if let Some(error) = error {
        write_field(lines, "error", error.as_bytes());
    }
    if !response.is_empty() {
        write_field(lines, "response", response);
    }
    lines.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_request_is_described() {
        let outcome = ForwardedOutcome {
            status: 200,
            tries: 2,
            is_reused: true,
            phases_ns: [1_000, 0, 12_999, 7_000],
            hedge: Some(HedgeResult::Won),
            notes: Anomalies::default(),
            error: None,
        };
        let server = "127.0.0.1:9001";
        let done = Forwarded { upstream: "app", server, outcome, ..Forwarded::default() };
        let refused = ForwardedOutcome {
            tries: 1,
            error: Some("connection_refused"),
            ..ForwardedOutcome::default()
        };
        let failed =
            Forwarded { part: "a\"", upstream: "app", outcome: refused, ..Forwarded::default() };
        let check = |write: fn(&mut Vec<u8>, &Forwarded<'_>), forwarded, expected: &str| {
            let mut lines = Vec::new();
            write(&mut lines, forwarded);
            assert_eq!(String::from_utf8_lossy(&lines), expected);
        };
        check(
            write_text,
            &done,
            " upstream=\"app\" server=\"127.0.0.1:9001\" server_status=200 tries=2 \
             connection=reused wait_us=1 connect_us=0 head_us=12 body_us=7 hedge=won \
             error=-",
        );
        check(
            write_text,
            &failed,
            " part=\"a\\x22\" upstream=\"app\" server_status=0 tries=1 connection=new wait_us=0 \
             connect_us=0 head_us=0 body_us=0 error=connection_refused",
        );
        check(
            write_json,
            &done,
            r#"{"tries":2,"is_reused":true,"upstream":"app","server":"127.0.0.1:9001","status":200,"wait_ns":1000,"connect_ns":0,"head_ns":12999,"body_ns":7000,"hedge":"won"}"#,
        );
        check(
            write_json,
            &failed,
            r#"{"tries":1,"is_reused":false,"part":"a\"","upstream":"app","wait_ns":0,"connect_ns":0,"head_ns":0,"body_ns":0,"error":"connection_refused"}"#,
        );
    }

    #[test]
    fn what_was_unusual_is_described() {
        let mut notes = Anomalies::EXCESS;
        let error = Some("http_protocol_error");
        let of = |notes| ForwardedOutcome { notes, error, ..ForwardedOutcome::default() };
        let described = |outcome, response: &[u8]| {
            let forwarded = Forwarded { response, outcome, ..Forwarded::default() };
            let (mut text, mut json) = (Vec::new(), Vec::new());
            write_text(&mut text, &forwarded);
            write_json(&mut json, &forwarded);
            [text, json].map(|lines| String::from_utf8(lines).expect("text"))
        };
        let [text, json] = described(of(notes), b"");
        assert!(text.starts_with(" server_status=0 tries=0 wait_us=0 "), "{text}");
        assert!(json.starts_with(r#"{"tries":0,"wait_ns":0,"#), "{json}");
        assert!(text.ends_with(" note=excess error=http_protocol_error"), "{text}");
        assert!(json.contains(r#","notes":["excess"],"error""#), "{json}");
        notes.add(Anomalies::EARLY);
        let [text, json] = described(of(notes), b"HTTP/2 \"\r\n\xff");
        let end =
            r#" note=early,excess error=http_protocol_error response="HTTP/2 \x22\x0D\x0A\xFF""#;
        assert!(text.ends_with(end), "{text}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["notes"], serde_json::json!(["early", "excess"]));
        assert_eq!(value["response"], "HTTP/2 \"\r\n\\xFF");
    }
}
