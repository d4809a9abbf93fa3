"""Requests in the uwsgi protocol: packets byte by byte, behind nginx, and behind uWSGI's router."""

import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.conftest import port_of, serve
from tests.nginx import needs_nginx, running_nginx, wait_until_accepted
from tests.serving.server_process import PATIENCE_S, Client, Served, ask, connect, spawn

WSGI = """
import hashlib, json, os
VERSION = {version!r}
def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/parts":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"%06d\\n" % number for number in range(20_000))
    body = environ["wsgi.input"].read()
    if path == "/digest":
        answer = hashlib.sha256(body).hexdigest() + f" {{len(body)}} " + VERSION
    else:
        answer = json.dumps(
            {{name: value for name, value in environ.items() if isinstance(value, str)}}
        )
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer.encode()]
"""

ASGI = """
import json
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/parts":
        for number in range(20_000):
            part = b"%06d\\n" % number
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    names = ["type", "http_version", "method", "scheme", "path", "root_path", "client", "server"]
    seen = {name: scope[name] for name in names}
    seen["raw_path"] = scope["raw_path"].decode()
    seen["query_string"] = scope["query_string"].decode()
    seen["headers"] = [[name.decode(), value.decode()] for name, value in scope["headers"]]
    seen["size"] = size
    await send({"type": "http.response.body", "body": json.dumps(seen).encode()})
"""

PARTS = b"".join(b"%06d\n" % number for number in range(20_000))

NGINX_HTTP = """
    client_max_body_size 64m;
    server {{
        listen unix:{folder}/nginx.sock;
        location / {{
            uwsgi_pass {where};
            uwsgi_param REQUEST_METHOD $request_method;
            uwsgi_param REQUEST_URI $request_uri;
            uwsgi_param PATH_INFO $document_uri;
            uwsgi_param QUERY_STRING $query_string;
            uwsgi_param CONTENT_TYPE $content_type;
            uwsgi_param CONTENT_LENGTH $content_length;
            uwsgi_param SERVER_PROTOCOL $server_protocol;
            uwsgi_param SERVER_NAME front.example;
            uwsgi_param SERVER_PORT 8443;
            uwsgi_param HTTPS on;
            uwsgi_param REMOTE_ADDR 192.0.2.7;
            uwsgi_param REMOTE_PORT 4321;
        }}
    }}
"""


def packet(modifier: int = 0, **variables: str) -> bytes:
    """A packet of these variables."""
    texts = [text.encode("latin-1") for pair in variables.items() for text in pair]
    content = b"".join(struct.pack("<H", len(text)) + text for text in texts)
    return struct.pack("<BHB", modifier, len(content), 0) + content


def get(path: str = "/", **variables: str) -> bytes:
    """The packet of a GET."""
    line = {"REQUEST_METHOD": "GET", "REQUEST_URI": path, "PATH_INFO": path}
    return packet(0, **(line | variables))


def exchange(where: Path, *pieces: bytes) -> bytes:
    """Sends all pieces, and receives until the server closes the connection."""
    received = []
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(where))
        for piece in pieces:
            client.sendall(piece)
        while part := client.recv(65536):
            received.append(part)
    return b"".join(received)


def body_of(answer: bytes) -> bytes:
    """The body of a successful answer, which is never chunked."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), answer
    assert b"transfer-encoding" not in head.lower()
    assert b"\r\nConnection: close" in head
    return body


@pytest.fixture(scope="module", params=["inline", "threads"])
def wsgi(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The socket of a WSGI application."""
    folder = tmp_path_factory.mktemp("wsgi")
    (folder / "there.py").write_text(WSGI.format(version="one"))
    threads = ["--threads", "2"] if request.param == "threads" else []
    yield from listening("there:app", folder, *threads)


@pytest.fixture(scope="module")
def asgi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of an ASGI application."""
    folder = tmp_path_factory.mktemp("asgi")
    (folder / "there.py").write_text(ASGI)
    yield from listening("there:app", folder)


def listening(app: str, folder: Path, *arguments: str) -> Iterator[Path]:
    where = folder / "app.sock"
    served = spawn(app, "--app-dir", str(folder), "--listen", f"unix:{where},uwsgi", *arguments)
    try:
        served.wait_for("^listening on unix:")
        yield where
    finally:
        served.end()


def test_a_wsgi_application_sees_the_variables(wsgi: Path) -> None:
    variables = {
        "REQUEST_URI": "/a%20b?x=1",
        "PATH_INFO": "/a b",
        "QUERY_STRING": "x=1",
        "SERVER_PROTOCOL": "HTTP/2.0",
        "SERVER_NAME": "front.example",
        "SERVER_PORT": "8443",
        "REQUEST_SCHEME": "https",
        "HTTPS": "on",
        "REMOTE_ADDR": "2001:db8::1",
        "REMOTE_PORT": "4321",
        "REMOTE_USER": "alice",
        "DOCUMENT_ROOT": "/srv/\xe9",
        "HTTP_HOST": "example.org",
        "HTTP_X_ONE": "\xe9",
        "HTTP_COOKIE": "a=1",
        "CONTENT_LENGTH": "",
        "wsgi.url_scheme": "gopher",
    }
    # Twice, and once more: the environ of repeated fields is kept as a copy.
    for _ in range(3):
        seen = json.loads(body_of(exchange(wsgi, get(**variables))))
        expected = {name: value for name, value in variables.items() if "." not in name}
        expected |= {
            "CONTENT_LENGTH": seen.get("CONTENT_LENGTH"),
            "RAW_URI": "/a%20b?x=1",
            "SCRIPT_NAME": "",
            "wsgi.url_scheme": "https",
        }
        assert {name: seen.get(name) for name in expected} == expected
        assert seen.get("CONTENT_LENGTH", "") in ("", "0")
    # Fields of an earlier request do not remain.
    seen = json.loads(body_of(exchange(wsgi, get(HTTP_HOST="example.org"))))
    assert seen["wsgi.url_scheme"] == "http"
    for name in ("HTTPS", "REMOTE_USER", "REMOTE_PORT", "HTTP_X_ONE", "HTTP_COOKIE"):
        assert name not in seen
    assert (seen["REMOTE_ADDR"], seen["SERVER_NAME"], seen["SERVER_PORT"]) == (
        "",
        "localhost",
        "80",
    )


@pytest.mark.parametrize("path", ["/app/x", "/x"])
def test_a_script_name_is_not_in_the_path(wsgi: Path, path: str) -> None:
    answer = exchange(wsgi, get(path, REQUEST_URI="/app/x", SCRIPT_NAME="/app"))
    seen = json.loads(body_of(answer))
    assert (seen["SCRIPT_NAME"], seen["PATH_INFO"]) == ("/app", "/x")
    assert seen["REQUEST_URI"] == "/app/x"


def test_an_asgi_application_sees_the_variables(asgi: Path) -> None:
    answer = exchange(
        asgi,
        get(
            REQUEST_URI="/app/a%20b?x=1",
            PATH_INFO="/app/a b",
            QUERY_STRING="x=1",
            SCRIPT_NAME="/app",
            SERVER_PROTOCOL="HTTP/2.0",
            SERVER_NAME="front.example",
            SERVER_PORT="8443",
            HTTPS="on",
            REMOTE_ADDR="192.0.2.7",
            REMOTE_PORT="4321",
            HTTP_HOST="example.org",
            HTTP_X_ONE="1",
        ),
    )
    assert json.loads(body_of(answer)) == {
        "type": "http",
        "http_version": "2",
        "method": "GET",
        "scheme": "https",
        "path": "/app/a b",
        "raw_path": "/app/a%20b",
        "root_path": "/app",
        "query_string": "x=1",
        "client": ["192.0.2.7", 4321],
        "server": ["front.example", 8443],
        "headers": [["host", "example.org"], ["x-one", "1"]],
        "size": 0,
    }


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 5, 100_000])
def test_a_body_follows_the_packet(wsgi: Path, asgi: Path, size: int) -> None:
    body = os.urandom(size)
    head = packet(
        REQUEST_METHOD="POST", REQUEST_URI="/digest", PATH_INFO="/digest", CONTENT_LENGTH=str(size)
    )
    expected = f"{hashlib.sha256(body).hexdigest()} {size} one"
    # In one piece, and cut within the packet and within the body.
    for pieces in ([head + body], [head[:1], head[1:7], head[7:], body[:3], body[3:]]):
        answer = exchange(wsgi, *(piece for piece in pieces if piece))
        assert body_of(answer).decode() == expected
        answer = exchange(asgi, *(piece for piece in pieces if piece))
        assert json.loads(body_of(answer))["size"] == size


def test_parts_are_sent_without_chunks(wsgi: Path, asgi: Path) -> None:
    assert body_of(exchange(wsgi, get("/parts"))) == PARTS
    assert body_of(exchange(asgi, get("/parts"))) == PARTS


def test_a_chunked_body_is_decoded(wsgi: Path) -> None:
    head = packet(
        REQUEST_METHOD="POST",
        REQUEST_URI="/digest",
        PATH_INFO="/digest",
        HTTP_HOST="a",
        HTTP_TRANSFER_ENCODING="chunked",
    )
    answer = exchange(wsgi, head, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n")
    assert body_of(answer).decode() == f"{hashlib.sha256(b'abcde').hexdigest()} 5 one"


@pytest.mark.slow
def test_another_listener_speaks_http(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI.format(version="one"))
    where = tmp_path / "app.sock"
    served = serve("there:app", "--listen", f"unix:{where},uwsgi", directory=tmp_path)
    try:
        port = port_of(served)
        for _ in range(2):
            assert json.loads(ask(port, "/a")[1])["SERVER_PORT"] == str(port)
            seen = json.loads(body_of(exchange(where, get("/a", SERVER_PORT="8443"))))
            assert seen["SERVER_PORT"] == "8443"
            served.reload()
    finally:
        served.end()


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """The socket of a WSGI application, and its server, which prints its access log."""
    folder = tmp_path_factory.mktemp("logged")
    (folder / "there.py").write_text(WSGI.format(version="one"))
    where = folder / "app.sock"
    arguments = ["--listen", f"unix:{where},uwsgi", "--access-log", "-"]
    arguments += ["--request-line-size-max", "8KiB", "--fields-size-max", "32KiB"]
    served = serve("there:app", *arguments, directory=folder)
    try:
        served.wait_for("^listening on unix:")
        yield where, served
    finally:
        served.end()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (packet(modifier=100), 400),
        (struct.pack("<BHB", 0, 4, 0) + b"\x01\x00A\xff", 400),
        (struct.pack("<BHB", 0, 0xFFFF, 0), 431),
        (packet(REQUEST_URI="/"), 400),
        (get(HTTP_A="b\r\nX: y"), 400),
        (get(CONTENT_LENGTH="-1"), 400),
        (get(CONTENT_LENGTH=str(1 << 31)), 413),
        (get("/" + "a" * 9000), 414),
    ],
)
def test_what_is_no_packet_is_refused(
    logged: tuple[Path, Served], sent: bytes, status: int
) -> None:
    where, served = logged
    answer = exchange(where, sent)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    served.wait_for(f'" {status} ')
    assert body_of(exchange(where, get("/digest")))
    served.wait_for('" 200 ')


@pytest.fixture
def behind_nginx(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Served]]:
    """The socket of nginx in front of an application, and the server of that."""
    source = {"wsgi": WSGI.format(version="one"), "asgi": ASGI}[request.param[0]]
    (tmp_path / "there.py").write_text(source)
    is_unix = request.param[1] == "unix"
    listen = f"unix:{tmp_path}/app.sock,uwsgi" if is_unix else "127.0.0.1:0,uwsgi"
    served = spawn(
        "there:app", "--app-dir", str(tmp_path), "--listen", listen, "--body-size-max", "64MiB"
    )
    try:
        if is_unix:
            served.wait_for("^listening on unix:")
            where = f"unix:{tmp_path}/app.sock"
        else:
            where = served.wait_for("^listening on uwsgi://(.*)$")[1]
        http = NGINX_HTTP.format(folder=tmp_path, where=where)
        socket_of_nginx = tmp_path / "nginx.sock"
        with running_nginx(tmp_path, http, socket_of_nginx):
            yield socket_of_nginx, served
    finally:
        served.end()


def ask_nginx(where: Path, method: str, path: str, **options: Any) -> tuple[int, bytes]:
    connection = connect(where)
    try:
        connection.request(method, path, **options)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


BOTH = [("wsgi", "unix"), ("wsgi", "tcp"), ("asgi", "unix"), ("asgi", "tcp")]


@pytest.mark.slow
@needs_nginx
@pytest.mark.parametrize("behind_nginx", BOTH, indirect=True)
def test_behind_nginx(behind_nginx: tuple[Path, Served]) -> None:
    where, _ = behind_nginx
    status, body = ask_nginx(where, "GET", "/a%20b?x=1", headers={"X-One": "1"})
    seen = json.loads(body)
    assert status == 200
    if "scheme" in seen:
        assert (seen["scheme"], seen["client"]) == ("https", ["192.0.2.7", 4321])
        assert (seen["path"], seen["raw_path"]) == ("/a b", "/a%20b")
        assert ["x-one", "1"] in seen["headers"]
    else:
        assert (seen["wsgi.url_scheme"], seen["REMOTE_ADDR"]) == ("https", "192.0.2.7")
        assert (seen["PATH_INFO"], seen["REQUEST_URI"]) == ("/a b", "/a%20b?x=1")
        assert seen["HTTP_X_ONE"] == "1"
    assert ask_nginx(where, "GET", "/parts") == (200, PARTS)
    assert ask_nginx(where, "HEAD", "/parts") == (200, b"")
    assert ask_nginx(where, "HEAD", "/digest") == (200, b"")
    large = os.urandom(5_000_000)
    for body in (b"", b"a", large):
        assert received_size(ask_nginx(where, "POST", "/digest", body=body), body) == len(body)
    chunked = ask_nginx(where, "POST", "/digest", body=iter([b"ab", large]), encode_chunked=True)
    assert received_size(chunked, b"ab" + large) == 2 + len(large)


def received_size(answer: tuple[int, bytes], body: bytes) -> int:
    """The size of the body that the application has received: the complete body."""
    status, text = answer
    assert status == 200, text
    if text.startswith(b"{"):  # ASGI
        return int(json.loads(text)["size"])
    digest, size, _ = text.decode().split()
    assert digest == hashlib.sha256(body).hexdigest()
    return int(size)


@pytest.mark.slow
@needs_nginx
@pytest.mark.parametrize("behind_nginx", BOTH[:2], indirect=True)
def test_a_reload_behind_nginx_loses_nothing(
    behind_nginx: tuple[Path, Served], tmp_path: Path
) -> None:
    where, served = behind_nginx
    clients = [
        Client(where, method, keeps_alive=keeps_alive)
        for method in ("GET", "POST")
        for keeps_alive in (True, False)
    ]
    try:
        for client in clients:
            client.start()
        for version in ("two", "three"):
            (tmp_path / "there.py").write_text(WSGI.format(version=version))
            served.reload()
            for client in clients:
                client.wait_for_an_answer()
        served.send_signal(signal.SIGUSR2)
        served.successors.append(int(served.wait_for("^process ([0-9]+) serves")[1]))
        for client in clients:
            client.wait_for_an_answer()
    finally:
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(PATIENCE_S)
    assert [client.wrong for client in clients] == [None] * len(clients)


UWSGI = shutil.which("uwsgi")


@pytest.mark.skipif(UWSGI is None, reason="no uWSGI")
def test_behind_the_router_of_uwsgi(wsgi: Path, tmp_path: Path) -> None:
    assert UWSGI is not None
    front = tmp_path / "front.sock"
    router = subprocess.Popen(
        [UWSGI, "--master", "--http", str(front), "--http-to", str(wsgi), "--die-on-term"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_accepted(front, router)
        status, body = ask_nginx(front, "GET", "/a%20b?x=1", headers={"X-One": "1"})
        seen = json.loads(body)
        assert status == 200
        assert (seen["PATH_INFO"], seen["QUERY_STRING"]) == ("/a b", "x=1")
        assert seen["HTTP_X_ONE"] == "1"
        body = os.urandom(200_000)
        assert received_size(ask_nginx(front, "POST", "/digest", body=body), body) == len(body)
        assert ask_nginx(front, "GET", "/parts") == (200, PARTS)
    finally:
        router.terminate()
        router.wait(PATIENCE_S)
