"""The event loop of a worker: asyncio's, whose selector serves the worker's connections.

It is compiled into the extension module, and imported by event_loop.rs.
"""

import asyncio
import functools
import inspect
import operator
import select
import selectors
import sys
import traceback
import types
import warnings
import weakref

# asyncio's set of all tasks: `asyncio.all_tasks` reads this one.
ALL_TASKS = getattr(asyncio.tasks, "_all_tasks", None)

# How long the lifespan's shutdown, and after it what is left of the application, may take.
SHUTDOWN_S = 10.0

# How long cancelled tasks may take before the lifespan's shutdown, which waits for no task that
# goes on; and after it before a report to the parent process that the application goes on.
CANCEL_S = 0.5


# The verb of the process, as it was typed; event_loop.rs sets it.
VERB = "serve"

# How a traceback begins.
TRACEBACK = "Traceback (most recent call last)"


class ServingSelector(selectors.EpollSelector):
    """A selector that waits for the worker's connections and asyncio's descriptors at once."""

    # Waits and serves connections: `iterate(timeout)` returns whether asyncio's descriptors are
    # ready. Set while the worker serves.
    iterate = None

    def __init__(self, descriptor):
        super().__init__()
        # The worker watches this epoll instance.
        self._selector.close()
        self._selector = select.epoll.fromfd(descriptor)

    def select(self, timeout=None):
        """Returns the ready descriptors of asyncio."""
        iterate = self.iterate
        is_ready = None if iterate is None else iterate(timeout)
        if is_ready is None:
            # Nothing is served meanwhile: the loop is starting or ending, or runs in a request.
            return super().select(timeout)
        return super().select(0) if is_ready else []


class ServingLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, which can start processes also if the policy is that of another one."""

    async def _make_subprocess_transport(self, *arguments, **options):
        if sys.version_info < (3, 14):
            provide_child_watcher()
        return await super()._make_subprocess_transport(*arguments, **options)


def provide_child_watcher():
    """Gives uvloop's policy, whose loops need none, what asyncio's loop watches processes by."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        policy = asyncio.get_event_loop_policy()
        try:
            policy.get_child_watcher()
        except NotImplementedError:
            watcher = asyncio.ThreadedChildWatcher()
            policy.get_child_watcher = lambda: watcher


def new_loop(descriptor):
    """Creates the loop of this thread and its selector, over an epoll instance."""
    selector = ServingSelector(descriptor)
    loop = ServingLoop(selector)
    asyncio.set_event_loop(loop)
    return loop, selector


def defer_registration(capture):
    """Has `capture` add the tasks of requests to asyncio's set of all tasks, until Python 3.11.

    It adds the task that it has started when its first step is over, unless the task has ended
    then, or as soon as the set is read. Later versions do the same for tasks that start
    eagerly. Returns what adds a task, or None if another server of this process uses the set.
    """
    tasks = ALL_TASKS
    if type(tasks) is not weakref.WeakSet:
        return None
    add = tasks.add

    class AllTasks(weakref.WeakSet):
        def __iter__(self):
            capture.register()
            return super().__iter__()

        def __len__(self):
            capture.register()
            return super().__len__()

        def __contains__(self, task):
            capture.register()
            return super().__contains__(task)

    tasks.__class__ = AllTasks
    tasks.add = capture.add
    return add


def end_deferral():
    """Gives asyncio's set of all tasks back."""
    tasks = ALL_TASKS
    tasks.__class__ = weakref.WeakSet
    del tasks.add


def ask_for_debug_mode(loop):
    """Makes `loop.get_debug`, which each new task calls, a function without a frame."""
    loop.get_debug = functools.partial(operator.attrgetter("_debug"), loop)


class Lifespan:
    """The lifespan protocol of one application (ASGI, "Lifespan Protocol")."""

    def __init__(self, app, loop, mode="auto"):
        self.app = app
        self.loop = loop
        self.mode = mode
        self.state = {}
        self.events = asyncio.Queue()
        self.started = loop.create_future()
        self.stopped = loop.create_future()
        self.has_received = False
        # The last message that the startup or the shutdown has failed.
        self.failure = ""
        self.task = None

    def start(self):
        """Runs the application's startup, and returns why it has failed or None."""
        if self.mode == "off":
            return None
        self.events.put_nowait({"type": "lifespan.startup"})
        self.task = self.loop.create_task(self.run())
        return self.loop.run_until_complete(self.started)

    def stop(self):
        """Runs the application's shutdown, and returns why it has failed or None."""
        if self.task is None or self.task.done():
            return None
        self.events.put_nowait({"type": "lifespan.shutdown"})
        stopped = asyncio.wait_for(asyncio.shield(self.stopped), SHUTDOWN_S)
        try:
            return self.loop.run_until_complete(stopped)
        except TimeoutError:
            return f"no answer within {SHUTDOWN_S:g} s"

    async def run(self):
        """Calls the application, until it returns."""
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        failure = "it has returned without an answer" if self.mode == "on" else None
        try:
            await self.app(scope, self.receive, self.send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it raises, it has no lifespan
            # An application without the protocol raises before it receives anything, and the server
            # continues; an error in its startup looks the same, so it is shown.
            if self.mode == "on":
                failure = summary(error)
            if TRACEBACK in self.failure:
                # Starlette sends it as the message, which is shown, and raises the error, too.
                pass
            elif self.has_received or failure:
                traceback.print_exc()
            else:
                sys.stderr.write(f"jissoku {VERB}: served without lifespan: {summary(error)}\n")
        finally:
            set_result(self.started, failure)
            set_result(self.stopped, None)

    async def receive(self):
        """Returns the next event for the application."""
        self.has_received = True
        return await self.events.get()

    async def send(self, message):
        """Receives a message of the application."""
        kind = message["type"]
        futures = {"lifespan.startup": self.started, "lifespan.shutdown": self.stopped}
        stage, _, outcome = kind.rpartition(".")
        if stage not in futures or outcome not in {"complete", "failed"}:
            raise RuntimeError(f"unexpected message {kind!r} in the lifespan protocol")
        if futures[stage].done():
            raise RuntimeError(f"{kind!r} was sent already")
        message = message.get("message") or "no message" if outcome == "failed" else None
        self.failure = message or ""
        set_result(futures[stage], message)


def summary(error):
    """Says in one line what was raised, and where."""
    said = traceback.format_exception_only(error)[-1].strip()
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"the application has raised {said} ({place.filename}, line {place.lineno})"


def set_result(future, result):
    """Sets the result of a future, unless it has one."""
    if not future.done():
        future.set_result(result)


def serve(loop, selector, iterate, is_over):
    """Runs the loop until the worker has ended."""
    selector.iterate = iterate
    try:
        while not is_over():
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # Raised by one request: the others continue.
                traceback.print_exc()
    finally:
        selector.iterate = None


def finish(loop, lifespan, report_overdue):
    """Cancels what is left and closes the loop, as asyncio.run does.

    Calls `report_overdue` if tasks or threads of the application go on after its shutdown.
    """
    try:
        left = cancel(loop, {lifespan.task}, CANCEL_S)
        if failure := lifespan.stop():
            sys.stderr.write(f"jissoku {VERB}: the application's shutdown has failed: {failure}\n")
        left = {task for task in left if not task.done()}
        if left:
            report_overdue()
        cancel(loop, left, SHUTDOWN_S)
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=SHUTDOWN_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        late = loop.call_later(CANCEL_S, report_overdue)
        loop.run_until_complete(loop.shutdown_default_executor())
        late.cancel()
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        # Set by the worker, and references to the loop itself.
        for name in ("call_soon", "get_debug"):
            vars(loop).pop(name, None)


def cancel(loop, kept, timeout):
    """Cancels all tasks but those that are kept, and returns those that have not ended in time."""
    tasks = asyncio.all_tasks(loop) - kept
    if not tasks:
        return set()
    for task in tasks:
        task.cancel()
    _, left = loop.run_until_complete(asyncio.wait(tasks, timeout=timeout))
    for task in tasks - left:
        if not task.cancelled() and task.exception() is not None:
            loop.call_exception_handler(
                {
                    "message": "unhandled exception during shutdown",
                    "exception": task.exception(),
                    "task": task,
                }
            )
    return left


def inside_of_task(app):
    """Returns a coroutine function that calls `app`, which is `app` itself if it is one.

    The code of any other callable runs when it is called, before the task of the request is there:
    what it changes in the context would be seen by all later requests.
    """
    is_function = isinstance(app, types.FunctionType | types.MethodType)
    function = app if is_function else type(app).__call__
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType) and code.co_flags & inspect.CO_COROUTINE:
        return app

    async def call(scope, receive, send):
        await app(scope, receive, send)

    return call
