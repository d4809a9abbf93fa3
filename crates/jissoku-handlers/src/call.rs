//! A request of a handler, and its response.
//!
//! The head is copied, because a handler has pointers into it until the response ends, and the
//! bytes that were received are gone before that. The memory is used again for the next request.

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::ptr;

use jissoku_http::head::Span;
use jissoku_http::{Head, Method, Version, percent, precondition};
use jissoku_server::RequestHead;

use crate::parameters;
use crate::reply::Reply;
use crate::stream::WorkerEnd;

/// A buffer above this size is not kept for the next request.
const KEPT_SIZE_MAX: usize = 64 * 1024;

/// Names and values, each as a pointer and a size: what they belong to may be used meanwhile.
pub(crate) type Pairs = Vec<(Place, Place)>;
pub(crate) type Place = (*const u8, usize);

/// What a handler has set for a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State(pub(crate) *mut c_void);

impl State {
    pub(crate) const NONE: Self = Self(ptr::null_mut());
}

/// Continues a request, or releases what that needs if the client has left.
pub(crate) type Resume = Box<dyn FnOnce(Option<&mut Call>) -> c_int>;

/// What a request without a response waits for.
pub(crate) enum Waiting {
    /// A time on the monotonic clock.
    Until(u64, Resume),
    /// The client, which has not read what is written.
    Sent(Resume),
    Deferred(Deferral),
    /// The handler, which takes no more of the body for now.
    Body(Pause),
}

/// The body of a request, while its handler takes no more of it.
pub(crate) struct Pause {
    pub(crate) token: u64,
    /// When it goes on by itself, on the monotonic clock.
    pub(crate) due_ns: u64,
    /// Called when it goes on, before anything more is passed.
    pub(crate) resume: Option<Resume>,
}

/// A response of another thread that is waited for.
pub(crate) struct Deferral {
    pub(crate) token: u64,
    /// When nothing is waited for any more, on the monotonic clock.
    pub(crate) due_ns: u64,
    /// How long the response, and each further part of it, is waited for.
    pub(crate) patience_ns: u64,
    /// Called once if the response is not needed any more.
    pub(crate) on_gone: Option<Box<dyn FnOnce()>>,
    /// A response in parts that has begun.
    pub(crate) parts: Option<WorkerEnd>,
    /// The thread waits for the client.
    pub(crate) is_full: bool,
}

impl Waiting {
    /// It has no effect any more: releases what it needs. Returns the token that the worker knows.
    pub(crate) fn cancel(self) -> Option<u64> {
        match self {
            Self::Until(_, resume) | Self::Sent(resume) => {
                let _nothing = resume(None);
                None
            }
            Self::Deferred(Deferral { token, on_gone, parts, .. }) => {
                // What a thread may wait for is released before.
                drop(parts);
                if let Some(on_gone) = on_gone {
                    on_gone();
                }
                Some(token)
            }
            Self::Body(Pause { token, resume, .. }) => {
                if let Some(resume) = resume {
                    let _nothing = resume(None);
                }
                Some(token)
            }
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(due_ns, _) => write!(formatter, "Until({due_ns})"),
            Self::Sent(_) => formatter.write_str("Sent"),
            Self::Deferred(deferral) => write!(formatter, "Deferred({})", deferral.token),
            Self::Body(pause) => write!(formatter, "Body({})", pause.token),
        }
    }
}

/// What a handler keeps with a request. It is released when this is dropped.
pub(crate) struct Data {
    pointer: *mut c_void,
    release: Option<Box<dyn FnOnce()>>,
}

impl Data {
    pub(crate) fn new(pointer: *mut c_void, release: Option<Box<dyn FnOnce()>>) -> Self {
        Self { pointer, release }
    }

    pub(crate) const fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Data({:?})", self.pointer)
    }
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// `None` over a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) is_secure: bool,
}

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Call {
    head: Head,
    /// The bytes that `head` was parsed from.
    bytes: Vec<u8>,
    body: Vec<u8>,
    /// What the handler has pointers to beside these: on the heap, where it stays.
    decoded: Vec<Box<[u8]>>,
    /// Room to make one of these in, whose memory is used again.
    scratch: Vec<u8>,
    /// The variables of the path: places of names and values in `bytes`, behind the head.
    variables: Vec<(Range<usize>, Range<usize>)>,
    sender: Sender,
    state: State,
    pub(crate) response: Reply,
    pub(crate) waiting: Option<Waiting>,
    /// The handler has responded before the end of the body.
    pub(crate) is_answered_early: bool,
    /// The handler is called for a part of the body.
    is_in_part: bool,
    /// What was received of the body while it is paused: at most one receive.
    pub(crate) held: Vec<u8>,
    pub(crate) data: Option<Data>,
}

impl Call {
    /// A request of which the head was received, in the memory of an earlier one.
    pub(crate) fn begin(
        spare: Option<Box<Self>>,
        request: &RequestHead<'_>,
        sender: Sender,
        state: State,
    ) -> Box<Self> {
        let RequestHead { head, bytes, .. } = *request;
        let end = [head.method_name, head.target, head.fields].map(|Span { end, .. }| end);
        let end = end.into_iter().max().unwrap_or_default() as usize;
        let mut call = spare.unwrap_or_else(|| Box::new(Self::blank(head, sender)));
        call.head = *head;
        call.bytes.clear();
        call.bytes.extend_from_slice(&bytes[..end]);
        (call.sender, call.state) = (sender, state);
        call
    }

    fn blank(head: &Head, sender: Sender) -> Self {
        Self {
            head: *head,
            bytes: Vec::new(),
            body: Vec::new(),
            decoded: Vec::new(),
            scratch: Vec::new(),
            variables: Vec::new(),
            sender,
            state: State::NONE,
            response: Reply::default(),
            waiting: None,
            is_answered_early: false,
            is_in_part: false,
            held: Vec::new(),
            data: None,
        }
    }

    /// The response is sent: drops what belongs to this request.
    pub(crate) fn end(&mut self) {
        for buffer in [&mut self.body, &mut self.scratch] {
            if buffer.capacity() > KEPT_SIZE_MAX {
                *buffer = Vec::new();
            }
        }
        self.body.clear();
        self.decoded.clear();
        self.variables.clear();
        self.response.clear();
        self.is_answered_early = false;
        self.held = Vec::new();
        // Last: it may be what others of these belong to.
        self.data = None;
    }

    /// Sets the variables of the path, whose values are as they are written there.
    pub(crate) fn set_variables(&mut self, variables: &[(&str, &[u8])]) {
        for (name, value) in variables {
            let name = self.append(name.as_bytes());
            let value = self.append(value);
            self.variables.push((name, value));
        }
    }

    fn append(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        start..self.bytes.len()
    }

    pub(crate) fn variable(&mut self, name: &[u8]) -> Option<&[u8]> {
        let is_it = |(other, _): &&(Range<usize>, _)| self.bytes.get(other.clone()) == Some(name);
        let (_, place) = self.variables.iter().find(is_it)?.clone();
        let value = self.bytes.get(place.clone())?;
        if value.contains(&b'%') {
            let value = percent::decoded(value).collect();
            return Some(self.keep(value));
        }
        self.bytes.get(place)
    }

    /// Adds a part of the body.
    pub(crate) fn push_body(&mut self, part: &[u8]) {
        self.body.extend_from_slice(part);
    }

    /// The handler is called for a part of the body, or to go on with it.
    pub(crate) const fn begin_part(&mut self) {
        self.is_in_part = true;
    }

    /// The handler has returned `code` from that call. `Err` is why the request fails.
    pub(crate) fn end_part(&mut self, code: c_int) -> Result<(), String> {
        self.is_in_part = false;
        if code != 0 {
            return Err(format!("jsk_body has returned {code}"));
        }
        self.is_answered_early = self.response.is_set();
        match &self.waiting {
            None => {}
            Some(Waiting::Body(_)) if !self.is_answered_early => {}
            Some(Waiting::Body(_)) => {
                // A response ends what the handler takes of the body.
                let _unknown = self.waiting.take().and_then(Waiting::cancel);
            }
            Some(_) => return Err("jsk_body waits, which only jsk_handle may".to_owned()),
        }
        Ok(())
    }

    /// Whether the handler may take no more of the body for now.
    pub(crate) const fn may_pause(&self) -> bool {
        self.is_in_part && !self.response.is_set() && self.waiting.is_none()
    }

    /// Whether the handler takes no more of the body for now.
    pub(crate) const fn is_paused(&self) -> bool {
        matches!(self.waiting, Some(Waiting::Body(_)))
    }

    /// The request has failed before the end of its body.
    pub(crate) fn fail_early(&mut self) {
        self.response.fail(500);
        self.is_answered_early = true;
    }

    pub(crate) fn method(&self) -> &[u8] {
        self.head.method_name.of(&self.bytes)
    }

    pub(crate) const fn known_method(&self) -> Method {
        self.head.method
    }

    pub(crate) fn target(&self) -> &[u8] {
        self.head.target.of(&self.bytes)
    }

    /// The path and the query, as they are written.
    fn path_and_query(&self) -> (&[u8], &[u8]) {
        let both = self.head.path_and_query(&self.bytes);
        let end = both.iter().position(|&byte| byte == b'?').unwrap_or(both.len());
        (&both[..end], both.get(end + 1..).unwrap_or_default())
    }

    pub(crate) fn path(&mut self) -> &[u8] {
        let written = self.path_and_query().0;
        let size = written.len();
        let decoded = match parameters::path(written) {
            Cow::Borrowed(_) => None,
            Cow::Owned(path) => Some(path),
        };
        match decoded {
            None => &self.head.path_and_query(&self.bytes)[..size],
            Some(path) => self.keep(path),
        }
    }

    pub(crate) fn query_string(&self) -> &[u8] {
        self.path_and_query().1
    }

    pub(crate) fn query(&mut self, name: &[u8]) -> Option<&[u8]> {
        self.parameter(Self::query_string, name)
    }

    pub(crate) fn form(&mut self, name: &[u8]) -> Option<&[u8]> {
        let kind = self.field(b"content-type").unwrap_or_default();
        let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if !kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            return None;
        }
        self.parameter(Self::body, name)
    }

    /// The value of the first parameter of this name.
    fn parameter(&mut self, text: fn(&Self) -> &[u8], name: &[u8]) -> Option<&[u8]> {
        let place = parameters::find(text(self), name)?;
        let decoded = match parameters::decoded(&text(self)[place.clone()]) {
            Cow::Borrowed(_) => None,
            Cow::Owned(value) => Some(value),
        };
        match decoded {
            None => text(self).get(place),
            Some(value) => Some(self.keep(value)),
        }
    }

    pub(crate) fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.head.fields(&self.bytes);
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn all_fields(&mut self) -> Pairs {
        let fields = self.head.fields(&self.bytes);
        fields.map(|(name, value)| (place(name), place(value))).collect()
    }

    pub(crate) fn all_queries(&mut self) -> Pairs {
        let query = self.path_and_query().1.to_vec();
        let mut keep = |text: &[u8]| place(self.keep(parameters::decoded(text).into_owned()));
        parameters::pairs(&query).map(|(name, value)| (keep(name), keep(value))).collect()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn client(&mut self) -> Option<&[u8]> {
        let address = self.sender.address?.to_string();
        Some(self.keep(address.into_bytes()))
    }

    pub(crate) const fn scheme(&self) -> &'static [u8] {
        if self.sender.is_secure { b"https" } else { b"http" }
    }

    pub(crate) const fn http_version(&self) -> &'static [u8] {
        match self.head.version {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
        }
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// Whether the handler may continue later: its response is not complete, and it waits for nothing
    /// else.
    pub(crate) fn may_wait(&self) -> bool {
        !self.response.is_complete() && self.waiting.is_none()
    }

    /// Keeps a text until the response ends.
    pub(crate) fn keep(&mut self, text: Vec<u8>) -> &[u8] {
        self.decoded.push(text.into());
        self.decoded.last().map(|text| &**text).unwrap_or_default()
    }

    /// As [`Call::keep`], of what is made by appending: its memory, which is of its size, is allocated
    /// once.
    pub(crate) fn keep_made(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.scratch.clear();
        make(&mut self.scratch);
        self.decoded.push(self.scratch.as_slice().into());
        self.decoded.last().map(|text| &**text).unwrap_or_default()
    }

    /// Whether the client has the representation of this entity tag (RFC 9110 section 13.1.2).
    pub(crate) fn has_client(&self, etag: &[u8]) -> bool {
        let validators = precondition::Validators { etag, modified_s: None };
        let fields = self.head.fields(&self.bytes);
        precondition::evaluate(fields, &validators, 0) == precondition::Precondition::NotModified
    }
}

fn place(text: &[u8]) -> Place {
    (text.as_ptr(), text.len())
}
