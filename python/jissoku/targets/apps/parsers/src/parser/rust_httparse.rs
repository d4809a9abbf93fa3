//! httparse: sequential and without memory; the meaning of the header lines is left to its caller.

use std::mem::MaybeUninit;

use httparse::{Header, Status};

use super::{FIELDS_MAX, Fields, Flow, Found, Framing, Refusal, Request, Sequential};

pub struct Httparse;

impl Sequential for Httparse {
    fn new() -> Self {
        Self
    }

    #[inline]
    fn request(
        &mut self,
        bytes: &[u8],
        _seen: usize,
        each: impl FnOnce(&Request<'_>) -> Flow,
    ) -> Result<Option<Found>, Refusal> {
        let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut []);
        let size = match head.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(Status::Complete(size)) => size,
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TOO_LONG),
            Err(_) => return Err(Refusal::MALFORMED),
        };
        let mut framing = Framing::default();
        for field in &*head.headers {
            framing.heed(field.name.as_bytes(), field.value)?;
        }
        let (body_size, keeps_alive) = framing.finish(head.version.unwrap_or(0))?;
        let size = size + body_size;
        if size > bytes.len() {
            return Ok(None);
        }
        let flow = each(&Request {
            method: head.method.unwrap_or("").as_bytes(),
            target: head.path.unwrap_or("").as_bytes(),
            keeps_alive,
            fields: Fields::Httparse(head.headers),
        });
        Ok(Some(Found { size, flow }))
    }

    #[inline]
    fn alone(&mut self, head: &[u8]) -> bool {
        let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        matches!(request.parse_with_uninit_headers(head, &mut fields), Ok(Status::Complete(_)))
    }
}
