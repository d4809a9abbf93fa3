//! Caches have no effect on results: every request and response is compared with one without them.

mod exclusive_threads;
mod reference;

use jissoku_http::limits::Limits;
use jissoku_http::{Event, Head, RequestParser, Version, date};
use jissoku_os::driver::SendBuffer;
use jissoku_os::socket::Endpoint;
use proptest::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::body_writer::WriteOutcome;
use crate::environ::{Client, Environ, Environs, ServerInfo};
use crate::response_head::{BodySize, Expectation, ResponseHead};
use crate::sink::Sink;
use crate::wsgi::Wsgi;

fn environs(python: Python<'_>) -> Environs {
    let address = "127.0.0.1:8000".parse().expect("an address");
    let listeners = vec![Endpoint::Tcp(address), Endpoint::Unix("/run/a.sock".into())];
    let server = ServerInfo {
        listeners,
        secure_listeners: <_>::default(),
        is_multiprocess: false,
        threads: 0,
        body_memory_max: crate::BODY_MEMORY_MAX,
        root_path: String::new(),
        asgi: crate::environ::AsgiOptions::default(),
    };
    Environs::new(python, &server).expect("the templates are built")
}

fn clients(python: Python<'_>) -> [Client; 3] {
    let tcp = |text: &str| Client::new(python, 0, Some(text.parse().expect("an address")));
    [tcp("127.0.0.1:5000"), tcp("[::1]:5001"), Client::new(python, 1, None)]
}

fn parsed(bytes: &[u8]) -> Head {
    let step = RequestParser::new().step(bytes, &Limits::default()).expect("a valid head");
    match step.event {
        Event::Head(head) => head,
        other => panic!("{other:?} of {:?}", String::from_utf8_lossy(bytes)),
    }
}

/// Few names and values, so that heads, names and values come again.
fn field() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("Accept".to_owned()),
        Just("aCCept".to_owned()),
        Just("Cookie".to_owned()),
        Just("cookie".to_owned()),
        Just("Content-Type".to_owned()),
        Just("X_Under".to_owned()),
        "X-[A-Ca-c]{1,2}",
        "[A-Za-z-]{1,20}".prop_filter("fields of the framing", |name| !is_framing(name)),
    ];
    let value =
        prop_oneof![Just("a".to_owned()), Just("b; c".to_owned()), "[ -~]{0,30}", "[é-ÿ]{0,4}"];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

fn is_framing(name: &str) -> bool {
    let names = ["host", "content-length", "transfer-encoding", "expect", "upgrade"];
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// A head, as latin-1.
fn head() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("GET / HTTP/1.1".to_owned()),
        Just("GET /?a=b HTTP/1.0".to_owned()),
        Just("POST http://h/%2525%E9?x%20y HTTP/1.1".to_owned()),
        "(GET|HEAD|PUT|M-SEARCH) /[a-c/%]{0,4}(\\?[a-c%&]{0,3})? HTTP/1\\.[01]",
    ];
    (line, prop::collection::vec(field(), 0..5)).prop_map(|(line, fields)| {
        let text = format!("{line}\r\nHost: h\r\nContent-Length: 0\r\n{}\r\n", fields.concat());
        text.chars().map(|point| u8::try_from(u32::from(point)).expect("latin-1")).collect()
    })
}

/// What an application does with an environ, besides reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Nothing,
    Change,
    /// The change is undone.
    ChangeBack,
    Keep,
}

/// Requests of which several have the same fields.
fn requests() -> impl Strategy<Value = Vec<(Vec<u8>, usize, Treatment)>> {
    let treatment = prop_oneof![
        4 => Just(Treatment::Nothing),
        1 => Just(Treatment::Change),
        1 => Just(Treatment::ChangeBack),
        1 => Just(Treatment::Keep),
    ];
    let heads = prop::collection::vec(head(), 1..6);
    let order = (any::<prop::sample::Index>(), 0_usize..3, treatment);
    (heads, prop::collection::vec(order, 1..40)).prop_map(|(heads, order)| {
        let request = |(index, client, treatment): (prop::sample::Index, _, _)| {
            (index.get(&heads).clone(), client, treatment)
        };
        order.into_iter().map(request).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_environ_is_the_same_with_and_without_caches(requests in requests()) {
        Python::initialize();
        Python::attach(|python| -> Result<(), TestCaseError> {
            let clients = clients(python);
            let mut environs = environs(python);
            let mut kept = Vec::new();
            for (bytes, client, treatment) in &requests {
                let head = parsed(bytes);
                let environ = environs.build(python, (&head, bytes), &clients[*client])
                    .expect("an environ");
                let dict = environ.dict.bind(python);
                let given = reference::strings_of(dict);
                prop_assert_eq!(&given, &reference::strings(&head, bytes, *client));
                // What an application does with it has no effect on other requests, and theirs have
                // none on an environ that it has kept.
                match treatment {
                    Treatment::Nothing => {}
                    Treatment::Change => {
                        dict.set_item("HTTP_ACCEPT", "changed").expect("a dict");
                        dict.set_item("PATH_INFO", "changed").expect("a dict");
                        dict.set_item("another", "one").expect("a dict");
                    }
                    Treatment::ChangeBack => {
                        dict.set_item("another", "one").expect("a dict");
                        dict.del_item("another").expect("a dict");
                    }
                    Treatment::Keep => kept.push((environ.dict.clone_ref(python), given)),
                }
                environs.take_back(python, environ);
            }
            for (environ, given) in kept {
                prop_assert_eq!(reference::strings_of(environ.bind(python)), given);
            }
            Ok(())
        })?;
    }
}

/// One call of the application: status, headers, body, and whether it keeps `start_response`.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "all combinations are possible")]
struct Call {
    status: String,
    headers: Vec<(String, String)>,
    /// Whether the headers are objects that were passed before, and the types the usual ones.
    is_constant: bool,
    has_exact_types: bool,
    body: Vec<Vec<u8>>,
    is_list: bool,
    keeps: bool,
    is_head: bool,
}

fn call() -> impl Strategy<Value = Call> {
    let status = prop_oneof![
        Just("200 OK".to_owned()),
        Just("404 Not Found".to_owned()),
        Just("204 No Content".to_owned()),
        Just("299".to_owned()),
        "[1-6][0-9]{2} [ -~\r]{0,8}",
    ];
    let header = prop_oneof![
        Just(("Content-Type".to_owned(), "text/plain".to_owned())),
        Just(("Date".to_owned(), "now".to_owned())),
        Just(("Connection".to_owned(), "close".to_owned())),
        Just(("Transfer-Encoding".to_owned(), "chunked".to_owned())),
        "[0-9]".prop_map(|size| ("Content-Length".to_owned(), size)),
        ("[A-Za-z-]{0,5}", "[ -~]{0,10}|[é-ÿ]{1,2}|a\r\nb|\u{100}"),
    ];
    let headers = prop::collection::vec(header, 0..4);
    let body = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..3);
    (status, headers, body, any::<[bool; 5]>()).prop_map(
        |(status, headers, body, [is_constant, has_exact_types, is_list, keeps, is_head])| Call {
            status,
            headers,
            is_constant,
            has_exact_types,
            body,
            is_list,
            keeps,
            is_head,
        },
    )
}

const APP: &std::ffi::CStr = c"
class Text(str):
    pass

kept = []
constants = {}

def app(environ, start_response):
    status, headers, is_constant, has_exact_types, body, keeps = environ['call']
    if is_constant:
        headers = [constants.setdefault(pair, pair) for pair in headers]
    if not has_exact_types:
        status = Text(status)
    write = start_response(status, headers)
    if keeps:
        kept.append((start_response, write))
    return body

def meddle():
    while kept:
        start_response, write = kept.pop()
        write(b'late')
        try:
            start_response('200 Late', [])
        except AssertionError:
            pass
";

/// The bytes sent for a call, or `None` if its head is invalid.
fn expected_output(call: &Call) -> Option<Vec<u8>> {
    let latin1 = |text: &str| -> Option<Vec<u8>> {
        text.chars().map(|point| u8::try_from(u32::from(point)).ok()).collect()
    };
    let mut head = ResponseHead::new(&latin1(&call.status)?).ok()?;
    for (name, value) in &call.headers {
        head.add(&latin1(name)?, &latin1(value)?).ok()?;
    }
    let body = call.body.concat();
    let request = expectation(call);
    let plan = head.plan(&request, BodySize::Known(body.len() as u64));
    let mut sent = Vec::new();
    head.write(plan, (&date::imf_fixdate(0), &request), |part| sent.extend_from_slice(part));
    let size = match plan.framing {
        crate::response_head::Framing::Length(size) => usize::try_from(size).expect("a small size"),
        _ => 0,
    };
    sent.extend_from_slice(&body[..body.len().min(size)]);
    Some(sent)
}

fn expectation(call: &Call) -> Expectation {
    Expectation {
        version: Version::Http11,
        is_head: call.is_head,
        persists: true,
        request_id: None,
        name: crate::request_name::RequestName::default(),
    }
}

fn environ_of(python: Python<'_>, call: &Call) -> Environ {
    let pair = |(name, value): &(String, String)| PyTuple::new(python, [name, value]);
    let headers: Result<Vec<_>, _> = call.headers.iter().map(pair).collect();
    let headers = PyList::new(python, headers.expect("tuples")).expect("a list");
    let chunks = call.body.iter().map(|chunk| PyBytes::new(python, chunk));
    let body = if call.is_list {
        PyList::new(python, chunks).expect("a list").into_any()
    } else {
        PyTuple::new(python, chunks).expect("a tuple").into_any()
    };
    let status = PyString::new(python, &call.status);
    let values = (status, headers, call.is_constant, call.has_exact_types, body, call.keeps);
    let environ = PyDict::new(python);
    environ.set_item("call", values).expect("a dict");
    Environ::new(environ)
}

fn taken(output: &mut SendBuffer) -> Vec<u8> {
    let mut bytes = vec![0; output.size()];
    let size = output.drain_into(&mut bytes).expect("there is no file");
    bytes.truncate(size);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_response_is_the_same_with_and_without_caches(
        calls in prop::collection::vec(call(), 1..30)
    ) {
        Python::initialize();
        Python::attach(|python| -> Result<(), TestCaseError> {
            let module = PyModule::from_code(python, APP, c"app.py", c"app").expect("it compiles");
            // The tracebacks of invalid heads are not part of the result.
            let io = python.import("io").and_then(|io| io.call_method0("StringIO"));
            python.import("sys").expect("sys").setattr("stderr", io.expect("a file")).expect("set");
            let app = module.getattr("app").expect("it is defined").unbind();
            let mut wsgi = Wsgi::new(app, environs(python));
            for call in &calls {
                let environ = environ_of(python, call);
                let (outcome, response, mut sink) =
                    wsgi.respond(python, Ok(environ), expectation(call), Sink::default());
                drop(response);
                prop_assert!(outcome != WriteOutcome::More);
                let given = taken(sink.output());
                match expected_output(call) {
                    Some(sent) => prop_assert_eq!(given, sent),
                    None => prop_assert!(given.starts_with(b"HTTP/1.1 500 ")),
                }
                // An object that an application has kept does not affect later responses.
                module.call_method0("meddle").expect("it does not fail");
            }
            Ok(())
        })?;
    }
}

#[test]
fn an_environ_that_an_application_leaves_as_it_was_is_used_again() {
    Python::initialize();
    Python::attach(|python| {
        let clients = clients(python);
        let mut environs = environs(python);
        let bytes = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let head = parsed(bytes);
        let build = |environs: &mut Environs| {
            environs.build(python, (&head, bytes), &clients[0]).expect("an environ")
        };
        // It is in the cache from the second time on.
        (0..2).for_each(|_| drop(build(&mut environs)));
        let environ = build(&mut environs);
        let first = environ.dict.as_ptr();
        environs.take_back(python, environ);
        let environ = build(&mut environs);
        assert_eq!(environ.dict.as_ptr() == first, python.version_info() < (3, 14));
        let kept = environ.dict.clone_ref(python);
        environs.take_back(python, environ);
        assert!(!build(&mut environs).dict.is(&kept));
    });
}
