"""Idle connections at a reload: they go to the new workers, unless those could not go on."""

import socket
import ssl
import time
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import psutil
import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Served, connect, spawn
from tests.serving.test_edge import make_papers, needs_openssl

WSGI = """
import os
def app(environ, start_response):
    environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [f"{os.getpid()} {environ['REMOTE_ADDR']}".encode()]
"""

ASGI = """
import os
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    client = (scope["client"] or [""])[0]
    await send({"type": "http.response.body", "body": f"{os.getpid()} {client}".encode()})
"""

APPS = {"wsgi": (WSGI, []), "threads": (WSGI, ["--threads", "2"]), "asgi": (ASGI, [])}


def workers_of(served: Served) -> list[int]:
    return [worker.pid for worker in psutil.Process(served.process.pid).children()]


def wait_for_end_of(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(map(psutil.pid_exists, pids)):
        assert time.monotonic() < deadline, "a worker did not end"
        time.sleep(0.01)


def ask(kept: HTTPConnection) -> tuple[int, str, bool]:
    """The worker that answers, the client's address, and whether the connection ends."""
    kept.request("POST", "/", body=b"x" * 100)
    response = kept.getresponse()
    pid, _, client = response.read().decode().partition(" ")
    kept.auto_open = 0
    return int(pid), client, response.will_close


@pytest.mark.slow
@pytest.mark.parametrize("app", APPS)
def test_a_kept_connection_goes_to_the_new_worker(app: str, tmp_path: Path) -> None:
    source, options = APPS[app]
    (tmp_path / "there.py").write_text(source)
    path = tmp_path / "app.sock"
    served = serve("there:app", *options, "--listen", f"unix:{path}", directory=tmp_path)
    try:
        kept = {"127.0.0.1": connect(port_of(served)), "": connect(path)}
        old = workers_of(served)
        for address, connection in kept.items():
            assert ask(connection) == (old[0], address, False)
        for _ in range(3):
            served.reload()
            # Nothing keeps the old one.
            wait_for_end_of(old)
            old = workers_of(served)
            for address, connection in kept.items():
                assert ask(connection) == (old[0], address, False)
        for connection in kept.values():
            connection.close()
    finally:
        served.end()


def test_a_worker_that_is_replaced_passes_its_connections_on(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    served = serve("there:app", "--max-requests", "5", directory=tmp_path)
    try:
        kept = connect(port_of(served))
        seen: list[int] = []
        while len(set(seen)) < 4:
            pid, _, ends = ask(kept)
            assert not ends
            seen.append(pid)
        kept.close()
    finally:
        served.end()


@pytest.mark.slow
def test_more_connections_are_passed_on_than_a_queue_holds(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    served = serve("there:app", "--workers", "2", directory=tmp_path)
    try:
        port = port_of(served)
        kept = [connect(port) for _ in range(700)]
        old = workers_of(served)
        for connection in kept:
            pid, _, ends = ask(connection)
            assert pid in old
            assert not ends
        served.reload()
        wait_for_end_of(old)
        new = workers_of(served)
        for connection in kept:
            pid, _, ends = ask(connection)
            assert pid in new
            assert not ends
            connection.close()
    finally:
        served.end()


def test_a_request_that_has_begun_is_answered_before_its_connection_goes(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    served = serve("there:app", directory=tmp_path)
    try:
        port = port_of(served)
        [old] = workers_of(served)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            # An answer, so that the worker has the connection and what follows.
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost:")
            assert f"\r\n\r\n{old} 127.0.0.1".encode() in client.recv(4096)
            served.reload()
            client.sendall(b" a\r\n\r\n")
            received = client.recv(4096)
            assert f"\r\n\r\n{old} 127.0.0.1".encode() in received
            assert b"Connection" not in received
            wait_for_end_of([old])
            [new] = workers_of(served)
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert f"\r\n\r\n{new} 127.0.0.1".encode() in client.recv(4096)
    finally:
        served.end()


def test_a_connection_whose_client_is_named_once_stays(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    served = spawn(
        "there:app", "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0,proxy-protocol",
        "--trusted-proxies", "127.0.0.1",
    )  # fmt: skip
    try:
        kept = connect(port_of(served))
        kept.connect()
        assert kept.sock is not None
        kept.sock.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.1 4321 80\r\n")
        [old] = workers_of(served)
        assert ask(kept) == (old, "192.0.2.7", False)
        served.reload()
        assert ask(kept) == (old, "192.0.2.7", True)
        wait_for_end_of([old])
        kept.close()
    finally:
        served.end()


@needs_openssl
def test_a_connection_with_tls_stays(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    certificate, key = make_papers(tmp_path, "one")
    papers = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    served = serve("there:app", *papers, directory=tmp_path)
    try:
        port = int(served.wait_for(r"^listening on https://127\.0\.0\.1:([0-9]+)/$")[1])
        context = ssl.create_default_context(cafile=str(certificate))
        kept = HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
        [old] = workers_of(served)
        assert ask(kept) == (old, "127.0.0.1", False)
        served.reload()
        assert ask(kept) == (old, "127.0.0.1", True)
        wait_for_end_of([old])
        kept.close()
    finally:
        served.end()


def test_connections_stay_when_their_listener_has_changed(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    path = tmp_path / "app.sock"

    def configure(suffix: str) -> None:
        listen = f"['127.0.0.1:0', 'unix:{path}{suffix}']"
        (tmp_path / "serve.toml").write_text(
            f"app = 'there:app'\napp-dir = '.'\nlisten = {listen}\n"
        )

    configure("")
    served = spawn("--config", str(tmp_path / "serve.toml"))
    try:
        kept = [connect(port_of(served)), connect(path)]
        [old] = workers_of(served)
        assert [ask(connection)[::2] for connection in kept] == [(old, False), (old, False)]
        configure(",proxy-protocol")
        served.reload()
        assert [ask(connection)[::2] for connection in kept] == [(old, True), (old, True)]
        wait_for_end_of([old])
        for connection in kept:
            connection.close()
    finally:
        served.end()
