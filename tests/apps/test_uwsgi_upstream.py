"""Requests that are forwarded in the uwsgi protocol: to our own server, and to uWSGI."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from jissoku.targets import catalogue
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import PreparedTarget
from tests.nginx import needs_nginx, running_nginx, wait_until_accepted
from tests.serving.server_process import PATIENCE_S, Served, connect, spawn
from tests.targets.conftest import place, prepared_or_skipped

__all__ = ["place"]

APP = """
import hashlib, json
def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/unread":
        start_response("200 OK", [("Content-Length", "6")])
        return [b"unread"]
    if path == "/parts":
        start_response("200 OK", [])
        return (b"%06d\\n" % number for number in range(20_000))
    if path == "/hash":
        size, digest = 0, hashlib.sha256()
        while part := environ["wsgi.input"].read(65_536):
            digest.update(part)
            size += len(part)
        answer = f"{digest.hexdigest()} {size}"
    else:
        answer = json.dumps({
            name: value for name, value in environ.items()
            if isinstance(value, str) and not name.startswith("uwsgi.")
        })
    kind = "text/plain" if path == "/hash" else "application/json"
    start_response("200 OK", [("Content-Length", str(len(answer))), ("Content-Type", kind)])
    return [answer.encode()]
"""

PARTS = b"".join(b"%06d\n" % number for number in range(20_000))

NGINX_HTTP = """
    server {{
        listen 127.0.0.1:{port};
        server_name 127.0.0.1;
        location / {{
            include /etc/nginx/uwsgi_params;
            uwsgi_pass unix:{folder}/app.sock;
        }}
    }}
"""


@contextmanager
def gateway(where: str, *arguments: str) -> Iterator[tuple[int, Served]]:
    """The port of a gateway in front of a server, and its process."""
    served = spawn("--to", where, "--listen", "127.0.0.1:0", "--workers", "1", *arguments)
    try:
        yield int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/$")[1]), served
    finally:
        served.end()


@contextmanager
def own_server(folder: Path, transport: str) -> Iterator[tuple[str, Served]]:
    """Our own server of the application: where requests are forwarded to, and its process."""
    (folder / "there.py").write_text(APP)
    where = f"unix:{folder}/app.sock" if transport == "unix" else "127.0.0.1:0"
    limit = ("--body-size-max", "64MiB")
    listen = ("--listen", f"{where},uwsgi", "--access-log", "-")
    served = spawn("there:app", "--app-dir", str(folder), *listen, *limit)
    try:
        if transport == "unix":
            served.wait_for("^listening on unix:")
            yield f"uwsgi+{where}", served
        else:
            yield "uwsgi://" + served.wait_for("^listening on uwsgi://(.*)$")[1], served
    finally:
        served.end()


@contextmanager
def uwsgi_server(folder: Path, transport: str, prepared: PreparedTarget) -> Iterator[str]:
    """UWSGI with the application; where it is forwarded to."""
    (folder / "there.py").write_text(APP)
    site = Path(str(prepared.values["cache"])) / "site"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = f"{folder}/app.sock" if transport == "unix" else f"127.0.0.1:{port}"
    command = [sys.executable, str(site / "bin" / "uwsgi"), "--socket", where, "--master"]
    command += ["--processes", "2", "--module", "there:app", "--pythonpath", str(folder)]
    command += ["--die-on-term", "--disable-logging", "--buffer-size", "32768"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        if transport == "unix":
            wait_until_accepted(folder / "app.sock", process)
            yield f"uwsgi+unix:{where}"
        else:
            while process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
                    break
                except OSError:
                    continue
            yield f"uwsgi://{where}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def raw_answer(port: int, request: bytes) -> bytes:
    """The body of the answer to a request."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(request)
        response = HTTPResponse(client)
        response.begin()
        assert response.status == 200, response.status
        return response.read()


# What an application sees of a request must not depend on the proxy that forwards it.
REQUESTS = {
    "plain": b"GET /a%20b%2Fc?x=1&y=%20 HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "fields": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-One: 1\r\nuser-agent: me\r\nX.Y: 1\r\n"
    b"Cookie: a=1; b=2\r\nAccept: */*\r\nX_One: 2\r\nProxy: evil\r\n",
    "body": b"POST /b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: a/b\r\nContent-Length: 0\r\n",
    "delete": b"DELETE /?q HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "high": b"GET /%C3%A9?%C3%A9 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-High: \xe9\r\n",
}

# What the two proxies say differently, and why.
DIFFERENT = {
    "DOCUMENT_ROOT": "nginx names a directory of its own",
    "REMOTE_PORT": "of each connection",
    "SERVER_PORT": "nginx names its own, and the gateway that of Host",
    "SERVER_NAME": "likewise",
    "HTTP_VIA": "nginx adds none",
    "HTTP_X_FORWARDED_FOR": "likewise",
    "HTTP_X_FORWARDED_PROTO": "likewise",
    "HTTP_X_FORWARDED_HOST": "likewise",
    "HTTP_CONNECTION": "nginx forwards what concerns its own connection",
    "HTTP_PROXY": "likewise",
    "HTTP_X.Y": "nginx drops names with a dot",
}


@needs_nginx
def test_an_application_sees_what_it_sees_behind_nginx(tmp_path: Path) -> None:
    with own_server(tmp_path, "unix") as (where, _), gateway(where) as (port, _):
        with socket.create_server(("127.0.0.1", 0)) as free:
            nginx_port = free.getsockname()[1]
        http = NGINX_HTTP.format(folder=tmp_path, port=nginx_port)
        with running_nginx(tmp_path, http, nginx_port):
            for name, request in REQUESTS.items():
                whole = request + b"Connection: close\r\n\r\n"
                ours = json.loads(raw_answer(port, whole))
                theirs = json.loads(raw_answer(nginx_port, whole))
                for key in DIFFERENT:
                    ours.pop(key, None)
                    theirs.pop(key, None)
                assert ours == theirs, name


def check_bodies(port: int) -> None:
    """Bodies of every size and framing reach the application, and its own the client."""
    connection = connect(port)
    try:
        for size in (0, 1, 60_000, 70_000, 5_000_000):
            body = os.urandom(size)
            connection.request("POST", "/hash", body=body)
            answer = connection.getresponse().read().decode()
            assert answer == f"{hashlib.sha256(body).hexdigest()} {size}"
        for size in (10, 500_000):
            body = os.urandom(size)
            connection.request(
                "POST", "/hash", body=iter([body[:3], body[3:]]), encode_chunked=True
            )
            answer = connection.getresponse().read().decode()
            assert answer == f"{hashlib.sha256(body).hexdigest()} {size}"
        connection.request("GET", "/parts")
        assert connection.getresponse().read() == PARTS
        connection.request("HEAD", "/parts")
        assert connection.getresponse().read() == b""
        # The application does not read what the gateway has sent it.
        connection.request("POST", "/unread", body=bytes(60_000))
        assert connection.getresponse().read() == b"unread"
        connection.request("GET", "/after")
        assert json.loads(connection.getresponse().read())["PATH_INFO"] == "/after"
    finally:
        connection.close()


def check_variables(port: int) -> None:
    request = b"GET /a%20b?x=1 HTTP/1.1\r\nHost: example.org:81\r\nX-A: 1\r\nX-a: 2\r\n"
    seen = json.loads(raw_answer(port, request + b"Cookie: a=1\r\nCookie: b=2\r\n\r\n"))
    expected = {
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": "/a%20b?x=1",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a b",
        "QUERY_STRING": "x=1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "example.org",
        "SERVER_PORT": "81",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "example.org:81",
        "HTTP_X_A": "1,2",
        "HTTP_COOKIE": "a=1; b=2",
        "wsgi.url_scheme": "http",
    }
    assert {name: seen.get(name) for name in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_our_own_server_behind(tmp_path: Path, transport: str) -> None:
    limit = ("--body-size-max", "64MiB")
    with own_server(tmp_path, transport) as (where, _), gateway(where, *limit) as (port, _):
        check_variables(port)
        check_bodies(port)


@pytest.mark.race
@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_uwsgi_behind(tmp_path: Path, transport: str, place: BuildPaths) -> None:
    prepared = prepared_or_skipped(catalogue.recipes()["uwsgi"], place)
    if not isinstance(prepared, PreparedTarget):
        pytest.skip(f"{prepared.name} is not available here: {prepared.reason}")
    limit = ("--body-size-max", "64MiB")
    server = uwsgi_server(tmp_path, transport, prepared)
    with server as where, gateway(where, *limit) as (port, _):
        check_variables(port)
        check_bodies(port)


def test_a_head_larger_than_a_packet_is_refused(tmp_path: Path) -> None:
    more = ("--fields-size-max", "128KiB", "--field-size-max", "128KiB")
    with (
        own_server(tmp_path, "unix") as (where, _),
        gateway(where, *more) as (port, _),
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 66_000 + b"\r\n\r\n")
        assert client.recv(1024).startswith(b"HTTP/1.1 431 ")


def test_routes_and_checks_use_the_protocol(tmp_path: Path) -> None:
    with own_server(tmp_path, "unix") as (where, behind):
        server = where.removeprefix("uwsgi+")
        (tmp_path / "serve.toml").write_text(f"""
            listen = "127.0.0.1:0"
            workers = 1
            [upstream.app]
            servers = ["{server}"]
            protocol = "uwsgi"
            health = {{ path = "/healthy?a", every = "50ms" }}
            [[route]]
            path = "/app/**"
            to = "app"
            [[route]]
            path = "/both"
            gather = {{ one = "app:/of-one", two = "app:/of-two" }}
        """)
        served = spawn("--config", str(tmp_path / "serve.toml"))
        try:
            port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/$")[1])
            seen = raw_answer(port, b"GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n")
            assert json.loads(seen)["PATH_INFO"] == "/app/x"
            both = json.loads(raw_answer(port, b"GET /both HTTP/1.1\r\nHost: a\r\n\r\n"))
            assert both["complete"] is True
            paths = [part["body"]["PATH_INFO"] for part in both["parts"]]
            assert paths == ["/of-one", "/of-two"]
            behind.wait_for(r'"GET /healthy\?a HTTP/1\.1" 200 ')
        finally:
            served.end()
