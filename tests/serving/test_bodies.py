"""The limits and the collecting of request bodies, by route."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import PATIENCE_S, Start
from tests.serving.test_gateway_log import lines_of
from tests.serving.test_routes import serve

KIB = 1024
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server whose side of a connection is played by the test."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


def accepted(listener: socket.socket) -> socket.socket:
    """The next connection of the gateway."""
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE_S)
    return connection


def is_untouched(listener: socket.socket) -> bool:
    """Whether no connection waits to be accepted."""
    listener.settimeout(0)
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def routes(listener: socket.socket, keys: str) -> str:
    """A route with these keys for bodies, and one without."""
    port = listener.getsockname()[1]
    return f"""
    [upstream.app]
    servers = ["127.0.0.1:{port}"]
    [[route]]
    path = "/app"
    to = "app"
    {keys}
    [[route]]
    path = "/fixed"
    fixed = "x"
    body-size-max = "3B"
    [[route]]
    path = "/**"
    fixed = "x"
    """


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


def post(path: str, *fields: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: a", *fields, "", ""]
    return "\r\n".join(lines).encode()


def chunk(size: int) -> bytes:
    return b"%x\r\n" % size + b"x" * size + b"\r\n"


CHUNKED = "Transfer-Encoding: chunked"


def status(client: socket.socket) -> int:
    """The status of the response that begins."""
    return int(client.recv(65536).split()[1])


def received_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        part = connection.recv(65536)
        assert part, received[-100:]
        received += part
    return received


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the connection ends, in order or by a reset."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    "case",
    [
        ("/app", 2 * 1024 * KIB + 1, 413),
        ("/fixed", 3, 200),
        ("/fixed", 4, 413),
        # Without a key, the limit is that of the server.
        ("/", 100, 200),
        ("/", 101, 413),
    ],
)
def test_a_length_beyond_the_limit_is_refused_before_a_server_is_asked(
    tmp_path: Path, start: Start, listener: socket.socket, case: tuple[str, int, int]
) -> None:
    path, size, expected = case
    limits = "body-size-max = '2MiB'"
    port = serve(start, tmp_path, "body-size-max = 100\n" + routes(listener, limits))
    with connected(port) as client:
        # A client that waits for a 100 gets the refusal instead.
        expectation = ["Expect: 100-continue"] if expected == 413 else []
        client.sendall(post(path, f"Content-Length: {size}", *expectation))
        if expected == 200:
            client.sendall(b"x" * size)
        assert status(client) == expected
    assert is_untouched(listener)


def test_a_route_can_take_more_than_the_server(
    tmp_path: Path, start: Start, listener: socket.socket
) -> None:
    limits = "body-size-max = '2MiB'"
    port = serve(start, tmp_path, "body-size-max = 100\n" + routes(listener, limits))
    with connected(port) as client:
        client.sendall(post("/app", "Content-Length: 200") + b"x" * 200)
        with accepted(listener) as server:
            assert received_until(server, b"\r\n\r\n" + b"x" * 200)
            server.sendall(OK)
            assert status(client) == 200


def test_chunks_beyond_the_limit_are_refused_when_it_is_passed(
    tmp_path: Path, start: Start, listener: socket.socket
) -> None:
    log = "access-log = 'access.log'\nlog-format = 'json'\n"
    text = log + routes(listener, "body-size-max = '100KiB'")
    file = tmp_path / "serve.toml"
    file.write_text("listen = '127.0.0.1:0'\nworkers = 1\n" + text)
    served = start("--config", str(file))
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    # While it is collected, no server is asked.
    with connected(port) as client:
        client.sendall(post("/app", CHUNKED) + chunk(60 * KIB) + b"a001\r\n")
        assert status(client) == 413
    assert is_untouched(listener)
    listener.settimeout(PATIENCE_S)
    # Later, its server gets no end of the body.
    with connected(port) as client:
        client.sendall(post("/app", CHUNKED) + chunk(70 * KIB))
        with accepted(listener) as server:
            start_of_it = received_until(server, b"x\r\n")
            client.sendall(chunk(40 * KIB) + b"0\r\n\r\n")
            assert status(client) == 413
            received = start_of_it + rest_of(server)
    assert not received.endswith(b"0\r\n\r\n")
    assert received.count(b"x") >= 70 * KIB
    lines = [json.loads(line) for line in lines_of(served, tmp_path / "access.log")]
    assert [line["status"] for line in lines] == [413, 413]
    [[before], [during]] = [line["forwarded"] for line in lines]
    assert (before["error"], before["tries"], "server" in before) == (
        "http_request_error",
        0,
        False,
    )
    assert (during["error"], during["tries"], "server" in during) == ("http_request_error", 1, True)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_of_that_size_is_collected_before_a_server_is_asked(
    tmp_path: Path, start: Start, listener: socket.socket, *, is_chunked: bool
) -> None:
    port = serve(start, tmp_path, routes(listener, "collect = '1MiB'"))
    size = 500 * KIB
    head = post("/app", CHUNKED if is_chunked else f"Content-Length: {size}")
    body = chunk(size) + b"0\r\n\r\n" if is_chunked else b"x" * size
    with connected(port) as client:
        client.sendall(head + body[:-1])
        # What was sent is received: another request on another connection is answered.
        with connected(port) as other:
            other.sendall(post("/fixed", method="GET"))
            assert status(other) == 200
        assert is_untouched(listener)
        client.sendall(body[-1:])
        listener.settimeout(PATIENCE_S)
        with accepted(listener) as server:
            received = received_until(server, b"x" * size)
            assert b"\r\nContent-Length: 512000\r\n" in received
            assert b"Transfer-Encoding" not in received
            server.sendall(OK)
            assert status(client) == 200


@pytest.mark.parametrize("head", [CHUNKED, "Content-Length: 2"])
def test_without_collecting_a_server_is_asked_at_once(
    tmp_path: Path, start: Start, listener: socket.socket, head: str
) -> None:
    port = serve(start, tmp_path, routes(listener, "collect = '0B'"))
    is_chunked = head == CHUNKED
    with connected(port) as client:
        client.sendall(post("/app", head) + (chunk(1) if is_chunked else b"x"))
        with accepted(listener) as server:
            received_until(server, b"\r\nx\r\n" if is_chunked else b"\r\n\r\nx")
            client.sendall(chunk(1) + b"0\r\n\r\n" if is_chunked else b"x")
            received_until(server, b"0\r\n\r\n" if is_chunked else b"x")
            server.sendall(OK)
            assert status(client) == 200


@pytest.mark.slow
def test_what_was_collected_can_be_repeated(tmp_path: Path, start: Start) -> None:
    def break_off(request: object) -> tuple[int, str]:
        raise ConnectionError(request)

    body = b"x" * (500 * KIB)
    for keys, expected in [("collect = '1MiB'", 200), ("", 502)]:
        with Origin("bad", break_off) as bad, Origin("good") as good:
            text = f"""
            [upstream.app]
            servers = ["{bad.address}", "{good.address}"]
            balance = "round-robin"
            [[route]]
            path = "/**"
            to = "app"
            {keys}
            """
            port = serve(start, tmp_path, text)
            statuses = []
            for _ in range(2):
                with connected(port) as client:
                    client.sendall(post("/", f"Content-Length: {len(body)}", method="PUT") + body)
                    statuses.append(status(client))
            assert sorted(statuses) == [200, expected]
            assert len(good.requests) == statuses.count(200)
