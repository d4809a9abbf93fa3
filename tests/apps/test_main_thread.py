"""The thread of an application: the main thread of its process, its signals, and what traces it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import jissoku
from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Served, ask

IMPORTED = """
import contextvars, decimal, os, signal, sqlite3, sys, threading
decimal.getcontext().prec = 50
database = sqlite3.connect(":memory:")
variable = contextvars.ContextVar("variable")
variable.set("imported")
local = threading.local()
local.value = "imported"

def seen():
    assert str(decimal.Decimal(1) / 7) == "0." + ("142857" * 9)[:50]
    assert database.execute("select 42").fetchone() == (42,)
    assert variable.get() == local.value == "imported"
    assert threading.current_thread() is threading.main_thread()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return str(os.getpid()).encode()

def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [seen()]

async def asgi(scope, receive, send):
    assert scope["type"] == "http"
    body = seen()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("name", ["wsgi", "asgi"])
def test_what_an_import_sets_for_its_thread_holds_in_requests(
    name: str, workers: str, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(IMPORTED)
    served = serve(f"there:{name}", "--workers", workers, directory=tmp_path)
    try:
        port = port_of(served)
        for _ in range(8):
            assert ask(port)[0] == 200
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


INTERRUPTED = """
import signal, jissoku
before = signal.getsignal(signal.SIGINT)
{change}

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]

jissoku.run(app, listen="127.0.0.1:0")
print("left", signal.getsignal(signal.SIGINT) is not signal.SIG_DFL, flush=True)
"""


@pytest.mark.parametrize(("change", "said"), [
    ("", None),
    ("signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))", "^handled$"),
])  # fmt: skip
def test_a_program_keeps_its_own_handler_of_an_interrupt(
    change: str, said: str | None, tmp_path: Path
) -> None:
    source = tmp_path / "there.py"
    source.write_text(INTERRUPTED.format(change=change))
    process = subprocess.Popen(
        [sys.executable, source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    served = Served(process)
    try:
        assert ask(port_of(served))[0] == 200
        served.send_signal(signal.SIGINT)
        if said:
            served.wait_for(said)
        served.wait_for("^left True$")
        assert served.process.wait(PATIENCE_S) == 0
        assert not any("Error" in line for line in served.seen)
    finally:
        served.end()


@pytest.mark.parametrize("name", ["wsgi", "asgi"])
def test_an_object_is_called_where_its_program_has_made_it(name: str, tmp_path: Path) -> None:
    source = tmp_path / "there.py"
    source.write_text(f"{IMPORTED}\nimport jissoku\njissoku.run({name}, listen='127.0.0.1:0')\n")
    process = subprocess.Popen(
        [sys.executable, source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    served = Served(process)
    try:
        assert ask(port_of(served))[0] == 200
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


SIGNALS = """
import asyncio, multiprocessing, os, signal, sys, time

def say(number, frame):
    # One write: print() may not be called again while it runs (io, "Reentrancy").
    os.write(1, f"handled {signal.Signals(number).name}\\n".encode())

def fail(number, frame):
    raise RuntimeError("raised by a handler")

def leave(number, frame):
    sys.exit(3)

for name in ("SIGWINCH", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), say)
signal.signal(signal.SIGURG, fail)
signal.signal(signal.SIGPROF, leave)

def change(path):
    if path == "/later":
        signal.signal(signal.SIGTERM, say)
    if path == "/default":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if path == "/fork":
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        os.kill(child.pid, signal.SIGINT)
        child.join()
        assert child.exitcode == -signal.SIGINT
    return str(os.getpid()).encode()

def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [change(environ["PATH_INFO"])]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGWINCH"):
            number = getattr(signal, name)
            loop.add_signal_handler(number, say, number, None)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = change(scope["path"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""

KINDS = [("wsgi", ()), ("wsgi", ("--threads", "2")), ("asgi", ())]


def start(name: str, options: Iterable[str], directory: Path) -> tuple[Served, int]:
    """A server of the application, and its port."""
    (directory / "there.py").write_text(SIGNALS)
    served = serve(f"there:{name}", *options, directory=directory)
    return served, port_of(served)


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_functions_of_the_application_for_signals_are_called(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    served, port = start(name, options, tmp_path)
    try:
        worker = int(ask(port)[1])
        os.kill(worker, signal.SIGWINCH)
        served.wait_for("^handled SIGWINCH$")
        os.kill(worker, signal.SIGURG)
        served.wait_for("RuntimeError: raised by a handler")
        assert int(ask(port)[1]) == worker
        os.kill(worker, signal.SIGPROF)
        served.wait_for("worker 0 has failed")
        after = int(ask(port)[1])
        assert after != worker
    finally:
        served.end()
    # A worker that answers has its signals: it ends with its parent at any time.
    while Path(f"/proc/{after}").exists():
        pass


@pytest.mark.parametrize(("name", "options"), KINDS)
@pytest.mark.parametrize("path", ["/", "/fork"])
def test_signals_of_the_server_reach_both(
    path: str, name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    served, port = start(name, options, tmp_path)
    try:
        before = int(ask(port, path)[1])
        # The signal to a child of the application did not end its worker.
        assert int(ask(port)[1]) == before
        served.send_signal(signal.SIGHUP)
        served.wait_for("^reloaded$")
        after = int(ask(port)[1])
        assert after != before
        os.kill(after, signal.SIGTERM)
        served.wait_for("^handled SIGTERM$")
        served.wait_for("worker 0 has failed")
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wsgi", "asgi"])
def test_a_handler_in_place_of_the_servers_is_found(name: str, tmp_path: Path) -> None:
    served, port = start(name, (), tmp_path)
    try:
        worker = int(ask(port, "/later")[1])
        # It is found within a second; until then the application's is the only one.
        line = ""
        while "has failed" not in line:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)
            line = served.wait_for("^handled SIGTERM$|worker 0 has failed")[0]
        assert int(ask(port)[1]) != worker
    finally:
        served.end()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wsgi", "asgi"])
def test_a_removed_handler_is_the_servers_again(name: str, tmp_path: Path) -> None:
    served, port = start(name, (), tmp_path)
    try:
        worker = int(ask(port, "/default")[1])
        status = Path(f"/proc/{worker}/status")

        def is_caught() -> bool:
            line = next(it for it in status.read_text().splitlines() if "SigCgt" in it)
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

        while not is_caught():
            ask(port)
        os.kill(worker, signal.SIGTERM)
        served.wait_for("worker 0 has failed .* exit code 0")
    finally:
        served.end()


def traced_wsgi(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [environ["PATH_INFO"].encode()]


async def traced_asgi(
    scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[dict[str, Any]], Any]
) -> None:
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


@pytest.mark.parametrize("app", [traced_wsgi, traced_asgi])
def test_what_traces_threads_sees_an_application_in_a_thread(app: Callable[..., Any]) -> None:
    seen: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001 - traces
        seen.append(frame.f_code.co_name)

    before = threading.gettrace()
    threading.settrace(note)
    try:
        with jissoku.serve_in_thread(app) as live:
            names = [thread.name for thread in threading.enumerate()]
            with urllib.request.urlopen(f"{live.url}/x", timeout=PATIENCE_S) as response:  # noqa: S310
                assert response.read() == b"/x"
    finally:
        threading.settrace(before)
    assert app.__name__ in seen
    assert "jissoku" in names
    assert "jissoku" not in [thread.name for thread in threading.enumerate()]


TRACED = """
import sys, threading
seen = []
def note(frame, event, argument):
    seen.append(frame.f_code.co_name)
threading.settrace(note)
sys.settrace(note)

def app(environ, start_response):
    start_response("200 OK", [])
    return [str("app" in seen).encode()]

def loaded():
    return app
"""


@pytest.mark.parametrize("options", [(), ("--threads", "1")])
def test_what_traces_an_import_sees_the_application(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(TRACED)
    served = serve("there:app", *options, directory=tmp_path)
    try:
        assert ask(port_of(served)) == (200, b"True")
    finally:
        served.end()
