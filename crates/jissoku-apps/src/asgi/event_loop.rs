//! asyncio's event loop on the worker's thread.

use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jissoku_os::clock;
use jissoku_os::epoll::Epoll;
use jissoku_server::{Iteration, ParentPipe};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyModule, PyTuple};

use crate::environ::Lifespan;
use crate::interpreter;

const SOURCE: &str = include_str!("event_loop.py");
const SECOND_NS: f64 = 1e9;

/// State shared by asyncio's selector and the worker.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// When asyncio has to continue, on the monotonic clock; `u64::MAX` for never.
    deadline_ns: AtomicU64,
    /// Descriptors of asyncio are ready.
    has_events: AtomicBool,
}

impl Signals {
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        Some(self.deadline_ns.load(Ordering::Relaxed)).filter(|&deadline| deadline != u64::MAX)
    }

    pub(super) fn set_events(&self) {
        self.has_events.store(true, Ordering::Relaxed);
    }

    /// Whether the worker has to return to asyncio: for a descriptor or because of the time.
    fn is_due(&self) -> bool {
        let is_over = |deadline_ns| clock::monotonic_ns() >= deadline_ns;
        self.has_events.load(Ordering::Relaxed) || self.deadline_ns().is_some_and(is_over)
    }

    fn set_timeout(&self, timeout_s: Option<f64>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let wait = |timeout_s: f64| (timeout_s.max(0.0) * SECOND_NS) as u64;
        let deadline_ns = match timeout_s {
            None => u64::MAX,
            Some(timeout_s) if timeout_s <= 0.0 => 0,
            Some(timeout_s) => clock::monotonic_ns().saturating_add(wait(timeout_s)),
        };
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }
}

/// The event loop of one worker, with the lifespan of its application.
#[derive(Debug)]
pub(super) struct AsyncioLoop {
    pub(super) module: Py<PyModule>,
    asyncio: Py<PyAny>,
    selector: Py<PyAny>,
    lifespan: Py<PyAny>,
    pub(super) signals: Arc<Signals>,
    /// The epoll instance of asyncio, for the driver to watch.
    epoll: Epoll,
}

impl AsyncioLoop {
    /// Creates the loop and runs the startup of the application.
    ///
    /// # Errors
    /// A Python error, or an `io::Error` with the reason why the startup has failed.
    pub(super) fn start(
        python: Python<'_>,
        app: &Bound<'_, PyAny>,
        lifespan: Lifespan,
    ) -> PyResult<Self> {
        let source = CString::new(SOURCE)?;
        let module =
            PyModule::from_code(python, &source, c"jissoku/event_loop.py", c"jissoku_event_loop")?;
        module.setattr("VERB", interpreter::verb())?;
        let epoll = Epoll::new()?;
        // Python closes its own descriptor.
        let descriptor = epoll.as_fd().try_clone_to_owned()?.into_raw_fd();
        let (event_loop, selector): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            module.getattr("new_loop")?.call1((descriptor,))?.extract()?;
        let lifespan = module.getattr("Lifespan")?.call1((
            app,
            &event_loop,
            match lifespan {
                Lifespan::Auto => "auto",
                Lifespan::On => "on",
                Lifespan::Off => "off",
            },
        ))?;
        let this = Self {
            module: module.unbind(),
            asyncio: event_loop.unbind(),
            selector: selector.unbind(),
            epoll,
            signals: Arc::default(),
            lifespan: lifespan.clone().unbind(),
        };
        let failure: Option<String> = lifespan.call_method0("start")?.extract()?;
        match failure {
            None => Ok(this),
            Some(reason) => {
                this.finish(python, None);
                let sentence = format!("the application's startup has failed: {reason}");
                Err(io::Error::other(sentence).into())
            }
        }
    }

    /// A coroutine function that calls the application.
    pub(super) fn inside_of_task<'py>(
        &self,
        app: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.module.bind(app.py()).getattr("inside_of_task")?.call1((app,))
    }

    /// The `state` of the lifespan scope.
    pub(super) fn state<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.lifespan.bind(python).getattr("state")?.cast_into::<PyDict>()?)
    }

    pub(super) fn bind<'py>(&self, python: Python<'py>) -> &Bound<'py, PyAny> {
        self.asyncio.bind(python)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Serves until the worker has ended.
    pub(super) fn run(&self, python: Python<'_>, iteration: Iteration) {
        let served = || -> PyResult<()> {
            ITERATION.set(Some(iteration));
            let iterate = Iterate {
                signals: Arc::clone(&self.signals),
                event_loop: self.asyncio.clone_ref(python),
                is_over: AtomicBool::new(false),
            };
            let iterate = Bound::new(python, iterate)?;
            let is_over = iterate.getattr("is_over")?;
            let arguments = (&self.asyncio, &self.selector, iterate, is_over);
            self.module.bind(python).getattr("serve")?.call1(arguments)?;
            Ok(())
        };
        let served = served();
        ITERATION.set(None);
        if let Err(error) = served {
            interpreter::report(python, &error, "in the event loop");
        }
    }

    /// Runs the shutdown of the application and closes the loop. `parent` gets a report if the application
    /// continues after that.
    pub(super) fn finish(&self, python: Python<'_>, parent: Option<ParentPipe>) {
        let finish = || {
            let report_overdue = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                parent.iter().for_each(ParentPipe::report_overdue);
            };
            let report_overdue = PyCFunction::new_closure(python, None, None, report_overdue)?;
            let arguments = (&self.asyncio, &self.lifespan, report_overdue);
            self.module.bind(python).getattr("finish")?.call1(arguments)
        };
        if let Err(error) = finish() {
            interpreter::report(python, &error, "in the shutdown of the application");
        }
    }
}

thread_local! {
    /// The iteration of the worker of this thread, while it serves and no iteration runs.
    static ITERATION: RefCell<Option<Iteration>> = const { RefCell::new(None) };
}

/// The callable of the selector: iterations of the worker until asyncio has work. It has nothing of
/// the worker, so that another thread may collect it, when the loop has ended.
#[pyclass(module = "jissoku", frozen)]
#[derive(Debug)]
struct Iterate {
    signals: Arc<Signals>,
    event_loop: Py<PyAny>,
    is_over: AtomicBool,
}

#[pymethods]
impl Iterate {
    /// Serves connections until a callback of asyncio is ready, at most for `timeout` seconds, and
    /// returns whether descriptors of asyncio are ready; `None` if it is called by code that an
    /// iteration of the worker has called, as `nest_asyncio` does.
    ///
    /// Most requests are served without a callback, and an iteration of asyncio's loop between two
    /// of them is a tenth of their CPU time.
    #[pyo3(signature = (timeout, /))]
    fn __call__(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<bool>> {
        let Some(mut iteration) = ITERATION.take() else { return Ok(None) };
        self.signals.set_timeout(timeout);
        let agenda = Agenda::of(self.event_loop.bind(python));
        loop {
            if !iteration() {
                self.is_over.store(true, Ordering::Relaxed);
                self.event_loop.call_method0(python, "stop")?;
                return Ok(Some(self.signals.has_events.swap(false, Ordering::Relaxed)));
            }
            interpreter::call_signal_handlers(python);
            if self.signals.is_due() || agenda.as_ref().is_none_or(Agenda::has_changed) {
                break;
            }
        }
        ITERATION.set(Some(iteration));
        Ok(Some(self.signals.has_events.swap(false, Ordering::Relaxed)))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// What asyncio's loop will do next, as its iteration reads it (`BaseEventLoop._run_once`): these
/// attributes are private, and the same in Python 3.11 to 3.14.
struct Agenda<'py> {
    event_loop: &'py Bound<'py, PyAny>,
    ready: Bound<'py, PyAny>,
    /// A heap of timers: only an iteration of the loop removes one.
    timers: Bound<'py, PyList>,
    timer_count: usize,
}

impl<'py> Agenda<'py> {
    /// The agenda of a loop between two iterations; `None` for a loop without these attributes.
    fn of(event_loop: &'py Bound<'py, PyAny>) -> Option<Self> {
        let python = event_loop.py();
        let ready = event_loop.getattr(pyo3::intern!(python, "_ready")).ok()?;
        let timers = event_loop.getattr(pyo3::intern!(python, "_scheduled")).ok()?;
        let timers = timers.cast_into::<PyList>().ok()?;
        Some(Self { event_loop, ready, timer_count: timers.len(), timers })
    }

    /// Whether there is a callback to run, another timer, or a request to stop.
    fn has_changed(&self) -> bool {
        let stopping = pyo3::intern!(self.event_loop.py(), "_stopping");
        let is_stopping = || self.event_loop.getattr(stopping).and_then(|it| it.is_truthy());
        self.ready.len().unwrap_or(1) > 0
            || self.timers.len() != self.timer_count
            || is_stopping().unwrap_or(true)
    }
}
