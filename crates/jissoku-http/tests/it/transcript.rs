//! What an [`RequestParser`] makes of some bytes, in a form that two readings can be compared in.

use jissoku_http::framing::Body;
use jissoku_http::{Event, Limits, Reject, RequestParser, Version};

/// Everything that was understood, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    pub(crate) requests: Vec<Request>,
    pub(crate) ends: Ends,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Vec<u8>,
    pub(crate) target: Vec<u8>,
    pub(crate) version: Version,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) persists: bool,
    pub(crate) waits: bool,
    pub(crate) is_whole: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ends {
    #[default]
    Idle,
    Head,
    Body,
    Refused(Reject),
}

/// Reads `pieces` as they would come from the network, one after the other.
pub(crate) fn read(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Transcript {
    read_within(&Limits::DEFAULT, pieces)
}

/// As [`read`], with other limits.
pub(crate) fn read_within(
    limits: &Limits,
    pieces: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Transcript {
    let mut reader = Reader::default();
    for piece in pieces {
        if let Err(reject) = reader.take(piece.as_ref(), limits) {
            reader.transcript.ends = Ends::Refused(reject);
            return reader.transcript;
        }
    }
    reader.transcript.ends = match (reader.parser.is_in_head(), reader.rest.is_empty()) {
        (false, _) => Ends::Body,
        (true, false) => Ends::Head,
        (true, true) => Ends::Idle,
    };
    reader.transcript
}

#[derive(Default)]
struct Reader {
    parser: RequestParser,
    rest: Vec<u8>,
    transcript: Transcript,
}

impl Reader {
    fn take(&mut self, piece: &[u8], limits: &Limits) -> Result<(), Reject> {
        self.rest.extend_from_slice(piece);
        loop {
            let step = self.parser.step(&self.rest, limits)?;
            match step.event {
                Event::Partial => {
                    self.rest.drain(..step.used);
                    assert!(self.parser.is_in_head() || self.rest.is_empty());
                    return Ok(());
                }
                Event::Head(head) => self.transcript.requests.push(Request {
                    method: head.method_name.of(&self.rest).to_vec(),
                    target: head.target.of(&self.rest).to_vec(),
                    version: head.version,
                    fields: head
                        .fields(&self.rest)
                        .map(|(name, value)| (name.to_vec(), value.to_vec()))
                        .collect(),
                    body: Vec::new(),
                    persists: head.keeps_alive,
                    waits: head.expects_continue,
                    is_whole: head.body == Body::Empty,
                }),
                Event::Body(place) => {
                    let piece = self.rest[place].to_vec();
                    self.last().body.extend(piece);
                }
                Event::End => self.last().is_whole = true,
            }
            self.rest.drain(..step.used);
        }
    }

    fn last(&mut self) -> &mut Request {
        self.transcript.requests.last_mut().expect("a body follows a head")
    }
}

/// Holds that `bytes` mean the same however they are cut in two, and byte by byte, and returns what
/// they mean. Of long bytes, only some cuts are tried.
pub(crate) fn read_at_every_split(bytes: &[u8]) -> Transcript {
    let whole = read([bytes]);
    let stride = bytes.len() / 400 + 1;
    for at in (0..=bytes.len()).step_by(stride) {
        let (front, back) = bytes.split_at(at);
        assert_eq!(read([front, back]), whole, "cut after {at} bytes");
    }
    assert_eq!(read(bytes.chunks(stride)), whole, "cut every {stride} bytes");
    whole
}
