//! llhttp and http-parser: resumable C that calls back for every piece it has read.
//!
//! What a server notes down in those calls is C as well (`c/`), so that no call crosses languages but
//! two for each feed and one for each request. `Replayed` is http-parser's callbacks without its parsing.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{FIELDS_MAX, Flow, Parser, Refusal, Request};

#[repr(C)]
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

/// `struct field` of `c/record.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
}

type Each = unsafe extern "C" fn(*mut Record, *mut c_void) -> c_int;

/// `struct record` of `c/record.h`.
#[repr(C)]
struct Record {
    base: *const c_char,
    method: *const c_char,
    target: Span,
    fields_count: u32,
    refused: u16,
    keeps_alive: u8,
    version_minor: u8,
    last: u8,
    is_busy: u8,
    each: Option<Each>,
    context: *mut c_void,
    fields: [Field; FIELDS_MAX],
}

const LAST_NOTHING: u8 = 0;

const OUTCOME_READ: c_int = 0;
const OUTCOME_STOPPED: c_int = 1;

/// The recorded header lines of a request.
pub struct Fields<'a> {
    bytes: &'a [u8],
    fields: &'a [Field],
}

impl<'a> Fields<'a> {
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let bytes = self.bytes;
        self.fields.iter().map(|one| (of(one.name, bytes), of(one.value, bytes).trim_ascii()))
    }
}

fn of(span: Span, bytes: &[u8]) -> &[u8] {
    &bytes[span.start as usize..span.end as usize]
}

/// What is called for every complete request: the closure of a feed, and the bytes it is fed with.
struct Context<'a, F> {
    bytes: &'a [u8],
    each: F,
}

/// Takes a request from the record to the closure; not 0 ends the feed.
///
/// # Safety
/// Called by C within `feed`, with the record and the context that it was given there.
unsafe extern "C" fn complete<F: FnMut(&Request<'_>) -> Flow>(
    record: *mut Record,
    context: *mut c_void,
) -> c_int {
    // SAFETY: both were made by `feed`, which waits for this call, and nobody else looks at them.
    let (record, context) = unsafe { (&mut *record, &mut *context.cast::<Context<'_, F>>()) };
    // SAFETY: the parser's own table of methods holds constant C strings.
    let method = unsafe { CStr::from_ptr(record.method) }.to_bytes();
    let fields =
        Fields { bytes: context.bytes, fields: &record.fields[..record.fields_count as usize] };
    let hosts = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"host")).count();
    if hosts > 1 || (hosts == 0 && record.version_minor > 0) {
        record.refused = Refusal::MALFORMED.0;
        return -1;
    }
    let request = Request {
        method,
        target: of(record.target, context.bytes),
        keeps_alive: record.version_minor > 0 && record.keeps_alive != 0,
        fields: super::Fields::Recorded(fields),
    };
    match (context.each)(&request) {
        Flow::On => 0,
        Flow::Stop => -1,
    }
}

/// Declares a parser's C functions, and the parser.
macro_rules! callback_parser {
    ($name:ident, $new:ident, $free:ident, $record:ident, $feed:ident, $alone:ident) => {
        unsafe extern "C" {
            fn $new() -> *mut c_void;
            fn $free(this: *mut c_void);
            fn $record(this: *mut c_void) -> *mut Record;
            fn $feed(this: *mut c_void, at: *const c_char, size: usize) -> c_int;
            fn $alone(this: *mut c_void, at: *const c_char, size: usize) -> c_int;
        }

        /// A parser and its record, which C made.
        pub struct $name(*mut c_void);

        // SAFETY: nothing else points to it, and it belongs to no thread.
        unsafe impl Send for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it was made by `new`, and this is the only end of it.
                unsafe { $free(self.0) }
            }
        }

        impl Parser for $name {
            fn new() -> Self {
                // SAFETY: it takes nothing, and never returns null.
                Self(unsafe { $new() })
            }

            #[inline]
            fn feed(
                &mut self,
                bytes: &[u8],
                kept: usize,
                each: impl FnMut(&Request<'_>) -> Flow,
            ) -> Result<usize, Refusal> {
                // SAFETY: the record lives as long as `self`.
                let record = unsafe { &raw mut *$record(self.0) };
                feed(record, bytes, kept, each, |at, size| {
                    // SAFETY: `feed` hands over a part of `bytes`.
                    unsafe { $feed(self.0, at, size) }
                })
            }

            #[inline]
            fn alone(&mut self, head: &[u8]) -> bool {
                // SAFETY: the bytes are as many as is said.
                unsafe { $alone(self.0, head.as_ptr().cast(), head.len()) != 0 }
            }
        }
    };
}

callback_parser!(
    Llhttp,
    with_llhttp_new,
    with_llhttp_free,
    with_llhttp_record,
    with_llhttp_feed,
    with_llhttp_alone
);
callback_parser!(
    HttpParser,
    with_http_parser_new,
    with_http_parser_free,
    with_http_parser_record,
    with_http_parser_feed,
    with_http_parser_alone
);
callback_parser!(
    Replayed,
    replayed_new,
    replayed_free,
    replayed_record,
    replayed_feed,
    replayed_alone
);

#[inline]
fn feed<F: FnMut(&Request<'_>) -> Flow>(
    record: *mut Record,
    bytes: &[u8],
    kept: usize,
    each: F,
    run: impl FnOnce(*const c_char, usize) -> c_int,
) -> Result<usize, Refusal> {
    let mut context = Context { bytes, each };
    // SAFETY: no reference to the record exists outside of the calls that C makes.
    unsafe {
        (*record).base = bytes.as_ptr().cast();
        (*record).each = Some(complete::<F>);
        (*record).context = (&raw mut context).cast();
    }
    let fresh = &bytes[kept..];
    let outcome = run(fresh.as_ptr().cast(), fresh.len());
    // SAFETY: the call is over.
    let record = unsafe { &mut *record };
    match outcome {
        OUTCOME_READ if record.last == LAST_NOTHING => Ok(bytes.len()),
        OUTCOME_READ => Ok(record.keep()),
        OUTCOME_STOPPED => Ok(bytes.len()),
        _ => Err(Refusal(record.refused)),
    }
}

impl Record {
    /// Moves all places to the front, as the server does with the bytes, and says from where on they are.
    #[cold]
    fn keep(&mut self) -> usize {
        let front = self.target.start;
        let fields = &mut self.fields[..self.fields_count as usize];
        let spans = fields.iter_mut().flat_map(|field| [&mut field.name, &mut field.value]);
        for span in spans.chain([&mut self.target]) {
            span.start -= front;
            span.end -= front;
        }
        front as usize
    }
}
