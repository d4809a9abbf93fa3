"""Each worker process that has to end does, whatever its application does."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Served, ask, connect, spawn

pytestmark = pytest.mark.slow

# It never ends by itself, so each process that ends was killed.
THREAD = """
import os, threading, time
def run():
    while True:
        time.sleep(3600)
threading.Thread(target=run).start()
def app(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        os._exit(7)
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
"""

KILLED = r"^jissoku serve: worker 0 \(process ([0-9]+)\) has not ended in time: it is killed$"


def has_ended(pid: int) -> bool:
    """Waits until a process that is no child of this one has ended."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return True
    gone, _ = psutil.wait_procs([process], PATIENCE_S)
    return bool(gone)


def wait_until_refused(port: int) -> None:
    """Waits until no process listens on a port."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED:
                return
    raise TimeoutError(f"port {port} still accepts connections")


def threaded_with(tmp_path: Path, stop_timeout: str) -> Iterator[Served]:
    (tmp_path / "there.py").write_text(THREAD)
    options = ["--stop-timeout", stop_timeout, "--max-requests", "3"]
    served = serve("there:app", *options, directory=tmp_path)
    try:
        yield served
    finally:
        served.end()


@pytest.fixture
def threaded(tmp_path: Path) -> Iterator[Served]:
    yield from threaded_with(tmp_path, "1s")


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Served]:
    """As `threaded`, but with more time to end than the test needs on a busy machine."""
    for served in threaded_with(tmp_path, "60s"):
        yield served
        if served.process.poll() is None:
            # Its worker would use all of that time.
            served.successors += [
                child.pid for child in psutil.Process(served.process.pid).children()
            ]


def test_a_stop_ends_a_worker_with_a_thread(threaded: Served) -> None:
    pid = int(ask(port_of(threaded))[1])
    threaded.send_signal(signal.SIGTERM)
    assert int(threaded.wait_for(KILLED)[1]) == pid
    threaded.wait_for(r'there.py", line \d+ in run')
    assert threaded.process.wait(PATIENCE_S) == 0
    assert has_ended(pid)


def test_a_reload_ends_a_worker_with_a_thread(threaded: Served) -> None:
    port = port_of(threaded)
    pid = int(ask(port)[1])
    threaded.reload()
    assert int(threaded.wait_for(KILLED)[1]) == pid
    assert has_ended(pid)
    assert ask(port)[0] == 200


def test_a_replacement_ends_a_worker_with_a_thread(threaded: Served) -> None:
    port = port_of(threaded)
    pids = {int(ask(port)[1]) for _ in range(3)}
    threaded.wait_for("worker 0 has served as many requests")
    threaded.wait_for(KILLED)
    assert all(map(has_ended, pids))
    assert ask(port)[0] == 200


def test_a_worker_that_drains_while_its_successor_crashes_ends(threaded: Served) -> None:
    port = port_of(threaded)
    pids = {int(ask(port)[1]) for _ in range(3)}
    threaded.wait_for("worker 0 has served as many requests")
    while int(ask(port)[1]) in pids:
        # The old worker still answers what it has accepted.
        continue
    with pytest.raises((OSError, EOFError)):
        ask(port, "/exit")
    threaded.wait_for("^jissoku serve: worker 0 has failed")
    assert all(map(has_ended, pids))
    parent = psutil.Process(threaded.process.pid)
    assert all(child.status() != psutil.STATUS_ZOMBIE for child in parent.children())
    assert ask(port)[0] == 200


@pytest.mark.parametrize("occasion", ["replacement", "stop"])
def test_a_worker_that_crashes_while_it_drains_is_reported(occasion: str, patient: Served) -> None:
    port = port_of(patient)
    pid = int(ask(port)[1])
    open_request = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    open_request.sendall(b"GET /exit HTTP/1.1\r\n")
    # Its answer shows that the connections before it are accepted.
    assert int(ask(port)[1]) == pid
    if occasion == "stop":
        patient.send_signal(signal.SIGTERM)
        wait_until_refused(port)
    else:
        assert int(ask(port)[1]) == pid
        patient.wait_for("worker 0 has served as many requests")
    open_request.sendall(b"Host: a\r\n\r\n")
    patient.wait_for(rf"^jissoku serve: worker 0 \(process {pid}\) has failed while it ended: ")
    open_request.close()


def test_a_worker_that_crashes_as_the_server_stops_is_named(patient: Served) -> None:
    """Whether the crash or the signal is seen first is left to the processes."""
    port = port_of(patient)
    open_request = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    open_request.sendall(b"GET /exit HTTP/1.1\r\n")
    ask(port)
    patient.send_signal(signal.SIGTERM)
    open_request.sendall(b"Host: a\r\n\r\n")
    patient.wait_for(r"^jissoku serve: worker 0 .*failed.*: exit code 7")
    open_request.close()


def test_a_worker_with_a_thread_ends_with_its_parent(threaded: Served) -> None:
    pid = int(ask(port_of(threaded))[1])
    threaded.process.kill()
    assert has_ended(pid)


def test_a_worker_with_a_thread_ends_when_its_import_fails(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(THREAD + "\n1 / 0\n")
    served = serve("there:app", directory=tmp_path)
    try:
        served.wait_for("^jissoku serve: cannot import there: ZeroDivisionError")
        served.wait_for(r"^jissoku serve: process \d+ has failed and does not exit: it is killed$")
        assert served.process.wait(PATIENCE_S) == 1
    finally:
        served.end()


BUSY = """
import asyncio, pathlib, time
here = pathlib.Path(__file__).parent
def block():
    (here / "busy").touch()
    while True:
        time.sleep(3600)
def wsgi(environ, start_response):
    block()
async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    match scope["path"]:
        case "/thread":
            await asyncio.to_thread(block)
        case "/stubborn":
            while True:
                try:
                    (here / "busy").touch()
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass
        case _:
            block()
async def lifespan(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    (here / "busy").touch()
    await receive()
    await asyncio.sleep(3600)
"""

KINDS = [
    ("wsgi", "/", []),
    ("wsgi", "/", ["--threads", "2"]),
    ("asgi", "/", []),
    ("asgi", "/thread", []),
    ("asgi", "/stubborn", []),
    ("lifespan", "", []),
]


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"there is no {path.name}"
        time.sleep(0.001)


@pytest.mark.parametrize(("app", "path", "arguments"), KINDS)
@pytest.mark.parametrize("occasion", [signal.SIGTERM, signal.SIGHUP])
def test_a_busy_application_does_not_keep_its_worker(
    app: str, path: str, arguments: list[str], occasion: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(BUSY)
    times = ["--stop-timeout", "1s", "--drain-timeout", "1s"]
    served = serve(f"there:{app}", *times, *arguments, directory=tmp_path)
    try:
        connection = connect(port_of(served))
        if path:
            connection.request("GET", path)
        wait_for_file(tmp_path / "busy")
        (worker,) = psutil.Process(served.process.pid).children()
        served.send_signal(occasion)
        if occasion == signal.SIGTERM:
            assert served.process.wait(PATIENCE_S) == 0
        else:
            served.wait_for("^reloaded$")
        assert has_ended(worker.pid)
        connection.close()
    finally:
        served.end()


OBJECT = """
import pathlib, sys, time
import jissoku
here = pathlib.Path(__file__).parent
def app(environ, start_response):
    (here / "busy").touch()
    while True:
        time.sleep(3600)
if __name__ == "__main__":
    jissoku.run(app, listen="127.0.0.1:0", stop_timeout="1s")
"""


def test_a_program_that_serves_its_own_object_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(OBJECT)
    process = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    served = Served(process)
    try:
        connection = connect(port_of(served))
        connection.request("GET", "/")
        wait_for_file(tmp_path / "busy")
        served.send_signal(signal.SIGTERM)
        served.wait_for("^jissoku serve: this process has not ended in time: it is killed$")
        assert process.wait(PATIENCE_S) == -signal.SIGABRT
        connection.close()
    finally:
        served.end()


SLOW_START = """
import os, pathlib, time
here = pathlib.Path(__file__).parent
def hang_at_import():
    while (here / "block").exists():
        time.sleep(0.01)
hang_at_import()
def app(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        (here / "block").touch()
        os._exit(7)
    start_response("200 OK", [])
    return [b"here"]
"""


@pytest.mark.parametrize("occasion", ["start", "reload", "crash", "replacement", "program"])
def test_the_limit_of_a_start_applies_to_each(occasion: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(SLOW_START)
    block = tmp_path / "block"
    if occasion == "start":
        block.touch()
    limit = ["--max-requests", "3"] if occasion == "replacement" else []
    # Python itself needs a part of it on a busy machine.
    served = serve("there:app", "--start-timeout", "9s", *limit, directory=tmp_path)
    too_late = r"worker 0 not ready within --start-timeout \(9s\)"
    try:
        if occasion == "start":
            served.wait_for(too_late)
            assert served.process.wait(PATIENCE_S) == 1
            return
        port = port_of(served)
        assert ask(port) == (200, b"here")
        if occasion == "crash":
            with pytest.raises((OSError, EOFError)):
                ask(port, "/exit")
        block.touch()
        if occasion == "reload":
            served.send_signal(signal.SIGHUP)
        elif occasion == "program":
            served.send_signal(signal.SIGUSR2)
        elif occasion == "replacement":
            for _ in range(2):
                ask(port)
        served.wait_for(too_late)
        assert any("in hang_at_import" in line for line in served.seen)
        block.unlink()
        if occasion == "crash":
            served.wait_for("^jissoku serve: worker 0 has failed")
        assert ask(port) == (200, b"here")
    finally:
        served.end()


# Runs before everything else of a process: holds a worker back that does not know of its parent
# yet, and hides the signal from it that the kernel sends when that ends.
HELD_START = """
import os, pathlib, signal, time
here = pathlib.Path(__file__).parent
if "jissoku-worker-" in os.environ.get("LISTEN_FDNAMES", "") and (here / "hold").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (here / "pid").write_text(str(os.getpid()))
    (here / "pid").rename(here / "held")
    while (here / "hold").exists():
        time.sleep(0.001)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
"""

HERE = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"here"]
"""


def test_a_replacement_that_starts_while_its_parent_is_killed_ends(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(HERE)
    (tmp_path / "sitecustomize.py").write_text(HELD_START)
    options = ["--app-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--max-requests", "3"]
    paths = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    served = spawn("there:app", *options, PYTHONPATH=paths)
    try:
        port = port_of(served)
        (tmp_path / "hold").touch()
        for _ in range(3):
            assert ask(port) == (200, b"here")
        wait_for_file(tmp_path / "held")
        served.process.kill()
        served.process.wait()
        (tmp_path / "hold").unlink()
        assert has_ended(int((tmp_path / "held").read_text()))
    finally:
        served.end()


HUNG = """
import ctypes, pathlib, signal, time
here = pathlib.Path(__file__).parent
def hang():
    (here / "busy").touch()
    while True:
        time.sleep(3600)
def hang_with_the_lock_of_the_interpreter():
    (here / "busy").touch()
    while True:
        ctypes.PyDLL(None).sleep(3600)
def app(environ, start_response):
    hang_with_the_lock_of_the_interpreter()
if (here / "hangs").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()
"""


@pytest.mark.parametrize("place", ["import", "request"])
def test_a_worker_that_hangs_ends_with_its_parent(place: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(HUNG)
    if place == "import":
        (tmp_path / "hangs").touch()
    served = serve("there:app", "--stop-timeout", "1s", directory=tmp_path)
    connections = []
    try:
        if place == "request":
            connections.append(connect(port_of(served)))
            connections[0].request("GET", "/")
        wait_for_file(tmp_path / "busy")
        (worker,) = psutil.Process(served.process.pid).children()
        served.process.kill()
        assert has_ended(worker.pid)
    finally:
        served.end()
        for connection in connections:
            connection.close()
