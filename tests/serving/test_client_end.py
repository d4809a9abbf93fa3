"""Requests whose clients shut down their side or leave: on-client-end of a route."""

import json
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from tests.serving.server_process import PATIENCE_S, Served, Start
from tests.serving.test_edge import read_metrics
from tests.serving.test_gateway_log import LOCAL, lines_of
from tests.serving.test_routes import asked

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class Scene:
    """A gateway, and the listening socket of its only server, which the test plays."""

    folder: Path
    start: Start
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    served: Served = field(init=False)
    port: int = field(init=False)
    metrics: int = field(init=False)

    def serve(self, keys: str) -> Self:
        """With these keys of the route."""
        self.listener.settimeout(PATIENCE_S)
        file = self.folder / "serve.toml"
        file.write_text(f"""
            listen = "127.0.0.1:0"
            workers = 1
            access-log = "access.log"
            log-format = "json"
            metrics = "127.0.0.1:0"
            [upstream.app]
            servers = ["127.0.0.1:{self.listener.getsockname()[1]}"]
            idle-time = "60s"
            [[route]]
            path = "/app"
            to = "app"
            {keys}
            [[route]]
            path = "/fixed"
            fixed = "x"
        """)
        self.served = self.start("--config", str(file))
        self.port = int(self.served.wait_for(LOCAL)[1])
        self.metrics = int(self.served.wait_for(rf"metrics on {LOCAL}")[1])
        return self

    def client(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def server(self) -> socket.socket:
        """The next connection of the gateway, whose request was received."""
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_S)
        self.request(connection)
        return connection

    def request(self, connection: socket.socket) -> bytes:
        """The next request on a connection of the gateway."""
        received = b""
        while b"\r\n\r\n" not in received:
            part = connection.recv(65536)
            assert part
            received += part
        return received

    def gone(self) -> float:
        """Clients that were gone, as the metrics count them."""
        _, samples = read_metrics(self.metrics)
        return samples['jissoku_upstream_clients_gone_total{upstream="app"}']

    def in_flight(self) -> float:
        """Requests that the server has not responded to completely, as the metrics count them."""
        _, samples = read_metrics(self.metrics)
        return sum(
            value
            for name, value in samples.items()
            if name.startswith("jissoku_upstream_server_requests{")
        )

    def lines(self) -> list[dict[str, Any]]:
        """The log, when the gateway has ended."""
        return [json.loads(line) for line in lines_of(self.served, self.folder / "access.log")]


@pytest.fixture
def scene(tmp_path: Path, start: Start) -> Iterator[Scene]:
    made = Scene(tmp_path, start)
    yield made
    made.listener.close()


def reset(client: socket.socket) -> None:
    """Closes it by a reset: after a FIN the client could still read."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the connection ends, in order or by a reset."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("keys", ["", "on-client-end = 'finish'"])
def test_a_client_that_shuts_down_its_side_gets_its_response(scene: Scene, keys: str) -> None:
    scene.serve(keys)
    with scene.client() as client:
        client.sendall(GET)
        client.shutdown(socket.SHUT_WR)
        with scene.server() as server:
            server.sendall(OK)
            assert rest_of(client).endswith(b"\r\n\r\nok")
    assert scene.gone() == 0


@pytest.mark.parametrize("has_begun", [False, True])
def test_with_abort_a_request_ends_when_its_client_shuts_down_its_side(
    scene: Scene, *, has_begun: bool
) -> None:
    scene.serve("on-client-end = 'abort'")
    with scene.client() as client:
        client.sendall(GET)
        with scene.server() as server:
            if has_begun:
                server.sendall(OK[:-1])
                received = b""
                while not received.endswith(b"\r\n\r\no"):
                    received += client.recv(65536)
            client.shutdown(socket.SHUT_WR)
            assert rest_of(server) == b""
            assert rest_of(client) == b""
    assert scene.gone() == 1
    # Other requests are served.
    assert asked(scene.port, "GET", "/fixed") == (200, "x")
    line, _ = scene.lines()
    assert line["status"] == (200 if has_begun else 499)
    assert line["forwarded"][0]["error"] == "client_gone"


@pytest.mark.parametrize("keys", ["", "on-client-end = 'abort'"])
def test_a_request_ends_when_its_client_is_gone(scene: Scene, keys: str) -> None:
    scene.serve(keys)
    client = scene.client()
    client.sendall(GET)
    with scene.server() as server:
        reset(client)
        assert rest_of(server) == b""
    assert scene.gone() == 1


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("response", [OK, CHUNKED + b"2\r\nok\r\n0\r\n\r\n"])
@pytest.mark.parametrize("has_begun", [False, True])
def test_with_finish_a_request_goes_on_when_its_client_is_gone(
    scene: Scene, response: bytes, *, has_begun: bool
) -> None:
    scene.serve("on-client-end = 'finish'\nconcurrency = { per = 'route', requests = 1 }")
    client = scene.client()
    client.sendall(GET)
    with scene.server() as server:
        # It leaves before the response, or when all but a byte of it has come.
        sent = len(response) - 1 if has_begun else 0
        if has_begun:
            server.sendall(response[:sent])
            client.recv(1)
        reset(client)
        while scene.gone() == 0:
            assert scene.served.process.poll() is None
        # It still counts for the limit of its route.
        assert asked(scene.port, "GET", "/app")[0] == 503
        server.sendall(response[sent:])
        # When it is complete, its connection is used for the next request.
        with scene.client() as other:
            other.sendall(GET)
            while server not in select.select([server, other], [], [], PATIENCE_S)[0]:
                assert other.recv(65536).startswith(b"HTTP/1.1 503 ")
                other.sendall(GET)
            scene.request(server)
            server.sendall(OK)
            received = b""
            while not received.endswith(b"\r\n\r\nok"):
                received += other.recv(65536)
    first = scene.lines()[0]
    status = 200 if has_begun else 499
    assert (first["status"], first["forwarded"][0]["error"]) == (status, "client_gone")


def test_with_finish_a_large_response_without_a_reader_is_received(scene: Scene) -> None:
    scene.serve("on-client-end = 'finish'")
    client = scene.client()
    client.sendall(GET)
    size = 8 * 1024 * 1024
    with scene.server() as server:
        head = OK.replace(b"Content-Length: 2", b"Content-Length: %d" % size).removesuffix(b"ok")
        server.sendall(head)
        client.recv(1)
        reset(client)
        server.sendall(b"x" * size)
        # All of it is taken, so that the connection is used again.
        while scene.in_flight() > 0:
            assert scene.served.process.poll() is None
        with scene.client() as other:
            other.sendall(GET)
            scene.request(server)
            server.sendall(OK)
            assert other.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_with_finish_an_incomplete_request_ends_with_its_client(scene: Scene) -> None:
    scene.serve("on-client-end = 'finish'\ncollect = '0B'")
    client = scene.client()
    client.sendall(b"POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234")
    with scene.server() as server:
        reset(client)
        assert rest_of(server) in {b"", b"1234"}


def test_a_server_that_fails_without_a_client_is_not_replaced(scene: Scene) -> None:
    scene.serve("on-client-end = 'finish'")
    client = scene.client()
    client.sendall(GET)
    with scene.server() as server:
        reset(client)
        while scene.gone() == 0:
            assert scene.served.process.poll() is None
        server.shutdown(socket.SHUT_RDWR)
    # The next connection is that of the next request.
    with scene.client() as other:
        other.sendall(GET.replace(b"GET", b"PUT"))
        connection, _ = scene.listener.accept()
        with connection:
            assert scene.request(connection).startswith(b"PUT ")
            connection.sendall(OK)
            assert other.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_stop_waits_for_what_is_finished(scene: Scene) -> None:
    scene.serve("on-client-end = 'finish'")
    client = scene.client()
    client.sendall(GET)
    with scene.server() as server:
        reset(client)
        while scene.gone() == 0:
            assert scene.served.process.poll() is None
        scene.served.process.terminate()
        # It accepts nothing more.
        while True:
            try:
                scene.client().close()
            except ConnectionError:
                break
        server.sendall(OK)
        assert rest_of(server) == b""
    assert scene.served.process.wait(PATIENCE_S) == 0
