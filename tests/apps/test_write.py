"""What an application passes to `write` is sent while the application goes on (PEP 3333)."""

import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.apps.conftest import serve
from tests.apps.test_exclusive_threads import WORKERS
from tests.serving.server_process import PATIENCE_S, Served
from tests.serving.test_edge import make_papers, needs_openssl

# A file of the directory shows the application that its client has read.
SOURCE = """
import pathlib, time
here = pathlib.Path(__file__).parent
closed = []

def wait_for(name):
    until = time.monotonic() + 30
    while not (here / name).exists() and time.monotonic() < until:
        time.sleep(0.005)
    return b"" if (here / name).exists() else b"(too late)"

class Parts(list):
    def close(self):
        closed.append(1)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/closed":
        start_response("200 OK", [])
        return [str(len(closed)).encode()]
    if path == "/hint":
        environ["wsgi.early_hints"]([("Link", "</a>")])
        late = wait_for("one")
        start_response("200 OK", [])
        return [late]
    sizes = {"/sized": [("Content-Length", "11")]}
    write = start_response("200 OK", sizes.get(path, []))
    if path == "/large":
        for _ in range(16):
            write(bytes(1 << 20))
        (here / "written").touch()
        return Parts([b"end"])
    if path == "/left":
        write(b"one")
        wait_for("one")
        for _ in range(100):
            write(bytes(1 << 16))
        (here / "written").touch()
        return Parts([b"end"])
    if path == "/fails":
        write(b"one")
        wait_for("one")
        raise ValueError("on purpose")
    write(b"one")
    write(wait_for("one"))
    write(b"two..")
    return Parts([wait_for("two"), b"end"])
"""


@pytest.fixture(params=[(worker, tls) for worker in WORKERS for tls in (False, True)], ids=str)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["Writing"]:
    worker, has_tls = request.param
    if has_tls and needs_openssl.args[0]:
        pytest.skip("there is no openssl")
    (tmp_path / "there.py").write_text(SOURCE)
    papers = []
    context = None
    if has_tls:
        certificate, key = make_papers(tmp_path, "localhost")
        papers = ["--tls-cert", str(certificate), "--tls-key", str(key)]
        context = ssl.create_default_context(cafile=str(certificate))
    served = serve("there:app", *WORKERS[worker], *papers, directory=tmp_path)
    with ExitStack() as stack:
        stack.callback(served.end)
        port = int(served.wait_for(r"^listening on https?://127\.0\.0\.1:([0-9]+)/$")[1])
        yield Writing(served, (port, context), tmp_path, stack, has_threads=worker == "threads")


class Writing:
    """A server whose application writes."""

    def __init__(
        self,
        served: Served,
        where: tuple[int, ssl.SSLContext | None],
        directory: Path,
        stack: ExitStack,
        *,
        has_threads: bool,
    ) -> None:
        self.served = served
        self.port, self.context = where
        self.has_threads = has_threads
        self.directory = directory
        self.stack = stack

    def send(self, request: bytes) -> socket.socket:
        """Sends `request` on a connection of its own."""
        stream = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        if self.context:
            stream = self.context.wrap_socket(stream, server_hostname="localhost")
        self.stack.enter_context(stream)
        stream.sendall(request)
        return stream

    def get(self, path: str) -> socket.socket:
        """Requests a page."""
        return self.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())

    def has_read(self, name: str) -> None:
        """Lets the application go on."""
        (self.directory / name).touch()

    def wait_for_file(self, name: str) -> None:
        """Waits until the application has made it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (self.directory / name).exists():
            assert time.monotonic() < deadline
            time.sleep(0.005)


def read_all(stream: socket.socket) -> bytes:
    """What is received until the connection ends."""
    return b"".join(iter(lambda: stream.recv(65_536), b""))


def read_until(stream: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        part = stream.recv(65_536)
        assert part, received
        received += part
    return received


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "version", "ends"),
    [
        ("/", b"1.1", (b"3\r\none\r\n", b"5\r\ntwo..\r\n", b"3\r\nend\r\n0\r\n\r\n")),
        ("/sized", b"1.1", (b"one", b"two..", b"end")),
        ("/", b"1.0", (b"one", b"two..", b"end")),
    ],
)
def test_a_block_is_read_before_the_application_goes_on(
    served: "Writing", path: str, version: bytes, ends: tuple[bytes, bytes, bytes]
) -> None:
    stream = served.send(b"GET %s HTTP/%s\r\nHost: a\r\n\r\n" % (path.encode(), version))
    assert read_until(stream, ends[0]).startswith(b"HTTP/1.1 200 OK\r\n")
    served.has_read("one")
    assert read_until(stream, ends[1]) == ends[1]
    served.has_read("two")
    assert read_until(stream, ends[2]) == ends[2]


@pytest.mark.slow
def test_it_follows_the_responses_to_earlier_requests(served: "Writing") -> None:
    get = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
    stream = served.send(get % b"/closed" + get % b"/" + get % b"/closed")
    received = read_until(stream, b"3\r\none\r\n")
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert received.split(b"\r\n\r\n")[1].startswith(b"0")
    served.has_read("one")
    served.has_read("two")
    received = read_until(stream, b"\r\n\r\n1")
    assert received.startswith(b"5\r\ntwo..\r\n3\r\nend\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.slow
def test_a_head_has_no_body(served: "Writing") -> None:
    stream = served.send(b"HEAD /sized HTTP/1.1\r\nHost: a\r\n\r\n")
    head = read_until(stream, b"\r\n\r\n")
    assert b"Content-Length: 11\r\n" in head
    served.has_read("one")
    served.has_read("two")
    stream.sendall(b"GET /closed HTTP/1.1\r\nHost: a\r\n\r\n")
    assert read_until(stream, b"\r\n\r\n1").startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.slow
def test_a_hint_is_read_before_the_application_goes_on(served: "Writing") -> None:
    stream = served.get("/hint")
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    assert read_until(stream, hint) == hint
    served.has_read("one")
    received = read_until(stream, b"\r\n\r\n")
    assert b"Content-Length: 0\r\n" in received


@pytest.mark.slow
def test_an_error_after_a_block_cuts_the_response(served: "Writing") -> None:
    stream = served.get("/fails")
    read_until(stream, b"3\r\none\r\n")
    served.has_read("one")
    assert stream.recv(1_000) == b""
    served.served.wait_for("ValueError: on purpose")


@pytest.mark.slow
def test_a_client_that_does_not_read_gets_all_of_it_later(served: "Writing") -> None:
    stream = served.get("/large")
    if not served.has_threads:
        # With threads the application waits as long as the client may pause.
        served.wait_for_file("written")
    received = read_until(stream, b"3\r\nend\r\n0\r\n\r\n")
    assert received.count(b"\0") == 16 << 20


@pytest.mark.slow
def test_the_application_goes_on_when_its_client_has_left(served: "Writing") -> None:
    stream = served.get("/left")
    read_until(stream, b"3\r\none\r\n")
    stream.close()
    served.has_read("one")
    served.wait_for_file("written")
    deadline = time.monotonic() + PATIENCE_S
    while not read_all(served.get("/closed")).endswith(b"\r\n\r\n1"):
        assert time.monotonic() < deadline
    served.served.send_signal(signal.SIGTERM)
    assert served.served.process.wait(PATIENCE_S) == 0
    assert not any("Error" in line for line in served.served.seen)
