//! Where does an answer end, and is it right? Framing as in RFC 9112 section 6.3, strictly.
//!
//! The outcome does not depend on how the bytes were split. No code is shared with the server that may
//! be on the other side: `httparse` reads heads, framing is decided here.

use httparse::{EMPTY_HEADER, Header, Response, Status};

use crate::chunked::{Chunks, Decoder};
use crate::expect::{Body, Expected};
use crate::fault::Fault;

/// A longer head is refused.
const HEAD_SIZE_MAX: usize = 64 * 1024;

/// A head with more fields is refused.
pub(crate) const FIELDS_MAX: usize = 100;

/// What was asked, as far as the answer's meaning depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The method was HEAD: the answer announces a body and has none.
    pub(crate) head_only: bool,
    pub(crate) expected: &'a Expected,
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Why it is not the right one.
    pub(crate) fault: Option<Fault>,
    /// Whether the server takes another request on this connection.
    pub(crate) keeps_alive: bool,
}

/// What some bytes brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All were used, and more must come.
    More,
    /// An answer ended after so many of the bytes.
    Whole(Answer, usize),
    /// This is no HTTP answer.
    Broken,
}

/// Reads one answer after the other from a connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The beginning of a head that did not come at once.
    head: Vec<u8>,
    content: Option<Content>,
}

/// An answer whose head has been read.
#[derive(Debug)]
struct Content {
    status: u16,
    keeps_alive: bool,
    framing: Framing,
    body: Body,
}

#[derive(Debug)]
enum Framing {
    /// So many bytes are left.
    Length(u64),
    Chunked(Decoder),
    /// The end of the connection is the end of the body.
    Close,
}

/// What a head says, as far as it matters here.
struct Head {
    status: u16,
    keeps_alive: bool,
    framing: Framing,
}

impl Reader {
    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], asked: Asked<'_>) -> Progress {
        let mut used = 0;
        while self.content.is_none() {
            match self.read_head(&bytes[used..], asked) {
                Parsed::Broken => return Progress::Broken,
                Parsed::Partial => return Progress::More,
                Parsed::Whole(count, head) => {
                    used += count;
                    // An interim answer (1xx) has nothing to say here: the next head is read.
                    self.content = head.map(|head| head.into_content(asked.expected));
                }
            }
        }
        match self.read_content(&bytes[used..], asked.expected) {
            Chunks::More => Progress::More,
            Chunks::Broken => Progress::Broken,
            Chunks::Done(count) => match self.content.take() {
                Some(content) => Progress::Whole(content.judge(asked.expected), used + count),
                None => Progress::Broken,
            },
        }
    }

    /// The connection ended: an answer whose end that was, or what is wrong with it.
    pub(crate) fn end(&mut self, asked: Asked<'_>) -> Result<Answer, Fault> {
        match self.content.take() {
            Some(content) if matches!(content.framing, Framing::Close) => {
                Ok(content.judge(asked.expected))
            }
            Some(_) => Err(Fault::Length),
            None => Err(Fault::Closed),
        }
    }

    /// Whether nothing of the next answer has come yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.content.is_none() && self.head.is_empty()
    }

    /// Looks for a whole head, and says how many of `bytes` it took.
    fn read_head(&mut self, bytes: &[u8], asked: Asked<'_>) -> Parsed {
        let before = self.head.len();
        let parsed = if before == 0 {
            parse_head(bytes, asked.head_only)
        } else {
            self.head.extend_from_slice(bytes);
            parse_head(&self.head, asked.head_only)
        };
        match parsed {
            Parsed::Whole(size, head) => {
                self.head.clear();
                Parsed::Whole(size - before, head)
            }
            Parsed::Partial => {
                if before == 0 {
                    self.head.extend_from_slice(bytes);
                }
                if self.head.len() > HEAD_SIZE_MAX { Parsed::Broken } else { Parsed::Partial }
            }
            Parsed::Broken => Parsed::Broken,
        }
    }

    fn read_content(&mut self, bytes: &[u8], expected: &Expected) -> Chunks {
        let Some(Content { framing, body, .. }) = &mut self.content else { return Chunks::Broken };
        match framing {
            Framing::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                body.take(&bytes[..count], expected);
                *left -= count as u64;
                if *left == 0 { Chunks::Done(count) } else { Chunks::More }
            }
            Framing::Chunked(decoder) => decoder.feed(bytes, |part| body.take(part, expected)),
            Framing::Close => {
                body.take(bytes, expected);
                Chunks::More
            }
        }
    }
}

impl Content {
    fn judge(self, expected: &Expected) -> Answer {
        let fault = self.body.judge(self.status, expected);
        Answer { status: self.status, fault, keeps_alive: self.keeps_alive }
    }
}

impl Head {
    fn into_content(self, expected: &Expected) -> Content {
        let Self { status, keeps_alive, framing } = self;
        Content { status, keeps_alive, framing, body: Body::begin(expected) }
    }
}

/// What stands at the front of some bytes.
enum Parsed {
    /// The beginning of a head.
    Partial,
    /// A head of this size; an interim one has no further meaning.
    Whole(usize, Option<Head>),
    /// No head.
    Broken,
}

fn parse_head(bytes: &[u8], head_only: bool) -> Parsed {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = Response::new(&mut fields);
    let size = match response.parse(bytes) {
        Ok(Status::Complete(size)) => size,
        Ok(Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Broken,
    };
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Parsed::Broken;
    };
    match status {
        100 | 102..200 => Parsed::Whole(size, None),
        200..600 => {
            let bodiless = head_only || status == 204 || status == 304;
            let Some((framing, keeps_alive)) = framing(response.headers, minor, bodiless) else {
                return Parsed::Broken;
            };
            let keeps_alive = keeps_alive && !matches!(framing, Framing::Close);
            Parsed::Whole(size, Some(Head { status, keeps_alive, framing }))
        }
        // 101 among them: nobody asked for another protocol.
        _ => Parsed::Broken,
    }
}

/// How the body ends, and whether the connection lives on; `None` when the fields contradict each other.
fn framing(fields: &[Header<'_>], minor: u8, bodiless: bool) -> Option<(Framing, bool)> {
    let (mut length, mut chunked) = (None, false);
    let (mut close, mut keep) = (false, false);
    for field in fields {
        if field.name.eq_ignore_ascii_case("content-length") {
            let value = decimal(field.value)?;
            if length.is_some_and(|known| known != value) {
                return None;
            }
            length = Some(value);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return None;
            }
            chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for option in field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                close |= option.eq_ignore_ascii_case(b"close");
                keep |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let framing = match (length, chunked) {
        // Two framings in one answer mean that somebody on the way may read it differently.
        (Some(_), true) => return None,
        _ if bodiless => Framing::Length(0),
        (_, true) => Framing::Chunked(Decoder::new()),
        (Some(length), _) => Framing::Length(length),
        (None, false) => Framing::Close,
    };
    Some((framing, !close && (minor == 1 || keep)))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
