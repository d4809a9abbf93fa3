"""Clients behind proxies: fields of trusted proxies are used, and those of others ignored."""

import http.client
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apps.conftest import port_of, serve
from tests.apps.test_uwsgi import body_of, exchange, get
from tests.serving.server_process import PATIENCE_S, Served, UnixConnection, spawn
from tests.serving.test_edge import make_papers, needs_openssl

TRUSTED, OTHER = "127.0.0.2", "127.0.0.1"

SOURCE = """
import json
def wsgi(environ, start_response):
    seen = {
        "client": environ["REMOTE_ADDR"], "port": environ.get("REMOTE_PORT"),
        "scheme": environ["wsgi.url_scheme"], "secure": environ.get("HTTPS"),
        "host": environ.get("HTTP_HOST"),
    }
    start_response("200 OK", [])
    return [json.dumps(seen).encode()]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    client = scope["client"] or ("", None)
    hosts = [value.decode() for name, value in scope["headers"] if name == b"host"]
    seen = {
        "client": client[0], "port": str(client[1]) if client[1] else None,
        "scheme": scope["scheme"], "secure": "on" if scope["scheme"] == "https" else None,
        "host": ",".join(hosts),
    }
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(seen).encode()})
"""

APPS = [["there:wsgi"], ["there:wsgi", "--threads", "2"], ["there:asgi"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forwarded")
    (folder / "there.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module", params=APPS, ids=["wsgi", "threads", "asgi"])
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[int, Served]]:
    """An application with a trusted proxy, and its access log on standard output."""
    words = ["--trusted-proxies", f"{TRUSTED},10.0.0.0/8,fd00::/8", "--access-log", "-"]
    served = serve(*request.param, *words, directory=folder)
    try:
        yield port_of(served), served
    finally:
        served.end()


def connected(port: int, source: str) -> http.client.HTTPConnection:
    """A connection from an address of this machine."""
    return http.client.HTTPConnection(
        "127.0.0.1", port, timeout=PATIENCE_S, source_address=(source, 0)
    )


def seen_by(port: int, source: str, fields: dict[str, str]) -> dict[str, Any]:
    connection = connected(port, source)
    try:
        return request(connection, fields)
    finally:
        connection.close()


def request(connection: http.client.HTTPConnection, fields: dict[str, str]) -> dict[str, Any]:
    connection.request("GET", "/", headers={"Host": "own", **fields})
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    seen: dict[str, Any] = json.loads(body)
    return seen


SPOOFED = {
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "evil.example",
    "Forwarded": "for=192.0.2.1;proto=https;host=evil.example",
    "X_Forwarded_For": "192.0.2.1",
}


def test_fields_of_other_peers_do_not_count(server: tuple[int, Served]) -> None:
    seen = seen_by(server[0], OTHER, SPOOFED)
    assert seen.pop("port")
    assert seen == {"client": OTHER, "scheme": "http", "secure": None, "host": "own"}


def test_without_trusted_proxies_no_fields_count(folder: Path) -> None:
    served = serve("there:wsgi", directory=folder)
    try:
        port = port_of(served)
        for source in (OTHER, TRUSTED):
            seen = seen_by(port, source, SPOOFED)
            assert (seen["client"], seen["scheme"], seen["host"]) == (source, "http", "own")
    finally:
        served.end()


@pytest.mark.parametrize(
    ("addresses", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("203.0.113.9, 192.0.2.1", "192.0.2.1"),
        ("203.0.113.9, 192.0.2.1, 10.1.2.3", "192.0.2.1"),
        ("10.9.9.9, 10.1.2.3", "10.9.9.9"),
        ("2001:db8::1, fd00::1", "2001:db8::1"),
        ("192.0.2.1, unknown", TRUSTED),
        ("192.0.2.1, unknown, 10.1.2.3", "10.1.2.3"),
        ("", TRUSTED),
    ],
)
def test_the_rightmost_untrusted_address_is_the_client(
    server: tuple[int, Served], addresses: str, client: str
) -> None:
    port, served = server
    seen = seen_by(port, TRUSTED, {"X-Forwarded-For": addresses})
    assert seen["client"] == client
    assert (seen["port"] is None) == (client != TRUSTED)
    served.wait_for(f"^{client} - - ")


def check_fields_of_a_trusted_proxy(port: int, *, host: str) -> None:
    """The fields of a trusted proxy count, X-Forwarded-Host only if it becomes `host`."""
    fields = {
        "X-Forwarded-For": "192.0.2.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "example.org:8443",
        "Forwarded": "for=203.0.113.9;proto=http;host=evil.example",
    }
    expected = {
        "client": "192.0.2.1",
        "port": None,
        "scheme": "https",
        "secure": "on",
        "host": host,
    }
    connection = connected(port, TRUSTED)
    try:
        # The same fields again, whose environ is kept; and then none.
        for _ in range(3):
            assert request(connection, fields) == expected
            seen = request(connection, {})
            assert (seen["client"], seen["scheme"], seen["secure"]) == (TRUSTED, "http", None)
            assert seen["host"] == "own"
            assert seen["port"] is not None
    finally:
        connection.close()


def test_client_and_scheme_follow_a_trusted_proxy(server: tuple[int, Served]) -> None:
    check_fields_of_a_trusted_proxy(server[0], host="own")


@pytest.mark.parametrize("app", APPS, ids=["wsgi", "threads", "asgi"])
def test_the_host_follows_a_trusted_proxy_if_that_is_chosen(app: list[str], folder: Path) -> None:
    words = ["--trusted-proxies", TRUSTED, "--forwarded-fields", "x-forwarded"]
    served = serve(*app, *words, directory=folder)
    try:
        check_fields_of_a_trusted_proxy(port_of(served), host="example.org:8443")
    finally:
        served.end()


def test_single_fields_can_be_chosen(folder: Path) -> None:
    words = ["--trusted-proxies", TRUSTED, "--forwarded-fields", "x-forwarded-proto"]
    served = serve("there:wsgi", *words, directory=folder)
    try:
        seen = seen_by(port_of(served), TRUSTED, SPOOFED)
        assert (seen["client"], seen["scheme"], seen["host"]) == (TRUSTED, "https", "own")
    finally:
        served.end()


def test_forwarded_counts_if_it_is_chosen(folder: Path) -> None:
    where = folder / "forwarded.sock"
    words = ["--trusted-proxies", "unix", "--forwarded-fields", "forwarded"]
    arguments = ["--app-dir", str(folder), "--listen", f"unix:{where}"]
    served = spawn("there:wsgi", *arguments, *words)
    try:
        served.wait_for("^listening on unix:")
        connection = UnixConnection(where)
        fields = {"Forwarded": 'for=203.0.113.9, for="[2001:db8::1]:47";proto=https;host="a:8"'}
        try:
            seen = request(connection, {**fields, "X-Forwarded-For": "203.0.113.9"})
            assert seen == {
                "client": "2001:db8::1",
                "port": "47",
                "scheme": "https",
                "secure": "on",
                "host": "a:8",
            }
        finally:
            connection.close()
    finally:
        served.end()


def converse(port: int, source: str, *pieces: bytes) -> bytes:
    """Sends all pieces, and receives until the server closes the connection."""
    received = []
    with socket.create_connection(
        ("127.0.0.1", port), timeout=PATIENCE_S, source_address=(source, 0)
    ) as client:
        for piece in pieces:
            client.sendall(piece)
        while part := client.recv(65536):
            received.append(part)
    return b"".join(received)


GET = b"GET / HTTP/1.1\r\nHost: own\r\nConnection: close\r\n\r\n"
LINE = b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n"
BINARY = (
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11"
    + struct.pack(">H", 12)
    + bytes([192, 0, 2, 1, 192, 0, 2, 2])
    + struct.pack(">HH", 4000, 80)
)
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
UNKNOWN = b"PROXY UNKNOWN\r\n"


@pytest.fixture(scope="module", params=APPS, ids=["wsgi", "threads", "asgi"])
def proxied(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[int, Served]]:
    """An application whose connections start with the PROXY protocol."""
    words = ["--app-dir", str(folder), "--listen", "127.0.0.1:0,proxy-protocol"]
    words += ["--trusted-proxies", f"{TRUSTED},192.0.2.1", "--access-log", "-"]
    served = spawn(*request.param, *words)
    try:
        yield port_of(served), served
    finally:
        served.end()


@pytest.mark.parametrize("header", [LINE, BINARY], ids=["line", "binary"])
def test_the_proxy_protocol_has_the_client(proxied: tuple[int, Served], header: bytes) -> None:
    port, served = proxied
    for pieces in ([header + GET], [header, GET], [header[:1], header[1:9], header[9:] + GET]):
        answer = converse(port, TRUSTED, *pieces)
        seen = json.loads(answer.partition(b"\r\n\r\n")[2].strip(b"0123456789abcdef\r\n"))
        assert (seen["client"], seen["port"], seen["scheme"]) == ("192.0.2.1", "4000", "http")
        served.wait_for("^192.0.2.1 - - .* 200 ")
    # The peer is the client of the header, which is a trusted proxy here.
    forwarded = GET.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n")
    assert b'"198.51.100.7"' in converse(port, TRUSTED, header + forwarded)
    # A health check of a proxy names no client.
    assert f'"{TRUSTED}"'.encode() in converse(port, TRUSTED, LOCAL + GET)
    # The peer is then not the proxy, whose fields would be trusted.
    for unnamed in (LOCAL, UNKNOWN):
        assert f'"{TRUSTED}"'.encode() in converse(port, TRUSTED, unnamed + forwarded)
    other = header.replace(b"192.0.2.1 ", b"192.0.2.3 ").replace(b"\xc0\0\2\1", b"\xc0\0\2\3")
    assert b'"192.0.2.3"' in converse(port, TRUSTED, other + forwarded)


def test_a_connection_without_the_proxy_protocol_is_refused(proxied: tuple[int, Served]) -> None:
    port, served = proxied
    assert converse(port, TRUSTED, GET).startswith(b"HTTP/1.1 400 ")
    served.wait_for(" 400 ")
    wrong = LINE.replace(b"4000", b"70000")
    assert converse(port, TRUSTED, wrong + GET).startswith(b"HTTP/1.1 400 ")
    served.wait_for(" 400 ")
    assert converse(port, OTHER, LINE + GET).startswith(b"HTTP/1.1 403 ")
    served.wait_for(" 403 ")


@needs_openssl
def test_the_proxy_protocol_comes_before_tls(folder: Path, tmp_path: Path) -> None:
    certificate, key = make_papers(tmp_path, "one")
    words = ["--app-dir", str(folder), "--listen", "127.0.0.1:0,proxy-protocol"]
    words += ["--tls-cert", str(certificate), "--tls-key", str(key)]
    served = spawn("there:wsgi", *words, "--trusted-proxies", TRUSTED)
    context = ssl.create_default_context(cafile=str(certificate))
    try:
        port = int(served.wait_for(r"^listening on https://127\.0\.0\.1:([0-9]+)/$")[1])
        for header in (LINE, BINARY):
            with socket.create_connection(
                ("127.0.0.1", port), timeout=PATIENCE_S, source_address=(TRUSTED, 0)
            ) as plain:
                plain.sendall(header)
                with context.wrap_socket(plain, server_hostname="localhost") as client:
                    client.sendall(GET)
                    answer = client.makefile("rb").read()
            seen = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert (seen["client"], seen["scheme"]) == ("192.0.2.1", "https")
        assert converse(port, TRUSTED, GET).startswith(b"HTTP/1.1 400 ")
        assert converse(port, OTHER, LINE).startswith(b"HTTP/1.1 403 ")
    finally:
        served.end()


def test_a_listener_for_clients_takes_no_proxy_protocol(server: tuple[int, Served]) -> None:
    for source in (OTHER, TRUSTED):
        assert converse(server[0], source, LINE + GET).startswith(b"HTTP/1.1 400 ")


@contextmanager
def packets(folder: Path, trusted: str, options: str = "uwsgi") -> Iterator[Path]:
    """The Unix socket of a server that takes requests in the uwsgi protocol."""
    where = folder / f"{options}.sock"
    words = ["--app-dir", str(folder), "--listen", f"unix:{where},{options}"]
    served = spawn("there:wsgi", *words, "--trusted-proxies", trusted)
    try:
        served.wait_for("^listening on unix:")
        yield where
    finally:
        served.end()


def client_of(answer: bytes) -> str:
    """The address of the client that the application has seen."""
    address: str = json.loads(body_of(answer))["client"]
    return address


def test_packets_of_untrusted_peers_are_refused(folder: Path) -> None:
    with packets(folder, "192.0.2.0/24") as where:
        assert exchange(where, get()).startswith(b"HTTP/1.1 403 ")


def test_the_client_of_a_packet_may_be_a_trusted_proxy(folder: Path) -> None:
    with packets(folder, "unix,10.0.0.0/8") as where:
        for address, expected in (("10.0.0.1", "192.0.2.1"), ("198.51.100.7", "198.51.100.7")):
            packet = get(REMOTE_ADDR=address, HTTP_X_FORWARDED_FOR="192.0.2.1")
            assert client_of(exchange(where, packet)) == expected
        # Without an address it may be that of any client.
        assert client_of(exchange(where, get(HTTP_X_FORWARDED_FOR="192.0.2.1"))) == ""


def test_a_packet_behind_the_proxy_protocol_is_that_of_its_client(folder: Path) -> None:
    with packets(folder, "unix,192.0.2.1", "uwsgi,proxy-protocol") as where:
        packet = get(REMOTE_ADDR="198.51.100.7")
        assert client_of(exchange(where, LINE + packet)) == "198.51.100.7"
        for header in (LINE.replace(b"192.0.2.1", b"192.0.2.3"), UNKNOWN):
            assert exchange(where, header + packet).startswith(b"HTTP/1.1 403 ")


class Upstream(threading.Thread):
    """A server that answers with the head that it has received."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                head = b""
                while b"\r\n\r\n" not in head and (part := client.recv(65536)):
                    head += part
                line = (
                    f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(head)}\r\n\r\n"
                )
                client.sendall(line.encode() + head)

    def end(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (OTHER, {"x-forwarded-for": [OTHER], "x-forwarded-proto": ["http"]}),
        (
            TRUSTED,
            {"x-forwarded-for": ["192.0.2.1", TRUSTED], "x-forwarded-proto": ["https"]},
        ),
    ],
)
def test_a_gateway_forwards_what_a_trusted_proxy_says(
    source: str, expected: dict[str, list[str]]
) -> None:
    upstream = Upstream()
    upstream.start()
    words = ["--to", f"http://127.0.0.1:{upstream.port}", "--listen", "127.0.0.1:0"]
    served = spawn(*words, "--trusted-proxies", TRUSTED)
    try:
        spoofed = "".join(
            f"{name}: {value}\r\n" for name, value in SPOOFED.items() if "_" not in name
        )
        sent = GET.replace(b"\r\n\r\n", f"\r\n{spoofed}\r\n".encode())
        answer = converse(port_of(served), source, sent)
        head = answer.split(b"\r\n\r\n")[1].decode().split("\r\n")[1:]
        found: dict[str, list[str]] = {}
        for line in head:
            name, _, value = line.partition(": ")
            found.setdefault(name.lower(), []).append(value)
        assert {name: found.get(name) for name in expected} == expected
        assert "forwarded" not in found
    finally:
        served.end()
        upstream.end()
