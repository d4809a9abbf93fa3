"""From the call of a WSGI application to the end of `close` a thread belongs to one request."""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Served
from tests.serving.test_edge import make_papers, needs_openssl

CLIENTS = 8
PARTS = 5

# Wraps each application: records the requests of each thread, and what they leave behind.
RECORDER = """
import contextvars, json, threading

current = contextvars.ContextVar("current", default=None)
local = threading.local()
faults, counts = [], {"called": 0, "ended": 0}
lock = threading.Lock()


class Recorded:
    def __init__(self, app, environ, start_response):
        if current.get() is not None or getattr(local, "request", None) is not None:
            faults.append(f"{environ['QUERY_STRING']} is called during {current.get()}")
        self.token = current.set(environ["QUERY_STRING"])
        local.request = self
        with lock:
            counts["called"] += 1
        try:
            self.returned = app(environ, start_response)
        except BaseException:
            self.end()
            raise
        self.parts = iter(self.returned)

    def end(self):
        self.check("the end")
        current.reset(self.token)
        local.request = None
        with lock:
            counts["ended"] += 1

    def check(self, what):
        if getattr(local, "request", None) is not self:
            faults.append(f"{what} is outside of its request")

    def __iter__(self):
        return self

    def __next__(self):
        self.check("a part")
        return next(self.parts)

    def close(self):
        try:
            if hasattr(self.returned, "close"):
                self.returned.close()
        finally:
            self.end()


def recorded(app):
    def wrapped(environ, start_response):
        if environ["PATH_INFO"] == "/state":
            start_response("200 OK", [])
            with lock:
                state = [counts["called"] - counts["ended"], counts["called"], faults[:5]]
            return [json.dumps(state).encode()]
        return Recorded(app, environ, start_response)
    return wrapped
"""

# Each answers /stream?user=NAME with five lines, and /plain?user=NAME with one; the name comes
# from where the framework keeps the request.
RAW = """
import contextvars
from urllib.parse import parse_qs
from recorder import recorded

user = contextvars.ContextVar("user")

def raw(environ, start_response):
    token = user.set(parse_qs(environ["QUERY_STRING"])["user"][0])
    start_response("200 OK", [])
    def parts():
        try:
            for _ in range(5 if environ["PATH_INFO"] == "/stream" else 1):
                yield b""
                yield user.get().encode() + b"\\n"
        finally:
            user.reset(token)
    return parts()

app = recorded(raw)
"""

FLASK = """
import flask
from recorder import recorded

flask_app = flask.Flask(__name__)

@flask_app.get("/stream")
def stream():
    def parts():
        for _ in range(5):
            yield flask.request.args["user"] + "\\n"
    return flask.Response(flask.stream_with_context(parts()))

@flask_app.get("/plain")
def plain():
    return flask.request.args["user"] + "\\n"

app = recorded(flask_app)
"""

WERKZEUG = """
from werkzeug.local import Local, LocalManager
from werkzeug.wrappers import Request, Response
from recorder import recorded

local = Local()
manager = LocalManager([local])

def tools(environ, start_response):
    request = Request(environ)
    local.user = request.args["user"]
    def parts():
        for _ in range(5 if request.path == "/stream" else 1):
            yield local.user + "\\n"
    return Response(parts())(environ, start_response)

app = recorded(manager.make_middleware(tools))
"""

FALCON = """
import threading
import falcon
from recorder import recorded

local = threading.local()

class Parts:
    def __init__(self, count):
        self.count = count
    def __iter__(self):
        return self
    def __next__(self):
        if not self.count:
            raise StopIteration
        self.count -= 1
        return local.user.encode() + b"\\n"
    def close(self):
        del local.user

class Resource:
    def __init__(self, count):
        self.count = count
    def on_get(self, request, response):
        local.user = request.get_param("user")
        response.stream = Parts(self.count)

falcon_app = falcon.App()
falcon_app.add_route("/stream", Resource(5))
falcon_app.add_route("/plain", Resource(1))
app = recorded(falcon_app)
"""

DJANGO = """
import pathlib
import django
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from recorder import faults, local, recorded

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="test",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.sqlite3", "ATOMIC_REQUESTS": True,
        "NAME": pathlib.Path(__file__).with_name("site.db"),
    }},
)

def stream(request):
    def parts():
        with transaction.atomic():
            connection.ensure_connection()
            used = connection.connection
            for _ in range(5):
                with connection.cursor() as cursor:
                    cursor.execute("select 1")
                if connection.connection is not used or connection.savepoint_ids:
                    faults.append("another request has used the connection")
                yield request.GET["user"] + "\\n"
    return StreamingHttpResponse(parts())

def plain(request):
    if not connection.in_atomic_block or connection.savepoint_ids:
        faults.append("a request is inside of the transaction of another one")
    return HttpResponse(request.GET["user"] + "\\n")

def started(**_):
    if getattr(local, "started", 0):
        faults.append("a request starts before another one has finished")
    local.started = 1

def finished(**_):
    local.started = 0

urlpatterns = [path("stream", stream), path("plain", plain)]
app = recorded(get_wsgi_application())
request_started.connect(started)
request_finished.connect(finished)
"""

APPS = {
    "raw": ("json", RAW),
    "flask": ("flask", FLASK),
    "werkzeug": ("werkzeug", WERKZEUG),
    "falcon": ("falcon", FALCON),
    "django": ("django", DJANGO),
}
WORKERS = {"inline": [], "uring": ["--driver", "uring"], "threads": ["--threads", "3"]}


@pytest.fixture(params=[(app, worker) for app in APPS for worker in WORKERS], ids="-".join)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    app, worker = request.param
    package, source = APPS[app]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (tmp_path / "recorder.py").write_text(RECORDER)
    (tmp_path / "there.py").write_text(source)
    served = serve("there:app", *WORKERS[worker], directory=tmp_path)
    try:
        yield served
    finally:
        served.end()


def ask_repeatedly(port: int, client: int, rounds: int) -> None:
    """Mixes streams, single parts, and clients that leave."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    for number in range(rounds):
        user = f"client-{client}-{number}"
        if number % 7 == client % 7:
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as left:
                left.sendall(f"GET /stream?user={user} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            continue
        path, count = ("/stream", PARTS) if (number + client) % 2 else ("/plain", 1)
        connection.request("GET", f"{path}?user={user}")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, f"{user}\n".encode() * count)
    connection.close()


def check_exclusive(served: Served, rounds: int) -> None:
    """Sends requests of eight clients, and checks what the application has recorded."""
    port = port_of(served)
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda client: ask_repeatedly(port, client, rounds), range(CLIENTS)))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/state")
        still_open, called, faults = json.loads(connection.getresponse().read())
        connection.close()
        # A thread may still have to notice that its client has left.
        if not still_open or time.monotonic() > deadline:
            break
    assert (still_open, faults) == (0, [])
    assert called >= CLIENTS * rounds * 6 // 7 - CLIENTS


@pytest.mark.slow
def test_no_two_requests_of_a_thread_overlap(served: Served) -> None:
    check_exclusive(served, 40)


@pytest.mark.endurance
def test_no_two_requests_of_a_thread_overlap_for_long(served: Served) -> None:
    check_exclusive(served, 4_000)


STREAMS = """
import pathlib

ended = []

class Parts:
    def __init__(self, parts):
        self.parts = parts
    def __iter__(self):
        return self.parts
    def close(self):
        ended.append(1)

def steps():
    yield b"first"
    while not pathlib.Path(__file__).with_name("go-on").exists():
        pass
    yield b"second"

def empty():
    while True:
        yield b""

def endless():
    while True:
        yield bytes(65536)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    start_response("200 OK", [])
    if path == "/ended":
        return [str(len(ended)).encode()]
    return Parts({"/empty": empty, "/endless": endless, "/steps": steps}[path]())
"""


@pytest.fixture(params=list(WORKERS))
def streams(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "there.py").write_text(STREAMS)
    worker = WORKERS[request.param]
    served = serve("there:app", *worker, "--stop-timeout", "1s", directory=tmp_path)
    try:
        yield served
    finally:
        served.end()


def begin(port: int, path: str) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    stream.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return stream


def ended(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/ended", headers={"Connection": "close"})
    return int(connection.getresponse().read())


def wait_until_ended(port: int, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while ended(port) < count:
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_a_part_is_not_delayed_by_the_next(streams: Served, tmp_path: Path) -> None:
    with begin(port_of(streams), "/steps") as stream:
        read_steps(stream, tmp_path)


def read_steps(stream: socket.socket, directory: Path) -> None:
    """Reads the first part, and lets the application go on only then."""
    received = b""
    while b"first\r\n" not in received:
        received += stream.recv(1_000)
    (directory / "go-on").touch()
    while not received.endswith(b"second\r\n0\r\n\r\n"):
        received += stream.recv(1_000)


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["inline", "threads"], indirect=True)
def test_a_reload_in_the_middle_of_a_stream(streams: Served, tmp_path: Path) -> None:
    # With io_uring, the kernel would accept the next connection for the busy worker.
    port = port_of(streams)
    with begin(port, "/steps") as stream:
        received = b""
        while b"first\r\n" not in received:
            received += stream.recv(1_000)
        streams.reload()
        # The new worker answers, and the old one goes on.
        assert ended(port) == 0
        (tmp_path / "go-on").touch()
        while not received.endswith(b"second\r\n0\r\n\r\n"):
            part = stream.recv(1_000)
            assert part
            received += part


@needs_openssl
@pytest.mark.slow
@pytest.mark.parametrize("worker", list(WORKERS))
def test_parts_are_sent_over_tls(worker: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(STREAMS)
    certificate, key = make_papers(tmp_path, "localhost")
    papers = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    served = serve("there:app", *WORKERS[worker], *papers, directory=tmp_path)
    try:
        port = int(served.wait_for(r"^listening on https://127\.0\.0\.1:([0-9]+)/$")[1])
        context = ssl.create_default_context(cafile=str(certificate))

        def begin_tls(path: str) -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
            stream = context.wrap_socket(plain, server_hostname="localhost")
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            return stream

        with begin_tls("/steps") as stream:
            read_steps(stream, tmp_path)
        # Far more than waits in memory and in the sockets.
        with begin_tls("/endless") as stream:
            size = 0
            while size < 32 << 20:
                part = stream.recv(1 << 16)
                assert part
                size += len(part)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with begin_tls("/ended") as stream:
                if stream.recv(1_000).endswith(b"\r\n\r\n2"):
                    break
            assert time.monotonic() < deadline
    finally:
        served.end()


@pytest.mark.slow
def test_an_application_that_yields_only_empty_parts_ends_after_its_client(streams: Served) -> None:
    port = port_of(streams)
    begin(port, "/empty").close()
    wait_until_ended(port, 1)
    half_closed = begin(port, "/empty")
    half_closed.shutdown(socket.SHUT_WR)
    wait_until_ended(port, 2)
    half_closed.close()


@pytest.mark.slow
def test_an_endless_stream_ends_with_its_client_or_the_server(streams: Served) -> None:
    port = port_of(streams)
    with begin(port, "/endless") as stream:
        assert stream.recv(1_000)
    wait_until_ended(port, 1)
    with begin(port, "/endless") as stream:
        assert stream.recv(1_000)
        # It waits for its client when the server is stopped.
        streams.process.terminate()
        # What is not sent yet is dropped, by a reset.
        with contextlib.suppress(ConnectionResetError):
            while stream.recv(1 << 20):
                pass
    assert streams.process.wait(PATIENCE_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["inline", "uring"])
def test_a_client_that_stops_reading_keeps_its_thread_for_a_limited_time(
    worker: str, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(STREAMS)
    # Waiting for a client does not count as hanging, and sending does not either.
    limits = ["--pause-max", "2s", "--hang-timeout", "1s"]
    served = serve("there:app", *WORKERS[worker], *limits, directory=tmp_path)
    try:
        port = port_of(served)
        with begin(port, "/endless") as stream:
            assert stream.recv(1_000)
            wait_until_ended(port, 1)
        with begin(port, "/endless") as reader:
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                assert reader.recv(1 << 16)
        wait_until_ended(port, 2)
    finally:
        served.end()
