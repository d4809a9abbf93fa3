//! Calls of the interface in any order, with any arguments that C may pass: none crashes; a text that
//! a handler has got stays as it is; what it lends or keeps is released once; a response has the fields
//! that were accepted, and no others.
//!
//! A case is a list of bytes, from which every decision is taken, so that a failure shrinks to a
//! simple one. `PROPTEST_CASES` sets the number, and `RANDOM_CALLS` that of the long test's calls.

mod choices;
mod drawing;
mod keeping;
mod storing;

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::fs;
use std::net::IpAddr;
use std::os::fd::IntoRawFd;

use jissoku_http::Limits;
use jissoku_http::head::HeadReader;
use jissoku_server::RequestHead;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::later::{Field, ResumeFunction};
use super::*;
use crate::call::{Deferral, Sender, Waiting};
use crate::reply::STATUSES;
use choices::{Choices, NAMES, VALUES};

/// Cases, unless `PROPTEST_CASES` says otherwise: a second.
const CASES: u32 = 2_000;

/// The default of proptest.
const DEFAULT_CASES: u32 = 256;

/// Calls of the long test, unless `RANDOM_CALLS` says otherwise.
const CALLS: u64 = 10_000_000;

const HEADS: [&str; 4] = [
    "GET /a%20b/../%41?q=1&r=%2B&q=a+b&%zz HTTP/1.1\r\nHost: h\r\nA: 1\r\na: 2\r\nX: \u{e9}\r\n\r\n",
    "POST /f HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n\
     Content-Length: 9\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
];
const FORM: &[u8] = b"f=a+b%21x";

/// Fields that frame a message or are the server's: none is accepted.
const OF_SERVER: [&str; 7] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// `JSK_UNKNOWN`.
const UNKNOWN: u64 = u64::MAX;

static LENT: [u8; 100_000] = [b'x'; 100_000];

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}

/// What the functions that are called back count.
#[derive(Default)]
struct Counts {
    released: Cell<usize>,
    gone: Cell<usize>,
    resumed: Cell<usize>,
    data: Cell<usize>,
}

fn count_up(counter: &Cell<usize>) {
    counter.set(counter.get() + 1);
}

/// # Safety
/// `argument` is a [`Counts`] that outlives the call.
unsafe fn counts<'a>(argument: *mut c_void) -> &'a Counts {
    // SAFETY: as the caller says.
    unsafe { &*argument.cast::<Counts>() }
}

unsafe extern "C" fn count_release(argument: *mut c_void) {
    // SAFETY: a session passes its counts.
    count_up(&unsafe { counts(argument) }.released);
}

unsafe extern "C" fn count_gone(argument: *mut c_void) {
    // SAFETY: a session passes its counts.
    count_up(&unsafe { counts(argument) }.gone);
}

unsafe extern "C" fn respond_later(_: *const Api, call: *mut Call, argument: *mut c_void) -> c_int {
    // SAFETY: a session passes its counts.
    count_up(&unsafe { counts(argument) }.resumed);
    // SAFETY: the request of this call, or NULL.
    let request = unsafe { call.as_mut() };
    (API.respond)(request, 200, b"later".as_ptr().cast(), 5)
}

/// An iteration that calls the interface, and ends itself.
struct Visiting {
    request: *mut Call,
    left: Cell<usize>,
    texts: RefCell<Vec<Str>>,
}

unsafe extern "C" fn visit(argument: *mut c_void, name: Str, value: Str) -> c_int {
    // SAFETY: an iteration passes one that outlives it.
    let visiting = unsafe { &*argument.cast::<Visiting>() };
    // SAFETY: the request of this call; the iteration holds no reference to it.
    let request = unsafe { visiting.request.as_mut() };
    let made = (API.escape_html)(request, value);
    visiting.texts.borrow_mut().extend([name, value, made]);
    let Some(left) = visiting.left.get().checked_sub(1) else { return 7 };
    visiting.left.set(left);
    DONE
}

/// A request whose handler makes calls by chance, and what has to come out of it.
#[expect(clippy::struct_excessive_bools, reason = "what is known of a request")]
struct Session<'a> {
    call: Box<Call>,
    choices: Choices<'a>,
    counts: &'a Counts,
    /// How many calls it has made.
    calls: u64,
    lent: usize,
    /// What is kept with the request, and whether it has a function that releases it.
    data: Option<bool>,
    /// How often something that was kept has been released.
    data_ended: usize,
    waits: bool,
    /// Whether it is in `jsk_body`, and has paused the body there.
    is_in_part: bool,
    is_paused: bool,
    /// Whether a function is called when what it waits for comes, or does not come any more.
    calls_back: bool,
    /// What the functions have returned, with a copy of it.
    texts: Vec<(Str, Vec<u8>)>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    response: Option<(u16, Vec<u8>)>,
    /// Of a response in parts that has not ended, what may still be written, or [`UNKNOWN`].
    parts: Option<u64>,
    /// Whether the response is in parts.
    is_begun: bool,
}

impl<'a> Session<'a> {
    fn new(spare: Option<Box<Call>>, mut choices: Choices<'a>, counts: &'a Counts) -> Self {
        let text = HEADS[choices.below(HEADS.len())];
        let head = HeadReader::default().read(text.as_bytes(), &Limits::DEFAULT);
        let head = head.expect("the head is in order").expect("the head is complete");
        let bytes = text.as_bytes();
        let request =
            RequestHead { head: &head, bytes, now_ns: 0, identity: None, request_id: None };
        let sender = Sender { address: Some(IpAddr::from([192, 0, 2, 1])), is_secure: false };
        let mut call = Call::begin(spare, &request, sender, State::NONE);
        if choices.below(2) == 1 {
            call.set_variables(&[("v", b"a%2fb"), ("q", b"plain")]);
        }
        let mut session = Self {
            call,
            choices,
            counts,
            calls: 0,
            lent: 0,
            data: None,
            data_ended: 0,
            waits: false,
            is_in_part: false,
            is_paused: false,
            calls_back: false,
            texts: Vec::new(),
            fields: Vec::new(),
            response: None,
            parts: None,
            is_begun: false,
        };
        if session.choices.below(2) == 0 {
            session.call.push_body(FORM);
        } else {
            session.take_parts();
        }
        session
    }

    /// The request, or sometimes NULL.
    fn request(&mut self) -> (bool, Request<'_>) {
        let is_there = !self.choices.rarely();
        (is_there, is_there.then_some(&mut *self.call))
    }

    fn argument(&self) -> *mut c_void {
        ptr::from_ref(self.counts).cast_mut().cast()
    }

    fn keep(&mut self, text: Str) {
        let copy = bytes(text.ptr.cast(), text.len).expect("it is there, or empty").to_vec();
        self.texts.push((text, copy));
    }

    /// One call of a handler.
    fn step(&mut self) {
        self.calls += 1;
        match self.choices.below(19) {
            0 => self.read(),
            1 => self.look_up(),
            2 => self.convert(),
            3 => self.iterate(),
            4..=6 => self.add_field(),
            7 => self.respond(),
            8 => self.lend(),
            9 => self.print(),
            10 => self.wait(),
            11 => self.send_file(),
            12 => self.begin(),
            13 | 14 => self.write_or_end(),
            15 => self.keep_data(),
            16 => self.draw(),
            17 => self.put_many(),
            _ => self.fill_and_finish(),
        }
    }

    fn read(&mut self) {
        let functions = [
            API.method,
            API.target,
            API.path,
            API.query_string,
            API.body,
            API.client,
            API.scheme,
            API.http_version,
        ];
        let function = functions[self.choices.below(functions.len())];
        let text = function(self.request().1);
        self.keep(text);
        assert!((API.state)(self.request().1).is_null());
    }

    fn look_up(&mut self) {
        let functions = [API.query, API.form, API.field, API.variable];
        let function = functions[self.choices.below(functions.len())];
        let name = self.choices.c_text(&NAMES);
        let text = function(self.request().1, pointer(name.as_ref()));
        self.keep(text);
    }

    fn convert(&mut self) {
        let functions = [API.escape_html, API.escape_json, API.escape_url, API.sha256];
        let function = functions[self.choices.below(functions.len())];
        let source = self.choices.text(&VALUES);
        let text = function(self.request().1, Str::of(&source));
        self.keep(text);
        let unix_s = self.choices.number();
        let date = (API.http_date)(self.request().1, unix_s);
        assert!(date.len == 29 || date.ptr.is_null());
        self.keep(date);
    }

    fn iterate(&mut self) {
        let request = if self.choices.rarely() { ptr::null_mut() } else { &raw mut *self.call };
        let left = Cell::new(self.choices.below(8));
        let visiting = Visiting { request, left, texts: RefCell::default() };
        let argument = ptr::from_ref(&visiting).cast_mut().cast();
        let function = [API.each_field, API.each_query][self.choices.below(2)];
        let visit: Option<Visit> = (!self.choices.rarely()).then_some(visit);
        assert!([DONE, REFUSED, 7].contains(&function(request, visit, argument)));
        visiting.texts.take().into_iter().for_each(|text| self.keep(text));
    }

    fn add_field(&mut self) {
        let name = self.choices.c_text(&NAMES);
        let (is_there, is_done, value) = if self.choices.below(2) == 0 {
            let value = self.choices.c_text(&VALUES);
            let (is_there, request) = self.request();
            let result = (API.header)(request, pointer(name.as_ref()), pointer(value.as_ref()));
            (is_there, result == DONE, value.map(CString::into_bytes))
        } else {
            let value = self.choices.text(&VALUES);
            let (is_there, request) = self.request();
            let result = (API.header_str)(request, pointer(name.as_ref()), Str::of(&value));
            (is_there, result == DONE, Some(value))
        };
        let all = name.map(CString::into_bytes).zip(value).filter(|_| is_there);
        let Some((name, value)) = all else { return assert!(!is_done) };
        let lower = String::from_utf8_lossy(&name).to_ascii_lowercase();
        assert!(!is_done || !OF_SERVER.contains(&&*lower), "{lower} is the server's");
        if is_done {
            self.fields.push((name, value.trim_ascii().to_vec()));
        } else {
            let is_valid = name == b"X-Field" && value.iter().all(u8::is_ascii_graphic);
            assert!(self.is_begun || !is_valid, "{value:?}");
        }
    }

    /// Compares the result of a response with what it has to be.
    fn responded(&mut self, is_valid: bool, status: c_int, result: c_int, body: &[u8]) {
        let status = u16::try_from(status).ok().filter(|status| STATUSES.contains(status));
        let status = status.filter(|_| is_valid && self.response.is_none());
        assert_eq!(result == DONE, status.is_some());
        if let Some(status) = status {
            self.response = Some((status, body.to_vec()));
        }
    }

    fn respond(&mut self) {
        let (status, body) = (self.choices.status(), self.choices.text(&VALUES));
        let has_bytes = !self.choices.rarely();
        let start = if has_bytes { body.as_ptr().cast() } else { ptr::null() };
        let (is_there, request) = self.request();
        let result = (API.respond)(request, status, start, body.len());
        self.responded(is_there && (has_bytes || body.is_empty()), status, result, &body);
    }

    fn lend(&mut self) {
        let (status, size) = (self.choices.status(), self.choices.below(256) * 390);
        let body = &LENT[..size];
        let has_bytes = !self.choices.rarely();
        let start = if has_bytes { body.as_ptr().cast() } else { ptr::null() };
        let release: Option<Release> = (!self.choices.rarely()).then_some(count_release);
        self.lent += usize::from(release.is_some());
        let argument = self.argument();
        let (is_there, request) = self.request();
        let result = (API.respond_owned)(request, status, start, size, release, argument);
        self.responded(is_there && (has_bytes || size == 0), status, result, body);
    }

    fn print(&mut self) {
        let (status, text) = (self.choices.status(), self.choices.c_text(&VALUES));
        let number = self.choices.number();
        let (is_there, request) = self.request();
        let request = request.map_or(ptr::null_mut(), |call| ptr::from_mut(call).cast());
        let shown = text.clone().unwrap_or_default();
        let format = if text.is_some() { c"%s|%llu".as_ptr() } else { ptr::null() };
        // SAFETY: the format needs a text and a number of 64 bits.
        let result = unsafe { jsk_printf(request, status, format, shown.as_ptr(), number) };
        let mut body = shown.into_bytes();
        body.extend(format!("|{number}").bytes());
        self.responded(is_there && text.is_some(), status, result, &body);
    }

    fn wait(&mut self) {
        let ms = u32::try_from(self.choices.number()).unwrap_or(u32::MAX);
        let argument = self.argument();
        let has_function = !self.choices.rarely();
        let (is_unset, is_in_part) = (self.response.is_none(), self.is_in_part);
        let may_wait = !self.waits && (is_unset || self.parts.is_some());
        let (is_begun, way) = (self.parts.is_some(), self.choices.below(4));
        let (is_there, request) = self.request();
        let function: Option<ResumeFunction> = has_function.then_some(respond_later);
        let (is_done, is_valid) = match way {
            0 => ((API.after)(request, ms, function, argument) == DONE, has_function),
            1 => {
                let result = (API.when_sent)(request, function, argument);
                (result == DONE, has_function && is_begun)
            }
            2 => {
                let token = (API.pause_body)(request, ms, function, argument);
                (token != 0, is_unset && is_in_part)
            }
            _ => {
                let gone: Option<Release> = has_function.then_some(count_gone);
                ((API.defer)(request, ms, gone, argument) != 0, is_unset)
            }
        };
        assert_eq!(is_done, is_there && may_wait && is_valid);
        self.waits |= is_done;
        self.is_paused |= is_done && way == 2;
        self.calls_back |= is_done && has_function;
    }

    fn send_file(&mut self) {
        let (status, kind) = (self.choices.status(), self.choices.below(4));
        let path = ["/proc/self/exe", "/", "/dev/null", ""][kind];
        let descriptor = fs::File::open(path).map_or(-1, IntoRawFd::into_raw_fd);
        let (start, size) = (self.choices.number() % 100, self.choices.number() % 100);
        let (is_there, request) = self.request();
        let result = (API.send_file)(request, status, descriptor, start, size);
        // What is not compared with a body.
        self.responded(is_there && kind == 0, status, result, b"");
    }

    fn begin(&mut self) {
        let (status, is_known) = (self.choices.status(), self.choices.below(2) == 0);
        let size = if is_known { self.choices.below(256) as u64 } else { UNKNOWN };
        let waits = self.waits;
        let (is_there, request) = self.request();
        let result = (API.begin)(request, status, size);
        self.responded(is_there && !waits, status, result, b"");
        if result == DONE {
            (self.parts, self.is_begun) = (Some(size), true);
        }
    }

    fn write_or_end(&mut self) {
        if self.choices.rarely() {
            let (is_there, request) = self.request();
            let is_done = (API.end)(request) == DONE;
            if !is_there {
                return assert!(!is_done);
            }
            let is_complete = self.parts.is_some_and(|left| [0, UNKNOWN].contains(&left));
            assert_eq!(is_done, is_complete);
            self.parts = None;
            return;
        }
        let part = self.choices.text(&VALUES);
        let (is_there, request) = self.request();
        let result = (API.write)(request, part.as_ptr().cast(), part.len());
        let size = part.len() as u64;
        let fits = self.parts.is_some_and(|left| left >= size);
        assert_eq!(result == DONE, is_there && fits);
        if result == DONE {
            self.parts = self.parts.map(|left| if left == UNKNOWN { left } else { left - size });
            self.response.iter_mut().for_each(|(_, body)| body.extend_from_slice(&part));
        }
    }

    fn fill_and_finish(&mut self) {
        let mut random = vec![0; self.choices.below(64)];
        assert_eq!((API.random)(random.as_mut_ptr().cast(), random.len()), DONE);
        assert_eq!((API.random)(ptr::null_mut(), usize::MAX), REFUSED);
        let (token, status) = (self.choices.number() << 32, self.choices.status());
        let body = self.choices.text(&VALUES);
        // No worker waits for one of these.
        assert_eq!((API.finish)(token, status, body.as_ptr().cast(), body.len()), REFUSED);
        let (name, value) = (self.choices.c_text(&NAMES), self.choices.c_text(&VALUES));
        let field = Field { name: pointer(name.as_ref()), value: pointer(value.as_ref()) };
        let (count, start) = (self.choices.below(2), body.as_ptr().cast());
        let size = body.len();
        assert_eq!((API.finish_with)(token, status, &raw const field, count, start, size), REFUSED);
        let has_release = self.choices.below(2) == 0;
        self.lent += usize::from(has_release);
        let release: Option<Release> = has_release.then_some(count_release);
        let (lent, argument) = (Str::of(&body), self.argument());
        let finish = API.finish_owned;
        let result = finish(token, status, &raw const field, count, lent, release, argument);
        assert_eq!(result, REFUSED);
        let descriptor = fs::File::open("/proc/self/exe").map_or(-1, IntoRawFd::into_raw_fd);
        let finish = API.finish_file;
        let result = finish(token, status, &raw const field, count, descriptor, 0, UNKNOWN);
        assert_eq!(result, REFUSED);
        assert_eq!((API.begin_later)(token, status, &raw const field, count, 5), REFUSED);
        assert_eq!((API.begin_later)(token, status, ptr::null(), 1, 5), REFUSED);
        assert_eq!((API.write_later)(token, start, size), REFUSED);
        assert_eq!(((API.end_later)(token), (API.resume_body)(token)), (REFUSED, REFUSED));
        let mut store = None;
        assert!((API.store_open)(pointer(name.as_ref()), &raw mut store) < 0 && store.is_none());
        let (key, mut sum) = (Str::of(&body), 0);
        assert!((API.store_put)(None, key, key, 0) < 0);
        assert!((API.store_put_many)(None, ptr::null(), 1, 0) < 0);
        assert!((API.store_increment)(None, key, 1, 0, &raw mut sum) < 0);
        assert!((API.store_scan)(None, key, None, ptr::null_mut()) < 0);
    }

    /// What the worker does when the handler returns; returns the memory of the request.
    fn end(mut self) -> Box<Call> {
        for (text, copy) in &self.texts {
            assert_eq!(bytes(text.ptr.cast(), text.len), Some(&**copy), "a text has changed");
        }
        let Counts { released, gone, resumed, data } = self.counts;
        let called = gone.get() + resumed.get();
        assert_eq!(called, 0);
        let is_complete = self.response.is_some() && self.parts.is_none();
        let is_left = is_complete || self.choices.below(2) == 0;
        let is_begun = self.is_begun;
        match self.call.waiting.take() {
            Some(Waiting::Until(_, resume) | Waiting::Sent(resume)) => {
                let result = resume((!is_left).then_some(&mut *self.call));
                let is_answered = !is_left && !is_begun;
                assert_eq!((result == DONE, resumed.get()), (is_answered, 1));
                if is_answered {
                    self.response = Some((200, b"later".to_vec()));
                }
            }
            Some(Waiting::Deferred(Deferral { on_gone, .. })) => {
                let has_function = on_gone.is_some();
                if let Some(on_gone) = on_gone {
                    on_gone();
                }
                assert_eq!(gone.get(), usize::from(has_function));
            }
            Some(Waiting::Body(pause)) => panic!("{} is paused without a part", pause.token),
            None => assert!(!self.waits),
        }
        let (status, lines, body) = self.call.response.shown();
        let (expected, content) = self.response.clone().unwrap_or_default();
        assert!(status == expected && *body == *content);
        check_lines(status.max(200), lines, &self.fields);
        self.call.end();
        self.release_data();
        assert_eq!((released.get(), data.get()), (self.lent, self.data_ended));
        self.call
    }
}

/// Another parser reads the fields that were accepted, and no others.
fn check_lines(status: u16, lines: &[u8], fields: &[(Vec<u8>, Vec<u8>)]) {
    let head = [format!("HTTP/1.1 {status} X\r\n").as_bytes(), lines, b"\r\n"].concat();
    let mut read = [httparse::EMPTY_HEADER; 256];
    let mut response = httparse::Response::new(&mut read);
    let size = response.parse(&head).expect("the fields are valid");
    assert_eq!(
        size,
        httparse::Status::Complete(head.len()),
        "{:?}",
        head.escape_ascii().to_string()
    );
    let read = response.headers.iter().map(|field| (field.name.as_bytes(), field.value));
    assert!(read.eq(fields.iter().map(|(name, value)| (&**name, &**value))));
}

/// Runs cases until there were `calls_min` calls.
fn check(calls_min: u64) {
    let memory = RefCell::new(None);
    let calls = Cell::new(0);
    let cases = prop::collection::vec(any::<u8>(), 8..300);
    let default = ProptestConfig::default();
    let count = if default.cases == DEFAULT_CASES { CASES } else { default.cases };
    loop {
        let config = ProptestConfig { cases: count, failure_persistence: None, ..default.clone() };
        let outcome = TestRunner::new(config).run(&cases, |bytes| {
            let counts = Counts::default();
            let spare = memory.borrow_mut().take();
            let mut session = Session::new(spare, Choices(bytes.iter()), &counts);
            while session.choices.0.len() > 0 && !session.call.is_answered_early {
                session.step();
            }
            calls.set(calls.get() + session.calls);
            *memory.borrow_mut() = Some(session.end());
            Ok(())
        });
        outcome.expect("the interface does what its header says");
        if calls.get() >= calls_min {
            return eprintln!("{} calls", calls.get());
        }
    }
}

#[test]
fn the_interface_withstands_calls_by_chance() {
    check(0);
}

/// Minutes.
#[test]
#[ignore = "minutes"]
#[expect(clippy::disallowed_methods, reason = "the environment says how long a test runs")]
fn the_interface_withstands_ten_million_calls() {
    let asked = std::env::var("RANDOM_CALLS").ok();
    check(asked.map_or(CALLS, |count| count.parse().expect("RANDOM_CALLS is a number")));
}
