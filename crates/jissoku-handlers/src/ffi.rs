//! The interface of handlers in C: the functions that they define, and those that they call.
//!
//! The same as `include/jissoku.h`, in the same order. What a handler passes is as the header says, or
//! the behaviour is undefined, as it is everywhere in C; NULL in place of a request or a text is
//! refused. Functions that call back hold no reference to the request meanwhile.

#![expect(unsafe_code, reason = "a shared object and its pointers come from C")]

mod activity;
mod body;
mod chart;
mod data;
mod later;
mod parts;
mod store;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use jissoku_os::file::File;
use jissoku_os::library::Library;

use crate::call::{Call, Pairs, State};
use crate::error::StartFailure;
use crate::helpers;
pub(crate) use activity::in_request;

/// `JSK_ABI`.
pub(crate) const VERSION: u32 = 1;

/// `jsk_str`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Str {
    ptr: *const u8,
    len: usize,
}

impl Str {
    const ABSENT: Self = Self { ptr: ptr::null(), len: 0 };

    fn of(bytes: &[u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    fn of_found(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::ABSENT, Self::of)
    }
}

/// What a function returns that has had an effect, and one that has had none.
const DONE: c_int = 0;
const REFUSED: c_int = -1;

type Request<'a> = Option<&'a mut Call>;
type Text = extern "C" fn(Request<'_>) -> Str;
type Lookup = extern "C" fn(Request<'_>, *const c_char) -> Str;
type Convert = extern "C" fn(Request<'_>, Str) -> Str;
type Visit = unsafe extern "C" fn(*mut c_void, Str, Str) -> c_int;
type Iterate = extern "C" fn(*mut Call, Option<Visit>, *mut c_void) -> c_int;
type Release = unsafe extern "C" fn(*mut c_void);

/// `jsk_api`.
#[repr(C)]
pub(crate) struct Api {
    size: usize,
    version: u32,
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
    state: extern "C" fn(Request<'_>) -> *mut c_void,
    header: extern "C" fn(Request<'_>, *const c_char, *const c_char) -> c_int,
    header_str: extern "C" fn(Request<'_>, *const c_char, Str) -> c_int,
    respond: extern "C" fn(Request<'_>, c_int, *const c_void, usize) -> c_int,
    respond_owned: extern "C" fn(
        Request<'_>,
        c_int,
        *const c_void,
        usize,
        Option<Release>,
        *mut c_void,
    ) -> c_int,
    printf: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, ...) -> c_int,
    escape_html: Convert,
    escape_json: Convert,
    escape_url: Convert,
    http_date: extern "C" fn(Request<'_>, u64) -> Str,
    sha256: Convert,
    random: extern "C" fn(*mut c_void, usize) -> c_int,
    variable: Lookup,
    after: later::After,
    defer: later::Defer,
    finish: later::Finish,
    chart: chart::Draw,
    send_file: extern "C" fn(Request<'_>, c_int, c_int, u64, u64) -> c_int,
    store_open: store::Open,
    store_error: extern "C" fn() -> Str,
    store_get: store::Get,
    store_read: store::Read,
    store_put: store::Put,
    store_put_if_absent: store::Put,
    store_swap: store::Swap,
    store_delete: store::Delete,
    store_increment: store::Increment,
    store_scan: store::Scan,
    finish_with: later::FinishWith,
    begin: parts::Begin,
    write: parts::Write,
    when_sent: parts::WhenSent,
    end: parts::End,
    begin_later: parts::BeginLater,
    write_later: parts::WriteLater,
    end_later: parts::EndLater,
    set_data: data::SetData,
    data: data::GetData,
    pause_body: body::PauseBody,
    resume_body: body::ResumeBody,
    finish_owned: later::FinishOwned,
    finish_file: later::FinishFile,
    store_put_many: store::PutMany,
}

static API: Api = Api {
    size: size_of::<Api>(),
    version: VERSION,
    method,
    target,
    path,
    query_string,
    query,
    form,
    field,
    each_field,
    each_query,
    body,
    client,
    scheme,
    http_version,
    state,
    header,
    header_str,
    respond: jsk_respond,
    respond_owned,
    printf: jsk_printf,
    escape_html,
    escape_json,
    escape_url,
    http_date,
    sha256,
    random,
    variable,
    after: later::after,
    defer: later::defer,
    finish: later::finish,
    chart: chart::draw,
    send_file,
    store_open: store::open,
    store_error: store::error,
    store_get: store::get,
    store_read: store::read,
    store_put: store::put,
    store_put_if_absent: store::put_if_absent,
    store_swap: store::swap,
    store_delete: store::delete,
    store_increment: store::increment,
    store_scan: store::scan,
    finish_with: later::finish_with,
    begin: parts::begin,
    write: parts::write,
    when_sent: parts::when_sent,
    end: parts::end,
    begin_later: parts::begin_later,
    write_later: parts::write_later,
    end_later: parts::end_later,
    set_data: data::set_data,
    data: data::data,
    pause_body: body::pause_body,
    resume_body: body::resume_body,
    finish_owned: later::finish_owned,
    finish_file: later::finish_file,
    store_put_many: store::put_many,
};

unsafe extern "C" {
    /// See `printf.c`.
    fn jsk_printf(request: *mut c_void, status: c_int, format: *const c_char, ...) -> c_int;
}

type Handle = unsafe extern "C" fn(*const Api, *mut Call) -> c_int;
type TakeBody = unsafe extern "C" fn(*const Api, *mut Call, Str) -> c_int;
type Start = unsafe extern "C" fn(*const Api, *mut *mut c_void) -> c_int;
type Stop = unsafe extern "C" fn(*const Api, *mut c_void);

/// The functions of a shared object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    handle: Handle,
    body: Option<TakeBody>,
    start: Option<Start>,
    stop: Option<Stop>,
}

/// Why a shared object is no handler.
#[derive(Debug)]
pub(crate) enum NoHandler {
    Library(io::Error),
    /// It does not say for which version it is.
    Version,
    OtherVersion(u32),
    /// There is no `jsk_handle`.
    Handle,
}

impl Functions {
    /// Loads a shared object.
    pub(crate) fn load(path: &Path) -> Result<Self, NoHandler> {
        // SAFETY: handlers are trusted code, which the user of the server has named.
        let library = unsafe { Library::load(path) }.map_err(NoHandler::Library)?;
        let version = library.symbol(c"jsk_abi").ok_or(NoHandler::Version)?.cast::<u32>();
        // SAFETY: by the interface, the symbol is an initialised number of 32 bits.
        let version = unsafe { version.read_unaligned() };
        if version != VERSION {
            return Err(NoHandler::OtherVersion(version));
        }
        let handle = library.symbol(c"jsk_handle").ok_or(NoHandler::Handle)?;
        // SAFETY: by the interface, the symbol is a function of this type.
        let handle = unsafe { std::mem::transmute::<NonNull<c_void>, Handle>(handle) };
        let body = library.symbol(c"jsk_body").map(|body| {
            // SAFETY: as above.
            unsafe { std::mem::transmute::<NonNull<c_void>, TakeBody>(body) }
        });
        let start = library.symbol(c"jsk_start").map(|start| {
            // SAFETY: as above.
            unsafe { std::mem::transmute::<NonNull<c_void>, Start>(start) }
        });
        let stop = library.symbol(c"jsk_stop").map(|stop| {
            // SAFETY: as above.
            unsafe { std::mem::transmute::<NonNull<c_void>, Stop>(stop) }
        });
        Ok(Self { handle, body, start, stop })
    }

    /// Begins a worker. `name` is what the user calls the handler, here and below.
    pub(crate) fn start(&self, name: &str) -> Result<State, StartFailure> {
        let mut state = ptr::null_mut();
        let Some(start) = self.start else { return Ok(State::NONE) };
        // SAFETY: the functions live for ever, and the state for this call.
        let begin = || unsafe { start(&raw const API, &raw mut state) };
        match activity::in_function("jsk_start", name, begin) {
            0 => Ok(State(state)),
            code => Err(StartFailure { code, why: store::sentence_of(code) }),
        }
    }

    /// Ends a worker.
    pub(crate) fn stop(&self, name: &str, state: State) {
        if let Some(stop) = self.stop {
            // SAFETY: the functions live for ever, and the state is what `jsk_start` has set.
            activity::in_function("jsk_stop", name, || unsafe { stop(&raw const API, state.0) });
        }
    }

    /// Has the handler respond to a request, and returns what `jsk_handle` returns.
    #[inline]
    pub(crate) fn handle(&self, call: &mut Call) -> c_int {
        // SAFETY: the functions live for ever, and the request until this call returns, which is as
        // long as a handler may use it.
        in_request(call, |call| unsafe { (self.handle)(&raw const API, &raw mut *call) })
    }

    /// Whether the handler takes bodies by parts.
    pub(crate) const fn takes_parts(&self) -> bool {
        self.body.is_some()
    }

    /// Passes a part of a body to a handler that takes it by parts, and returns what `jsk_body`
    /// returns.
    pub(crate) fn take_part(&self, call: &mut Call, part: &[u8]) -> c_int {
        let Some(body) = self.body else { return DONE };
        // SAFETY: as for `handle`; the part is valid until this call returns, too.
        in_request(call, |call| unsafe { body(&raw const API, &raw mut *call, Str::of(part)) })
    }
}

/// The bytes of a text that ends with a zero.
fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    let text = NonNull::new(text.cast_mut())?;
    // SAFETY: by the interface, it is a text that ends with a zero and outlives the call.
    Some(unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes())
}

/// `size` bytes; none at NULL.
fn bytes<'a>(start: *const c_void, size: usize) -> Option<&'a [u8]> {
    array(start.cast(), size)
}

/// `count` values; none at NULL, unless there are 0.
fn array<'a, T>(start: *const T, count: usize) -> Option<&'a [T]> {
    if count == 0 {
        return Some(&[]);
    }
    let start = NonNull::new(start.cast_mut())?;
    // A slice has at most this size.
    isize::try_from(count.checked_mul(size_of::<T>())?).ok()?;
    // SAFETY: by the interface, there are this many values, and they outlive the call.
    Some(unsafe { slice::from_raw_parts(start.as_ptr(), count) })
}

extern "C" fn method(request: Request<'_>) -> Str {
    Str::of_found(request.map(|call| call.method()))
}

extern "C" fn target(request: Request<'_>) -> Str {
    Str::of_found(request.map(|call| call.target()))
}

extern "C" fn path(request: Request<'_>) -> Str {
    Str::of_found(request.map(Call::path))
}

extern "C" fn query_string(request: Request<'_>) -> Str {
    Str::of_found(request.map(|call| call.query_string()))
}

extern "C" fn query(request: Request<'_>, name: *const c_char) -> Str {
    Str::of_found(request.zip(text(name)).and_then(|(call, name)| call.query(name)))
}

extern "C" fn variable(request: Request<'_>, name: *const c_char) -> Str {
    Str::of_found(request.zip(text(name)).and_then(|(call, name)| call.variable(name)))
}

extern "C" fn form(request: Request<'_>, name: *const c_char) -> Str {
    Str::of_found(request.zip(text(name)).and_then(|(call, name)| call.form(name)))
}

extern "C" fn field(request: Request<'_>, name: *const c_char) -> Str {
    Str::of_found(request.zip(text(name)).and_then(|(call, name)| call.field(name)))
}

extern "C" fn each_field(request: *mut Call, visit: Option<Visit>, argument: *mut c_void) -> c_int {
    each(request, Call::all_fields, visit, argument)
}

extern "C" fn each_query(request: *mut Call, visit: Option<Visit>, argument: *mut c_void) -> c_int {
    each(request, Call::all_queries, visit, argument)
}

/// Calls `visit`, which may use the request: no reference to it lives meanwhile.
fn each(
    request: *mut Call,
    pairs: fn(&mut Call) -> Pairs,
    visit: Option<Visit>,
    argument: *mut c_void,
) -> c_int {
    let (Some(mut call), Some(visit)) = (NonNull::new(request), visit) else { return REFUSED };
    // SAFETY: by the interface, it is the request of this call, and nothing else uses it now.
    let pairs = pairs(unsafe { call.as_mut() });
    for (name, value) in pairs {
        // SAFETY: by the interface, it is a function of this type. The texts are on the heap, and stay
        // there until the response ends.
        let result = unsafe { visit(argument, Str::of_place(name), Str::of_place(value)) };
        if result != 0 {
            return result;
        }
    }
    DONE
}

impl Str {
    const fn of_place((ptr, len): (*const u8, usize)) -> Self {
        Self { ptr, len }
    }
}

extern "C" fn body(request: Request<'_>) -> Str {
    Str::of_found(request.map(|call| call.body()))
}

extern "C" fn client(request: Request<'_>) -> Str {
    Str::of_found(request.and_then(Call::client))
}

extern "C" fn scheme(request: Request<'_>) -> Str {
    Str::of_found(request.map(|call| call.scheme()))
}

extern "C" fn http_version(request: Request<'_>) -> Str {
    Str::of_found(request.map(|call| call.http_version()))
}

extern "C" fn state(request: Request<'_>) -> *mut c_void {
    request.map_or(ptr::null_mut(), |call| call.state().0)
}

extern "C" fn header(request: Request<'_>, name: *const c_char, value: *const c_char) -> c_int {
    add_header(request, text(name), text(value))
}

extern "C" fn header_str(request: Request<'_>, name: *const c_char, value: Str) -> c_int {
    add_header(request, text(name), bytes(value.ptr.cast(), value.len))
}

fn add_header(request: Request<'_>, name: Option<&[u8]>, value: Option<&[u8]>) -> c_int {
    let (Some(call), Some(name), Some(value)) = (request, name, value) else { return REFUSED };
    result(call.response.add_field(name, value))
}

/// Called by `printf.c`, too.
#[unsafe(no_mangle)]
extern "C" fn jsk_respond(
    request: Request<'_>,
    status: c_int,
    body: *const c_void,
    size: usize,
) -> c_int {
    let (Some(call), Some(body)) = (request, bytes(body, size)) else { return REFUSED };
    result(call.response.set_copied(status, body))
}

extern "C" fn respond_owned(
    request: Request<'_>,
    status: c_int,
    body: *const c_void,
    size: usize,
    release: Option<Release>,
    argument: *mut c_void,
) -> c_int {
    // Dropped if there is no request, and with the response.
    let lent = Lent { start: body, size, release, argument };
    let is_valid = bytes(body, size).is_some();
    result(is_valid && request.is_some_and(|call| call.response.set_lent(status, Box::new(lent))))
}

extern "C" fn escape_html(request: Request<'_>, text: Str) -> Str {
    convert(request, text, helpers::html)
}

extern "C" fn escape_json(request: Request<'_>, text: Str) -> Str {
    convert(request, text, helpers::json)
}

extern "C" fn escape_url(request: Request<'_>, text: Str) -> Str {
    convert(request, text, helpers::url)
}

extern "C" fn http_date(request: Request<'_>, unix_s: u64) -> Str {
    Str::of_found(request.map(|call| call.keep(helpers::http_date(unix_s))))
}

extern "C" fn sha256(request: Request<'_>, text: Str) -> Str {
    let text = bytes(text.ptr.cast(), text.len);
    Str::of_found(request.zip(text).map(|(call, text)| call.keep(helpers::sha256(text))))
}

/// Keeps what `make` appends for a text until the response ends.
fn convert(request: Request<'_>, text: Str, make: fn(&[u8], &mut Vec<u8>)) -> Str {
    let text = bytes(text.ptr.cast(), text.len);
    let made = request.zip(text).map(|(call, text)| call.keep_made(|to| make(text, to)));
    Str::of_found(made)
}

extern "C" fn random(start: *mut c_void, size: usize) -> c_int {
    let is_valid = size == 0 || (!start.is_null() && isize::try_from(size).is_ok());
    let Some(random) = is_valid.then(|| helpers::random(size)).flatten() else { return REFUSED };
    if size > 0 {
        // SAFETY: by the interface, there is room for this many bytes, which `random` cannot overlap.
        unsafe { ptr::copy_nonoverlapping(random.as_ptr(), start.cast(), size) };
    }
    DONE
}

/// `JSK_REST`.
const REST: u64 = u64::MAX;

extern "C" fn send_file(
    request: Request<'_>,
    status: c_int,
    descriptor: c_int,
    start: u64,
    size: u64,
) -> c_int {
    let (Some(file), Some(call)) = (adopted(descriptor), request) else { return REFUSED };
    result(call.response.set_file(status, file, (start, up_to(size))))
}

/// The file of a descriptor; one that is of no such file is closed.
fn adopted(descriptor: c_int) -> Option<File> {
    // SAFETY: by the interface, the descriptor belongs to the server from this call on.
    unsafe { File::adopt(descriptor) }.ok()
}

/// The size of a part of a file; `None` is all up to its end.
fn up_to(size: u64) -> Option<u64> {
    Some(size).filter(|&size| size != REST)
}

fn result(is_done: bool) -> c_int {
    if is_done { DONE } else { REFUSED }
}

/// Memory of a handler, which gets it back when it is dropped.
#[derive(Debug)]
struct Lent {
    start: *const c_void,
    size: usize,
    release: Option<Release>,
    argument: *mut c_void,
}

// SAFETY: by the interface, the bytes do not change until they are released; those of a handler stay on
// its thread, and those of another thread are released on any.
unsafe impl Send for Lent {}

// SAFETY: as above: a shared reference reads the bytes only.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        bytes(self.start, self.size).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: by the interface, it is a function of this type, called once with its argument.
            unsafe { release(self.argument) };
        }
    }
}

#[cfg(test)]
mod random_calls;
#[cfg(test)]
mod tests;
