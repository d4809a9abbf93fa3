//! What is reused has no effect on results: each is compared with one that is made for it alone.

use std::sync::Arc;

use proptest::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyTuple};

use super::message::Message;
use super::shared::Shared;
use crate::head::{BodySize, Expectation, ResponseHead};
use jissoku_http::Version;

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
    let request = Expectation { version: Version::Http11, is_head: false, persists: true };
    let mut bytes = Vec::new();
    let plan = head.plan(request, BodySize::Known(0));
    head.write(plan, b"DATE", |part| bytes.extend_from_slice(part));
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
            let shared = Arc::new(Shared::new(python, &event_loop).expect("the shared state"));
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
