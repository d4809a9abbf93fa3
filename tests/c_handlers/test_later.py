"""Responses that a handler gives later."""

import shutil
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.c_handlers.conftest import SOURCES, served_as_asked
from tests.serving.server_process import PATIENCE_S, Served, ask, connect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def later(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[tuple[Served, int]]:
    """A server of the handler, and its port."""
    source = shutil.copy(SOURCES / "later.c", tmp_path_factory.mktemp("later"))
    with served_as_asked(Path(source), pytestconfig, "--libs=-pthread") as found:
        yield found


def wait_for_gone(port: int, count: int) -> None:
    """Waits until this many requests have ended without their response."""
    deadline = time.monotonic() + PATIENCE_S
    while int(ask(port)[1]) < count:
        assert time.monotonic() < deadline


def test_timers_respond_while_others_are_served(later: tuple[Served, int]) -> None:
    _, port = later
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: ask(port, f"/after?n={n}"), range(1, 9)))
    assert answers == [(200, b"counted")] * 8


def test_threads_respond_once_with_the_fields_of_the_handler(later: tuple[Served, int]) -> None:
    _, port = later
    connection = connect(port)
    for _ in range(3):
        connection.request("GET", "/thread?ms=5")
        response = connection.getresponse()
        assert (response.status, response.read()) == (201, b"finished 0")
        assert response.headers["X-Field"] == "early"
    connection.close()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: ask(port, f"/thread?ms={n}"), range(40)))
    assert answers == [(201, b"finished 0")] * 40


def test_threads_respond_with_fields_of_their_own(later: tuple[Served, int]) -> None:
    _, port = later
    connection = connect(port)
    for tag, expected in [('"old"', (200, b"finished 0")), ('"late"', (304, b""))]:
        connection.request("GET", "/fields?ms=1", headers={"If-None-Match": tag})
        response = connection.getresponse()
        assert (response.status, response.read()) == expected
        fields = [response.headers[name] for name in ("X-Field", "X-Time", "ETag")]
        assert fields == ["early", "finished 0", '"late"']
        assert "C" not in response.headers
    connection.close()


def test_a_request_that_is_never_answered_gets_504(later: tuple[Served, int]) -> None:
    _, port = later
    before = int(ask(port)[1])
    assert ask(port, "/never") == (504, b"Gateway Timeout\n")
    assert ask(port, "/both") == (200, b"at once")
    wait_for_gone(port, before + 2)


def test_a_client_that_leaves_is_reported_and_its_response_is_dropped(
    later: tuple[Served, int],
) -> None:
    _, port = later
    before = int(ask(port)[1])
    for path in ("/thread?ms=300", "/after?n=100000"):
        connection = connect(port)
        connection.request("GET", path)
        # The request is received before the answer to another one.
        assert ask(port)[0] == 200
        # Close by a reset: that a client reads no more shows in nothing else.
        linger = struct.pack("ii", 1, 0)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()
    wait_for_gone(port, before + 2)
    # After the other thread has finished.
    assert ask(port, "/thread?ms=400") == (201, b"finished 0")


def test_a_crash_in_another_thread_ends_the_worker(later: tuple[Served, int]) -> None:
    server, port = later
    with pytest.raises((OSError, EOFError)):
        ask(port, "/crash")
    server.wait_for(r"^jissoku serve: worker 0 has failed .*: signal 6$")
    assert ask(port, "/thread?ms=1") == (201, b"finished 0")
