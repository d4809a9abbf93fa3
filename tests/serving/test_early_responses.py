"""Responses that are known before the body: clients that write all of it first can read them."""

import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import PATIENCE_S, Start
from tests.serving.test_edge import make_papers, needs_openssl

MIB = 1 << 20
SIZE = 8 * MIB

APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
"""

# What is asked for, and the status.
EXPECTED = {
    "/to": 413,
    "/fixed": 413,
    "/get": 405,
    "/app": 401,
    "/nowhere": 404,
    "/site/missing": 405,
    "/rate": 429,
}


@pytest.fixture
def text(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "web.py").write_text(APP)
    (tmp_path / "site").mkdir()
    with Origin("one") as origin:
        yield f"""
        listen = "127.0.0.1:0"
        workers = 1
        body-size-max = "64MiB"
        [upstream.u]
        servers = ["{origin.address}"]
        [[route]]
        path = "/to"
        to = "u"
        body-size-max = "1MiB"
        [[route]]
        path = "/fixed"
        fixed = "x"
        body-size-max = "1MiB"
        [[route]]
        path = "/get"
        methods = ["GET"]
        fixed = "x"
        [[route]]
        path = "/app"
        app = "web:app"
        [[route]]
        path = "/site/**"
        folder = "{tmp_path / "site"}"
        [[route]]
        path = "/rate"
        fixed = "x"
        rate = {{ requests = 1, every = "3600s" }}
        """


def status(connection: HTTPConnection, path: str, *, is_chunked: bool) -> int:
    body = iter([b"x" * MIB] * (SIZE // MIB)) if is_chunked else b"x" * SIZE
    try:
        connection.request("PUT", path, body=body, encode_chunked=is_chunked)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


@needs_openssl
@pytest.mark.parametrize("has_tls", [False, True])
def test_a_client_that_writes_all_of_its_body_reads_the_response(
    tmp_path: Path, text: str, start: Start, *, has_tls: bool
) -> None:
    (tmp_path / "serve.toml").write_text(text)
    certificate, key = make_papers(tmp_path, "localhost")
    papers = ["--tls-cert", str(certificate), "--tls-key", str(key)] if has_tls else []
    served = start("--config", str(tmp_path / "serve.toml"), "--app-dir", str(tmp_path), *papers)
    port = int(served.wait_for(r"https?://127\.0\.0\.1:([0-9]+)/")[1])
    context = ssl.create_default_context(cafile=str(certificate))

    def connect() -> HTTPConnection:
        if has_tls:
            return HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
        return HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    first = connect()
    first.request("GET", "/rate")
    assert first.getresponse().read() == b"x"
    first.close()
    for is_chunked in (False, True):
        # The server behind the gateway responds to a chunked request at once.
        expected = {
            path: code for path, code in EXPECTED.items() if path != "/to" or not is_chunked
        }
        found = {path: status(connect(), path, is_chunked=is_chunked) for path in expected}
        assert found == expected, is_chunked


@pytest.mark.parametrize(("path", "expected"), [*EXPECTED.items(), ("/site/a.txt", 405)])
def test_a_client_that_waits_for_a_100_gets_the_response_instead(
    tmp_path: Path, text: str, start: Start, path: str, expected: int
) -> None:
    (tmp_path / "serve.toml").write_text(text)
    (tmp_path / "site" / "a.txt").write_text("a file")
    served = start("--config", str(tmp_path / "serve.toml"), "--app-dir", str(tmp_path))
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    lines = [f"PUT {path} HTTP/1.1", "Host: a", f"Content-Length: {SIZE}", "Expect: 100-continue"]
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        if expected == 429:
            client.sendall(b"GET /rate HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        with client.makefile("rb") as stream:
            response = stream.read()
    assert response.startswith(b"HTTP/1.1 %d " % expected)
    assert response.count(b"HTTP/1.1 ") == 1
