//! jissoku-http: sequential, resumable line by line; it reads framing, Host and Connection on its way.

use jissoku_http::Limits;
use jissoku_http::Reject;
use jissoku_http::Version;
use jissoku_http::framing::Body;
use jissoku_http::head::HeadReader;

use super::{BODY_SIZE_MAX, Fields, Flow, Found, Refusal, Request, Sequential};

const LIMITS: Limits = Limits { body_size_max: BODY_SIZE_MAX as u64, ..Limits::DEFAULT };

pub struct Jissoku {
    reader: HeadReader,
}

impl Sequential for Jissoku {
    fn new() -> Self {
        Self { reader: HeadReader::default() }
    }

    #[inline]
    fn request(
        &mut self,
        bytes: &[u8],
        _seen: usize,
        each: impl FnOnce(&Request<'_>) -> Flow,
    ) -> Result<Option<Found>, Refusal> {
        let Some(head) = self.reader.read(bytes, &LIMITS).map_err(refusal)? else {
            return Ok(None);
        };
        let body_size = match head.body {
            Body::Empty => 0,
            Body::Length(size) => usize::try_from(size).unwrap_or(usize::MAX),
            Body::Chunked => return Err(Refusal::CHUNKED),
        };
        let size = head.size as usize + body_size;
        // A head that waits for its body is read again: there are none in what is measured.
        self.reader = HeadReader::default();
        if size > bytes.len() {
            return Ok(None);
        }
        let flow = each(&Request {
            method: head.method_name.of(bytes),
            target: head.target.of(bytes),
            keeps_alive: head.version == Version::Http11 && head.keeps_alive,
            fields: Fields::Jissoku(head.fields(bytes)),
        });
        Ok(Some(Found { size, flow }))
    }

    #[inline]
    fn alone(&mut self, head: &[u8]) -> bool {
        matches!(HeadReader::default().read(head, &LIMITS), Ok(Some(_)))
    }
}

#[cold]
fn refusal(reject: Reject) -> Refusal {
    match reject {
        Reject::BodyTooLong => Refusal::BODY_TOO_LONG,
        Reject::FieldsTooMany => Refusal::TOO_LONG,
        Reject::TransferEncodingUnknown => Refusal::CHUNKED,
        _ => Refusal::MALFORMED,
    }
}
