"""WebSockets as an application and its clients see them."""

import base64
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jissoku.conformance.applications import Connection
from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, spawn

client = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")

APP = """
import asyncio, json
sent = []
may_receive = asyncio.Event()
async def app(scope, receive, send):
    assert scope["type"] == "websocket", scope
    assert await receive() == {"type": "websocket.connect"}
    path = scope["path"]
    if path == "/refused":
        await send({"type": "websocket.close"})
        return
    if path == "/denied":
        await send({"type": "websocket.http.response.start", "status": 401,
                    "headers": [(b"x-why", b"no ticket")]})
        await send({"type": "websocket.http.response.body", "body": b"no", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b" entry"})
        return
    if path == "/fails":
        raise ValueError("before the handshake")
    subprotocol = scope["subprotocols"][-1] if scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": subprotocol,
                "headers": [(b"x-accepted", b"yes")]})
    if path == "/scope":
        names = ("type", "scheme", "path", "subprotocols", "extensions")
        seen = {name: scope[name] for name in names}
        await send({"type": "websocket.send", "text": json.dumps(seen)})
    if path == "/raises":
        raise ValueError("after the handshake")
    if path == "/closes":
        await send({"type": "websocket.close", "code": 3001, "reason": "enough"})
        print("then", await receive(), flush=True)
        return
    if path == "/sent":
        await send({"type": "websocket.send", "text": str(len(sent))})
    if path == "/may-receive":
        may_receive.set()
    if path == "/late":
        await may_receive.wait()
        size = 0
        while "bytes" in (message := await receive()):
            size += len(message["bytes"])
        await send({"type": "websocket.send", "text": str(size)})
    if path == "/stream":
        try:
            while True:
                await send({"type": "websocket.send", "bytes": bytes(8192)})
                sent.append(None)
        except OSError:
            print("client gone", flush=True)
            raise
    while (message := await receive())["type"] == "websocket.receive":
        del message["type"]
        await send({"type": "websocket.send", **message})
    print("disconnected", message["code"], message["reason"], flush=True)
    try:
        await send({"type": "websocket.send", "text": "late"})
    except OSError:
        print("OSError", flush=True)
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "there.py").write_text(APP)
    served = serve("there:app", directory=tmp_path)
    try:
        yield served
    finally:
        served.end()


def connect(served: Any, path: str = "/", **options: Any) -> Any:
    port = getattr(served, "port", None) or port_of(served)
    served.port = port
    return client.connect(
        f"ws://127.0.0.1:{port}{path}", max_size=None, open_timeout=PATIENCE_S, **options
    )


@pytest.mark.parametrize("compression", ["deflate", None])
def test_messages_come_back(compression: str | None, served: Any) -> None:
    with connect(served, compression=compression) as opened:
        assert opened.response.headers["X-Accepted"] == "yes"
        compressed = "Sec-WebSocket-Extensions" in opened.response.headers
        assert compressed == (compression is not None)
        for size in (0, 1, 125, 126, 1000, 65_535, 65_536, 300_000):
            for message in ("\u00e9" * size, os.urandom(size), "jissoku" * (size // 7)):
                opened.send(message)
                assert opened.recv(timeout=PATIENCE_S) == message
        opened.send(["in ", "three ", "parts"])
        assert opened.recv(timeout=PATIENCE_S) == "in three parts"
        assert opened.ping().wait(PATIENCE_S)
    served.wait_for("^disconnected 1000 $")
    served.wait_for("^OSError$")


def test_messages_pass_the_reverse_proxy(served: Any) -> None:
    proxy = spawn("--to", f"http://127.0.0.1:{port_of(served)}", "--listen", "127.0.0.1:0")
    try:
        url = f"ws://127.0.0.1:{port_of(proxy)}"
        with client.connect(f"{url}/", max_size=None, open_timeout=PATIENCE_S) as opened:
            for size in (0, 1, 125, 65_536, 1_000_000):
                message = os.urandom(size)
                opened.send(message)
                assert opened.recv(timeout=PATIENCE_S) == message
            assert opened.ping().wait(PATIENCE_S)
        served.wait_for("^disconnected 1000 $")
        with pytest.raises(exceptions.InvalidStatus) as refused:
            client.connect(f"{url}/denied", open_timeout=PATIENCE_S)
        assert refused.value.response.status_code == 401
        assert refused.value.response.body == b"no entry"
    finally:
        proxy.end()


def test_the_scope_says_what_the_client_asks_for(served: Any) -> None:
    with connect(served, "/scope", subprotocols=["one", "two"]) as opened:
        assert opened.subprotocol == "two"
        expected = '{"type": "websocket", "scheme": "ws", "path": "/scope", '
        expected += '"subprotocols": ["one", "two"], "extensions": {"websocket.http.response": {}}}'
        assert opened.recv(timeout=PATIENCE_S) == expected


@pytest.mark.parametrize(("path", "status", "body"), [
    ("/refused", 403, b""),
    ("/denied", 401, b"no entry"),
    ("/fails", 500, b"Internal Server Error\n"),
])  # fmt: skip
def test_a_handshake_is_refused_by_a_response(
    path: str, status: int, body: bytes, served: Any
) -> None:
    with pytest.raises(exceptions.InvalidStatus) as raised:
        connect(served, path)
    response = raised.value.response
    assert (response.status_code, response.body) == (status, body)


@pytest.mark.parametrize(("path", "code", "reason"), [
    ("/closes", 3001, "enough"),
    ("/raises", 1011, "the application has failed"),
])  # fmt: skip
def test_an_application_closes(path: str, code: int, reason: str, served: Any) -> None:
    with connect(served, path) as opened:
        with pytest.raises(exceptions.ConnectionClosed) as raised:
            opened.recv(timeout=PATIENCE_S)
        assert (raised.value.rcvd.code, raised.value.rcvd.reason) == (code, reason)
    if path == "/closes":
        served.wait_for("^then .*websocket.disconnect.*3001")


def handshake(port: int, *fields: str, path: str = "/") -> Connection:
    """A connection after the bytes of a handshake were sent."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    key = base64.b64encode(bytes(16)).decode()
    lines = [f"GET {path} HTTP/1.1", "Host: a", "Connection: keep-alive, Upgrade"]
    fields = fields or ("Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}")
    lines += ["Upgrade: WebSocket", *fields, "", ""]
    opened.sendall("\r\n".join(lines).encode())
    return Connection(opened)


@pytest.mark.parametrize(("fields", "status"), [
    (("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",), 426),
    (("Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), 426),
    (("Sec-WebSocket-Version: 13",), 400),
    (("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: short"), 400),
])  # fmt: skip
def test_an_invalid_handshake_is_refused(fields: tuple[str, ...], status: int, served: Any) -> None:
    connection = handshake(port_of(served), *fields)
    with connection.socket:
        answer = connection.answer("GET")
        assert (answer.status, answer.value("Sec-WebSocket-Version")) == (status, "13")
        assert connection.has_ended()


def frame(first: int, payload: bytes) -> bytes:
    """A frame with a mask of zeros."""
    return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [
    (frame(0x83, b""), 1002),
    (frame(0xC1, b""), 1002),
    (frame(0x81, b"\xff"), 1007),
    (b"\x82\xff\x00\x00\x01\x00\x00\x00\x00\x00", 1009),
])  # fmt: skip
def test_what_the_protocol_forbids_is_named(sent: bytes, code: int, served: Any) -> None:
    connection = handshake(port_of(served))
    with connection.socket:
        assert connection.answer("HEAD").status == 101
        connection.socket.sendall(sent)
        while len(connection.buffer) < 4:
            connection.receive()
        assert connection.buffer[0] == 0x88
        assert struct.unpack("!H", connection.buffer[2:4]) == (code,)
        connection.buffer = b""
        while not connection.is_ended:
            connection.has_ended()
            connection.buffer = b""
    served.wait_for(f"^disconnected {code}")


def test_a_client_that_leaves_without_a_close_is_abnormal(served: Any) -> None:
    connection = handshake(port_of(served))
    connection.answer("HEAD")
    connection.socket.close()
    served.wait_for("^disconnected 1006 $")
    served.wait_for("^OSError$")


def test_a_slow_client_holds_the_application_back(served: Any) -> None:
    served.port = port_of(served)
    connection = handshake(served.port, path="/stream")
    connection.answer("HEAD")
    counts = [0]
    # Until it has sent nothing for a while.
    while counts[-1] == 0 or len(set(counts[-5:])) > 1:
        with connect(served, "/sent") as opened:
            counts.append(int(opened.recv(timeout=PATIENCE_S)))
        # The kernel buffers at most a few MiB on both sides.
        assert counts[-1] * 8192 < 16 << 20
        time.sleep(0.02)
    connection.socket.close()
    served.wait_for("^client gone$")


@pytest.mark.slow
def test_an_application_that_does_not_receive_holds_its_client_back(served: Any) -> None:
    served.port = port_of(served)
    connection = handshake(served.port, path="/late")
    connection.answer("HEAD")
    message = b"\x82\xff" + struct.pack("!Q", 65_536) + bytes(4) + bytes(65_536)
    whole = message * 512
    sent = 0
    with connection.socket as opened:
        opened.settimeout(0)
        # Until nothing was taken for a while.
        while select.select([], [opened], [], 0.5)[1]:
            sent += opened.send(whole[sent : sent + 65_536])
            assert sent < len(whole) / 2
        opened.settimeout(PATIENCE_S)
        with connect(served, "/may-receive"):
            opened.sendall(whole[sent:] + frame(0x81, b"end"))
            size = str(512 * 65_536).encode()
            assert opened.makefile("rb").read(2 + len(size))[2:] == size


def test_a_shutdown_closes_with_its_code(served: Any) -> None:
    with connect(served) as opened:
        opened.send("one")
        assert opened.recv(timeout=PATIENCE_S) == "one"
        served.process.terminate()
        with pytest.raises(exceptions.ConnectionClosed) as raised:
            opened.recv(timeout=PATIENCE_S)
        assert raised.value.rcvd.code == 1012
    served.wait_for("^disconnected 1012 $")
    assert served.process.wait(PATIENCE_S) == 0
