//! Chooses the response to a GET or HEAD: content coding, conditions and ranges.

use std::sync::Arc;

use jissoku_http::content_coding::{AcceptEncoding, ContentCoding};
use jissoku_http::precondition::{self, Precondition, Validators};
use jissoku_http::range::{self, RangeOutcome};
use jissoku_http::{HeaderFlags, Method};
use jissoku_os::clock;

use super::entry::{CacheRef, EntryKind, Variant, Variants};
use super::path;
use super::representation::{Representation, partial, unsatisfiable};
use crate::handler::RequestHead;
use crate::response::DynamicResponse;

/// The response; `None` for a missing file.
#[inline]
pub(super) fn response(cached: Arc<CacheRef>, request: &FileRequest<'_>) -> Option<ResponseKind> {
    match &cached.entry().what {
        EntryKind::Variants(_) if is_plain(request) => {
            Some(ResponseKind::Cached(cached, Variant::Whole(None)))
        }
        EntryKind::Variants(variants) => match select(variants, request) {
            Selection::Kept(choice) => Some(ResponseKind::Cached(cached, choice)),
            Selection::Dynamic(made) => Some(ResponseKind::Dynamic(Box::new(made))),
        },
        EntryKind::Moved { location, fields, .. } if !request.query.is_empty() => {
            let query = String::from_utf8_lossy(request.query);
            let fields = format!("Location: {location}{query}\r\n{fields}");
            Some(ResponseKind::Dynamic(Box::new(DynamicResponse::text(
                301,
                &fields,
                b"Moved Permanently\n",
            ))))
        }
        EntryKind::Moved { .. } | EntryKind::Forbidden(_) => {
            Some(ResponseKind::Cached(cached, Variant::Whole(None)))
        }
        EntryKind::Missing => None,
    }
}

enum Selection {
    Kept(Variant),
    Dynamic(DynamicResponse),
}

/// Whether the head has no field that affects the response.
#[inline]
fn is_plain(request: &FileRequest<'_>) -> bool {
    let flags = request.head.head.flags;
    !flags.has(HeaderFlags::RANGE)
        && !flags.has(HeaderFlags::CONDITIONAL)
        && !flags.has(HeaderFlags::ACCEPT_ENCODING)
}

fn select(variants: &Variants, request: &FileRequest<'_>) -> Selection {
    let flags = request.head.head.flags;
    let coding = if flags.has(HeaderFlags::ACCEPT_ENCODING) && !variants.coded.is_empty() {
        negotiate(variants, request)
    } else {
        None
    };
    let representation = variants.representation(coding);
    let outcome = if flags.has(HeaderFlags::CONDITIONAL) {
        evaluate(representation, request)
    } else {
        Precondition::Pass
    };
    match outcome {
        Precondition::Failed => {
            return Selection::Dynamic(DynamicResponse::text(
                412,
                &representation.fields_of_errors,
                b"Precondition Failed\n",
            ));
        }
        Precondition::NotModified => return Selection::Kept(Variant::NotModified(coding)),
        // Range is defined for GET only (RFC 9110 section 14.2).
        Precondition::Pass
            if flags.has(HeaderFlags::RANGE) && request.head.method() == Method::Get =>
        {
            match requested_range(representation, request) {
                RangeOutcome::Whole => {}
                RangeOutcome::Parts(ranges) => {
                    return Selection::Dynamic(partial(representation, &ranges));
                }
                RangeOutcome::Unsatisfiable => {
                    return Selection::Dynamic(unsatisfiable(representation));
                }
            }
        }
        Precondition::Pass | Precondition::PassIgnoringRange => {}
    }
    Selection::Kept(Variant::Whole(coding))
}

/// Whether the page of an application is sent for a path that names no file: one without a file
/// extension, or one that a browser opens, rather than a script or an image of a page.
pub(super) fn takes_page(request: &FileRequest<'_>) -> bool {
    let name = path::resolve(request.path).unwrap_or_default();
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let is_html = |item: &[u8]| {
        let media_type = item.split(|&byte| byte == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
    };
    !last.contains(&b'.')
        || values(request, b"accept").any(|value| value.split(|&byte| byte == b',').any(is_html))
}

fn negotiate(variants: &Variants, request: &FileRequest<'_>) -> Option<ContentCoding> {
    let mut accepted = AcceptEncoding::default();
    for value in values(request, b"accept-encoding") {
        accepted.add(value);
    }
    accepted.negotiate(|coding| variants.has(coding))
}

fn evaluate(representation: &Representation, request: &FileRequest<'_>) -> Precondition {
    let validators =
        Validators { etag: representation.etag.as_bytes(), modified_s: representation.modified_s };
    let now_s = clock::wall_ns() / 1_000_000_000;
    precondition::evaluate(request.head.fields(), &validators, now_s)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FileRequest<'a> {
    pub(super) head: &'a RequestHead<'a>,
    /// The raw path below the served prefix.
    pub(super) path: &'a [u8],
    /// The query with its question mark, or empty.
    pub(super) query: &'a [u8],
}

#[derive(Debug)]
pub(super) enum ResponseKind {
    /// A cached file, listing, redirect or error.
    Cached(Arc<CacheRef>, Variant),
    NotFound,
    NotAllowed,
    /// A response that was created for this request.
    Dynamic(Box<DynamicResponse>),
}

/// The requested range of `representation`. A repeated Range field is ignored.
fn requested_range(representation: &Representation, request: &FileRequest<'_>) -> RangeOutcome {
    let mut values = values(request, b"range");
    match (values.next(), values.next()) {
        (Some(value), None) => range::read(value, representation.size),
        _ => RangeOutcome::Whole,
    }
}

fn values<'a>(request: &FileRequest<'a>, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let fields = request.head.fields();
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
