//! What is reused has no effect on results: each is compared with one that is made for it alone.

use std::sync::Arc;

use proptest::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyTuple};

use jissoku_http::limits::Limits;
use jissoku_http::{Event, Head, RequestParser, Version};
use jissoku_os::driver::ConnectionId;

use super::message::Message;
use super::scope::{Scopes, client};
use super::shared::Shared;
use crate::environ::{AsgiOptions, ServerInfo};
use crate::request_name::RequestName;
use crate::response_head::{BodySize, Expectation, ResponseHead};

/// A header of a response, and the types of its objects.
#[derive(Clone, Debug)]
struct Field {
    name: Vec<u8>,
    value: Vec<u8>,
    /// Whether the same object was passed before.
    is_constant: bool,
    is_tuple: bool,
    is_bytes: bool,
}

fn field() -> impl Strategy<Value = Field> {
    let pair = prop_oneof![
        Just((b"content-type".to_vec(), b"text/plain".to_vec())),
        Just((b"date".to_vec(), b"now".to_vec())),
        Just((b"Connection".to_vec(), b"close".to_vec())),
        "[0-9]".prop_map(|size| (b"content-length".to_vec(), size.into_bytes())),
        ("[A-Za-z-]{0,5}", prop::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(name, value)| (name.into_bytes(), value)),
    ];
    let flags = (any::<bool>(), prop::bool::weighted(0.9), prop::bool::weighted(0.9));
    (pair, flags).prop_map(|((name, value), (is_constant, is_tuple, is_bytes))| Field {
        name,
        value,
        is_constant,
        is_tuple,
        is_bytes,
    })
}

fn object_of<'py>(
    python: Python<'py>,
    field: &Field,
    constants: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = PyBytes::new(python, &field.name).into_any();
    let value = if field.is_bytes {
        PyBytes::new(python, &field.value).into_any()
    } else {
        PyByteArray::new(python, &field.value).into_any()
    };
    if !field.is_tuple {
        return Ok(PyList::new(python, [name, value])?.into_any());
    }
    let pair = PyTuple::new(python, [name, value])?.into_any();
    if field.is_constant && field.is_bytes {
        return constants.call_method1("setdefault", (&pair, &pair));
    }
    Ok(pair)
}

fn written(head: &ResponseHead) -> Vec<u8> {
    let request = Expectation {
        version: Version::Http11,
        is_head: false,
        persists: true,
        request_id: None,
        name: RequestName::default(),
    };
    let mut bytes = Vec::new();
    let plan = head.plan(&request, BodySize::Known(0));
    head.write(plan, (b"DATE", &request), |part| bytes.extend_from_slice(part));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_head_is_the_same_with_and_without_caches(
        heads in prop::collection::vec((200_u16..600, prop::collection::vec(field(), 0..4)), 1..20)
    ) {
        Python::initialize();
        Python::attach(|python| -> Result<(), TestCaseError> {
            let event_loop = python.import("asyncio").and_then(|it| it.call_method0("new_event_loop"));
            let event_loop = event_loop.expect("a loop");
            let shared = Arc::new(Shared::new(python, &event_loop, AsgiOptions::default()).expect("the shared state"));
            let constants = PyDict::new(python);
            for (status, fields) in &heads {
                let objects: PyResult<Vec<_>> =
                    fields.iter().map(|field| object_of(python, field, &constants)).collect();
                let headers = PyList::new(python, objects.expect("objects")).expect("a list");
                let message = PyDict::new(python);
                message.set_item("headers", &headers).expect("a dict");
                let message = message.into_any();
                let slow = Message::new(&message)
                    .and_then(|message| message.head(shared.status_line(*status)));
                let fast = shared.read_head(*status, Some(headers.as_any()));
                let has_exact_types = fields.iter().all(|field| field.is_tuple && field.is_bytes);
                prop_assert_eq!(fast.is_some(), slow.is_ok() && has_exact_types);
                if let (Some(fast), Ok(slow)) = (fast, slow) {
                    prop_assert_eq!(written(&fast), written(&slow));
                    shared.return_head(fast);
                }
            }
            event_loop.call_method0("close").expect("it closes");
            Ok(())
        })?;
    }
}

/// What an application does with its scope, besides reading it.
#[derive(Clone, Copy, Debug)]
enum Treatment {
    Nothing,
    /// Change the scope, or this member of it.
    Change(Option<&'static str>),
    /// Keep the scope, or this member of it, and change it later.
    Keep(Option<&'static str>),
}

/// The members that are objects of one scope.
const MEMBERS: [&str; 4] = ["asgi", "state", "extensions", "headers"];

fn treatment() -> impl Strategy<Value = Treatment> {
    let member = || prop::option::of(prop::sample::select(&MEMBERS[..]));
    prop_oneof![
        4 => Just(Treatment::Nothing),
        1 => member().prop_map(Treatment::Change),
        1 => member().prop_map(Treatment::Keep),
    ]
}

fn change(object: &Bound<'_, PyAny>) {
    match object.cast::<PyList>() {
        Ok(list) => list.append(1).expect("a list"),
        Err(_) => object.set_item("another", 1).expect("a dict"),
    }
}

fn parsed(bytes: &[u8]) -> Head {
    match RequestParser::new().step(bytes, &Limits::default()).expect("a valid head").event {
        Event::Head(head) => head,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_scope_is_the_same_whatever_happened_to_others(
        requests in prop::collection::vec((0_usize..4, 0_usize..3, treatment()), 1..40),
        changes_state in any::<bool>(),
    ) {
        let heads: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET /a%20b?c=d HTTP/1.1\r\nHost: h\r\n\r\n",
            b"HEAD / HTTP/1.0\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n",
        ];
        Python::initialize();
        Python::attach(|python| -> Result<(), TestCaseError> {
            let address = "127.0.0.1:8000".parse().expect("an address");
            let server = ServerInfo {
                listeners: vec![jissoku_os::socket::Endpoint::Tcp(address)],
                secure_listeners: <_>::default(),
                is_multiprocess: false,
                threads: 0,
                body_memory_max: crate::BODY_MEMORY_MAX,
                root_path: String::new(),
            asgi: AsgiOptions::default(),
            };
            let state = PyDict::new(python);
            let new = || Scopes::new(python, &server, &state).expect("the templates are built");
            let addresses = ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"];
            let clients = addresses.map(|it| client(python, it.parse().ok()).expect("a tuple"));
            let mut scopes = new();
            let mut kept = Vec::new();
            for (number, (head, client, treatment)) in requests.iter().enumerate() {
                if changes_state && number % 8 == 7 {
                    state.set_item("number", number).expect("a dict");
                }
                let bytes = heads[*head];
                let head = parsed(bytes);
                let place = (0, &clients[*client], None);
                let build = |scopes: &mut Scopes| {
                    scopes.build(python, (&head, bytes), place).expect("a scope").1
                };
                let scope = build(&mut scopes);
                let dict = scope.dict.bind(python).clone();
                prop_assert!(dict.eq(build(&mut new()).dict).expect("they compare"));
                let member = |name: Option<&str>| match name {
                    Some(name) => dict.get_item(name).expect("a dict").expect("it is there"),
                    None => dict.clone().into_any(),
                };
                match treatment {
                    Treatment::Nothing => {}
                    Treatment::Change(name) => change(&member(*name)),
                    Treatment::Keep(name) => kept.push(member(*name)),
                }
                drop(dict);
                scopes.take_back(python, scope);
                if number % 3 == 0 {
                    kept.drain(..).for_each(|object| change(&object));
                }
            }
            Ok(())
        })?;
    }
}

#[test]
fn the_connection_that_has_waited_longest_comes_first() {
    Python::initialize();
    Python::attach(|python| {
        let event_loop = python.import("asyncio").and_then(|it| it.call_method0("new_event_loop"));
        let event_loop = event_loop.expect("a loop");
        let shared = Shared::new(python, &event_loop, AsgiOptions::default());
        let shared = shared.expect("the shared state");
        let ids = [3, 1, 2].map(ConnectionId::from_token);
        shared.wake(ids[0]);
        shared.wake(ids[1]);
        assert_eq!(shared.next_ready(), Some(ids[0]));
        shared.wake(ids[2]);
        assert_eq!(shared.next_ready(), Some(ids[1]));
        assert_eq!(shared.next_ready(), Some(ids[2]));
        assert_eq!(shared.next_ready(), None);
    });
}
