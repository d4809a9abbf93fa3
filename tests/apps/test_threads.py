"""Threads of a worker, for applications that block."""

import signal
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.apps.test_reloads import wait_for_files
from tests.serving.server_process import PATIENCE_S, Served, ask

THREADS = 3

SOURCE = """
import threading

barrier = threading.Barrier(3)
opened = threading.Event()

def app(environ, start_response):
    path = environ["PATH_INFO"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/meet":
        # Three requests at the same time, or none is answered.
        return [str(barrier.wait(60)).encode()]
    if path == "/stream":
        return (f"{threading.get_ident()} ".encode() for _ in range(20))
    if path == "/stuck":
        opened.wait()
    if path == "/go":
        opened.set()
    return [f"{threading.current_thread().name} {environ['wsgi.multithread']}".encode()]

async def asynchronous(scope, receive, send):
    pass
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "there.py").write_text(SOURCE)
    served = serve("there:app", "--threads", str(THREADS), directory=tmp_path)
    try:
        yield served
    finally:
        served.end()


def test_requests_that_wait_for_each_other_are_processed_at_once(served: Served) -> None:
    port = port_of(served)
    with ThreadPoolExecutor(THREADS) as clients:
        answers = list(clients.map(lambda _: ask(port, "/meet"), range(2 * THREADS)))
    assert sorted(answers) == sorted((200, b"%d" % index) for index in [0, 1, 2] * 2)


def test_an_application_knows_its_thread_and_one_idle_thread_is_used_again(served: Served) -> None:
    port = port_of(served)
    answers = {ask(port, "/") for _ in range(20)}
    assert answers == {(200, b"jissoku-app-0 True")}


@pytest.mark.slow
def test_a_streamed_response_stays_on_its_thread(served: Served) -> None:
    port = port_of(served)
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: ask(port, "/stream"), range(40)))
    for status, body in answers:
        threads = body.split()
        assert (status, len(threads), len(set(threads))) == (200, 20, 1)


def test_a_request_without_a_thread_waits_for_one(served: Served) -> None:
    port = port_of(served)
    with ThreadPoolExecutor(2 * THREADS) as clients:
        # Two of three threads are busy, and the third one serves the other requests one by one.
        stuck = [clients.submit(ask, port, "/stuck") for _ in range(THREADS - 1)]
        answers = list(clients.map(lambda _: ask(port, "/"), range(10)))
        assert {status for status, _ in answers} == {200}
        assert ask(port, "/go")[0] == 200
        assert [request.result()[0] for request in stuck] == [200] * (THREADS - 1)


ONE = """
import pathlib, time
here = pathlib.Path(__file__).parent
calls = []

def app(environ, start_response):
    path = environ["PATH_INFO"]
    calls.append(path)
    if path == "/stuck":
        (here / "stuck").touch()
        while not (here / "go").exists():
            time.sleep(0.01)
    start_response("200 OK", [])
    return [" ".join(calls).encode()]
"""


def test_a_request_whose_client_has_left_gets_no_thread(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(ONE)
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "file").write_text("content")
    words = ["--threads", "1", "--static", f"/public={tmp_path}/public", "--access-log", "-"]
    served = serve("there:app", *words, directory=tmp_path)
    try:
        port = port_of(served)
        with ThreadPoolExecutor(1) as clients:
            stuck = clients.submit(ask, port, "/stuck")
            wait_for_files(tmp_path, "stuck", 1)
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as leaving:
                paths = (b"/public/file", b"/left")
                leaving.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % p for p in paths))
                # The response to the first comes when the second waits for a thread.
                received = b""
                while not received.endswith(b"content"):
                    received += leaving.recv(4096)
                # It is reset when it is closed.
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            served.wait_for('"GET /left HTTP/1.1" 499 ')
            (tmp_path / "go").touch()
            assert stuck.result() == (200, b"/stuck")
        assert ask(port, "/then") == (200, b"/stuck /then")
    finally:
        served.end()


def test_a_slow_client_occupies_no_thread(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(ONE)
    served = serve("there:app", "--threads", "1", directory=tmp_path)
    try:
        port = port_of(served)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as slow:
            slow.sendall(b"POST /slow HTTP/1.0\r\nContent-Length: 2\r\n\r\na")
            assert ask(port, "/fast") == (200, b"/fast")
            slow.sendall(b"b")
            assert slow.makefile("rb").read().endswith(b"\r\n\r\n/fast /slow")
    finally:
        served.end()


def test_idle_threads_end_with_the_server(served: Served) -> None:
    port = port_of(served)
    assert ask(port, "/")[0] == 200
    served.send_signal(signal.SIGTERM)
    assert served.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((".", "--threads", "2"), "--threads needs an application"),
        (("there:app", "--threads", "5000"), "--threads 5000: at most 1024"),
        (("there:asynchronous", "--threads", "2"), "--threads is for WSGI applications"),
    ],
)
def test_threads_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(SOURCE)
    served = serve(arguments[0], *arguments[1:], directory=tmp_path)
    try:
        served.wait_for(sentence)
        assert served.process.wait(PATIENCE_S) == 2
    finally:
        served.end()
