"""Requests that must not be sent twice, on connections that their server was closing."""

import ctypes
import re
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.serving.server_process import PATIENCE_S, Start, connect
from tests.serving.test_edge import read_metrics

LOCAL = r"http://127\.0\.0\.1:([0-9]+)/"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
# A filter of one instruction: no byte of any packet is accepted, and none acknowledged.
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)


class Server:
    """Answers the first request of its first connection; a test ends that one. It takes others.

    Attributes:
        requests: The method and path of each request that it has read, in order.
    """

    def __init__(self) -> None:
        """Listens on a free port."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.requests: list[str] = []
        self.connection: socket.socket | None = None
        self.has_answered = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def read(self, connection: socket.socket) -> bool:
        """Reads a request; whether there was one."""
        text = b""
        while b"\r\n\r\n" not in text:
            received = connection.recv(65536)
            if not received:
                return False
            text += received
        head, _, body = text.partition(b"\r\n\r\n")
        size = re.search(rb"(?i)\ncontent-length: ([0-9]+)", head)
        while len(body) < int(size[1] if size else 0):
            body += connection.recv(65536)
        self.requests.append(head.decode().split(" HTTP", 1)[0])
        return True

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        self.read(connection)
        connection.sendall(OK)
        self.connection = connection
        self.has_answered.set()
        while True:
            connection, _ = self.listener.accept()
            while self.read(connection):
                connection.sendall(OK)
            connection.close()


def drop_all(connection: socket.socket) -> None:
    """Has the kernel drop what arrives from now on, as if it were still under way."""
    program = ctypes.create_string_buffer(DROP_ALL)
    filter_ = struct.pack("HL", 1, ctypes.addressof(program))
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)


def take_all(connection: socket.socket) -> None:
    """The end of that: what was dropped is transmitted again, after a fifth of a second or so."""
    connection.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def reset(connection: socket.socket) -> None:
    """Closes a connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Scene:
    """A gateway in front of a server, and a connection between them that has been used."""

    def __init__(self, start: Start, folder: Path, retry: str) -> None:
        """Starts both, with this key of the route."""
        self.server = Server()
        (folder / "serve.toml").write_text(f"""
            listen = "127.0.0.1:0"
            workers = 1
            metrics = "127.0.0.1:0"
            [upstream.app]
            servers = ["{self.server.address}"]
            idle-time = "60s"
            [[route]]
            path = "/**"
            to = "app"
            {retry}
        """)
        served = start("--config", str(folder / "serve.toml"))
        self.port = int(served.wait_for(LOCAL)[1])
        self.metrics_port = int(served.wait_for(rf"metrics on {LOCAL}")[1])
        assert self.ask("GET") == 200
        assert self.server.has_answered.wait(PATIENCE_S)
        assert self.server.connection
        self.connection = self.server.connection
        self.connection.settimeout(PATIENCE_S)
        self.status = 0

    def ask(self, method: str, body: bytes = b"") -> int:
        """The status of a response."""
        connection = connect(self.port)
        connection.request(method, f"/{method.lower()}", body=body or None, headers={"Host": "h"})
        status = connection.getresponse().status
        connection.close()
        return status

    def begin(self, method: str, body: bytes = b"") -> threading.Thread:
        """Asks, and returns when the gateway has sent the request on the used connection."""

        def ask() -> None:
            self.status = self.ask(method, body)

        asking = threading.Thread(target=ask)
        asking.start()
        while not self.count("tries", 'connection="reused"'):
            assert asking.is_alive(), "it was sent on a new connection"
        return asking

    def count(self, name: str, label: str) -> int:
        """A counter of the upstream."""
        _, values = read_metrics(self.metrics_port)
        return int(values[f'jissoku_upstream_{name}_total{{upstream="app",{label}}}'])


PROVEN = 'retry = { unsafe = "proven" }'
WITH_TIME = f"{PROVEN}\ndeadline-field = 'X-Deadline-Ms'"


class Case(NamedTuple):
    """A request, and what becomes of it."""

    retry: str
    method: str
    body: bytes
    status: int
    requests: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Case(PROVEN, "POST", b"x" * 1000, 200, ["GET /get", "POST /post"]),
        Case(PROVEN, "POST", b"", 200, ["GET /get", "POST /post"]),
        # The field is new each time, and counts among the bytes that were sent.
        Case(WITH_TIME, "POST", b"x" * 1000, 200, ["GET /get", "POST /post"]),
        # Its body is not kept.
        Case(PROVEN, "POST", b"x" * 100_000, 502, ["GET /get"]),
        Case('retry = { unsafe = "never" }', "POST", b"", 502, ["GET /get"]),
        Case("", "POST", b"", 502, ["GET /get"]),
        Case("", "PUT", b"", 200, ["GET /get", "PUT /put"]),
    ],
)
def test_a_request_that_arrives_after_the_end_of_its_server(
    tmp_path: Path, start: Start, case: Case
) -> None:
    scene = Scene(start, tmp_path, case.retry)
    drop_all(scene.connection)
    asking = scene.begin(case.method, case.body)
    take_all(scene.connection)
    # The FIN acknowledges nothing of the request, which is then answered with a reset.
    scene.connection.close()
    asking.join(PATIENCE_S)
    assert (scene.status, scene.server.requests) == (case.status, case.requests)
    is_proven = case.retry.startswith(PROVEN) and case.status == 200
    assert scene.count("retries", 'cause="proven"') == is_proven


def read_and_reset(scene: Scene) -> None:
    """The kernel may have acknowledged nothing yet of what was read."""
    assert scene.server.read(scene.connection)
    reset(scene.connection)


def read_and_close(scene: Scene) -> None:
    """The FIN acknowledges what was read."""
    assert scene.server.read(scene.connection)
    scene.connection.close()


def close_without_reading(scene: Scene) -> None:
    """It has arrived, and only the server knows that it was not read."""
    scene.connection.recv(1, socket.MSG_PEEK)
    reset(scene.connection)


def read_after_the_end(scene: Scene) -> None:
    """It is acknowledged, although the server has shut down its side."""
    scene.connection.shutdown(socket.SHUT_WR)
    assert scene.server.read(scene.connection)


@pytest.mark.parametrize(
    "end", [read_and_reset, read_and_close, close_without_reading, read_after_the_end]
)
def test_without_proof_nothing_is_repeated(
    tmp_path: Path, start: Start, end: Callable[[Scene], None]
) -> None:
    scene = Scene(start, tmp_path, PROVEN)
    if end is read_after_the_end:
        drop_all(scene.connection)
    asking = scene.begin("POST", b"x" * 100)
    if end is read_after_the_end:
        take_all(scene.connection)
    end(scene)
    asking.join(PATIENCE_S)
    assert scene.status == 502
    assert scene.server.requests in (["GET /get"], ["GET /get", "POST /post"])
    assert scene.count("retries", 'cause="proven"') == 0
    assert scene.count("failures", 'reason="connection_terminated"') == 1


@pytest.mark.slow
def test_a_reset_that_does_not_come_is_not_waited_for(tmp_path: Path, start: Start) -> None:
    scene = Scene(start, tmp_path, PROVEN)
    drop_all(scene.connection)
    asking = scene.begin("POST")
    scene.connection.shutdown(socket.SHUT_WR)
    asking.join(PATIENCE_S)
    assert (scene.status, scene.server.requests) == (502, ["GET /get"])


def test_a_client_can_leave_while_the_reset_is_awaited(tmp_path: Path, start: Start) -> None:
    scene = Scene(start, tmp_path, PROVEN)
    drop_all(scene.connection)
    client = socket.create_connection(("127.0.0.1", scene.port), PATIENCE_S)
    client.sendall(b"POST /post HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
    while not scene.count("tries", 'connection="reused"'):
        pass
    scene.connection.shutdown(socket.SHUT_WR)
    reset(client)
    assert scene.ask("GET") == 200
    take_all(scene.connection)
    scene.connection.close()
    assert scene.ask("GET") == 200
    assert scene.server.requests == ["GET /get"] * 3
