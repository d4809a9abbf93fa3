"""Parts of gathered responses that are the same, and so are one request."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.scripted_server import ScriptedServer
from tests.serving.server_process import PATIENCE_S, Served, Start, connect
from tests.serving.test_edge import read_metrics

LOCAL = r"http://127\.0\.0\.1:([0-9]+)/"
REQUEST = b"GET /7 HTTP/1.1\r\nHost: h\r\n\r\n"


class Scene:
    """A gateway with one route, whose only part is asked of one server."""

    def __init__(
        self, start: Start, folder: Path, address: str, *, key: str = "single-flight = true"
    ) -> None:
        """Starts it, with a further key of the route."""
        self.log = folder / "access.log"
        (folder / "serve.toml").write_text(f"""
            listen = "127.0.0.1:0"
            workers = 1
            metrics = "127.0.0.1:0"
            access-log = "access.log"
            log-format = "json"
            [upstream.app]
            servers = ["{address}"]
            idle-time = "60s"
            [[route]]
            path = "/{{id}}"
            gather = {{ one = "app:/of/{{id}}" }}
            deadline = "60s"
            {key}
        """)
        self.served: Served = start("--config", str(folder / "serve.toml"))
        self.port = int(self.served.wait_for(LOCAL)[1])
        self.metrics_port = int(self.served.wait_for(rf"metrics on {LOCAL}")[1])
        self.pool = ThreadPoolExecutor(32)

    def __enter__(self) -> Self:
        """Its clients can ask."""
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for its clients."""
        self.pool.shutdown()

    def ask(self, path: str = "/7", **fields: str) -> "Future[dict[str, Any]]":
        """The part that a client of its own gets."""

        def ask() -> dict[str, Any]:
            connection = connect(self.port)
            names = {name.replace("_", "-"): value for name, value in fields.items()}
            connection.request("GET", path, headers={"Host": "h"} | names)
            part: dict[str, Any] = json.loads(connection.getresponse().read())["parts"][0]
            connection.close()
            return part

        return self.pool.submit(ask)

    def count(self, name: str) -> int:
        """The value of a counter of the upstream."""
        _, values = read_metrics(self.metrics_port)
        return int(values[f'jissoku_upstream_{name}_total{{upstream="app"}}'])

    def wait_for(self, name: str, value: int) -> None:
        """Waits until a counter has this value."""
        while self.count(name) != value:
            pass

    def logged(self) -> list[dict[str, Any]]:
        """The requests to the server, by the log of the gateway, which ends."""
        self.served.process.terminate()
        assert self.served.process.wait(PATIENCE_S) == 0
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [forwarded for line in lines for forwarded in line["forwarded"]]


def reset(client: socket.socket) -> None:
    """Closes a connection such that its peer gets no more of it: after a FIN it could be read."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_the_same_parts_are_one_request(tmp_path: Path, start: Start) -> None:
    is_free = threading.Event()
    with (
        Origin("a", held_until(is_free)) as origin,
        Scene(start, tmp_path, origin.address) as scene,
    ):
        parts = [scene.ask(X_Request_Id=str(number)) for number in range(5)]
        scene.wait_for("shared", 4)
        is_free.set()
        bodies = {part.result(PATIENCE_S)["body_base64"] for part in parts}
        assert (len(bodies), origin.requests) == (1, ["/of/7"])
        # One that begins when the response is complete is sent anew.
        scene.ask().result(PATIENCE_S)
        assert origin.requests == ["/of/7", "/of/7"]
        assert (scene.count("requests"), scene.count("shared")) == (6, 4)
        entries = scene.logged()
    assert [entry.get("is_shared", False) for entry in entries].count(True) == 4
    assert {(entry["status"], entry["tries"], entry["part"]) for entry in entries} == {
        (200, 1, "one")
    }


@pytest.mark.parametrize(
    ("key", "path", "fields"),
    [
        ("", "/7", {}),
        ("single-flight = true", "/8", {}),
        ("single-flight = true", "/7", {"Cookie": "user=2"}),
        ("single-flight = true", "/7", {"Authorization": "Basic Mjox"}),
        ("single-flight = true", "/7", {"Accept_Language": "ja"}),
    ],
)
def test_others_are_requests_of_their_own(
    tmp_path: Path, start: Start, key: str, path: str, fields: dict[str, str]
) -> None:
    arrived, is_free = threading.Semaphore(0), threading.Event()
    held = held_until(is_free)

    def answer(request: Any) -> tuple[int, str]:
        arrived.release()
        return held(request)

    with Origin("a", answer) as origin, Scene(start, tmp_path, origin.address, key=key) as scene:
        one, other = scene.ask(), scene.ask(path, **fields)
        assert arrived.acquire(timeout=PATIENCE_S)
        assert arrived.acquire(timeout=PATIENCE_S)
        is_free.set()
        assert (one.result(PATIENCE_S)["status"], other.result(PATIENCE_S)["status"]) == (200, 200)
        assert scene.count("shared") == 0


@pytest.mark.parametrize("leaving", ["first", "second"])
def test_a_client_that_leaves_does_not_end_the_request(
    tmp_path: Path, start: Start, leaving: str
) -> None:
    is_free = threading.Event()
    with (
        Origin("a", held_until(is_free)) as origin,
        Scene(start, tmp_path, origin.address) as scene,
    ):
        clients = []
        for shared in range(2):
            client = socket.create_connection(("127.0.0.1", scene.port), PATIENCE_S)
            client.sendall(REQUEST)
            scene.wait_for("requests", shared + 1)
            clients.append(client)
        gone, left = clients if leaving == "first" else reversed(clients)
        reset(gone)
        # Once this one is answered, the gateway has noticed.
        last = scene.ask("/other")
        scene.wait_for("requests", 3)
        is_free.set()
        assert last.result(PATIENCE_S)["status"] == 200
        assert b'"status":200' in left.recv(65536)
        left.close()
        assert sorted(origin.requests) == ["/of/7", "/of/other"]
        assert scene.count("shared") == 1


def test_the_request_ends_with_the_last_client(tmp_path: Path, start: Start) -> None:
    with ScriptedServer(lambda _: None) as server, Scene(start, tmp_path, server.address) as scene:
        clients = []
        for shared in range(3):
            client = socket.create_connection(("127.0.0.1", scene.port), PATIENCE_S)
            client.sendall(REQUEST)
            scene.wait_for("requests", shared + 1)
            clients.append(client)
        for client in clients:
            assert not server.ended.acquire(blocking=False)
            reset(client)
        assert server.ended.acquire(timeout=PATIENCE_S)
        assert (server.requests, scene.count("shared")) == (1, 2)


def short(connection: socket.socket) -> None:
    """A response that is not complete."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    connection.shutdown(socket.SHUT_RDWR)


def malformed(connection: socket.socket) -> None:
    """No response in HTTP."""
    connection.sendall(b"200 OK\r\n\r\n")


def large(connection: socket.socket) -> None:
    """A response that is larger than a part may be."""
    size = 1024 * 1024
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (short, "http_response_incomplete"),
        (malformed, "http_protocol_error"),
        (large, "http_response_body_size"),
    ],
)
def test_a_failure_is_that_of_all(
    tmp_path: Path, start: Start, respond: Callable[[socket.socket], None], error: str
) -> None:
    is_free = threading.Event()

    def answer(connection: socket.socket) -> None:
        is_free.wait(PATIENCE_S)
        respond(connection)

    with ScriptedServer(answer) as server, Scene(start, tmp_path, server.address) as scene:
        parts = [scene.ask() for _ in range(3)]
        scene.wait_for("shared", 2)
        is_free.set()
        assert [part.result(PATIENCE_S)["error"] for part in parts] == [error] * 3
        assert server.requests == 1
        assert [entry["error"] for entry in scene.logged()] == [error] * 3


def test_a_response_reaches_readers_of_any_pace(tmp_path: Path, start: Start) -> None:
    is_free = threading.Event()
    body = "x" * 200_000

    def answer(_: object) -> tuple[int, str]:
        is_free.wait(PATIENCE_S)
        return 200, body

    with Origin("a", answer) as origin, Scene(start, tmp_path, origin.address) as scene:
        slow = []
        for _ in range(8):
            client = socket.create_connection(("127.0.0.1", scene.port), PATIENCE_S)
            client.sendall(REQUEST.replace(b"Host", b"Accept: text/event-stream\r\nHost"))
            slow.append(client)
        scene.wait_for("shared", 7)
        fast = scene.ask()
        scene.wait_for("requests", 9)
        is_free.set()
        assert fast.result(PATIENCE_S)["status"] == 200
        for client in slow:
            text = b""
            while not text.endswith(b"\r\n0\r\n\r\n"):
                text += client.recv(1000)
            client.close()
            assert len(text) > len(body)
        assert origin.requests == ["/of/7"]
