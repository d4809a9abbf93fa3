//! The functions as a handler calls them.

mod chart;

use std::cell::Cell;
use std::net::IpAddr;

use jissoku_http::Limits;
use jissoku_http::head::HeadReader;
use jissoku_server::RequestHead;

use super::*;
use crate::call::Sender;

const POST: &str = "POST /a%20b/../c?x=1&y=a+b&x=2 HTTP/1.1\r\nHost: h\r\nA: 1\r\na: 2\r\n\
    Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\nContent-Length: 7\r\n\r\n";

fn call_of(text: &str) -> Box<Call> {
    let head = HeadReader::default().read(text.as_bytes(), &Limits::DEFAULT);
    let head = head.expect("the head is in order").expect("the head is complete");
    let bytes = text.as_bytes();
    let request = RequestHead { head: &head, bytes, now_ns: 0, identity: None, request_id: None };
    let address = Some(IpAddr::from([192, 0, 2, 1]));
    Call::begin(None, &request, Sender { address, is_secure: true }, State::NONE)
}

/// A text that a function has returned, if it is there.
fn string(text: Str) -> Option<String> {
    (!text.ptr.is_null()).then(|| {
        let found = bytes(text.ptr.cast(), text.len).expect("there is one");
        String::from_utf8_lossy(found).into_owned()
    })
}

/// All functions in the order of their release. A name is added at the end, and none is ever moved: a
/// handler that was compiled with an older header finds each function by its place.
const FUNCTIONS: &str = "method target path query_string query form field each_field each_query body \
    client scheme http_version state header header_str respond respond_owned printf escape_html \
    escape_json escape_url http_date sha256 random variable after defer finish chart send_file \
    store_open store_error store_get store_read store_put store_put_if_absent store_swap store_delete \
    store_increment store_scan finish_with begin write when_sent end begin_later write_later \
    end_later set_data data pause_body resume_body finish_owned finish_file store_put_many";

#[test]
fn the_table_is_that_of_the_header_and_keeps_its_order() {
    let (_, table) = crate::HEADER.split_once("\nstruct jsk_api {").expect("there is one");
    let (table, _) = table.split_once("\n};").expect("it ends");
    let name = |line: &str| Some(line.split_once("(*")?.1.split_once(')')?.0.to_owned());
    let names = table.lines().filter_map(name).filter(|name| name != "release");
    let names: Vec<String> = names.collect();
    assert_eq!(names, FUNCTIONS.split_whitespace().collect::<Vec<_>>());
    assert_eq!(API.size, size_of::<usize>() * (names.len() + 2));
}

#[test]
fn a_request_is_read_by_its_functions() {
    let mut call = call_of(POST);
    call.push_body(b"q=%41+b");
    let mut read = |function: Text| string(function(Some(&mut call)));
    for (function, expected) in [
        (API.method, "POST"),
        (API.target, "/a%20b/../c?x=1&y=a+b&x=2"),
        (API.path, "/c"),
        (API.query_string, "x=1&y=a+b&x=2"),
        (API.body, "q=%41+b"),
        (API.client, "192.0.2.1"),
        (API.scheme, "https"),
        (API.http_version, "HTTP/1.1"),
    ] {
        assert_eq!(read(function).as_deref(), Some(expected));
    }
    let mut find = |function: Lookup, name: &CStr| string(function(Some(&mut call), name.as_ptr()));
    assert_eq!(find(API.query, c"x").as_deref(), Some("1"));
    assert_eq!(find(API.query, c"y").as_deref(), Some("a b"));
    assert_eq!(find(API.query, c"z"), None);
    assert_eq!(find(API.form, c"q").as_deref(), Some("A b"));
    assert_eq!(find(API.field, c"HOST").as_deref(), Some("h"));
    assert_eq!(find(API.field, c"a").as_deref(), Some("1"));
    assert_eq!(find(API.field, c"b"), None);
}

#[test]
fn texts_stay_where_they_are_until_the_response_ends() {
    let mut call = call_of(POST);
    let first = query(Some(&mut call), c"y".as_ptr());
    for _ in 0..100 {
        let _other = query(Some(&mut call), c"y".as_ptr());
    }
    assert_eq!(string(first).as_deref(), Some("a b"));
}

unsafe extern "C" fn count(argument: *mut c_void, name: Str, value: Str) -> c_int {
    // SAFETY: the test passes a counter, which it borrows for as long.
    let counter = unsafe { &*argument.cast::<Cell<usize>>() };
    counter.set(counter.get() + name.len + value.len);
    c_int::from(string(value).as_deref() == Some("a b"))
}

#[test]
fn an_iteration_ends_when_its_function_says_so() {
    let mut call = call_of(POST);
    let counter = Cell::new(0_usize);
    let argument = (&raw const counter).cast_mut().cast();
    assert_eq!((API.each_query)(&raw mut *call, Some(count), argument), 1);
    assert_eq!(counter.take(), 6);
    assert_eq!((API.each_field)(&raw mut *call, Some(count), argument), 0);
    assert!(counter.get() > 50);
    assert_eq!((API.each_field)(&raw mut *call, None, argument), REFUSED);
}

unsafe extern "C" fn release(argument: *mut c_void) {
    // SAFETY: the test passes a counter, which it borrows for as long.
    let counter = unsafe { &*argument.cast::<Cell<usize>>() };
    counter.set(counter.get() + 1);
}

#[test]
fn lent_bytes_are_released_once_whatever_becomes_of_them() {
    let counter = Cell::new(0_usize);
    let argument = (&raw const counter).cast_mut().cast();
    let lend = |call: Request<'_>, status, body: *const c_void| {
        (API.respond_owned)(call, status, body, 2, Some(release), argument)
    };
    let body = b"hi".as_ptr().cast();
    let mut call = call_of(POST);
    assert_eq!((lend(None, 200, body), counter.take()), (REFUSED, 1));
    assert_eq!((lend(Some(&mut call), 42, body), counter.take()), (REFUSED, 1));
    assert_eq!((lend(Some(&mut call), 200, ptr::null()), counter.take()), (REFUSED, 1));
    assert_eq!((lend(Some(&mut call), 200, body), counter.take()), (DONE, 0));
    assert_eq!((lend(Some(&mut call), 200, body), counter.take()), (REFUSED, 1));
    call.end();
    assert_eq!(counter.take(), 1);
    drop(call);
    assert_eq!(counter.take(), 0);
}

#[test]
fn a_text_is_formatted_however_long_it_is() {
    for size in [0, 1, 4095, 4096, 100_000] {
        let mut call = call_of(POST);
        let request = (&raw mut *call).cast();
        // SAFETY: the format needs a size and a text.
        let result = unsafe { jsk_printf(request, 200, c"%*s".as_ptr(), size, c"".as_ptr()) };
        assert_eq!((result, call.response.is_set()), (DONE, true), "{size}");
        // SAFETY: the format needs no arguments.
        let again = unsafe { jsk_printf(request, 200, c"x".as_ptr()) };
        assert_eq!(again, REFUSED);
    }
}

#[test]
fn helpers_return_texts_that_stay() {
    let mut call = call_of(POST);
    let text = Str::of(b"<\"\xff\">");
    let mut make = |function: Convert| string(function(Some(&mut call), text));
    assert_eq!(make(API.escape_url).as_deref(), Some("%3C%22%FF%22%3E"));
    assert_eq!(make(API.escape_json).as_deref(), Some("\"<\\\"\u{fffd}\\\">\""));
    assert!(make(API.escape_html).is_some_and(|text| text.starts_with("&lt;&quot;")));
    assert_eq!((API.sha256)(Some(&mut call), text).len, 32);
    assert_eq!((API.http_date)(Some(&mut call), 0).len, 29);
    assert_eq!(string((API.escape_html)(Some(&mut call), Str::ABSENT)).as_deref(), Some(""));
    let mut random = [0_u8; 16];
    assert_eq!((API.random)(random.as_mut_ptr().cast(), random.len()), DONE);
    assert_ne!(random, [0; 16]);
    assert_eq!((API.random)(ptr::null_mut(), 16), REFUSED);
}

#[test]
fn variables_of_a_path_are_decoded() {
    let mut call = call_of(POST);
    call.set_variables(&[("id", b"7"), ("name", b"a%2fb+c")]);
    let mut find = |name: &CStr| string((API.variable)(Some(&mut call), name.as_ptr()));
    assert_eq!(find(c"id").as_deref(), Some("7"));
    assert_eq!(find(c"name").as_deref(), Some("a/b+c"));
    assert_eq!(find(c"i"), None);
    assert_eq!(string((API.target)(Some(&mut call))).map(|target| target.len()), Some(25));
}

#[test]
fn null_is_refused() {
    assert_eq!(string((API.method)(None)), None);
    let mut call = call_of(POST);
    assert_eq!(string((API.query)(Some(&mut call), ptr::null())), None);
    assert_eq!((API.header)(Some(&mut call), ptr::null(), ptr::null()), REFUSED);
    assert_eq!((API.respond)(Some(&mut call), 200, ptr::null(), 1), REFUSED);
    assert_eq!((API.respond)(Some(&mut call), 200, ptr::null(), 0), DONE);
}
