//! picohttpparser: sequential C without memory; the meaning of the header lines is left to its caller.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use picohttpparser_sys::{phr_header, phr_parse_request};

use super::{FIELDS_MAX, Flow, Found, Framing, Refusal, Request, Sequential};

const MALFORMED: c_int = -1;

pub struct Pico;

/// The header lines of a request, as places in the bytes it was read from.
pub struct Fields<'a>(&'a [phr_header]);

impl<'a> Fields<'a> {
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        // SAFETY: a name and a value are places in the bytes that were parsed, which outlive `'a`.
        self.0.iter().map(|one| unsafe {
            (place(one.name, one.name_len), place(one.value, one.value_len).trim_ascii())
        })
    }
}

/// What the C function writes.
struct Head {
    method: *const c_char,
    method_size: usize,
    target: *const c_char,
    target_size: usize,
    version_minor: c_int,
    fields_count: usize,
}

#[inline]
fn parse(
    bytes: &[u8],
    seen: usize,
    fields: &mut [MaybeUninit<phr_header>; FIELDS_MAX],
) -> (c_int, Head) {
    let mut head = Head {
        method: ptr::null(),
        method_size: 0,
        target: ptr::null(),
        target_size: 0,
        version_minor: 0,
        fields_count: FIELDS_MAX,
    };
    // SAFETY: `bytes` and `fields` are as long as is said, and every other pointer is to a field of `head`.
    let size = unsafe {
        phr_parse_request(
            bytes.as_ptr().cast(),
            bytes.len(),
            &raw mut head.method,
            &raw mut head.method_size,
            &raw mut head.target,
            &raw mut head.target_size,
            &raw mut head.version_minor,
            fields.as_mut_ptr().cast(),
            &raw mut head.fields_count,
            seen,
        )
    };
    (size, head)
}

impl Sequential for Pico {
    fn new() -> Self {
        Self
    }

    #[inline]
    fn request(
        &mut self,
        bytes: &[u8],
        seen: usize,
        each: impl FnOnce(&Request<'_>) -> Flow,
    ) -> Result<Option<Found>, Refusal> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let (size, head) = parse(bytes, seen, &mut fields);
        let Ok(size) = usize::try_from(size) else {
            return if size == MALFORMED { Err(Refusal::MALFORMED) } else { Ok(None) };
        };
        // SAFETY: the parser succeeded, and has written so many of them.
        let fields: &[phr_header] =
            unsafe { slice::from_raw_parts(fields.as_ptr().cast(), head.fields_count) };
        let mut framing = Framing::default();
        for (name, value) in Fields(fields).iter() {
            framing.heed(name, value)?;
        }
        let (body_size, keeps_alive) = framing.finish(u8::from(head.version_minor > 0))?;
        let size = size + body_size;
        if size > bytes.len() {
            return Ok(None);
        }
        // SAFETY: the parser succeeded: both are places in `bytes`.
        let (method, target) =
            unsafe { (place(head.method, head.method_size), place(head.target, head.target_size)) };
        let fields = super::Fields::Pico(Fields(fields));
        let flow = each(&Request { method, target, keeps_alive, fields });
        Ok(Some(Found { size, flow }))
    }

    #[inline]
    fn alone(&mut self, head: &[u8]) -> bool {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        parse(head, 0, &mut fields).0 > 0
    }
}

/// # Safety
/// `size` bytes at `at` outlive `'a`. No pointer counts as no bytes: the name of a folded line.
unsafe fn place<'a>(at: *const c_char, size: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { slice::from_raw_parts(at.cast(), size) }
}
