//! The head of an application's response: checked, so that no field can split the response or change
//! its framing, and encoded.

use std::fmt;
use std::sync::Arc;

use jissoku_http::connection_fields::ConnectionField;
use jissoku_http::response::ConnectionHeader;
use jissoku_http::{Version, date};
use jissoku_os::clock;
use jissoku_server::has_field_of;
use pyo3::prelude::*;

use crate::interpreter;
use crate::request_name::{Escaped, RequestName};
use crate::text::{read_decimal, write_decimal};

/// Why a head is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    Status(String),
    Name(String),
    Value(String),
    ContentLength(String),
}

impl fmt::Display for HeadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) => write!(
                formatter,
                "invalid status {text:?}: three digits from 200 to 599, a space and a reason"
            ),
            Self::Name(name) => write!(formatter, "invalid header name {name:?}"),
            Self::Value(name) => write!(formatter, "invalid value of the header {name:?}"),
            Self::ContentLength(value) => {
                write!(formatter, "invalid or contradictory Content-Length {value:?}")
            }
        }
    }
}

/// How the end of a body is marked (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No body is sent: HEAD, 204, 304.
    None,
    /// This many bytes are still to be sent.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// The end of the connection.
    UntilClose,
}

/// The size of a body, if it is known when its head is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodySize {
    Known(u64),
    Unknown,
}

/// An encoded head without Date, Connection and framing.
#[derive(Debug, Default)]
pub(crate) struct ResponseHead {
    /// The status line and header lines, each with its CRLF.
    bytes: Vec<u8>,
    status: u16,
    content_length: Option<u64>,
    has_date: bool,
    closes: bool,
}

impl ResponseHead {
    /// Starts a head; `status` is the status code and its reason.
    pub(crate) fn new(status: &[u8]) -> Result<Self, HeadError> {
        let mut head = Self { bytes: Vec::with_capacity(256), ..Self::default() };
        head.restart(status)?;
        Ok(head)
    }

    /// Starts another head, in the same memory.
    pub(crate) fn restart(&mut self, status: &[u8]) -> Result<(), HeadError> {
        let refusal = || HeadError::Status(lossy(status));
        let (digits, reason) = status.split_first_chunk::<3>().ok_or_else(refusal)?;
        let reason = match reason {
            [] => reason,
            [b' ', reason @ ..] => reason,
            _ => return Err(refusal()),
        };
        let is_valid = matches!(digits, [b'2'..=b'5', second, third]
            if second.is_ascii_digit() && third.is_ascii_digit());
        if !is_valid || !is_text(reason) {
            return Err(refusal());
        }
        let code = digits.iter().fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.extend_from_slice(b"HTTP/1.1 ");
        bytes.extend_from_slice(digits);
        bytes.push(b' ');
        bytes.extend_from_slice(reason);
        bytes.extend_from_slice(b"\r\n");
        *self = Self { bytes, status: code, ..Self::default() };
        Ok(())
    }

    /// Starts another head with the status of `head`, which has no headers.
    pub(crate) fn restart_as(&mut self, head: &Self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&head.bytes);
        let bytes = std::mem::take(&mut self.bytes);
        *self = Self { bytes, status: head.status, ..Self::default() };
    }

    /// The head of a 500 after an error of the application.
    pub(crate) fn server_error() -> Self {
        let lines = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n";
        Self { bytes: lines.to_vec(), status: 500, ..Self::default() }
    }

    /// Checks a header field and adds it. Fields that belong to the connection are not the application's to send
    /// (PEP 3333, "Other HTTP Features"): they are omitted, but `Connection: close` has its effect.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        if name.eq_ignore_ascii_case(b"content-length") && is_text(value) {
            return self.add_content_length(value.trim_ascii());
        }
        check_field(name, value)?;
        let value = value.trim_ascii();
        if is_hop_by_hop(name) {
            let is_connection = name.eq_ignore_ascii_case(b"connection");
            self.closes |= is_connection && value.eq_ignore_ascii_case(b"close");
            return Ok(());
        }
        self.has_date |= name.eq_ignore_ascii_case(b"date");
        self.bytes.reserve(name.len() + value.len() + 4);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// The size of the lines added so far.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The lines that were added since the head had this `size`.
    pub(crate) fn lines_since(&self, size: usize) -> &[u8] {
        self.bytes.get(size..).unwrap_or_default()
    }

    /// Adds header lines that were validated before, of which none is a Date.
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        self.bytes.extend_from_slice(lines);
    }

    fn add_content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let refusal = || HeadError::ContentLength(lossy(value));
        let size = read_decimal(value).ok_or_else(refusal)?;
        if self.content_length.is_some_and(|other| other != size) {
            return Err(refusal());
        }
        self.content_length = Some(size);
        Ok(())
    }

    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    /// Chooses the framing of a body of `size`, and whether the connection can persist after it.
    pub(crate) fn plan(&self, request: &Expectation, size: BodySize) -> Plan {
        let plan = |framing, persists| Plan { framing, persists, size, version: request.version };
        let persists = request.persists && !self.closes;
        if request.is_head || matches!(self.status, 204 | 304) {
            return plan(Framing::None, persists);
        }
        match (self.content_length, size) {
            (Some(size), _) | (None, BodySize::Known(size)) => {
                plan(Framing::Length(size), persists)
            }
            (None, BodySize::Unknown) if request.version == Version::Http11 => {
                plan(Framing::Chunked, persists)
            }
            (None, BodySize::Unknown) => plan(Framing::UntilClose, false),
        }
    }

    /// Passes the parts of the head to `append`, in order.
    pub(crate) fn write(
        &self,
        plan: Plan,
        (date, request): (&[u8], &Expectation),
        mut append: impl FnMut(&[u8]),
    ) {
        append(&self.bytes);
        if let Some(line) = &request.request_id
            && !has_field_of(&self.bytes, line)
        {
            append(line);
        }
        if !self.has_date {
            append(b"Date: ");
            append(date);
            append(b"\r\n");
        }
        append(ConnectionHeader::new(plan.version, plan.persists).field());
        match (plan.framing, self.length(plan)) {
            (Framing::Chunked, _) => append(b"Transfer-Encoding: chunked\r\n\r\n"),
            (_, Some(size)) => {
                append(b"Content-Length: ");
                write_decimal(size, &mut append);
                append(b"\r\n\r\n");
            }
            (_, None) => append(b"\r\n"),
        }
    }

    /// The Content-Length to send. A HEAD is answered with the length of the GET, if that is known;
    /// a 204 has none (RFC 9110 section 8.6), and a 304 only that of the application.
    fn length(&self, plan: Plan) -> Option<u64> {
        match (plan.framing, plan.size) {
            (Framing::Length(size), _) => Some(size),
            (Framing::None, _) if self.status == 204 => None,
            (Framing::None, BodySize::Known(size)) if self.status != 304 => {
                self.content_length.or(Some(size))
            }
            (Framing::None, _) => self.content_length,
            (Framing::Chunked | Framing::UntilClose, _) => None,
        }
    }
}

/// How a response is framed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) framing: Framing,
    /// Whether the connection persists.
    pub(crate) persists: bool,
    size: BodySize,
    version: Version,
}

/// How a request determines the form of its response.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub(crate) version: Version,
    pub(crate) is_head: bool,
    /// Whether client and server would keep the connection.
    pub(crate) persists: bool,
    /// The header line with its id, if it has one.
    pub(crate) request_id: Option<Arc<[u8]>>,
    pub(crate) name: RequestName,
}

impl Expectation {
    /// Prints an error of the application, in which request it has occurred, and when.
    pub(crate) fn report(&self, python: Python<'_>, error: &PyErr, place: &str) {
        let now = date::imf_fixdate(clock::wall_ns() / 1_000_000_000);
        let now = str::from_utf8(&now).unwrap_or_default();
        let id = self.request_id.as_ref();
        let id = id.map(|line| format!(" ({})", Escaped(line.trim_ascii()))).unwrap_or_default();
        interpreter::report(python, error, &format!("{place}: {}{id}, {now}", self.name));
    }
}

/// Whether each byte is a `tchar`.
static TOKENS: [bool; 256] = {
    let mut tokens = [false; 256];
    let mut byte = 0_u8;
    loop {
        tokens[byte as usize] = is_token(byte);
        if byte == u8::MAX {
            break tokens;
        }
        byte += 1;
    }
};

/// Checks the syntax of a header field (RFC 9110 sections 5.1 and 5.5).
fn check_field(name: &[u8], value: &[u8]) -> Result<(), HeadError> {
    if name.is_empty() || !name.iter().all(|&byte| TOKENS[usize::from(byte)]) {
        return Err(HeadError::Name(lossy(name)));
    }
    if !is_text(value) {
        return Err(HeadError::Value(lossy(name)));
    }
    Ok(())
}

/// Checks a header field, and appends its line to `lines`: those of a 103, of trailers and of a
/// handshake, which have no [`ResponseHead`]. Fields of the connection and of the framing are the
/// server's to send, and omitted (RFC 9110 sections 6.5.1 and 8.6).
pub(crate) fn write_field(name: &[u8], value: &[u8], lines: &mut Vec<u8>) -> Result<(), HeadError> {
    check_field(name, value)?;
    if is_hop_by_hop(name) || name.eq_ignore_ascii_case(b"content-length") {
        return Ok(());
    }
    for part in [name, b": ", value.trim_ascii(), b"\r\n"] {
        lines.extend_from_slice(part);
    }
    Ok(())
}

/// `tchar` of RFC 9110 section 5.6.2.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// Whether a field value or reason has no control characters but tabs (RFC 9110 section 5.5).
fn is_text(value: &[u8]) -> bool {
    // A loop without an early exit is vectorised.
    let is_control = |byte: u8| byte != b'\t' && (byte < b' ' || byte == 0x7f);
    value.iter().filter(|&&byte| is_control(byte)).count() == 0
}

fn is_hop_by_hop(name: &[u8]) -> bool {
    match ConnectionField::of(name) {
        // They have no meaning in a response.
        Some(ConnectionField::Http2Settings | ConnectionField::Proxy) => false,
        Some(_) => true,
        // As PEP 3333 and `wsgiref` spell it.
        None => name.eq_ignore_ascii_case(b"trailers"),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get() -> Expectation {
        Expectation {
            version: Version::Http11,
            is_head: false,
            persists: true,
            request_id: None,
            name: RequestName::default(),
        }
    }

    fn head_request() -> Expectation {
        Expectation { is_head: true, ..get() }
    }

    fn old() -> Expectation {
        Expectation { version: Version::Http10, ..get() }
    }

    fn head(status: &str, fields: &[(&str, &str)]) -> Result<ResponseHead, HeadError> {
        let mut head = ResponseHead::new(status.as_bytes())?;
        for (name, value) in fields {
            head.add(name.as_bytes(), value.as_bytes())?;
        }
        Ok(head)
    }

    fn written(head: &ResponseHead, request: &Expectation, size: BodySize) -> String {
        let mut bytes = Vec::new();
        let plan = head.plan(request, size);
        head.write(plan, (b"DATE", request), |part| bytes.extend_from_slice(part));
        String::from_utf8(bytes).expect("these heads are ASCII")
    }

    #[test]
    fn fields_that_could_split_a_response_are_refused() {
        for status in ["", "20", "2000 x", "200OK", "100 Continue", "600 x", "200 a\r\nb", "2x0 a"]
        {
            assert!(head(status, &[]).is_err(), "{status:?}");
        }
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("a\r\nb", "x"),
            ("a", "x\r\ny: z"),
            ("a", "x\n"),
            ("a", "x\0"),
            ("Content-Length", "+1"),
            ("Content-Length", ""),
        ] {
            assert!(head("200 OK", &[(name, value)]).is_err(), "{name:?}: {value:?}");
        }
        assert!(head("200 OK", &[("Content-Length", "1"), ("content-length", "2")]).is_err());
    }

    #[test]
    fn a_known_size_is_sent_and_an_unknown_one_is_chunked() {
        let plain = head("299 Odd", &[("A", "b")]).expect("a valid head");
        assert_eq!(
            written(&plain, &get(), BodySize::Known(3)),
            "HTTP/1.1 299 Odd\r\nA: b\r\nDate: DATE\r\nContent-Length: 3\r\n\r\n"
        );
        assert_eq!(
            written(&plain, &get(), BodySize::Unknown),
            "HTTP/1.1 299 Odd\r\nA: b\r\nDate: DATE\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            written(&plain, &old(), BodySize::Unknown),
            "HTTP/1.1 299 Odd\r\nA: b\r\nDate: DATE\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn trailers_and_handshakes_have_no_fields_of_the_framing() {
        let mut lines = Vec::new();
        for name in ["X-Sum", "Content-Length", "Transfer-Encoding", "connection", "Link"] {
            write_field(name.as_bytes(), b" 5 ", &mut lines).expect("it is valid");
        }
        assert_eq!(lines, b"X-Sum: 5\r\nLink: 5\r\n");
        assert!(write_field(b"Connection", b"a\r\nb", &mut lines).is_err());
    }

    #[test]
    fn an_application_sets_the_date_but_no_connection_fields() {
        let fields = [
            ("Date", "now"),
            ("Connection", "close"),
            ("Transfer-Encoding", "chunked"),
            ("TE", "x"),
        ];
        let closing = head("200 OK", &fields).expect("a valid head");
        assert_eq!(
            written(&closing, &get(), BodySize::Known(0)),
            "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn responses_without_a_body_keep_a_content_length_where_it_is_allowed() {
        let sized = |status| head(status, &[("Content-Length", "7")]).expect("a valid head");
        assert!(
            written(&sized("200 OK"), &head_request(), BodySize::Unknown).contains("Length: 7\r\n")
        );
        assert!(
            written(&sized("304 Not Modified"), &get(), BodySize::Known(0)).contains("h: 7\r\n")
        );
        assert!(!written(&sized("204 No Content"), &get(), BodySize::Known(0)).contains("Length"));
        let unsized_ = head("200 OK", &[]).expect("a valid head");
        assert!(
            written(&unsized_, &head_request(), BodySize::Known(5))
                .contains("Content-Length: 5\r\n")
        );
        assert!(!written(&unsized_, &head_request(), BodySize::Unknown).contains("Length"));
        assert_eq!(unsized_.plan(&head_request(), BodySize::Known(5)).framing, Framing::None);
    }
}
