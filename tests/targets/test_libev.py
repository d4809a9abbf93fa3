"""Our own server on plain libev: the part of HTTP that it supports."""

import random
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from jissoku.model import UnavailableTarget, Workload
from jissoku.targets import catalogue, launch, process, response
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import prepare
from jissoku.targets.process import RunningTarget
from tests.targets.conftest import placed

GET = b"GET %s HTTP/1.1\r\nHost: here\r\n\r\n"
LAST = b"GET %s HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
CLOSE = b"Connection: close\r\n"
TEXT = b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\n" + TEXT % 13 + b"Hello, World!"
LAST_HELLO = b"HTTP/1.1 200 OK\r\n" + CLOSE + TEXT % 13 + b"Hello, World!"
ABSENT = b"HTTP/1.1 404 Not Found\r\n" + TEXT % 0


@pytest.fixture(scope="module")
def running(place: BuildPaths) -> Iterator[RunningTarget]:
    found = prepare(catalogue.recipes()["libev"], place)
    if isinstance(found, UnavailableTarget):
        pytest.skip(f"{found.name} is not available here: {found.reason}; {found.install_hint}")
    with process.start(found, placed()) as running:
        launch.wait_until_ready(running, Workload())
        yield running


def said(running: RunningTarget, *pieces: bytes) -> bytes:
    """All that comes until the server closes, for bytes that are sent piece by piece."""
    with closing(running.address.connect(response.REQUEST_LIMIT_S)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        got = b""
        while more := connection.recv(65536):
            got += more
        return got


def test_requests_may_come_in_any_pieces(running: RunningTarget) -> None:
    asked = GET % b"/" + GET % b"/nope" + LAST % b"/"
    rng = random.Random(5)
    for _ in range(20):
        cuts = sorted(rng.sample(range(len(asked)), 4))
        pieces = [asked[a:b] for a, b in zip([0, *cuts], [*cuts, len(asked)], strict=True)]
        assert said(running, *pieces) == HELLO + ABSENT + LAST_HELLO


def test_more_answers_than_it_has_room_for_come_in_order(running: RunningTarget) -> None:
    asked = (b"GET / HTTP/1.1\r\n\r\n" + b"GET /x HTTP/1.1\r\n\r\n") * 500 + LAST % b"/"
    assert said(running, asked) == (HELLO + ABSENT) * 500 + LAST_HELLO


def test_a_delayed_answer_keeps_its_place(running: RunningTarget) -> None:
    asked = GET % b"/" + GET % b"/delay?ms=5" + LAST % b"/"
    assert said(running, asked) == HELLO + HELLO + LAST_HELLO
    assert said(running, LAST % b"/delay?ms=5") == LAST_HELLO


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"400"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 4091, b"431"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_it_closes_after(running: RunningTarget, asked: bytes, status: bytes) -> None:
    assert said(running, asked).startswith(b"HTTP/1.1 " + status)
