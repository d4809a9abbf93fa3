//! Formats records as lines. Client input can never end a line or a quoted string.

use std::str::FromStr;

use jissoku_http::date;

use super::escape::{put, quote, write_field};
use super::forwarded::{self, Forwarded};
use super::record::{Record, Texts};
use crate::app_times::AppTimes;

const SECOND_NS: u64 = 1_000_000_000;

/// The format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The Common Log Format.
    Common,
    /// The Combined Log Format of Apache and nginx: with referer and user agent, and nothing else.
    #[default]
    Combined,
    /// The Combined Log Format, followed by the times of the request, those of the application, and
    /// the requests to other servers.
    Extended,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "common" => Ok(Self::Common),
            "combined" => Ok(Self::Combined),
            "extended" => Ok(Self::Extended),
            "json" => Ok(Self::Json),
            _ => Err(format!(
                "invalid log format {text:?}: write common, combined, extended or json"
            )),
        }
    }
}

impl LogFormat {
    /// Appends the line of one record; `wall_ns` is its time since 1970.
    pub(super) fn write(
        self,
        lines: &mut Vec<u8>,
        (record, wall_ns): (&Record, u64),
        texts: Texts<'_>,
        forwarded: &[Forwarded<'_>],
    ) {
        if self == Self::Json {
            write_json(lines, (record, wall_ns), texts, forwarded);
            return lines.push(b'\n');
        }
        write_common(lines, record, texts, wall_ns);
        if self != Self::Common {
            for text in [texts.referer, texts.agent] {
                lines.push(b' ');
                quote(lines, text.unwrap_or(b"-"));
            }
        }
        if self == Self::Extended {
            if let Some(id) = texts.request_id {
                lines.extend_from_slice(b" request_id=");
                lines.extend_from_slice(id);
            }
            write_times(lines, record, forwarded);
        }
        lines.push(b'\n');
    }
}

fn write_times(lines: &mut Vec<u8>, record: &Record, forwarded: &[Forwarded<'_>]) {
    put(lines, format_args!(" duration_us={}", record.duration_ns / 1000));
    if let Some(times) = record.app_times {
        for (name, time_ns) in AppTimes::NAMES.iter().zip(times.phases_ns()) {
            put(lines, format_args!(" {name}_us={}", time_ns / 1000));
        }
    }
    for one in forwarded {
        forwarded::write_text(lines, one);
    }
}

fn write_common(lines: &mut Vec<u8>, record: &Record, texts: Texts<'_>, wall_ns: u64) {
    match record.peer {
        Some(peer) => put(lines, format_args!("{}", peer.ip())),
        None => lines.extend_from_slice(b"unix:"),
    }
    let date = date::imf_fixdate(wall_ns / SECOND_NS);
    lines.extend_from_slice(b" - - [");
    for (place, end) in [(5..7, b"/"), (8..11, b"/"), (12..16, b":"), (17..25, b" ")] {
        lines.extend_from_slice(&date[place]);
        lines.extend_from_slice(end);
    }
    lines.extend_from_slice(b"+0000] ");
    // Readers of the format expect a word where a request had no line.
    quote(lines, if texts.line.is_empty() { b"-" } else { texts.line });
    put(lines, format_args!(" {} {}", record.status, record.body_size));
}

fn write_json(
    lines: &mut Vec<u8>,
    (record, wall_ns): (&Record, u64),
    texts: Texts<'_>,
    forwarded: &[Forwarded<'_>],
) {
    lines.extend_from_slice(b"{\"time\":\"");
    write_rfc3339(lines, wall_ns);
    lines.push(b'"');
    if let Some(peer) = record.peer {
        put(lines, format_args!(",\"peer\":\"{}\",\"port\":{}", peer.ip(), peer.port()));
    }
    let parts: Vec<&[u8]> = texts.line.split(|&byte| byte == b' ').collect();
    match parts[..] {
        [method, target, version] if version.starts_with(b"HTTP/") => {
            write_field(lines, "method", method);
            write_field(lines, "target", target);
            write_field(lines, "version", version);
        }
        // A rejected request line may not have these parts.
        _ => write_field(lines, "line", texts.line),
    }
    let Record { status, body_size, duration_ns, .. } = record;
    put(
        lines,
        format_args!(
            ",\"status\":{status},\"body_size\":{body_size},\"duration_ns\":{duration_ns}"
        ),
    );
    if let Some(times) = record.app_times {
        for (name, time_ns) in AppTimes::NAMES.iter().zip(times.phases_ns()) {
            put(lines, format_args!(",\"{name}_ns\":{time_ns}"));
        }
    }
    let named =
        [("request_id", texts.request_id), ("referer", texts.referer), ("user_agent", texts.agent)];
    for (name, text) in named {
        if let Some(text) = text {
            write_field(lines, name, text);
        }
    }
    for (place, one) in forwarded.iter().enumerate() {
        let start: &[u8] = if place == 0 { b",\"forwarded\":[" } else { b"," };
        lines.extend_from_slice(start);
        forwarded::write_json(lines, one);
    }
    if !forwarded.is_empty() {
        lines.push(b']');
    }
    lines.push(b'}');
}

/// As in `2026-11-21T08:49:37.123456Z` (RFC 3339).
fn write_rfc3339(lines: &mut Vec<u8>, wall_ns: u64) {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let date = date::imf_fixdate(wall_ns / SECOND_NS);
    let month = MONTHS.chunks(3).position(|name| *name == date[8..11]);
    let month = month.expect("a date has a month") + 1;
    lines.extend_from_slice(&date[12..16]);
    put(lines, format_args!("-{month:02}-"));
    lines.extend_from_slice(&date[5..7]);
    lines.push(b'T');
    lines.extend_from_slice(&date[17..25]);
    put(lines, format_args!(".{:06}Z", wall_ns % SECOND_NS / 1000));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LogEntry;

    use proptest::prelude::*;

    const RECEIVED_NS: u64 = 784_111_777_123_456_789;

    fn line(format: LogFormat, texts: Texts<'_>) -> Vec<u8> {
        let peer = "192.0.2.7:1234".parse().ok();
        let mut record = LogEntry::new().record;
        (record.peer, record.status, record.body_size, record.duration_ns) = (peer, 404, 10, 5);
        let mut lines = Vec::new();
        format.write(&mut lines, (&record, RECEIVED_NS), texts, &[]);
        lines
    }

    fn check(format: LogFormat, texts: Texts<'_>, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&line(format, texts)), expected);
    }

    #[test]
    fn a_plain_request_has_the_standard_format() {
        let texts = Texts {
            line: b"GET /a HTTP/1.1",
            referer: None,
            agent: Some(b"curl/7.88 (\"x\")"),
            request_id: None,
        };
        let common = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a HTTP/1.1\" 404 10";
        check(LogFormat::Common, texts, &format!("{common}\n"));
        let combined = format!("{common} \"-\" \"curl/7.88 (\\x22x\\x22)\"");
        check(LogFormat::Combined, texts, &format!("{combined}\n"));
        check(LogFormat::Extended, texts, &format!("{combined} duration_us=0\n"));
        let json = r#"{"time":"1994-11-06T08:49:37.123456Z","peer":"192.0.2.7","port":1234,"#;
        let json = format!(r#"{json}"method":"GET","target":"/a","version":"HTTP/1.1","#);
        let json = format!(r#"{json}"status":404,"body_size":10,"duration_ns":5,"#);
        check(
            LogFormat::Json,
            texts,
            &format!("{json}\"user_agent\":\"curl/7.88 (\\\"x\\\")\"}}\n"),
        );
    }

    #[test]
    fn client_input_is_escaped() {
        let texts = Texts {
            line: b"a\n\"\\\x1b[2J\xff\xc3\xa9",
            referer: None,
            agent: None,
            request_id: None,
        };
        check(
            LogFormat::Common,
            texts,
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"a\\x0A\\x22\\x5C\\x1B[2J\\xFF\\xC3\\xA9\" 404 10\n",
        );
        let json = String::from_utf8(line(LogFormat::Json, texts)).expect("JSON is Unicode");
        assert!(json.contains(r#""line":"a\u000a\"\\\u001b[2J\\xFF"#), "{json}");
        assert!(json.contains('\u{e9}'), "{json}");
    }

    #[test]
    fn a_request_without_a_line_has_a_dash() {
        let texts = Texts { line: b"", referer: None, agent: None, request_id: None };
        let common = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"-\" 404 10";
        check(LogFormat::Combined, texts, &format!("{common} \"-\" \"-\"\n"));
    }

    #[test]
    fn phases_of_an_application_are_appended_to_the_extended_format() {
        let mut record = LogEntry::new().record;
        record.app_times = Some(AppTimes { queue_ns: 1_999, app_ns: 20_000, write_ns: 0 });
        let texts = Texts { line: b"GET / HTTP/1.1", referer: None, agent: None, request_id: None };
        for (format, expected) in [
            (LogFormat::Common, "\"GET / HTTP/1.1\" 0 0\n"),
            (LogFormat::Combined, "\"GET / HTTP/1.1\" 0 0 \"-\" \"-\"\n"),
            (LogFormat::Extended, " \"-\" duration_us=0 queue_us=1 app_us=20 write_us=0\n"),
            (LogFormat::Json, ",\"queue_ns\":1999,\"app_ns\":20000,\"write_ns\":0}\n"),
        ] {
            let mut lines = Vec::new();
            format.write(&mut lines, (&record, RECEIVED_NS), texts, &[]);
            let line = String::from_utf8(lines).expect("text");
            assert!(line.ends_with(expected), "{line}");
        }
    }

    #[test]
    fn forwarded_requests_are_appended_to_the_extended_format() {
        let record = LogEntry::new().record;
        let texts = Texts { line: b"GET / HTTP/1.1", referer: None, agent: None, request_id: None };
        let one = Forwarded { upstream: "app", ..Forwarded::default() };
        for (format, expected) in [
            (LogFormat::Extended, " duration_us=0 upstream=\"app\" server_status=0 "),
            (LogFormat::Json, ",\"forwarded\":[{\"tries\":0,"),
        ] {
            let mut lines = Vec::new();
            format.write(&mut lines, (&record, RECEIVED_NS), texts, &[one, one]);
            let line = String::from_utf8(lines).expect("text");
            assert!(line.contains(expected), "{line}");
            assert_eq!(line.matches("app").count(), 2, "{line}");
            if format == LogFormat::Json {
                let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
                assert_eq!(value["forwarded"][1]["upstream"], "app");
            }
        }
        for format in [LogFormat::Common, LogFormat::Combined] {
            let mut lines = Vec::new();
            format.write(&mut lines, (&record, RECEIVED_NS), texts, &[one]);
            assert!(!String::from_utf8_lossy(&lines).contains("upstream"));
        }
    }

    proptest! {
        #[test]
        fn one_record_is_one_line_of_printable_text(
            text in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            for format in
                [LogFormat::Common, LogFormat::Combined, LogFormat::Extended, LogFormat::Json]
            {
                let texts = Texts { line: &text, referer: Some(&text), agent: Some(&text), request_id: None };
                let found = String::from_utf8(line(format, texts)).expect("text");
                let found = found.strip_suffix('\n').expect("a line");
                prop_assert!(!found.chars().any(char::is_control), "{found:?}");
                if format == LogFormat::Json {
                    let value: serde_json::Value = serde_json::from_str(found).expect("JSON");
                    prop_assert!(value["referer"].is_string());
                } else {
                    prop_assert_eq!(found.matches('"').count() % 2, 0);
                }
            }
        }
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("extended".parse(), Ok(LogFormat::Extended));
        assert!("xml".parse::<LogFormat>().is_err_and(|why| why.contains("combined")));
    }
}
