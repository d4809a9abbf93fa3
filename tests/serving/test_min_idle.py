"""Connections that a gateway opens before a request needs them."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S, Served, Start, ask

ADDRESS = r"http://127\.0\.0\.1:([0-9]+)/"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """A server whose connections are accepted when a test asks for them."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.stack = ExitStack()

    @property
    def address(self) -> str:
        """As in a configuration file."""
        name = self.listener.getsockname()
        return f"unix:{name}" if isinstance(name, str) else f"127.0.0.1:{name[1]}"

    def accept(self, timeout_s: float = PATIENCE_S) -> socket.socket:
        """The next connection."""
        self.listener.settimeout(timeout_s)
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_S)
        self.stack.callback(connection.close)
        return connection

    def accept_now(self) -> list[socket.socket]:
        """The connections that wait to be accepted."""
        found = []
        while True:
            try:
                found.append(self.accept(timeout_s=0))
            except BlockingIOError:
                return found


@pytest.fixture(params=["tcp", "unix"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """One that listens."""
    family = socket.AF_UNIX if request.param == "unix" else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind(str(tmp_path / "s") if request.param == "unix" else ("127.0.0.1", 0))
        listener.listen(128)
        found = Server(listener)
        with found.stack:
            yield found


def serve(start: Start, folder: Path, address: str, *, workers: int = 1) -> tuple[Served, int]:
    """Starts a gateway with two idle connections of each worker; it and its port."""
    file = folder / "serve.toml"
    file.write_text(
        f"listen = '127.0.0.1:0'\nworkers = {workers}\n[upstream.app]\nservers = ['{address}']\n"
        "min-idle = 2\nidle-time = '1h'\n[[route]]\npath = '/**'\nto = 'app'\n"
    )
    served = start("--config", str(file))
    return served, int(served.wait_for(ADDRESS)[1])


def respond(connection: socket.socket) -> None:
    """Answers one request."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(4096)
    connection.sendall(RESPONSE)


def test_each_worker_has_them_when_it_is_ready(
    tmp_path: Path, start: Start, server: Server
) -> None:
    serve(start, tmp_path, server.address, workers=2)
    assert len(server.accept_now()) == 4


def test_requests_use_them(tmp_path: Path, start: Start, server: Server) -> None:
    _, port = serve(start, tmp_path, server.address)
    connections = server.accept_now()
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        [used], _, _ = select.select(connections, [], [], PATIENCE_S)
        respond(used)
        assert client.recv(4096).endswith(b"ok")


@pytest.mark.slow
def test_one_that_the_server_closes_is_replaced(
    tmp_path: Path, start: Start, server: Server
) -> None:
    serve(start, tmp_path, server.address)
    first, _ = server.accept_now()
    first.close()
    server.accept()
    # Not more than are missing.
    with pytest.raises(TimeoutError):
        server.accept(timeout_s=1.5)


@pytest.mark.parametrize("how", ["reload", "replace"])
def test_the_next_workers_have_their_own_and_the_old_ones_are_closed(
    tmp_path: Path, start: Start, server: Server, how: str
) -> None:
    served, _ = serve(start, tmp_path, server.address)
    old = server.accept_now()
    getattr(served, how)()
    assert len(server.accept_now()) == 2
    assert [connection.recv(1) for connection in old] == [b"", b""]


def test_a_server_that_is_not_there_delays_nothing(
    tmp_path: Path, start: Start, server: Server
) -> None:
    address = server.address
    server.listener.close()
    _, port = serve(start, tmp_path, address)
    assert ask(port)[0] == 502
