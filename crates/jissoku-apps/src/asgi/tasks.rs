//! The tasks of requests: asyncio's, whose first step runs at once.

use std::thread::{self, ThreadId};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyTuple};

use super::event_loop::AsyncioLoop;

/// Starts tasks whose first step runs at once.
#[derive(Debug)]
pub(super) struct Tasks {
    event_loop: Py<PyAny>,
    task_class: Py<PyAny>,
    arguments: Py<PyDict>,
    /// Before Python 3.12 tasks cannot start eagerly: their first step is captured from
    /// `call_soon`.
    capture: Option<Py<Capture>>,
    /// Undoes what `capture` has changed in asyncio.
    end_deferral: Py<PyAny>,
    /// Tasks that have not ended: asyncio refers to them weakly.
    pub(super) running: Py<PySet>,
}

impl Tasks {
    pub(super) fn new(python: Python<'_>, event_loop: &AsyncioLoop) -> PyResult<Self> {
        let module = event_loop.module.bind(python);
        let arguments = PyDict::new(python);
        arguments.set_item("loop", event_loop.bind(python))?;
        // Without a name Python 3.11 formats a number, which is 2 % of a request's CPU time.
        arguments.set_item("name", "request")?;
        let capture = if python.version_info() >= (3, 12) {
            arguments.set_item("eager_start", true)?;
            None
        } else {
            let event_loop = event_loop.bind(python);
            let call_soon = event_loop.getattr("call_soon")?.unbind();
            let capture = Bound::new(python, Capture::new(call_soon))?;
            event_loop.setattr("call_soon", capture.getattr("call_soon")?)?;
            module.getattr("ask_for_debug_mode")?.call1((event_loop,))?;
            let add: Option<Py<PyAny>> =
                module.getattr("defer_registration")?.call1((&capture,))?.extract()?;
            capture.borrow_mut().add_to_all = add;
            Some(capture.unbind())
        };
        Ok(Self {
            event_loop: event_loop.bind(python).clone().unbind(),
            task_class: python.import("asyncio")?.getattr("Task")?.unbind(),
            end_deferral: module.getattr("end_deferral")?.unbind(),
            arguments: arguments.unbind(),
            capture,
            running: PySet::empty(python)?.unbind(),
        })
    }

    /// Creates the task of the application's coroutine, and runs its first step, unless the loop has
    /// a task factory. Returns the task, and whether it has ended.
    pub(super) fn start<'py>(
        &self,
        coroutine: Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, bool)> {
        let python = coroutine.py();
        let task_class = self.task_class.bind(python);
        let arguments = Some(self.arguments.bind(python));
        let is_done = |task: &Bound<'py, PyAny>| {
            task.call_method0(pyo3::intern!(python, "done"))?.is_truthy()
        };
        let event_loop = self.event_loop.bind(python);
        if !event_loop.call_method0(pyo3::intern!(python, "get_task_factory"))?.is_none() {
            let task =
                event_loop.call_method1(pyo3::intern!(python, "create_task"), (coroutine,))?;
            let is_done = is_done(&task)?;
            return Ok((task, is_done));
        }
        let Some(capture) = &self.capture else {
            let task = task_class.call((coroutine,), arguments)?;
            let is_done = is_done(&task)?;
            return Ok((task, is_done));
        };
        let stale = {
            let mut capture = capture.borrow_mut(python);
            capture.state = CaptureState::Armed;
            capture.started.take()
        };
        // Its finalizer may run Python code.
        drop(stale);
        let task = task_class.call((coroutine,), arguments);
        let captured = std::mem::take(&mut capture.borrow_mut(python).state);
        let task = task?;
        if let CaptureState::Step(step, context) = captured {
            // The exception is the task's result, too.
            let _raised = context.call_method1(python, pyo3::intern!(python, "run"), (step,));
        }
        let is_done = is_done(&task)?;
        if is_done {
            capture.borrow_mut(python).started = None;
        } else {
            Capture::register(capture.bind(python))?;
        }
        Ok((task, is_done))
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        Python::attach(|python| {
            let capture = self.capture.as_ref().map(|capture| capture.borrow_mut(python));
            let add = capture.and_then(|mut capture| capture.add_to_all.take());
            if add.is_some()
                && let Err(error) = self.end_deferral.call0(python)
            {
                crate::interpreter::report(python, &error, "in the event loop");
            }
        });
    }
}

/// The loop's `call_soon`, from which the first step of a task is captured while the task is
/// created.
#[pyclass(module = "jissoku")]
#[derive(Debug)]
struct Capture {
    call_soon: Py<PyAny>,
    state: CaptureState,
    /// The worker's thread: others have event loops and tasks of their own.
    thread: ThreadId,
    /// Adds a task to asyncio's set of all tasks, if that is deferred.
    add_to_all: Option<Py<PyAny>>,
    /// The task whose first step is running, unless the set contains it.
    started: Option<Py<PyAny>>,
}

impl Capture {
    fn new(call_soon: Py<PyAny>) -> Self {
        Self {
            call_soon,
            state: CaptureState::Off,
            thread: thread::current().id(),
            add_to_all: None,
            started: None,
        }
    }
}

#[derive(Debug, Default)]
enum CaptureState {
    #[default]
    Off,
    /// The next call is captured.
    Armed,
    /// The callback and its context.
    Step(Py<PyAny>, Py<PyAny>),
}

#[pymethods]
impl Capture {
    /// Called for each new task, in place of the set's method.
    #[pyo3(signature = (task, /))]
    fn add(this: &Bound<'_, Self>, task: Bound<'_, PyAny>) -> PyResult<()> {
        let python = this.py();
        let mut capture = this.borrow_mut();
        // A task calls `call_soon` before this.
        if matches!(capture.state, CaptureState::Step(..))
            && capture.started.is_none()
            && capture.thread == thread::current().id()
        {
            capture.started = Some(task.unbind());
            return Ok(());
        }
        let add = capture.add_to_all.as_ref().map(|add| add.clone_ref(python));
        drop(capture);
        add.map_or(Ok(()), |add| add.call1(python, (task,)).map(drop))
    }

    /// Adds the task whose first step is running.
    fn register(this: &Bound<'_, Self>) -> PyResult<()> {
        let python = this.py();
        let mut capture = this.borrow_mut();
        let Some(task) = capture.started.take() else { return Ok(()) };
        let add = capture.add_to_all.as_ref().map(|add| add.clone_ref(python));
        drop(capture);
        add.map_or(Ok(()), |add| add.call1(python, (task,)).map(drop))
    }

    #[pyo3(signature = (callback, *args, context=None))]
    fn call_soon<'py>(
        this: &Bound<'py, Self>,
        callback: Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let python = this.py();
        let is_armed = matches!(this.borrow().state, CaptureState::Armed);
        if let Some(context) = &context
            && is_armed
        {
            let (callback, context) = (callback.unbind(), context.clone().unbind());
            this.borrow_mut().state = CaptureState::Step(callback, context);
            return Ok(python.None().into_bound(python));
        }
        let call_soon = this.borrow().call_soon.clone_ref(python);
        let mut every = vec![callback];
        every.extend(args.iter());
        let every = PyTuple::new(python, every)?;
        let Some(context) = context else { return call_soon.bind(python).call1(every) };
        let options = PyDict::new(python);
        options.set_item(pyo3::intern!(python, "context"), context)?;
        call_soon.bind(python).call(every, Some(&options))
    }
}
