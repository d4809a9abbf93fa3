"""Without options, an application is served as with gunicorn and uvicorn."""

import hashlib
import socket
from pathlib import Path

import pytest

import jissoku
from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Served, ask, connect, spawn

WSGI = """
import hashlib
def app(environ, start_response):
    digest = hashlib.sha256()
    while part := environ["wsgi.input"].read(65536):
        digest.update(part)
    digest.update(environ.get("HTTP_COOKIE", "").encode())
    start_response("200 OK", [])
    return [digest.hexdigest().encode()]
"""

ASGI = """
import hashlib
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    digest = hashlib.sha256()
    more = True
    while more:
        message = await receive()
        digest.update(message["body"])
        more = message["more_body"]
    digest.update(dict(scope["headers"]).get(b"cookie", b""))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": digest.hexdigest().encode()})
"""

KINDS = {"inline": (WSGI, []), "threads": (WSGI, ["--threads", "2"]), "asgi": (ASGI, [])}

# More than the limit for other contents, and than nginx has by default.
UPLOAD = b"0123456789abcdef" * (20 << 16)


def start(kind: str, folder: Path) -> Served:
    source, arguments = KINDS[kind]
    (folder / "there.py").write_text(source)
    return serve("there:app", *arguments, directory=folder)


def send(port: int, path: str, body: bytes, cookie: str = "") -> tuple[int, bytes]:
    """Status and body of the response to a POST."""
    connection = connect(port)
    headers = {"Cookie": cookie} if cookie else {}
    connection.request("POST", path, body=body, headers=headers)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_application_takes_large_uploads_and_cookies(kind: str, tmp_path: Path) -> None:
    served = start(kind, tmp_path)
    try:
        port = port_of(served)
        expected = hashlib.sha256(UPLOAD).hexdigest().encode()
        assert send(port, "/", UPLOAD) == (200, expected)
        for size in (12 << 10, 60 << 10):
            cookie = "a=" + "x" * size
            expected = hashlib.sha256(cookie.encode()).hexdigest().encode()
            assert send(port, "/", b"", cookie) == (200, expected)
        assert ask(port, "/?" + "q" * 12_000)[0] == 200
    finally:
        served.end()


@pytest.mark.slow
def test_an_object_in_a_thread_takes_them_too() -> None:
    names: dict[str, object] = {}
    exec(WSGI, names)  # noqa: S102 - the source of the other tests
    with jissoku.serve_in_thread(names["app"]) as server:  # type: ignore[arg-type]
        assert send(server.port, "/", UPLOAD)[0] == 200
        assert send(server.port, "/", b"", "a=" + "x" * (60 << 10))[0] == 200


def status_of(port: int, head: str) -> bytes:
    """The status line of the response to a head, whose body does not follow."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(f"{head}\r\n\r\n".encode())
        return client.recv(12)


@pytest.mark.parametrize("content", ["files", "gateway"])
def test_other_contents_keep_their_limits(content: str, tmp_path: Path) -> None:
    what = [str(tmp_path)] if content == "files" else ["--to", "http://127.0.0.1:9"]
    served = spawn(*what, "--listen", "127.0.0.1:0")
    try:
        port = port_of(served)
        body = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577"
        assert status_of(port, body) == b"HTTP/1.1 413"
        cookie = f"GET / HTTP/1.1\r\nHost: a\r\nCookie: a={'x' * 12_000}"
        assert status_of(port, cookie) == b"HTTP/1.1 431"
    finally:
        served.end()


@pytest.mark.slow
def test_a_route_beside_an_application_keeps_its_limit(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    (tmp_path / "serve.toml").write_text(
        "app-dir = '.'\nlisten = '127.0.0.1:0'\n"
        "[upstream.other]\nservers = ['127.0.0.1:9']\n"
        "[[route]]\npath = '/other/**'\nto = 'other'\n"
        "[[route]]\npath = '/**'\napp = 'there:app'\n"
    )
    served = spawn("--config", str(tmp_path / "serve.toml"))
    try:
        port = port_of(served)
        assert send(port, "/", UPLOAD)[0] == 200
        body = "POST /other/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577"
        assert status_of(port, body) == b"HTTP/1.1 413"
    finally:
        served.end()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("content", ["app", "files"])
def test_a_platform_chooses_the_port(content: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    app = ["there:app", "--app-dir", str(tmp_path)]
    port = free_port()
    served = spawn(*(app if content == "app" else [str(tmp_path)]), PORT=str(port))
    try:
        served.wait_for(rf"^listening on http://0\.0\.0\.0:{port}/$")
        assert ask(port)[0] == (200 if content == "app" else 404)
        served.reload()
        assert ask(port)[0] == (200 if content == "app" else 404)
    finally:
        served.end()


PIDS = """
import os
def app(environ, start_response):
    start_response("200 OK", [])
    return [str(environ["wsgi.multiprocess"]).encode()]
"""


@pytest.mark.slow
def test_a_platform_chooses_the_number_of_workers(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(PIDS)
    app = ["there:app", "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    for arguments, expected in [([], b"True"), (["--workers", "1"], b"False")]:
        served = spawn(*app, *arguments, WEB_CONCURRENCY="2")
        try:
            assert ask(port_of(served))[1] == expected
        finally:
            served.end()


@pytest.mark.parametrize("variable", ["PORT", "WEB_CONCURRENCY"])
def test_a_variable_that_cannot_be_used_is_named(variable: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(PIDS)
    served = spawn("there:app", "--app-dir", str(tmp_path), **{variable: "many"})
    try:
        served.wait_for(f"^jissoku serve: the variable {variable} is many: ")
        assert served.process.wait(PATIENCE_S) == 2
    finally:
        served.end()
