//! The layout of the table, and the functions over one that records what it is called with.

mod files_and_stores;
mod uploads;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, process, ptr};

use super::*;
use crate::exported::respond as respond_with;
use crate::{Body, Chart, ChartKind, Handler, Request, Response};

/// Offsets of members, each with what C calls it.
macro_rules! offsets {
    ($type:ty as $name:literal: $($member:ident),* $(,)?) => {
        [$((
            format!("offsetof({}, {})", $name, stringify!($member).trim_start_matches('_')),
            offset_of!($type, $member),
        )),*]
    };
}

/// What a C compiler says of the header: sizes and offsets by the expressions that it is asked for.
fn compiled(expressions: &[String]) -> BTreeMap<String, usize> {
    let lines =
        expressions.iter().map(|it| format!("printf(\"{it}\\t%zu\\n\", (size_t)({it}));\n"));
    let body: String = lines.collect();
    let source = format!("#include <jissoku.h>\n#include <stdio.h>\nint main(void) {{\n{body}}}\n");
    let folder = env::temp_dir().join(format!("jissoku-handler-layout-{}", process::id()));
    fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    let [file, program] = ["layout.c", "layout"].map(|name| folder.join(name));
    fs::write(&file, source).expect("the folder can be written");
    let header = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../jissoku-handlers/include");
    let status =
        Command::new("cc").arg("-I").arg(header).arg("-o").args([&program, &file]).status();
    assert!(status.expect("there is a C compiler").success());
    let output = Command::new(&program).output().expect("the program runs");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    let text = String::from_utf8(output.stdout).expect("it is a text");
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("it is a number"))).collect()
}

#[test]
fn the_table_is_that_of_the_header() {
    let members = offsets!(Api as "jsk_api":
        size, _version, method, target, path, query_string, query, form, field, each_field,
        each_query, body, client, scheme, http_version, state, _header, header_str, respond,
        respond_owned, _printf, escape_html, escape_json, escape_url, http_date, sha256, random,
        variable, after, defer, finish, chart, send_file, store_open, store_error, _store_get,
        store_read, store_put, store_put_if_absent, store_swap, store_delete, store_increment,
        store_scan, finish_with, begin, write, when_sent, end, begin_later, write_later, end_later,
        set_data, data, pause_body, resume_body, finish_owned, finish_file,
        store_put_many,
    );
    assert_eq!(members.len(), size_of::<Api>() / size_of::<usize>(), "each member is compared");
    let chart = offsets!(chart::RawChart as "jsk_chart":
        title, description, unit, x_title, series, series_count, labels, label_count, positions,
        reach_low, reach_high, bins, width, height,
    );
    let series = offsets!(chart::Series as "jsk_series": name, values, count);
    let sizes = [
        ("offsetof(jsk_str, len)", offset_of!(Str, len)),
        ("sizeof(jsk_str)", size_of::<Str>()),
        ("sizeof(jsk_chart)", size_of::<chart::RawChart>()),
        ("sizeof(jsk_series)", size_of::<chart::Series>()),
        ("sizeof(jsk_entry)", size_of::<store::RawEntry>()),
        ("offsetof(jsk_entry, value)", offset_of!(store::RawEntry, value)),
        ("offsetof(jsk_entry, is_removed)", offset_of!(store::RawEntry, is_removed)),
        ("sizeof(jsk_field)", size_of::<parts::Field>()),
        ("sizeof(int)", size_of::<c_int>()),
        ("JSK_ABI", ABI as usize),
        ("JSK_LINE", ChartKind::Line as usize),
        ("JSK_RING", ChartKind::Ring as usize),
    ];
    let sizes = sizes.map(|(expression, expected)| (expression.to_owned(), expected));
    let all: Vec<_> = members.into_iter().chain(chart).chain(series).chain(sizes).collect();
    let size = "sizeof(jsk_api)".to_owned();
    let expressions = all.iter().map(|(expression, _)| expression.clone());
    let found = compiled(&expressions.chain([size.clone()]).collect::<Vec<_>>());
    for (expression, expected) in all {
        assert_eq!(found[&expression], expected, "{expression}");
    }
    assert!(found[&size] >= size_of::<Api>());
}

thread_local! {
    /// What the functions below were called with.
    static CALLED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static STATE: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
    static RESUME: Cell<Option<(ResumeFunction, *mut c_void)>> = const { Cell::new(None) };
}

fn note(text: String) {
    CALLED.with_borrow_mut(|called| called.push(text));
}

fn called() -> Vec<String> {
    CALLED.take()
}

fn shown(text: Str) -> String {
    String::from_utf8_lossy(text.bytes().unwrap_or_default()).into_owned()
}

unsafe extern "C" fn text(_: *mut RawRequest) -> Str {
    Str::of(b"text")
}

unsafe extern "C" fn find(_: *mut RawRequest, name: *const c_char) -> Str {
    // SAFETY: the name ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    note(format!("find {}", name.to_string_lossy()));
    Str { ptr: ptr::null(), len: 0 }
}

unsafe extern "C" fn convert(_: *mut RawRequest, text: Str) -> Str {
    text
}

unsafe extern "C" fn each(_: *mut RawRequest, visit: Visit, argument: *mut c_void) -> c_int {
    for (name, value) in [(b"a", b"1"), (b"b", b"2")] {
        // SAFETY: it is called with its argument.
        let result = unsafe { visit(argument, Str::of(name), Str::of(value)) };
        assert_eq!(result, DONE);
    }
    DONE
}

unsafe extern "C" fn state(_: *mut RawRequest) -> *mut c_void {
    STATE.get()
}

unsafe extern "C" fn header_str(_: *mut RawRequest, name: *const c_char, value: Str) -> c_int {
    // SAFETY: the name ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    note(format!("field {}: {}", name.to_string_lossy(), shown(value)));
    if value.len == 0 { -1 } else { DONE }
}

unsafe extern "C" fn respond(
    _: *mut RawRequest,
    status: c_int,
    body: *const c_void,
    size: usize,
) -> c_int {
    note(format!("{status} {}", shown(Str { ptr: body.cast(), len: size })));
    if (200..600).contains(&status) { DONE } else { -1 }
}

unsafe extern "C" fn respond_owned(
    _: *mut RawRequest,
    status: c_int,
    body: *const c_void,
    size: usize,
    release: Option<Release>,
    argument: *mut c_void,
) -> c_int {
    note(format!("{status} {} bytes", shown(Str { ptr: body.cast(), len: size }).len()));
    // SAFETY: it is called once with its argument.
    unsafe { release.expect("it is owned")(argument) };
    DONE
}

unsafe extern "C" fn http_date(_: *mut RawRequest, _: u64) -> Str {
    Str::of(b"date")
}

unsafe extern "C" fn random(bytes: *mut c_void, size: usize) -> c_int {
    // SAFETY: there is room for this many bytes.
    unsafe { ptr::write_bytes(bytes.cast::<u8>(), 7, size) };
    DONE
}

unsafe extern "C" fn after(
    _: *mut RawRequest,
    ms: u32,
    resume: ResumeFunction,
    argument: *mut c_void,
) -> c_int {
    note(format!("after {ms}"));
    if RESUME.get().is_some() {
        return -1;
    }
    RESUME.set(Some((resume, argument)));
    DONE
}

unsafe extern "C" fn defer(
    _: *mut RawRequest,
    ms: u32,
    gone: Option<Release>,
    argument: *mut c_void,
) -> u64 {
    note(format!("defer {ms}"));
    if ms == 1 {
        // SAFETY: it is called once with its argument.
        unsafe { gone.expect("it is there")(argument) };
    }
    if ms == 0 { 0 } else { 42 }
}

unsafe extern "C" fn finish(token: u64, status: c_int, body: *const c_void, size: usize) -> c_int {
    note(format!("finish {token}: {status} {}", shown(Str { ptr: body.cast(), len: size })));
    if (200..600).contains(&status) { DONE } else { -1 }
}

unsafe extern "C" fn draw(
    _: *mut RawRequest,
    kind: c_int,
    chart: *const chart::RawChart,
    why: *mut Str,
) -> Str {
    // SAFETY: it outlives the call.
    let chart = unsafe { &*chart };
    // SAFETY: there are this many series.
    let series = unsafe { slice::from_raw_parts(chart.series, chart.series_count) };
    let counts = series.iter().map(|series| series.count).collect::<Vec<_>>();
    // SAFETY: the title ends with a zero.
    let title = unsafe { CStr::from_ptr(chart.title) };
    note(format!(
        "{kind} {title:?} {counts:?} {} {}",
        chart.label_count,
        chart.description.is_null()
    ));
    // SAFETY: there is room for it.
    unsafe { why.write(Str::of(b"why")) };
    if kind == 1 { Str::of(b"<svg/>") } else { Str { ptr: ptr::null(), len: 0 } }
}

const API: Api = Api {
    size: size_of::<Api>(),
    _version: ABI,
    method: text,
    target: text,
    path: text,
    query_string: text,
    query: find,
    form: find,
    field: find,
    each_field: each,
    each_query: each,
    body: text,
    client: text,
    scheme: text,
    http_version: text,
    state,
    _header: ptr::null(),
    header_str,
    respond,
    respond_owned,
    _printf: ptr::null(),
    escape_html: convert,
    escape_json: convert,
    escape_url: convert,
    http_date,
    sha256: convert,
    random,
    variable: find,
    after,
    defer,
    finish,
    chart: draw,
    send_file: files_and_stores::send_file,
    store_open: files_and_stores::store_open,
    store_error: files_and_stores::store_error,
    _store_get: ptr::null(),
    store_read: files_and_stores::store_read,
    store_put: files_and_stores::store_put,
    store_put_if_absent: files_and_stores::store_put,
    store_swap: files_and_stores::store_swap,
    store_delete: files_and_stores::store_delete,
    store_increment: files_and_stores::store_increment,
    store_scan: files_and_stores::store_scan,
    finish_with: files_and_stores::finish_with,
    begin: files_and_stores::begin,
    write: files_and_stores::write,
    when_sent: files_and_stores::when_sent,
    end: files_and_stores::end,
    begin_later: files_and_stores::begin_later,
    write_later: files_and_stores::write_later,
    end_later: files_and_stores::end_later,
    set_data: uploads::set_data,
    data: uploads::data,
    pause_body: uploads::pause_body,
    resume_body: uploads::resume_body,
    finish_owned: files_and_stores::finish_owned,
    finish_file: files_and_stores::finish_file,
    store_put_many: files_and_stores::store_put_many,
};

/// Calls a handler with this table.
fn call(api: &Api, handler: impl FnOnce(Request<'_>) -> Response<'_>) -> c_int {
    let mut request = RawRequest { _private: [] };
    // SAFETY: both outlive the call.
    unsafe { handle(api, &raw mut request, |call| respond_with(call, handler)) }
}

fn is_dropped(flag: &Arc<()>) -> bool {
    Arc::strong_count(flag) == 1
}

#[test]
fn a_request_is_read_by_the_functions_of_the_server() {
    let result = call(&API, |request| {
        assert_eq!(
            (request.method(), &*request.path(), request.body()),
            ("text", "text", &b"text"[..])
        );
        assert_eq!((request.client(), request.query("name")), (Some("text"), None));
        assert_eq!((request.field("a\0b"), request.variable(&"n".repeat(100))), (None, None));
        let queries = request.queries();
        assert_eq!(queries, [(Cow::from("a"), Cow::from("1")), (Cow::from("b"), Cow::from("2"))]);
        assert_eq!((request.escape_html("<é>"), request.http_date(0)), ("<é>", "date"));
        assert_eq!(request.sha256(&[1; 32]), [1; 32]);
        let mut bytes = [0; 3];
        assert!(request.server().random(&mut bytes) && bytes == [7; 3]);
        Response::text("ok").status(201).field("X", "y")
    });
    assert_eq!(result, DONE);
    let long = format!("find {}", "n".repeat(100));
    let field = "field Content-Type: text/plain; charset=utf-8";
    assert_eq!(called(), ["find name", &long, field, "field X: y", "201 ok"]);
}

#[test]
fn a_function_that_an_older_server_does_not_have_is_not_called() {
    let size = offset_of!(Api, method) + size_of::<Text>();
    let older = Api { size, ..API };
    let flag = Arc::new(());
    let held = Arc::clone(&flag);
    let result = call(&older, |request| {
        assert_eq!((request.method(), request.target()), ("text", &b""[..]));
        assert_eq!((request.query("a"), request.fields()), (None, Vec::new()));
        assert!(!request.server().random(&mut [0]));
        let _refused = request.defer(Duration::from_secs(1), |_| unreachable!());
        request.after(Duration::from_secs(1), move |_| {
            drop(held);
            Response::new(200)
        })
    });
    assert_eq!((result, called()), (FAILED, Vec::new()));
    assert!(is_dropped(&flag));
    assert_eq!(call(&older, |request| Response::text(request.escape_html("x"))), PANICKED);
    let unowned = Api { size: offset_of!(Api, respond_owned), ..API };
    assert_eq!(call(&unowned, |_| Response::new(200).body(vec![b'x'; 20_000])), DONE);
    assert_eq!(called(), [format!("200 {}", "x".repeat(20_000))]);
}

#[test]
fn a_response_that_the_server_refuses_is_a_failure() {
    assert_eq!(call(&API, |_| Response::new(99)), FAILED);
    assert_eq!(call(&API, |_| Response::new(200).field("Empty", "")), FAILED);
    assert_eq!(call(&API, |_| Response::new(200).field("a\0b", "c")), FAILED);
    assert_eq!(called(), ["99 ", "field Empty: "]);
    assert_eq!(call(&API, |_| Response::from(Err::<Response<'_>, _>("why"))), FAILED);
    assert_eq!(call(&API, |_| Response::from("text")), DONE);
}

static LARGE: [u8; 16_385] = [b'x'; 16_385];

#[test]
fn a_large_body_that_is_owned_is_not_copied() {
    let shared: Arc<[u8]> = vec![b'x'; 3].into();
    let body = Body::from(Arc::clone(&shared));
    assert_eq!(call(&API, |_| Response::new(200).body(body)), DONE);
    assert_eq!(Arc::strong_count(&shared), 1, "it is released");
    assert_eq!(call(&API, |_| Response::new(200).body(vec![b'x'; 16_385])), DONE);
    assert_eq!(call(&API, |_| Response::new(200).body(Body::Static(&LARGE))), DONE);
    assert_eq!(called(), ["200 3 bytes", "200 16385 bytes", "200 16385 bytes"]);
}

#[test]
fn a_panic_ends_at_the_border() {
    assert_eq!(call(&API, |_| panic!("as a test")), PANICKED);
    assert_eq!(call(&API, |_| Response::new(200)), DONE);
    // SAFETY: NULL is refused.
    assert_eq!(unsafe { handle(ptr::null(), ptr::null_mut(), |_| DONE) }, FAILED);
}

struct Counter {
    _flag: Arc<()>,
    count: u32,
}

impl Handler for Counter {
    fn start(_: Server) -> Result<Self, Box<dyn std::error::Error>> {
        Err("there is nothing to count".into())
    }

    fn handle<'r>(&mut self, _: Request<'r>) -> Response<'r> {
        self.count += 1;
        Response::from(self.count.to_string())
    }
}

#[test]
fn a_state_is_passed_to_each_call_and_dropped_at_the_end() {
    let flag = Arc::new(());
    let counter = Counter { _flag: Arc::clone(&flag), count: 40 };
    let mut begun = ptr::null_mut();
    // SAFETY: there is room for a pointer.
    assert_eq!(unsafe { start(&API, &raw mut begun, |_| Some(counter)) }, DONE);
    let mut request = RawRequest { _private: [] };
    let mut count = |begun| {
        STATE.set(begun);
        let respond = |counter: &mut Counter, call: Call<'_>| {
            respond_with(call, |request| counter.handle(request))
        };
        // SAFETY: the state is one of this type, or NULL.
        unsafe { handle_with_state(&API, &raw mut request, respond) }
    };
    assert_eq!([count(begun), count(begun), count(ptr::null_mut())], [DONE, DONE, FAILED]);
    let lines = called();
    assert_eq!((&*lines[1], &*lines[3]), ("200 41", "200 42"));
    // SAFETY: the state is one of this type, and NULL is ignored.
    unsafe { stop(begun, Counter::stop) };
    // SAFETY: as above.
    unsafe { stop(ptr::null_mut(), Counter::stop) };
    assert!(is_dropped(&flag));
    // SAFETY: there is room for a pointer.
    assert_eq!(unsafe { start(&API, &raw mut begun, crate::exported::begin::<Counter>) }, FAILED);
    // SAFETY: as above.
    let result = unsafe { start::<Counter>(&API, &raw mut begun, |_| panic!("as a test")) };
    assert_eq!(result, PANICKED);
}

#[test]
fn a_chart_is_drawn_or_there_is_a_reason() {
    let (short, long) = ([1.0, 2.0], [1.0, 2.0, 3.0]);
    let chart = Chart {
        title: "t",
        series: &[("a", &short), ("b", &long)],
        labels: &["x", ""],
        ..Chart::default()
    };
    call(&API, |request| {
        let drawn = |kind, chart: &Chart<'_>| request.chart(kind, chart);
        assert_eq!(drawn(ChartKind::Line, &chart), Ok("<svg/>"));
        assert_eq!(drawn(ChartKind::Ring, &chart), Err("why".to_owned()));
        let short = drawn(ChartKind::Line, &Chart { positions: &short, ..chart });
        assert_eq!(short, Err("there are 2 positions, not 3".to_owned()));
        assert!(drawn(ChartKind::Line, &Chart { unit: "a\0b", ..chart }).is_err());
        Response::new(204)
    });
    assert_eq!(called(), ["1 \"t\" [2, 3] 2 true", "5 \"t\" [2, 3] 2 true", "204 "]);
}

#[test]
fn a_request_waits_for_one_thing() {
    RESUME.set(None);
    let result = call(&API, |request| {
        let _waiting = request.after(Duration::from_secs(1), |_| Response::new(200));
        request.after(Duration::ZERO, |_| Response::new(200))
    });
    assert_eq!(result, FAILED);
    assert_eq!(called(), ["after 1000", "after 0"]);
    let (resume, argument) = RESUME.take().expect("it waits");
    // SAFETY: it is called once with its argument.
    assert_eq!(unsafe { resume(&API, ptr::null_mut(), argument) }, DONE);
}

#[test]
fn what_waits_is_dropped_if_the_client_leaves() {
    for (is_there, expected) in [(true, "200 text"), (false, "")] {
        let flag = Arc::new(());
        let held = Arc::clone(&flag);
        RESUME.set(None);
        let result = call(&API, move |request| {
            request.after(Duration::from_micros(1500), move |request| {
                drop(held);
                Response::new(200).body(request.method())
            })
        });
        assert_eq!(result, DONE);
        assert_eq!(called(), ["after 2"]);
        let (resume, argument) = RESUME.take().expect("it waits");
        let mut request = RawRequest { _private: [] };
        let request = if is_there { &raw mut request } else { ptr::null_mut() };
        // SAFETY: it is called once with its argument.
        assert_eq!(unsafe { resume(&API, request, argument) }, DONE);
        assert!(is_dropped(&flag));
        assert_eq!(called().join(" "), expected);
    }
}

#[test]
fn another_thread_responds_once() {
    let waits = |ms, begin: fn(crate::Later)| {
        call(&API, |request| request.defer(Duration::from_millis(ms), begin))
    };
    assert_eq!(waits(5, |later| assert!(later.is_wanted() && later.respond(201, "done"))), DONE);
    assert_eq!(called(), ["defer 5", "finish 42: 201 done"]);
    assert_eq!(waits(1, |later| assert!(!later.is_wanted())), DONE);
    assert_eq!(called(), ["defer 1", "finish 42: 500 Internal Server Error\n"]);
    assert_eq!(waits(7, |later| assert!(!later.respond(99, ""))), DONE);
    assert_eq!(called().len(), 3);
    assert_eq!(waits(0, |_| unreachable!()), FAILED);
}
