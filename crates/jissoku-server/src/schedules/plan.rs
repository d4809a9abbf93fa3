//! What a client sends and gets: each request contains how the scripted handler responds.

use std::fmt::Write as _;

use proptest::prelude::*;

/// Larger bodies are refused by the handler.
pub(super) const BODY_SIZE_MAX: usize = 6_000;

/// The size of a large part of a response; three of them let the server wait for its client.
const LARGE: usize = 7_000;

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) id: usize,
    method: Method,
    body: Vec<u8>,
    /// Whether the client announces that it waits for a 100, and then does not.
    expects: bool,
    /// How the handler receives the body: `w`hole, `r`eceive, `h`old first, or `a`wait first.
    flow: char,
    /// What the handler does before the end: `p`ending, `t`imer, `s` and `S`: a part of the
    /// response and waits until it is sent, `d` and `D`: a part and pending, `f` and `F`: a part and
    /// flushes it.
    steps: String,
    pub(super) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Length,
    Chunked,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The connection persists.
    Keep,
    /// Before the body, possibly.
    Early,
    /// The handler closes the connection.
    Close,
    /// The client closes the connection.
    Last,
    /// The handler resets the connection.
    Reset,
    /// All further bytes come back.
    Upgrade,
    /// The request is malformed.
    Malformed,
    /// The body is larger than the handler takes.
    TooLarge,
}

impl Plan {
    pub(super) fn new(id: usize, choices: &mut Choices<'_>) -> Self {
        const METHODS: [Method; 4] = [Method::Get, Method::Head, Method::Length, Method::Chunked];
        const ENDS: [End; 16] = {
            let mut ends = [End::Keep; 16];
            ends[8] = End::Early;
            ends[9] = End::Early;
            ends[10] = End::Close;
            ends[11] = End::Last;
            ends[12] = End::Reset;
            ends[13] = End::Upgrade;
            ends[14] = End::Malformed;
            ends[15] = End::TooLarge;
            ends
        };
        let mut method = METHODS[choices.below(4)];
        let mut end = ENDS[choices.below(16)];
        match end {
            End::Upgrade => method = Method::Get,
            End::TooLarge if choices.rarely(2) => method = Method::Chunked,
            End::TooLarge => method = Method::Length,
            End::Early if matches!(method, Method::Get | Method::Head) => end = End::Keep,
            _ => {}
        }
        let has_body = matches!(method, Method::Length | Method::Chunked);
        let size = match end {
            _ if !has_body => 0,
            End::TooLarge => BODY_SIZE_MAX + 1,
            _ if choices.rarely(4) => BODY_SIZE_MAX - choices.below(3),
            _ => choices.below(40),
        };
        let flows = if end == End::TooLarge { 1 } else { 4 };
        let flow = ['w', 'r', 'h', 'a'][if has_body { choices.below(flows) } else { 0 }];
        let has_parts = method != Method::Head && end != End::Upgrade;
        let kinds = if has_parts { 8 } else { 2 };
        let count = [0, 1, 1, 2, 4][choices.below(5)];
        let kind = |_| ['p', 't', 's', 'd', 'S', 'D', 'f', 'F'][choices.below(kinds)];
        let steps = (0..count).map(kind).collect();
        let expects = has_body && choices.rarely(4);
        let body = (b'a'..=b'z').cycle().skip(id).take(size).collect();
        Self { id, method, body, expects, flow, steps, end }
    }

    /// The bytes of the request.
    pub(super) fn encode(&self, choices: &mut Choices<'_>) -> Vec<u8> {
        let Self { id, flow, steps, .. } = self;
        let method = match self.method {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Length | Method::Chunked => "POST",
        };
        let end = match self.end {
            End::Keep | End::Last | End::TooLarge | End::Malformed => 'k',
            End::Early => 'e',
            End::Close => 'c',
            End::Reset => 'x',
            End::Upgrade => 'u',
        };
        let mut head = format!("{method} /{id}/{flow}/{steps}/{end} HTTP/1.1\r\nHost: a\r\n");
        if self.end == End::Malformed {
            head.push_str("Host: another\r\n");
        }
        if self.end == End::Last {
            head.push_str("Connection: close\r\n");
        }
        if self.expects {
            head.push_str("Expect: 100-continue\r\n");
        }
        match self.method {
            Method::Length => write!(head, "Content-Length: {}\r\n\r\n", self.body.len()),
            Method::Chunked => write!(head, "Transfer-Encoding: chunked\r\n\r\n"),
            Method::Get | Method::Head => write!(head, "\r\n"),
        }
        .expect("a string takes everything");
        let mut bytes = head.into_bytes();
        if self.method == Method::Chunked {
            let mut rest = &self.body[..];
            while !rest.is_empty() {
                let (chunk, next) = rest.split_at(choices.size(rest.len()));
                bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend(b"\r\n");
                rest = next;
            }
            bytes.extend(b"0\r\n\r\n");
        } else {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }

    /// Whether no request after it is answered.
    pub(super) const fn is_last(&self) -> bool {
        !matches!(self.end, End::Keep | End::Early)
    }

    /// Whether the response may say that it is the last one.
    pub(super) const fn may_close(&self) -> bool {
        // A client that waits for a 100 and gets another response may send the body or not.
        self.is_last() || self.expects
    }

    /// Whether the response has no body.
    pub(super) fn is_head(&self) -> bool {
        self.method == Method::Head
    }

    pub(super) const fn status(&self) -> u16 {
        match self.end {
            End::Malformed => 400,
            End::TooLarge => 413,
            End::Upgrade => 101,
            _ => 200,
        }
    }

    /// The text of a complete response of the handler.
    pub(super) fn text(&self) -> String {
        let mut text: String = self.steps.chars().map(|step| part(self.id, step)).collect();
        text.push_str(&match self.end {
            End::Early => last_part(self.id, None),
            _ => last_part(self.id, Some((self.body.len(), sum(0, &self.body)))),
        });
        text
    }
}

/// What a step adds to the response.
pub(super) fn part(id: usize, step: char) -> String {
    match step {
        's' | 'd' | 'f' => format!("<part of {id}>"),
        'S' | 'D' | 'F' => format!("<part of {id}>").repeat(LARGE / 12),
        _ => String::new(),
    }
}

/// The last part; `body` is the size and the sum of the request's, if the response depends on it.
pub(super) fn last_part(id: usize, body: Option<(usize, u64)>) -> String {
    body.map_or_else(
        || format!("<end of {id}>"),
        |(size, sum)| format!("<end of {id}:{size}:{sum}>"),
    )
}

/// Adds bytes to a sum that depends on their order.
pub(super) fn sum(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// The default of proptest.
const DEFAULT_CASES: u32 = 256;

/// Takes decisions from the bytes of a case; when they are used up, always the first.
#[derive(Debug)]
pub(super) struct Choices<'a>(std::slice::Iter<'a, u8>);

impl<'a> Choices<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % count.max(1)
    }

    /// True once in `count` times.
    pub(super) fn rarely(&mut self, count: usize) -> bool {
        self.below(count) + 1 == count
    }

    /// A size up to `max`, which is often a small one or `max` itself.
    pub(super) fn size(&mut self, max: usize) -> usize {
        match self.below(4) {
            0 => max,
            1 => max.min(1 + self.below(16)),
            _ => max.min(1 + self.below(256) * max / 256),
        }
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0.len() == 0
    }
}

/// The number of cases: `cases`, or that of `PROPTEST_CASES` if it is set, in units of `cost`.
pub(super) fn config(cases: u32, cost: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = default.cases != DEFAULT_CASES;
    let cases = if is_set { default.cases.div_ceil(cost) } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}
