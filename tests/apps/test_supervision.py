"""Faults of applications in worker processes, their replacement, metrics and access log."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import COMMAND, PATIENCE_S, Load, Served, ask

pytestmark = pytest.mark.slow

SOURCE = """
import ctypes, os, time
kept = []
def app(environ, start_response):
    match environ["PATH_INFO"]:
        case "/segfault":
            ctypes.string_at(0)
        case "/exit":
            os._exit(3)
        case "/hang":
            hang_here()
        case "/grow":
            kept.append(b"x" * (160 << 20))
    environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]

def hang_here():
    while True:
        time.sleep(3600)
"""


ASGI = """
import time
async def app(scope, receive, send):
    assert scope["type"] == "http"
    if scope["path"] == "/hang":
        hang_here()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})

def hang_here():
    time.sleep(3600)
"""


@contextmanager
def served(directory: Path, *arguments: str, source: str = SOURCE) -> Iterator[tuple[Served, int]]:
    (directory / "there.py").write_text(source)
    server = serve("there:app", *arguments, directory=directory)
    try:
        yield server, port_of(server)
    finally:
        server.end()


def wait_for_another(port: int, pid: bytes) -> bytes:
    """The first answer of another worker than that of `pid`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            seen = ask(port)[1]
        except (OSError, EOFError):
            seen = pid
        if seen != pid:
            return seen
        assert time.monotonic() < deadline


def test_a_crash_shows_its_stack_and_the_worker_is_replaced(tmp_path: Path) -> None:
    with served(tmp_path) as (server, port):
        _, pid = ask(port)
        with pytest.raises((OSError, EOFError)):
            ask(port, "/segfault")
        server.wait_for(r"^jissoku serve: worker 0 has failed .*: signal 11$")
        assert any(re.search(r'there.py", line \d+ in app', line) for line in server.seen)
        assert wait_for_another(port, pid) != pid


@pytest.mark.parametrize("source", [SOURCE, ASGI], ids=["wsgi", "asgi"])
def test_a_worker_that_hangs_shows_its_stack_and_is_replaced(source: str, tmp_path: Path) -> None:
    with served(tmp_path, "--hang-timeout", "2s", source=source) as (server, port):
        with pytest.raises((OSError, EOFError)):
            ask(port, "/hang")
        server.wait_for("^jissoku serve: worker 0 is busy for longer than --hang-timeout")
        server.wait_for(r'there.py", line \d+ in hang_here')
        server.wait_for(r"^jissoku serve: worker 0 has failed .*: signal 6$")
        assert ask(port)[0] == 200


def test_many_crashes_do_not_end_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as (server, port):
        for _ in range(7):
            with pytest.raises((OSError, EOFError)):
                ask(port, "/exit")
            server.wait_for(r"^jissoku serve: worker 0 has failed .*: exit code 3$")
        assert ask(port)[0] == 200


def test_a_worker_whose_code_has_become_invalid_is_tried_again(tmp_path: Path) -> None:
    with served(tmp_path) as (server, port):
        (tmp_path / "there.py").write_text("1 / 0")
        with pytest.raises((OSError, EOFError)):
            ask(port, "/exit")
        server.wait_for(r"^jissoku serve: worker 0 is tried again later")
        assert any("ZeroDivisionError" in line for line in server.seen)
        (tmp_path / "there.py").write_text(SOURCE)
        server.wait_for(r"^jissoku serve: worker 0 has failed")
        assert ask(port)[0] == 200


def test_a_worker_is_replaced_after_its_requests_and_nothing_is_lost(tmp_path: Path) -> None:
    arguments = ["--workers", "2", "--max-requests", "200", "--max-requests-jitter", "50"]
    with served(tmp_path, *arguments) as (server, port), Load(port) as load:
        for _ in range(4):
            server.wait_for("worker [01] has served as many requests .* and is replaced$")
            load.wait_for_answers()


def test_a_worker_is_replaced_when_it_uses_too_much_memory(tmp_path: Path) -> None:
    with served(tmp_path, "--worker-memory-max", "150MiB") as (server, port):
        _, pid = ask(port, "/grow")
        server.wait_for(r"worker 0 uses \d+ MiB of memory and is replaced$")
        assert wait_for_another(port, pid) != pid


def test_metrics_and_log_are_those_of_all_workers(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    arguments = ["--workers", "2", "--metrics", "127.0.0.1:0", "--access-log", str(log)]
    with served(tmp_path, *arguments) as (server, port):
        metrics = int(server.wait_for(r"^metrics on http://127\.0\.0\.1:([0-9]+)/metrics$")[1])
        pids = {ask(port)[1] for _ in range(20)}
        server.reload()
        pids |= {ask(port)[1] for _ in range(20)}
        assert len(pids) > 1
        deadline = time.monotonic() + PATIENCE_S
        requests = b'jissoku_requests_total{status="2xx"} 40\n'
        while requests not in (page := ask(metrics, "/metrics")[1]):
            assert time.monotonic() < deadline, page
        # The processes that were replaced need a moment to exit.
        while b"jissoku_workers 2\n" not in (page := ask(metrics, "/metrics")[1]):
            assert time.monotonic() < deadline, page
        server.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
    assert len(log.read_text().splitlines()) == 40


ORPHANS = """
import os, subprocess, sys
def app(environ, start_response):
    if environ["PATH_INFO"] == "/orphan":
        # Its parent ends at once, so it becomes a child of process 1.
        subprocess.run(["sh", "-c", "sleep 0.01 & true"])
    states = [open(f"/proc/{pid}/stat").read().rsplit(")")[1].split()[0]
              for pid in os.listdir("/proc") if pid.isdigit()]
    start_response("200 OK", [])
    return [f"{os.getpid()} {states.count('Z')} {len(states)}".encode()]
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs a namespace")
def test_it_is_the_first_process_of_a_container(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(ORPHANS)
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *COMMAND, "there:app"]
    process = subprocess.Popen(
        [*command, "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    server = Served(process)
    try:
        port = port_of(server)
        # The first process, the server, and a worker.
        assert ask(port)[1].split()[1:] == [b"0", b"3"]
        for _ in range(5):
            ask(port, "/orphan")
        deadline = time.monotonic() + PATIENCE_S
        while (answer := ask(port)[1].split()[1:]) != [b"0", b"3"]:
            assert time.monotonic() < deadline, answer
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGHUP)
        server.wait_for("^reloaded$")
        assert ask(port)[0] == 200
        os.kill(int(children[0]), signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        server.end()


SLOW_IMPORT = """
import time
time.sleep(0.4)
def app(environ, start_response):
    environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [b"here"]
"""


def test_a_reload_with_a_slow_import_loses_nothing(tmp_path: Path) -> None:
    where = tmp_path / "socket"
    arguments = ["--workers", "2", "--listen", f"unix:{where}"]
    with (
        served(tmp_path, *arguments, source=SLOW_IMPORT) as (server, port),
        Load(port, where) as load,
    ):
        for _ in range(2):
            server.reload()
            load.wait_for_answers()


def test_systemd_is_notified(tmp_path: Path) -> None:
    where = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(PATIENCE_S)
        receiver.bind(str(where))
        (tmp_path / "there.py").write_text(SOURCE)
        command = [*COMMAND, "there:app", "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NOTIFY_SOCKET": str(where)},
        )
        server = Served(process)
        try:
            assert b"READY=1" in receiver.recv(4096)
            server.reload()
            assert b"RELOADING=1" in receiver.recv(4096)
            assert b"READY=1" in receiver.recv(4096)
        finally:
            server.end()
