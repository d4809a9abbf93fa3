//! State that all requests of a worker share.

use std::collections::VecDeque;

use jissoku_http::date::{self, DateCache};
use jissoku_os::clock;
use jissoku_os::driver::{ConnectionId, SendBuffer};
use pyo3::prelude::*;

use super::awaitable::Done;
use super::deflate::Deflate;
use super::message::{ClientDisconnected, read_exact_types};
use crate::constant_headers::ConstantHeaders;
use crate::environ::AsgiOptions;
use crate::response_head::ResponseHead;

/// The default of uvicorn.
const MESSAGE_SIZE_MAX: usize = 16 * 1024 * 1024;

/// Messages of a response whose client has disconnected, after which `send` raises an exception in any
/// case: an application that sends without end, and does not listen, would continue for ever.
const DROPPED_MAX: u32 = 10_000;

/// Memory of a buffer that is kept for the next response.
const SPARE_SIZE_MAX: usize = 4 * 1024;

/// State that all requests of a worker share.
#[derive(Debug)]
pub(super) struct Shared {
    /// `loop.create_future`.
    create_future: Py<PyAny>,
    /// The statuses from 200 with the reason phrases of `http.client`.
    status_lines: Vec<String>,
    /// The result of a `send` that need not wait.
    pub(super) done: Py<Done>,
    /// The largest message of a `WebSocket`.
    pub(super) message_size_max: usize,
    /// Whether `send` of an HTTP response raises an exception after the client has disconnected.
    raises_after_disconnect: bool,
    state: Py<State>,
}

/// The mutable part: a Python object, so that its lock is that of the interpreter.
#[pyclass(module = "jissoku")]
#[derive(Debug)]
struct State {
    /// Connections with output to send, or from which receiving may continue.
    ready: VecDeque<ConnectionId>,
    /// An empty buffer of an earlier response, with its memory.
    spare: SendBuffer,
    /// The memory of an earlier head.
    spare_head: ResponseHead,
    constants: ConstantHeaders,
    date: DateCache,
    /// Requests whose task has not ended.
    running: usize,
    is_shutting_down: bool,
    /// Created for the first compressed message.
    deflate: Option<Deflate>,
}

impl Shared {
    pub(super) fn new(
        python: Python<'_>,
        event_loop: &Bound<'_, PyAny>,
        options: AsgiOptions,
    ) -> PyResult<Self> {
        let responses = python.import("http.client")?.getattr("responses")?;
        let status_line = |status: u16| -> PyResult<String> {
            let reason: String = responses.call_method1("get", (status, ""))?.extract()?;
            Ok(format!("{status} {reason}"))
        };
        Ok(Self {
            create_future: event_loop.getattr("create_future")?.unbind(),
            status_lines: (200..600).map(status_line).collect::<PyResult<_>>()?,
            done: Py::new(python, Done)?,
            message_size_max: MESSAGE_SIZE_MAX,
            raises_after_disconnect: options.raises_after_disconnect,
            state: Py::new(
                python,
                State {
                    ready: VecDeque::new(),
                    spare: SendBuffer::default(),
                    spare_head: ResponseHead::default(),
                    constants: ConstantHeaders::default(),
                    date: DateCache::default(),
                    running: 0,
                    is_shutting_down: false,
                    deflate: None,
                },
            )?,
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        Python::attach(|python| work(&mut self.state.borrow_mut(python)))
    }

    /// Has the worker call `respond` for a connection.
    pub(super) fn wake(&self, id: ConnectionId) {
        self.with(|state| state.ready.push_back(id));
    }

    /// The connection that has waited longest.
    pub(super) fn next_ready(&self) -> Option<ConnectionId> {
        self.with(|state| state.ready.pop_front())
    }

    pub(super) fn has_ready(&self) -> bool {
        self.with(|state| !state.ready.is_empty())
    }

    /// Sets the time, on the monotonic clock.
    pub(super) fn set_now(&self, now_ns: u64) {
        self.with(|state| {
            state.date.refresh(now_ns, clock::wall_ns);
        });
    }

    /// A buffer for a response: most are complete in one part, and use the same memory.
    pub(super) fn take_buffer(&self) -> SendBuffer {
        self.with(|state| std::mem::take(&mut state.spare))
    }

    /// Returns an empty buffer. That of a large response is freed.
    pub(super) fn return_buffer(&self, buffer: SendBuffer) {
        if buffer.capacity() <= SPARE_SIZE_MAX {
            self.with(|state| state.spare = buffer);
        }
    }

    pub(super) fn date(&self) -> [u8; date::SIZE] {
        self.with(|state| *state.date.text())
    }

    /// Adds `change` to the number of running tasks.
    pub(super) fn count_running(&self, change: isize) {
        self.with(|state| state.running = state.running.saturating_add_signed(change));
    }

    pub(super) fn running(&self) -> usize {
        self.with(|state| state.running)
    }

    pub(super) fn set_shutting_down(&self) {
        self.with(|state| state.is_shutting_down = true);
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.with(|state| state.is_shutting_down)
    }

    /// Calls `work` with the compressor of the worker.
    pub(super) fn with_deflate<T>(&self, work: impl FnOnce(&mut Deflate) -> T) -> T {
        self.with(|state| work(state.deflate.get_or_insert_with(Deflate::default)))
    }

    /// The result of a `send` that has no effect, because the client has disconnected; `count` messages
    /// of its response had none.
    pub(super) fn drop_message(&self, count: u32) -> PyResult<()> {
        if self.raises_after_disconnect || count > DROPPED_MAX {
            return Err(ClientDisconnected::new_err("the client has disconnected"));
        }
        Ok(())
    }

    /// A status with its reason phrase; empty if it is invalid.
    pub(super) fn status_line(&self, status: u16) -> &str {
        let index = usize::from(status).checked_sub(200);
        index.and_then(|index| self.status_lines.get(index)).map_or("", String::as_str)
    }

    /// The head of a response, if its headers have the usual types and are valid.
    pub(super) fn read_head(
        &self,
        status: u16,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> Option<ResponseHead> {
        self.with(|state| {
            let State { spare_head, constants, .. } = state;
            read_exact_types(self.status_line(status), headers, spare_head, constants)?;
            Some(std::mem::take(spare_head))
        })
    }

    /// Returns a head that was written, for its memory.
    pub(super) fn return_head(&self, head: ResponseHead) {
        if head.size() <= SPARE_SIZE_MAX {
            self.with(|state| state.spare_head = head);
        }
    }

    pub(super) fn create_future<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.create_future.bind(python).call0()
    }
}

/// Resolves `futures`; those of cancelled tasks are cancelled already.
pub(super) fn resolve(python: Python<'_>, futures: Vec<Py<PyAny>>) {
    for future in futures {
        let future = future.bind(python);
        let resolve = || -> PyResult<()> {
            if !future.call_method0(pyo3::intern!(python, "done"))?.is_truthy()? {
                future.call_method1(pyo3::intern!(python, "set_result"), (python.None(),))?;
            }
            Ok(())
        };
        if let Err(error) = resolve() {
            // The loop is closed: no task awaits the future.
            drop(error);
        }
    }
}
