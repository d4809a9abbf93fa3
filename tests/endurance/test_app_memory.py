"""Memory of applications' workers: after a million requests, and with clients that hold on."""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.apps.conftest import port_of, serve
from tests.endurance.conftest import loading, print_line
from tests.serving.server_process import PATIENCE_S, Served, ask

pytestmark = pytest.mark.endurance

REQUESTS = 1_000_000
HELD = 10_000
READERS = 200

KIB = 1024

WSGI = """
import itertools, sys
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/endless":
        return itertools.repeat(b"x" * 8192)
    if environ["PATH_INFO"] == "/arenas":
        sys._debugmallocstats()
    return [b"Hello, World!"]
"""

ASGI = """
import asyncio, sys
async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while scope["path"] == "/endless":
            await send({"type": "websocket.send", "bytes": b"x" * 8192})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    assert scope["type"] == "http"
    if scope["path"] == "/arenas":
        sys._debugmallocstats()
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/plain")]})
    while scope["path"] == "/endless":
        await send({"type": "http.response.body", "body": b"x" * 8192, "more_body": True})
    if scope["path"] == "/events":
        await send({"type": "http.response.body", "body": b"data: 1\\n\\n", "more_body": True})
        await receive()
        await receive()
    await send({"type": "http.response.body", "body": b"Hello, World!"})
"""

APPS = {"wsgi": (WSGI, []), "threads": (WSGI, ["--threads", "4"]), "asgi": (ASGI, [])}


@dataclass(frozen=True, slots=True)
class Worker:
    """The one worker of a server."""

    served: Served
    port: int
    pid: int

    def rss_bytes(self) -> int:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * KIB

    def native_bytes(self) -> int:
        """Resident memory except for the arenas of Python's allocator.

        Objects of Python above 512 bytes are outside of them, so this is more than what is native.
        """
        ask(self.port, "/arenas")
        found = self.served.wait_for(r"arenas \* (\d+) bytes/arena += +([\d,]+)")
        return self.rss_bytes() - int(found[2].replace(",", ""))


@contextmanager
def serving_app(app: str, folder: Path) -> Iterator[Worker]:
    source, options = APPS[app]
    (folder / "there.py").write_text(source)
    served = serve("there:app", *options, directory=folder)
    try:
        port = port_of(served)
        [worker] = psutil.Process(served.process.pid).children()
        yield Worker(served, port, worker.pid)
    finally:
        served.end()


def send_requests(port: int, count: int) -> None:
    url = f"http://127.0.0.1:{port}/"
    with loading("-c", "32", "-n", str(count), url) as load:
        [seen] = load.report()["targets"]
    assert seen["requests"] == count
    assert not any(seen["errors"].values()), seen["errors"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("app", APPS)
def test_a_worker_does_not_grow(app: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with serving_app(app, tmp_path) as worker:
        send_requests(worker.port, REQUESTS // 20)
        before = worker.rss_bytes()
        send_requests(worker.port, REQUESTS)
        growth = worker.rss_bytes() / before - 1
    print_line(
        request, f"{app}: {before:,} bytes, after {REQUESTS:,} requests {100 * growth:+.2f} %"
    )
    assert growth < 0.01


WEBSOCKET = (
    "GET {} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)


def websocket(worker: Worker, path: str = "/") -> socket.socket:
    """A WebSocket after its handshake."""
    opened = connected(worker)
    opened.sendall(WEBSOCKET.format(path).encode())
    assert receive_until(opened, b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    return opened


def event_stream(worker: Worker) -> socket.socket:
    """A stream of events after its first event."""
    opened = connected(worker)
    opened.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
    assert receive_until(opened, b"data: 1\n\n").startswith(b"HTTP/1.1 200 ")
    return opened


def connected(worker: Worker) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", worker.port), PATIENCE_S)
    # Closing resets, so that no port is kept.
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return opened


def receive_until(opened: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        data = opened.recv(4096)
        assert data, received
        received += data
    return received


@pytest.mark.timeout(900)
@pytest.mark.parametrize("opens", [websocket, event_stream])
def test_an_idle_stream_takes_little_memory(
    opens: Callable[[Worker], socket.socket], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with serving_app("asgi", tmp_path) as worker:
        held = [opens(worker) for _ in range(100)]
        before = (worker.rss_bytes(), worker.native_bytes())
        held += [opens(worker) for _ in range(HELD)]
        after = (worker.rss_bytes(), worker.native_bytes())
        whole, native = ((b - a) / HELD for a, b in zip(before, after, strict=True))
        for opened in held:
            opened.close()
    print_line(
        request,
        f"{HELD:,} times {opens.__name__}: {native:,.0f} bytes of native memory each, "
        f"{whole:,.0f} with the objects of Python",
    )
    assert native <= 4 * KIB


def stalled(worker: Worker, kind: str) -> socket.socket:
    """A client that asks for an endless response and does not read it."""
    if kind == "websocket":
        return websocket(worker, "/endless")
    opened = connected(worker)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
    assert opened.recv(15) == b"HTTP/1.1 200 OK"
    return opened


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["wsgi", "asgi", "websocket"])
def test_a_reader_that_stalls_holds_little_memory(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with serving_app("asgi" if kind == "websocket" else kind, tmp_path) as worker:
        first = [stalled(worker, kind) for _ in range(10)]
        before = settled_rss(worker)
        held = [stalled(worker, kind) for _ in range(READERS)]
        each = (settled_rss(worker) - before) / READERS
        for opened in first + held:
            opened.close()
    print_line(request, f"{READERS} readers of an endless {kind} response: {each:,.0f} bytes each")
    assert each <= 64 * KIB


def settled_rss(worker: Worker) -> int:
    """The resident memory once the worker uses no CPU time, because all output is stalled."""
    process = psutil.Process(worker.pid)
    before, now = None, process.cpu_times()
    while before != now:
        time.sleep(0.2)
        before, now = now, process.cpu_times()
    return worker.rss_bytes()
