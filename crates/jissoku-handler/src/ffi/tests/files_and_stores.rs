//! Files, parts and stores.

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::fd::FromRawFd;

use super::*;
use crate::ffi::parts::Field;
use crate::ffi::store::{RawEntry, RawStore};
use crate::{Later, Store, Ttl};

pub(super) unsafe extern "C" fn send_file(
    _: *mut RawRequest,
    status: c_int,
    descriptor: c_int,
    start: u64,
    size: u64,
) -> c_int {
    // SAFETY: the descriptor belongs to the server from this call on.
    drop(unsafe { File::from_raw_fd(descriptor) });
    note(format!("{status} file {start} {size:x}"));
    DONE
}

pub(super) unsafe extern "C" fn store_open(
    name: *const c_char,
    store: *mut *mut RawStore,
) -> c_int {
    // SAFETY: the name ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    if name != c"counts" {
        return -4;
    }
    // SAFETY: there is room for a pointer, which nothing reads through.
    unsafe { store.write(ptr::without_provenance_mut(8)) };
    DONE
}

pub(super) unsafe extern "C" fn store_error() -> Str {
    Str::of(b"why")
}

pub(super) unsafe extern "C" fn store_read(
    _: *mut RawStore,
    key: Str,
    buffer: *mut c_void,
    size: *mut usize,
) -> c_int {
    let value = [b'v'; 3000];
    // SAFETY: there are sizes in both directions.
    let room = unsafe { size.replace(value.len()) };
    // SAFETY: there is as much room.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), room.min(value.len())) };
    note(format!("read {} {room}", shown(key)));
    c_int::from(key.len > 0)
}

pub(super) unsafe extern "C" fn store_put(
    _: *mut RawStore,
    key: Str,
    value: Str,
    ttl: i64,
) -> c_int {
    note(format!("put {}={} {ttl}", shown(key), shown(value)));
    if key.len == 0 { -1 } else { c_int::from(ttl > 0) }
}

pub(super) unsafe extern "C" fn store_put_many(
    _: *mut RawStore,
    entries: *const RawEntry,
    count: usize,
    ttl: i64,
) -> c_int {
    // SAFETY: there are this many.
    for entry in unsafe { slice::from_raw_parts(entries, count) } {
        note(format!("{} {}={} {ttl}", entry.is_removed, shown(entry.key), shown(entry.value)));
    }
    if count == 3 { -1 } else { DONE }
}

pub(super) unsafe extern "C" fn store_swap(
    _: *mut RawStore,
    key: Str,
    expected: Str,
    value: Str,
    ttl: i64,
) -> c_int {
    let expected = expected.bytes().map(|_| shown(expected));
    note(format!("swap {} {expected:?} {} {ttl}", shown(key), shown(value)));
    1
}

pub(super) unsafe extern "C" fn store_delete(_: *mut RawStore, key: Str) -> c_int {
    note(format!("delete {}", shown(key)));
    1
}

pub(super) unsafe extern "C" fn store_increment(
    _: *mut RawStore,
    _: Str,
    by: i64,
    _: i64,
    sum: *mut i64,
) -> c_int {
    // SAFETY: there is room for the sum.
    unsafe { sum.write(40 + by) };
    DONE
}

pub(super) unsafe extern "C" fn store_scan(
    _: *mut RawStore,
    prefix: Str,
    visit: Visit,
    argument: *mut c_void,
) -> c_int {
    for value in [b"1", b"2", b"3"] {
        // SAFETY: it is called with its argument.
        let result = unsafe { visit(argument, prefix, Str::of(value)) };
        if result != DONE {
            return result;
        }
    }
    DONE
}

pub(super) unsafe extern "C" fn finish_with(
    token: u64,
    status: c_int,
    fields: *const Field,
    count: usize,
    body: *const c_void,
    size: usize,
) -> c_int {
    note(format!(
        "finish with {token} {} {count} {}",
        !fields.is_null(),
        shown(Str { ptr: body.cast(), len: size })
    ));
    if status == 99 { -1 } else { DONE }
}

pub(super) unsafe extern "C" fn finish_owned(
    token: u64,
    status: c_int,
    _: *const Field,
    count: usize,
    body: Str,
    release: Option<Release>,
    argument: *mut c_void,
) -> c_int {
    note(format!("owned {token} {status} {count} {} bytes", shown(body).len()));
    // SAFETY: it is called once with its argument.
    unsafe { release.expect("it is owned")(argument) };
    DONE
}

pub(super) unsafe extern "C" fn finish_file(
    token: u64,
    status: c_int,
    _: *const Field,
    count: usize,
    descriptor: c_int,
    start: u64,
    size: u64,
) -> c_int {
    // SAFETY: the descriptor belongs to the server from this call on.
    drop(unsafe { File::from_raw_fd(descriptor) });
    note(format!("file {token} {status} {count} {start} {size:x}"));
    DONE
}

pub(super) unsafe extern "C" fn begin(_: *mut RawRequest, status: c_int, size: u64) -> c_int {
    note(format!("begin {status} {size:x}"));
    DONE
}

pub(super) unsafe extern "C" fn write(
    _: *mut RawRequest,
    part: *const c_void,
    size: usize,
) -> c_int {
    note(format!("write {}", shown(Str { ptr: part.cast(), len: size })));
    DONE
}

pub(super) unsafe extern "C" fn when_sent(
    request: *mut RawRequest,
    resume: ResumeFunction,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: it is called once with its argument.
    unsafe { resume(&API, request, argument) }
}

pub(super) unsafe extern "C" fn end(_: *mut RawRequest) -> c_int {
    note("end".to_owned());
    DONE
}

pub(super) unsafe extern "C" fn begin_later(
    token: u64,
    status: c_int,
    _: *const Field,
    count: usize,
    size: u64,
) -> c_int {
    note(format!("begin {token} {status} {count} {size}"));
    DONE
}

pub(super) unsafe extern "C" fn write_later(token: u64, part: *const c_void, size: usize) -> c_int {
    note(format!("write {token} {}", shown(Str { ptr: part.cast(), len: size })));
    if size == 4 { -1 } else { DONE }
}

pub(super) unsafe extern "C" fn end_later(token: u64) -> c_int {
    note(format!("end {token}"));
    DONE
}

#[test]
fn a_file_is_passed_on_whole_or_in_part() {
    let file = || File::open("/dev/null").expect("it is there");
    assert_eq!(call(&API, |_| Response::new(200).body(file())), DONE);
    assert_eq!(call(&API, |_| Response::new(200).body(Body::File(file(), Some(2..7)))), DONE);
    assert_eq!(called(), ["200 file 0 ffffffffffffffff", "200 file 2 5"]);
}

#[test]
fn parts_are_written_one_after_the_other() {
    let parts = [b"one".to_vec(), b"two".to_vec()];
    let body = Body::Parts(Box::new(parts.into_iter()));
    assert_eq!(call(&API, |_| Response::new(201).body(body)), DONE);
    assert_eq!(called(), ["begin 201 ffffffffffffffff", "write one", "write two", "end"]);
}

#[test]
fn a_thread_responds_with_fields_or_in_parts() {
    let defer = |begin: fn(Later)| {
        call(&API, |request| request.defer(Duration::from_secs(1), begin));
        called()
    };
    let whole = |later: Later| assert!(later.respond_with(&Response::text("text")));
    assert_eq!(defer(whole)[1..], ["finish with 42 true 1 text"]);
    let refused = |later: Later| assert!(!later.respond_with(&Response::text("text").status(99)));
    assert_eq!(defer(refused)[2..], ["finish 42: 500 Internal Server Error\n"]);
    let parts = |later: Later| {
        let mut parts = later.begin(&Response::new(201), Some(3)).expect("it begins");
        assert!(parts.write_all(b"abc").is_ok() && parts.write_all(b"four").is_err());
        assert!(parts.end().is_ok());
    };
    assert_eq!(defer(parts)[1..], ["begin 42 201 0 3", "write 42 abc", "write 42 four", "end 42"]);
}

#[test]
fn a_thread_passes_on_what_it_owns() {
    let defer = |api: &Api, begin: fn(Later)| {
        call(api, |request| request.defer(Duration::from_secs(1), begin));
        called()
    };
    let large = |later: Later| assert!(later.send(Response::text("x".repeat(16_385))));
    assert_eq!(defer(&API, large)[1..], ["owned 42 200 1 16385 bytes"]);
    let small = |later: Later| assert!(later.send(Response::new(201).body(b"abc".to_vec())));
    assert_eq!(defer(&API, small)[1..], ["finish 42: 201 abc"]);
    let shared = |later: Later| {
        let bytes: Arc<[u8]> = vec![b'x'; 3].into();
        assert!(later.send(Response::new(200).body(Arc::clone(&bytes))) && is_alone(&bytes));
    };
    assert_eq!(defer(&API, shared)[1..], ["owned 42 200 0 3 bytes"]);
    let file = |later: Later| {
        let file = File::open("/dev/null").expect("it is there");
        assert!(later.send(Response::new(200).body(Body::File(file, Some(2..7)))));
    };
    assert_eq!(defer(&API, file)[1..], ["file 42 200 0 2 5"]);
    let parts = |later: Later| {
        let parts = Body::Parts(Box::new(std::iter::empty()));
        assert!(!later.send(Response::new(200).body(parts)));
    };
    assert_eq!(defer(&API, parts)[1..], ["finish 42: 500 Internal Server Error\n"]);
    let older = Api { size: offset_of!(Api, finish_owned), ..API };
    let copied = defer(&older, large);
    assert_eq!(copied[1..], [format!("finish with 42 true 1 {}", "x".repeat(16_385))]);
}

fn is_alone(bytes: &Arc<[u8]>) -> bool {
    Arc::strong_count(bytes) == 1
}

#[test]
fn a_store_is_used_by_its_functions() {
    let server = Server(NonNull::from(&API));
    assert_eq!(
        Store::open(server, "other").map_err(|error| error.to_string()).err().as_deref(),
        Some("why")
    );
    let store = Store::open(server, "counts").expect("it is there");
    assert_eq!(store.get("k"), Ok(Some(vec![b'v'; 3000])));
    assert_eq!(store.get(""), Ok(None));
    assert_eq!(called(), ["read k 1024", "read k 3000", "read  1024"]);
    assert!(store.put("", "v", Ttl::OfStore).is_err());
    assert_eq!(store.put("k", "v", Ttl::Never), Ok(()));
    assert_eq!(store.put_if_absent("k", "v", Ttl::For(Duration::from_micros(1))), Ok(true));
    assert_eq!(store.swap("k", None, "w", Ttl::OfStore), Ok(true));
    assert_eq!(store.swap("k", Some(b""), "w", Ttl::OfStore), Ok(true));
    assert_eq!((store.delete("k"), store.increment("k", 2, Ttl::OfStore)), (Ok(true), Ok(42)));
    let swaps = ["swap k None w 0", "swap k Some(\"\") w 0", "delete k"];
    assert_eq!(called(), [&["put =v 0", "put k=v -1", "put k=v 1"][..], &swaps].concat());
    let entries = [("a", Some("1")), ("b", None), ("c", Some(""))];
    assert_eq!(store.put_many(&entries[1..], Ttl::Never), Ok(()));
    assert_eq!(called(), ["1 b= -1", "0 c= -1"]);
    assert!(store.put_many(&entries, Ttl::OfStore).is_err());
    assert_eq!(called().len(), 3);
    let older = Api { size: offset_of!(Api, store_put_many), ..API };
    let older = Store::open(Server(NonNull::from(&older)), "counts").expect("it is there");
    let why = older.put_many(&entries, Ttl::OfStore).map_err(|error| error.to_string());
    assert_eq!(why.err().as_deref(), Some("the server has no put_many"));
    let mut seen = Vec::new();
    let scanned = store.scan("p", |key, value| {
        seen.push([key, value].concat());
        if seen.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((scanned, seen), (Ok(()), vec![b"p1".to_vec(), b"p2".to_vec()]));
    let panics = call(&API, |_| {
        let _never = store.scan("p", |_, _| panic!("as a test"));
        Response::new(200)
    });
    assert_eq!(panics, PANICKED);
}
