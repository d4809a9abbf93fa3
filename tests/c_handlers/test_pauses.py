"""Bodies of requests that a handler takes by parts and pauses."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest

from tests.c_handlers.conftest import KINDS, Site, received_until, site_of
from tests.serving.server_process import PATIENCE_S

GIBIBYTE = 1 << 30

# Bytes that sockets and TLS take on both sides although their peer does not read.
BUFFERS = 48 << 20

# What a paused upload may have the worker keep, and what a worker grows by otherwise.
KEPT_KIB = 4096


@pytest.fixture(scope="module", params=KINDS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The server, in plain text and with TLS."""
    folder = tmp_path_factory.mktemp("pauses")
    with site_of("pauses.c", folder, request, "--libs=-pthread", "--body-size-max=2GiB") as found:
        yield found


def bytes_of(size: int) -> bytes:
    """A body of this size."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def upload(site: Site, path: str, size: int, *, is_chunked: bool = False) -> tuple[int, bytes]:
    """Status and body of the response to an upload, on a connection that persists."""
    connection = site.connect()
    body = bytes_of(size)
    parts = (body[start : start + 9_000] for start in range(0, size, 9_000))
    connection.request("POST", path, parts if is_chunked else body, encode_chunked=is_chunked)
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.auto_open = 0
    connection.request("GET", "/counts")
    assert connection.getresponse().status == 200
    connection.close()
    return answer


def counts(site: Site) -> list[int]:
    """Uploads that are there, those whose client has left, and parts that came during a pause."""
    return [int(text) for text in site.ask("/counts")[1].split()]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("/thread", 1),
        ("/thread", 20_000_000),
        ("/for-a-time", 1),
        ("/for-a-time", 1_000_000),
        ("/at-once", 1_000_000),
        ("/again", 100_000),
        ("/again", 1),
    ],
)
def test_all_parts_are_passed_once(site: Site, path: str, size: int, *, is_chunked: bool) -> None:
    expected = f"{size} {sum(bytes_of(size))}".encode()
    assert upload(site, path, size, is_chunked=is_chunked) == (200, expected)
    wait_until(lambda: counts(site)[0] == 0)
    assert counts(site)[2] == 0


def test_what_is_called_when_it_goes_on_may_respond_or_fail(site: Site) -> None:
    assert upload(site, "/late", 100_000) == (503, b"too late")
    assert upload(site, "/late", 1) == (503, b"too late")
    assert upload(site, "/fails", 100_000) == (500, b"Internal Server Error\n")
    site.server.wait_for(r"pauses\.c: jsk_body has returned 5: POST /fails$")


def test_a_response_after_a_pause_does_not_wait_for_the_end(site: Site) -> None:
    connection = site.connect()
    connection.connect()
    head = "POST /late HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"
    connection.sock.sendall(head.encode() + bytes_of(1000))
    received = received_until(connection, b"\r\n\r\ntoo late")
    assert received.startswith(b"HTTP/1.1 503 ")
    assert counts(site)[0] == 0
    connection.sock.sendall(bytes_of(99_000))
    connection.request("GET", "/counts")
    assert connection.getresponse().status == 200
    connection.close()


def test_a_response_ends_a_pause(site: Site) -> None:
    _, gone, _ = counts(site)
    assert upload(site, "/responds", 100_000) == (413, b"too much")
    assert counts(site) == [0, gone + 1, 0]


def test_wrong_uses_have_no_effect(site: Site) -> None:
    size = 1000
    expected = f"{size} {sum(bytes_of(size))}".encode()
    assert upload(site, "/misuse", size) == (200, expected)
    assert site.ask("/resume")[:2] == (200, b"0")


def memory(site: Site) -> tuple[int, int]:
    """Kibibytes of the worker, and bytes that the held upload has had."""
    resident, size = site.ask("/memory")[1].split()
    return int(resident), int(size)


def begin(site: Site, fields: str) -> HTTPConnection:
    """An upload to be held whose head is sent."""
    connection = site.connect()
    connection.connect()
    connection.sock.sendall(f"POST /held HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n".encode())
    return connection


def send_until_full(connection: HTTPConnection, block: bytes) -> int:
    """Sends blocks until the server takes none for a second; returns how many bytes it took."""
    connection.sock.settimeout(1)
    sent = 0
    while sent < GIBIBYTE:
        try:
            sent += connection.sock.send(block)
        except TimeoutError:
            break
    return sent


def resume(site: Site) -> int:
    """Has the held upload go on, and returns how many bytes it has had then; 0 if it has ended."""
    before = memory(site)[1]
    site.ask("/resume")
    wait_until(lambda: memory(site)[1] != before)
    return memory(site)[1]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_client_waits_for_a_handler_that_is_paused(site: Site, *, is_chunked: bool) -> None:
    piece = bytes(65536)
    block = b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {GIBIBYTE}"
    # The memory of a first upload stays with the worker.
    upload(site, "/thread", 1_000_000)
    before, _ = memory(site)
    connection = begin(site, length)
    assert send_until_full(connection, block) < BUFFERS
    resident, size = memory(site)
    assert resident < before + KEPT_KIB
    assert 0 < size <= 65536
    # One part is taken, and the next one is held.
    assert size < resume(site) <= size + 131072
    assert memory(site)[0] < before + KEPT_KIB
    open_count, gone, _ = counts(site)
    assert open_count == 1
    linger = struct.pack("ii", 1, 0)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()
    wait_until(lambda: counts(site) == [0, gone + 1, 0])


def test_a_client_that_has_sent_all_and_shuts_down_gets_its_response(site: Site) -> None:
    if site.context is not None:
        pytest.skip("Python shuts down both directions of TLS")
    body = bytes_of(60_000)
    connection = begin(site, f"Content-Length: {len(body)}\r\nConnection: close")
    connection.sock.sendall(body)
    connection.sock.shutdown(socket.SHUT_WR)
    wait_until(lambda: memory(site)[1] > 0)
    while resume(site) > 0:
        pass
    received = b"".join(iter(lambda: connection.sock.recv(65536), b""))
    assert received.endswith(f"\r\n\r\n{len(body)} {sum(body)}".encode())
    connection.close()
