"""Bodies of requests that a handler takes by parts."""

import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.c_handlers.conftest import KINDS, SOURCES, Site, received_until, served, site_of
from tests.serving.server_process import PATIENCE_S, connect


@pytest.fixture(scope="module", params=[*KINDS, "unix"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The server, in plain text, with TLS and at a Unix socket."""
    folder = tmp_path_factory.mktemp("uploads")
    with site_of("uploads.c", folder, request, "--body-size-max", "32MiB") as found:
        yield found


def upload(site: Site, path: str, body: bytes, *, is_chunked: bool = False) -> tuple[int, bytes]:
    """Status and body of two responses on one connection, which are the same."""
    connection = site.connect()
    answers = set()
    for _ in range(2):
        parts = (body[start : start + 70_000] for start in range(0, len(body), 70_000))
        connection.request("POST", path, parts if is_chunked else body, encode_chunked=is_chunked)
        response = connection.getresponse()
        answers.add((response.status, response.read()))
        connection.auto_open = 0
    connection.close()
    [answer] = answers
    return answer


def wait_for_open(site: Site, count: int) -> None:
    """Waits until the worker has this many uploads."""
    deadline = time.monotonic() + PATIENCE_S
    while int(site.ask("/open")[1]) != count:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("size", [0, 1, 100_000, 20_000_000])
def test_all_parts_are_passed_once(site: Site, size: int, *, is_chunked: bool) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    expected = f"{size} {sum(body)} 0".encode()
    assert upload(site, "/", body, is_chunked=is_chunked) == (200, expected)
    wait_for_open(site, 0)


def test_uploads_at_the_same_time_do_not_mix(site: Site) -> None:
    def send(index: int) -> tuple[int, bytes]:
        return upload(site, "/", bytes([index]) * 1_000_000)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(send, range(1, 13)))
    assert answers == [(200, f"1000000 {index}000000 0".encode()) for index in range(1, 13)]
    wait_for_open(site, 0)


def test_a_response_before_the_end_is_the_response(site: Site) -> None:
    assert upload(site, "/refuses", b"x" * 300_000) == (413, b"too much")
    assert upload(site, "/refuses", b"x" * 1000) == (200, b"1000 120000 0")
    wait_for_open(site, 0)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/fails", "jsk_body has returned 7"),
        ("/waits", "jsk_body waits, which only jsk_handle may"),
        ("/begins", "jsk_handle has not ended its response"),
    ],
)
def test_a_failure_is_500_and_the_connection_stays(site: Site, path: str, why: str) -> None:
    assert upload(site, path, b"x" * 300_000) == (500, b"Internal Server Error\n")
    for _ in range(2):
        site.server.wait_for(rf"uploads\.c: {why}: POST {path}$")
    wait_for_open(site, 0)


def test_a_client_that_leaves_has_its_data_released(site: Site) -> None:
    connection = site.connect()
    connection.connect()
    head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"
    connection.sock.sendall(head.encode() + b"x" * 1000)
    wait_for_open(site, 1)
    connection.sock.shutdown(socket.SHUT_WR)
    connection.close()
    wait_for_open(site, 0)


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_client_that_asks_first_gets_a_100(site: Site) -> None:
    connection = site.connect()
    connection.connect()
    for _ in range(2):
        head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        connection.sock.sendall(head.encode())
        assert received_until(connection, b"\r\n\r\n") == CONTINUE
        connection.sock.sendall(b"abc")
        received = received_until(connection, b"\r\n\r\n3 294 0")
        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    connection.close()


PIECE = b"x" * 50_000


@pytest.mark.parametrize("field", ["X-Field: x", "Connection: close", "Expect: 100-continue"])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/refuses", 413, b"too much"), ("/fails", 500, b"Internal Server Error\n")],
)
def test_a_response_before_the_end_does_not_wait_for_it(
    site: Site, path: str, status: int, text: bytes, *, is_chunked: bool, field: str
) -> None:
    part, end = PIECE, b""
    if is_chunked:
        part, end = b"%x\r\n%s\r\n" % (len(PIECE), PIECE), b"0\r\n\r\n"
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {4 * len(PIECE)}"
    connection = site.connect()
    connection.connect()
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n{field}\r\n{length}\r\n\r\n"
    connection.sock.sendall(head.encode())
    if "Expect" in field:
        assert received_until(connection, b"\r\n\r\n") == CONTINUE
    connection.sock.sendall(part)
    received = received_until(connection, b"\r\n\r\n" + text)
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert received.count(b"HTTP/1.1 ") == 1
    wait_for_open(site, 0)
    # A client that sends all of its body first reads the response, too.
    connection.sock.sendall(3 * part + end)
    if "close" in field:
        assert b"\r\nConnection: close\r\n" in received
        # The end of chunks is not looked for: the server waits for that of the client.
        assert is_chunked or connection.sock.recv(1) == b""
    else:
        connection.request("GET", "/open")
        assert connection.getresponse().read() == b"0"
    connection.close()


def test_the_rest_of_a_body_is_discarded_up_to_a_limit(tmp_path: Path) -> None:
    file = Path(shutil.copy(SOURCES / "uploads.c", tmp_path))
    limits = ["--body-size-max", "32MiB", "--linger-size-max", "100KiB"]
    with served(file, *limits) as (_, port):
        connection = connect(port)
        connection.connect()
        head = "POST /refuses HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n"
        connection.sock.sendall(head.encode() + PIECE)
        received_until(connection, b"too much")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sock.sendall(399 * PIECE)
        connection.close()
