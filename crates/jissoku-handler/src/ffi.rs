//! The interface of `jissoku.h`: the functions of the server, and those that a handler exports.
//!
//! A server that is older than this crate has a shorter table of functions: each is read only if the
//! table's size says that it is there. No panic leaves this file.

#![expect(unsafe_code, reason = "the server's functions and pointers come from C")]

/// A member of the table of a [`Server`]; `None` if the server is older than it.
macro_rules! function {
    ($server:expr, $name:ident) => {{
        let api = $server.0.as_ptr();
        // SAFETY: the table lives for ever, and has a size.
        let size = unsafe { (*api).size };
        let start = std::mem::offset_of!($crate::ffi::Api, $name);
        if size < start + size_of::<*const std::ffi::c_void>() {
            None
        } else {
            // SAFETY: by its size, the table has this member.
            Some(unsafe { (*api).$name })
        }
    }};
}

pub(crate) mod body;
mod chart;
mod export;
mod parts;
pub(crate) mod store;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::slice;

/// `JSK_ABI`.
pub const ABI: u32 = 1;

/// What a function returns that has had an effect.
const DONE: c_int = 0;

/// What `jsk_handle` and `jsk_start` return: the handler has failed, or has panicked, as the exit code
/// of a program in Rust says it.
pub(crate) const FAILED: c_int = 1;
const PANICKED: c_int = 101;

/// Names below this size are copied to the stack.
const SHORT_NAME: usize = 64;

/// `jsk_str`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Str {
    ptr: *const u8,
    len: usize,
}

impl Str {
    const ABSENT: Self = Self { ptr: std::ptr::null(), len: 0 };

    const fn of(text: &[u8]) -> Self {
        Self { ptr: text.as_ptr(), len: text.len() }
    }

    /// The bytes, which are valid for as long as the request; `None` if the text is absent.
    pub(crate) fn bytes<'r>(self) -> Option<&'r [u8]> {
        if self.ptr.is_null() {
            return None;
        }
        // SAFETY: by the interface, there are this many bytes, which stay until the request ends.
        Some(unsafe { slice::from_raw_parts(self.ptr, self.len) })
    }
}

/// `jsk_request`: what is in it, the server knows only.
#[repr(C)]
#[derive(Debug)]
pub struct RawRequest {
    _private: [u8; 0],
}

type Text = unsafe extern "C" fn(*mut RawRequest) -> Str;
type Lookup = unsafe extern "C" fn(*mut RawRequest, *const c_char) -> Str;
type Convert = unsafe extern "C" fn(*mut RawRequest, Str) -> Str;
type Visit = unsafe extern "C" fn(*mut c_void, Str, Str) -> c_int;
type Iterate = unsafe extern "C" fn(*mut RawRequest, Visit, *mut c_void) -> c_int;
type Release = unsafe extern "C" fn(*mut c_void);
type ResumeFunction = unsafe extern "C" fn(*const Api, *mut RawRequest, *mut c_void) -> c_int;
type FinishFunction = unsafe extern "C" fn(u64, c_int, *const c_void, usize) -> c_int;

/// `jsk_api`. Members with an underscore are not used.
#[repr(C)]
#[derive(Debug)]
pub struct Api {
    size: usize,
    _version: u32,
    method: Text,
    target: Text,
    path: Text,
    query_string: Text,
    query: Lookup,
    form: Lookup,
    field: Lookup,
    each_field: Iterate,
    each_query: Iterate,
    body: Text,
    client: Text,
    scheme: Text,
    http_version: Text,
    state: unsafe extern "C" fn(*mut RawRequest) -> *mut c_void,
    _header: *const c_void,
    header_str: unsafe extern "C" fn(*mut RawRequest, *const c_char, Str) -> c_int,
    respond: unsafe extern "C" fn(*mut RawRequest, c_int, *const c_void, usize) -> c_int,
    respond_owned: unsafe extern "C" fn(
        *mut RawRequest,
        c_int,
        *const c_void,
        usize,
        Option<Release>,
        *mut c_void,
    ) -> c_int,
    _printf: *const c_void,
    escape_html: Convert,
    escape_json: Convert,
    escape_url: Convert,
    http_date: unsafe extern "C" fn(*mut RawRequest, u64) -> Str,
    sha256: Convert,
    random: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    variable: Lookup,
    after: unsafe extern "C" fn(*mut RawRequest, u32, ResumeFunction, *mut c_void) -> c_int,
    defer: unsafe extern "C" fn(*mut RawRequest, u32, Option<Release>, *mut c_void) -> u64,
    finish: FinishFunction,
    chart: chart::Draw,
    send_file: parts::SendFile,
    store_open: store::Open,
    store_error: unsafe extern "C" fn() -> Str,
    _store_get: *const c_void,
    store_read: store::Read,
    store_put: store::Put,
    store_put_if_absent: store::Put,
    store_swap: store::Swap,
    store_delete: store::Delete,
    store_increment: store::Increment,
    store_scan: store::Scan,
    finish_with: parts::FinishWith,
    begin: parts::Begin,
    write: parts::Write,
    when_sent: parts::WhenSent,
    end: parts::End,
    begin_later: parts::BeginLater,
    write_later: parts::WriteLater,
    end_later: parts::EndLater,
    set_data: body::SetData,
    data: body::GetData,
    pause_body: body::PauseBody,
    resume_body: body::ResumeBody,
    finish_owned: parts::FinishOwned,
    finish_file: parts::FinishFile,
    store_put_many: store::PutMany,
}

/// The functions of the server, for any thread.
#[derive(Clone, Copy, Debug)]
pub struct Server(NonNull<Api>);

// SAFETY: the table lives for ever and does not change; functions that belong to a thread need a
// request, which stays on it.
unsafe impl Send for Server {}

// SAFETY: as above.
unsafe impl Sync for Server {}

/// A request of the server, which is there for `'r`, on the thread of its worker.
#[derive(Clone, Copy, Debug)]
pub struct Call<'r> {
    server: Server,
    request: NonNull<RawRequest>,
    lifetime: PhantomData<&'r ()>,
}

/// Methods that return a text of the request.
macro_rules! texts {
    ($($name:ident),*) => {
        $(pub(crate) fn $name(self) -> Option<&'r [u8]> {
            let read = function!(self.server, $name)?;
            // SAFETY: the request is there, and this is the thread of its worker.
            let text = unsafe { read(self.request.as_ptr()) };
            text.bytes()
        })*
    };
}

/// Methods that look a name up.
macro_rules! lookups {
    ($($name:ident),*) => {
        $(pub(crate) fn $name(self, name: &str) -> Option<&'r [u8]> {
            let find = function!(self.server, $name)?;
            let found = with_c_name(name, |name| {
                // SAFETY: the request is there, and the name ends with a zero.
                unsafe { find(self.request.as_ptr(), name) }
            });
            found?.bytes()
        })*
    };
}

/// Methods that make a text of another one.
macro_rules! conversions {
    ($($name:ident),*) => {
        $(pub(crate) fn $name(self, text: &[u8]) -> Option<&'r [u8]> {
            let convert = function!(self.server, $name)?;
            // SAFETY: the request is there, and the text outlives the call.
            let text = unsafe { convert(self.request.as_ptr(), Str::of(text)) };
            text.bytes()
        })*
    };
}

/// Methods that return pairs of a name and a value.
macro_rules! iterations {
    ($($name:ident),*) => {
        $(pub(crate) fn $name(self) -> Vec<(&'r [u8], &'r [u8])> {
            let mut pairs: Vec<(&'r [u8], &'r [u8])> = Vec::new();
            if let Some(iterate) = function!(self.server, $name) {
                let argument = (&raw mut pairs).cast();
                // SAFETY: the request is there, and `collect` gets a list that outlives the call.
                let _all = unsafe { iterate(self.request.as_ptr(), collect, argument) };
            }
            pairs
        })*
    };
}

unsafe extern "C" fn collect(pairs: *mut c_void, name: Str, value: Str) -> c_int {
    // SAFETY: it is the list of an iteration, which nothing else uses meanwhile.
    let pairs = unsafe { &mut *pairs.cast::<Vec<(&[u8], &[u8])>>() };
    pairs.push((name.bytes().unwrap_or_default(), value.bytes().unwrap_or_default()));
    DONE
}

/// Calls `use_name` with a copy of `name` that ends with a zero; `None` if it has a zero inside.
fn with_c_name<T>(name: &str, use_name: impl FnOnce(*const c_char) -> T) -> Option<T> {
    if name.len() < SHORT_NAME {
        let mut copy = [0; SHORT_NAME];
        copy[..name.len()].copy_from_slice(name.as_bytes());
        let name = CStr::from_bytes_with_nul(&copy[..=name.len()]).ok()?;
        return Some(use_name(name.as_ptr()));
    }
    let name = CString::new(name).ok()?;
    Some(use_name(name.as_ptr()))
}

impl Server {
    /// `None` at NULL.
    ///
    /// # Safety
    /// It is what the server has passed to a function of the handler.
    unsafe fn new(api: *const Api) -> Option<Self> {
        NonNull::new(api.cast_mut()).map(Self)
    }

    /// Fills `bytes` with random bytes that cannot be guessed. Returns whether there are any.
    #[must_use]
    pub fn random(self, bytes: &mut [u8]) -> bool {
        let Some(random) = function!(self, random) else { return false };
        // SAFETY: there is room for this many bytes.
        let result = unsafe { random(bytes.as_mut_ptr().cast(), bytes.len()) };
        result == DONE
    }
}

/// Continues a request, and returns what `jsk_handle` would.
pub(crate) type Resume = Box<dyn FnOnce(Call<'_>) -> c_int>;

impl<'r> Call<'r> {
    texts!(method, target, path, query_string, body, client, scheme, http_version);
    lookups!(query, form, field, variable);
    iterations!(each_field, each_query);
    conversions!(escape_html, escape_json, escape_url, sha256);

    /// `None` at NULL.
    ///
    /// # Safety
    /// The pointers are those that the server has passed to a function of the handler, which does not
    /// return before `'r` ends.
    unsafe fn new(api: *const Api, request: *mut RawRequest) -> Option<Self> {
        // SAFETY: it is the table of the server.
        let server = unsafe { Server::new(api) }?;
        Some(Self { server, request: NonNull::new(request)?, lifetime: PhantomData })
    }

    pub(crate) const fn server(self) -> Server {
        self.server
    }

    fn state<S>(self) -> Option<NonNull<S>> {
        let read = function!(self.server, state)?;
        // SAFETY: the request is there, and this is the thread of its worker.
        let state = unsafe { read(self.request.as_ptr()) };
        NonNull::new(state.cast())
    }

    pub(crate) fn http_date(self, unix_s: u64) -> Option<&'r [u8]> {
        let format = function!(self.server, http_date)?;
        // SAFETY: the request is there, and this is the thread of its worker.
        let text = unsafe { format(self.request.as_ptr(), unix_s) };
        text.bytes()
    }

    /// Adds a field to the response. Returns whether the server takes it.
    pub(crate) fn add_field(self, name: &str, value: &[u8]) -> bool {
        let Some(add) = function!(self.server, header_str) else { return false };
        let result = with_c_name(name, |name| {
            // SAFETY: the request is there, the name ends with a zero, and both texts outlive the call.
            unsafe { add(self.request.as_ptr(), name, Str::of(value)) }
        });
        result == Some(DONE)
    }

    /// Responds with a copy of `body`. Returns whether the server takes it.
    pub(crate) fn respond(self, status: u16, body: &[u8]) -> bool {
        let Some(respond) = function!(self.server, respond) else { return false };
        let request = self.request.as_ptr();
        // SAFETY: the request is there, and the bytes outlive the call.
        let result = unsafe { respond(request, status.into(), body.as_ptr().cast(), body.len()) };
        result == DONE
    }

    /// Responds with `body` without a copy. Returns whether the server takes it.
    pub(crate) fn respond_owned<B: StableBytes>(self, status: u16, body: B) -> bool {
        let Some(respond) = function!(self.server, respond_owned) else {
            return self.respond(status, body.bytes());
        };
        let (start, size) = (body.bytes().as_ptr(), body.bytes().len());
        let owner = Box::into_raw(Box::new(body)).cast();
        let request = self.request.as_ptr();
        // SAFETY: the request is there. The bytes stay where they are until `release` drops their
        // owner, which the server calls once, whatever it returns.
        let result = unsafe {
            respond(request, status.into(), start.cast(), size, Some(release::<B>), owner)
        };
        result == DONE
    }

    /// Has `resume` called in `ms` milliseconds; it is dropped if the client leaves before. Returns
    /// whether the request waits for that.
    pub(crate) fn after(self, ms: u32, resume: Resume) -> bool {
        let Some(after) = function!(self.server, after) else { return false };
        let argument = Box::into_raw(Box::new(resume));
        let request = self.request.as_ptr();
        // SAFETY: the request is there, and `resume_once` is called once with the argument, unless the
        // request does not wait.
        let result = unsafe { after(request, ms, resume_once, argument.cast()) };
        if result != DONE {
            // SAFETY: it is the box of above, which the server does not use.
            drop(unsafe { Box::from_raw(argument) });
        }
        result == DONE
    }

    /// Has another thread respond within `ms` milliseconds; `gone(argument)` is called when a response
    /// is not needed any more.
    pub(crate) fn defer(
        self,
        ms: u32,
        gone: extern "C" fn(*mut c_void),
        id: usize,
    ) -> Option<Finish> {
        let defer = function!(self.server, defer)?;
        let (request, argument) = (self.request.as_ptr(), std::ptr::without_provenance_mut(id));
        // SAFETY: the request is there, and `gone` reads no memory at its argument.
        let token = unsafe { defer(request, ms, Some(gone), argument) };
        (token != 0).then_some(Finish { server: self.server, token })
    }
}

/// Bytes that stay where they are when their owner moves.
pub(crate) trait StableBytes: Send + 'static {
    fn bytes(&self) -> &[u8];
}

impl StableBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl StableBytes for std::sync::Arc<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl StableBytes for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

unsafe extern "C" fn release<B>(owner: *mut c_void) {
    // SAFETY: `respond_owned` has made it of a box of this type, and the server passes it once.
    drop(unsafe { Box::from_raw(owner.cast::<B>()) });
}

unsafe extern "C" fn resume_once(
    api: *const Api,
    request: *mut RawRequest,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: `after` has made it of a box of this type, and the server passes it once.
    let resume = unsafe { Box::from_raw(argument.cast::<Resume>()) };
    // SAFETY: the server has passed the pointers for this call.
    let call = unsafe { Call::new(api, request) };
    // Without a request, the client has left.
    guard(|| call.map_or(DONE, resume))
}

/// The way to respond to a request from any thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish {
    server: Server,
    token: u64,
}

impl Finish {
    /// Returns whether the server takes the response.
    pub(crate) fn respond(self, status: u16, body: &[u8]) -> bool {
        let Some(finish) = function!(self.server, finish) else { return false };
        // SAFETY: any thread may call it, and the bytes outlive the call.
        let result = unsafe { finish(self.token, status.into(), body.as_ptr().cast(), body.len()) };
        result == DONE
    }
}

/// Keeps a panic, which the panic hook has printed, from leaving Rust.
fn guard(call: impl FnOnce() -> c_int) -> c_int {
    panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or(PANICKED)
}

/// `jsk_handle` of a handler without a state.
///
/// # Safety
/// The arguments are those of `jsk_handle`.
pub unsafe fn handle(
    api: *const Api,
    request: *mut RawRequest,
    respond: impl FnOnce(Call<'_>) -> c_int,
) -> c_int {
    // SAFETY: they are for this call of the server.
    let call = unsafe { Call::new(api, request) };
    guard(|| call.map_or(FAILED, respond))
}

/// `jsk_handle` of a handler with a state.
///
/// # Safety
/// The arguments are those of `jsk_handle`, and `jsk_start` is [`start`] with this type.
pub unsafe fn handle_with_state<S>(
    api: *const Api,
    request: *mut RawRequest,
    respond: impl FnOnce(&mut S, Call<'_>) -> c_int,
) -> c_int {
    // SAFETY: they are for this call of the server.
    let call = unsafe { Call::new(api, request) };
    let Some((call, mut state)) = call.and_then(|call| Some((call, call.state::<S>()?))) else {
        return FAILED;
    };
    // SAFETY: `start` has made it. One thread calls `jsk_handle`, and not again before it returns.
    let state = unsafe { state.as_mut() };
    guard(|| respond(state, call))
}

/// `jsk_start`: keeps what `begin` returns, if that is a state.
///
/// # Safety
/// The arguments are those of `jsk_start`.
pub unsafe fn start<S>(
    api: *const Api,
    state: *mut *mut c_void,
    begin: impl FnOnce(Server) -> Option<S>,
) -> c_int {
    // SAFETY: it is the table of the server.
    let server = unsafe { Server::new(api) };
    guard(|| {
        let Some(begun) = server.and_then(begin) else { return FAILED };
        let begun = Box::into_raw(Box::new(begun));
        // SAFETY: by the interface, there is room for a pointer.
        unsafe { state.write(begun.cast()) };
        DONE
    })
}

/// `jsk_stop`: passes the state to `end`.
///
/// # Safety
/// `state` is the argument of `jsk_stop`, and `jsk_start` is [`start`] with this type.
pub unsafe fn stop<S>(state: *mut c_void, end: impl FnOnce(S)) {
    if state.is_null() {
        return;
    }
    // SAFETY: `start` has made it of a box of this type, and nothing uses it after this call.
    let state = unsafe { Box::from_raw(state.cast::<S>()) };
    guard(|| {
        end(*state);
        DONE
    });
}

#[cfg(test)]
mod tests;
