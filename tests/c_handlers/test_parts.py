"""Responses in parts, in plain text and over TLS: their framing, and that they wait for clients."""

import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.c_handlers.conftest import KINDS, Site, served, site_of, write
from tests.serving.server_process import PATIENCE_S

# Waits at its end for a thread that writes.
JOINS = """
#include <jissoku.h>
#include <pthread.h>
#include <stdio.h>

static const jsk_api *api;
static uint64_t token;
static pthread_t thread;

static void *work(void *argument) {
    static char part[100000];
    api->begin_later(token, 200, NULL, 0, JSK_UNKNOWN);
    while (api->write_later(token, part, sizeof part) == 0)
        continue;
    return argument;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    api = js;
    token = js->defer(r, 60000, NULL, NULL);
    return pthread_create(&thread, NULL, work, NULL);
}

void jsk_stop(const jsk_api *js, void *state) {
    if (api == js)
        pthread_join(thread, &state);
    fprintf(stderr, "has ended\\n");
}
"""

# Bytes that a socket may take on both sides before its peer reads, and what is written ahead.
BUFFERS = 48 << 20


def body(size: int) -> bytes:
    """The body of this size."""
    period = bytes(range(251))
    return (period * (size // 251 + 1))[:size]


@pytest.fixture(scope="module", params=KINDS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The server, in plain text and with TLS."""
    folder = tmp_path_factory.mktemp("parts")
    with site_of("parts.c", folder, request, "--libs=-pthread") as found:
        yield found


def counts(site: Site) -> tuple[int, int]:
    """Requests whose client has left, and threads that have ended."""
    gone, ended = site.ask("/counts")[1].split()
    return int(gone), int(ended)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def raw(site: Site, requests: str) -> bytes:
    """All that the server sends until it closes the connection."""
    connection = site.connect()
    try:
        connection.connect()
        connection.sock.sendall(requests.encode())
        return b"".join(iter(lambda: connection.sock.recv(65536), b""))
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/parts", "/thread", "/worker"])
@pytest.mark.parametrize(
    ("size", "part"), [(0, 1), (1, 1), (1000, 7), (100_000, 1000), (9_000_000, 1_000_000)]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_body_arrives_as_it_was_written(
    site: Site, path: str, size: int, part: int, *, is_known: bool
) -> None:
    target = f"{path}?size={size}&part={part}&known={int(is_known)}"
    status, received, length = site.ask(target)
    assert (status, received) == (200, body(size))
    if is_known:
        assert length == str(size)
    status, received, length = site.ask(target, "HEAD")
    assert (status, received) == (200, b"")
    assert not is_known or length == str(size)


def test_the_connection_stays_and_requests_are_answered_in_order(site: Site) -> None:
    connection = site.connect()
    targets = [
        "/parts?size=5000",
        "/thread?size=3000&part=100",
        "/once",
        "/thread?size=0",
        "/counts",
    ]
    for target in targets * 3:
        connection.request("GET", target)
        response = connection.getresponse()
        assert (response.status, response.will_close) == (200, False)
        received = response.read()
        connection.auto_open = 0
        if "size" in target:
            assert received == body(int(target.partition("size=")[2].partition("&")[0]))
    connection.close()
    one = "GET {} HTTP/1.1\r\nHost: h\r\n\r\n"
    last = "GET /once HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    sizes = [3, 0, 70_000, 1, 251]
    paths = ["/parts?known=1&size={}", "/thread?known=1&size={}"]
    received = raw(site, "".join(one.format(p.format(s)) for s in sizes for p in paths) + last)
    for size in sizes:
        for _ in paths:
            head, _, received = received.partition(b"\r\n\r\n")
            assert f"\r\nContent-Length: {size}\r\n".encode() in head + b"\r\n"
            assert received[:size] == body(size)
            received = received[size:]
    assert received.endswith(b"\r\n\r\nabc")


def test_the_framing_is_that_of_the_version(site: Site) -> None:
    close = "Host: h\r\nConnection: close\r\n\r\n"
    response = raw(site, f"GET /parts?size=3&part=1 HTTP/1.1\r\n{close}")
    head, _, rest = response.partition(b"\r\n\r\n")
    assert b"\r\nTransfer-Encoding: chunked" in head
    assert rest == b"1\r\n\0\r\n1\r\n\1\r\n1\r\n\2\r\n0\r\n\r\n"
    # If all is written when the worker wakes up, it has a length.
    head, _, rest = raw(site, f"GET /thread?size=3 HTTP/1.1\r\n{close}").partition(b"\r\n\r\n")
    assert b"\r\nX-Early: yes\r\n" in head
    assert b"\r\nX-Thread: yes\r\n" in head
    is_chunked = b"\r\nTransfer-Encoding: chunked" in head
    assert rest == (b"3\r\n\0\1\2\r\n0\r\n\r\n" if is_chunked else body(3))
    for path in ("/thread", "/parts"):
        response = raw(site, f"GET {path}?size=2600&part=300 HTTP/1.0\r\n\r\n")
        head, _, rest = response.partition(b"\r\n\r\n")
        assert b"Transfer-Encoding" not in head
        assert path == "/thread" or b"Content-Length" not in head
        assert rest == body(2600)
    # What has ended before it is sent has a length.
    response = raw(site, f"GET /once HTTP/1.1\r\n{close}")
    assert b"\r\nContent-Length: 3\r\n" in response
    assert response.endswith(b"\r\n\r\nabc")
    response = raw(site, f"GET /once?status=204 HTTP/1.1\r\n{close}")
    assert b"Content-Length" not in response
    assert response.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("target", ["/once", "/parts", "/parts?known=1"])
def test_a_client_that_has_the_tag_gets_304(site: Site, target: str) -> None:
    connection = site.connect()
    for _ in range(2):
        connection.request("GET", target, headers={"If-None-Match": '"p1"'})
        response = connection.getresponse()
        assert (response.status, response.read()) == (304, b"")
        connection.auto_open = 0
    connection.close()


def test_parts_may_come_at_times(site: Site) -> None:
    for path in ("/parts", "/thread"):
        assert site.ask(f"{path}?size=50&part=10&ms=5")[:2] == (200, body(50))


def test_many_responses_do_not_mix(site: Site) -> None:
    def ask(index: int) -> bool:
        path = ("/parts", "/thread")[index % 2]
        size = 1000 * index
        return site.ask(f"{path}?size={size}&part=999")[:2] == (200, body(size))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(100)))


@pytest.mark.parametrize(
    "target",
    [
        "/short",
        "/parts?size=2000&last=7",
        "/parts?size=2000&last=1",
        "/parts?size=2000&known=1&part=100&last=1&ms=1",
        "/thread?size=2000&last=1&patience=100",
        "/thread?size=2000&last=1&patience=100&part=2001&known=0",
    ],
)
def test_a_response_that_fails_is_seen_to_be_incomplete(site: Site, target: str) -> None:
    if "known=1" in target:
        # All bytes were there before it failed.
        assert site.ask(target)[1] == body(2000)
        return
    with pytest.raises((HTTPException, OSError)):
        site.ask(target)
    if "/short" in target or site.context is not None:
        return
    # To a client that cannot see where the body ends, the connection is reset. With TLS it is, too,
    # but Python takes that for the end.
    with pytest.raises(ConnectionResetError):
        raw(site, f"GET {target} HTTP/1.0\r\n\r\n")


def test_a_response_that_fails_before_it_is_sent_is_a_500(site: Site) -> None:
    for last in (1, 7):
        status, received, _ = site.ask(f"/parts?size=10&part=10&last={last}")
        assert (status, received) == (500, b"Internal Server Error\n")
    site.server.wait_for(r"parts\.c: jsk_handle has not ended its response: GET /parts\?size=10&")
    site.server.wait_for(r"parts\.c: jsk_handle has returned 7: GET /parts\?size=10&")


def test_wrong_uses_have_no_effect(site: Site) -> None:
    assert site.ask("/misuse") == (200, b"abcde", "5")
    # Those of the response that succeed: begin, two writes and end.
    done = {5, 10, 13, 14}
    assert site.ask("/results")[1].split() == [b"0" if i in done else b"-1" for i in range(18)]


def test_wrong_uses_of_a_thread_have_no_effect(site: Site) -> None:
    _, ended = counts(site)
    assert site.ask("/misuse-thread") == (200, b"abcde", "5")
    wait_until(lambda: counts(site)[1] == ended + 1)
    # begin, finish, which has no effect, three writes, end, and a second begin that is given up.
    done = {5, 7, 8, 11, 12, 13, 16}
    assert site.ask("/results")[1].split() == [b"0" if i in done else b"-1" for i in range(18)]


def leave(site: Site, target: str, at_least: int) -> None:
    """Reads some of a response, and closes the connection by a reset."""
    connection = site.connect()
    connection.connect()
    connection.sock.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    received = 0
    while received < at_least:
        received += len(connection.sock.recv(65536))
    linger = struct.pack("ii", 1, 0)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


def test_a_client_that_leaves_ends_what_writes_for_it(site: Site) -> None:
    gone, ended = counts(site)
    for target in ("/thread?size=1000000000000", "/thread?size=1000000000000&part=5&ms=1"):
        leave(site, target, 300)
    wait_until(lambda: counts(site)[1] >= ended + 2)
    for target in ("/parts?size=1000000000000", "/parts?size=1000000000000&ms=1"):
        leave(site, target, 300)
    wait_until(lambda: counts(site) == (gone + 4, ended + 2))
    assert site.ask("/thread?size=5000")[1] == body(5000)


def test_a_thread_waits_for_a_client_that_does_not_read(site: Site) -> None:
    _, ended = counts(site)
    connection = site.connect()
    connection.connect()
    target = "/thread?size=1000000000000&part=100000&patience=300"
    connection.sock.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())

    def has_stopped() -> bool:
        before = int(site.ask("/written")[1])
        # Longer than the patience, which does not count while the client is waited for.
        time.sleep(0.5)
        return 0 < before == int(site.ask("/written")[1])

    wait_until(has_stopped)
    assert int(site.ask("/written")[1]) < BUFFERS
    before = int(site.ask("/written")[1])
    received = 0
    while received < BUFFERS:
        part = connection.sock.recv(1 << 20)
        assert part
        received += len(part)
    assert int(site.ask("/written")[1]) > before
    connection.close()
    wait_until(lambda: counts(site)[1] == ended + 1)


def test_a_worker_ends_although_a_thread_writes(tmp_path: Path) -> None:
    flags = ["--libs=-pthread", "--stop-timeout", "1s"]
    with served(write(tmp_path, JOINS), *flags) as (server, port):
        client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert client.recv(1) == b"H"
        server.send_signal(signal.SIGTERM)
        server.wait_for("^has ended$")
        assert server.process.wait(PATIENCE_S) == 0
        client.close()
