"""Listeners with TLS and without in one process, and certificates by the name that is asked for."""

import http.server
import json
import shutil
import signal
import socket
import ssl
from pathlib import Path

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import PATIENCE_S, Served, Start
from tests.serving.test_edge import needs_openssl
from tests.serving.tls_origin import make_pair, openssl

pytestmark = needs_openssl

APP = """
import json
def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [json.dumps([environ["wsgi.url_scheme"], environ.get("HTTPS")]).encode()]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    said = [scope["scheme"], "on" if scope["scheme"] == "https" else None]
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})
"""


def flags_for(folder: Path, *names: str, end: str | None = None) -> list[str]:
    """The flags for a certificate with these names, whose file has the first one."""
    certificate, key = make_pair(folder, *names, end=end)
    return ["--tls-cert", str(certificate), "--tls-key", str(key)]


def exchange(port: int, request: bytes, name: str | None = None) -> tuple[str, bytes]:
    """The common name of the certificate, empty without TLS, and all that the server sends.

    `name` is asked for in the handshake; "" is TLS without a name.
    """
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        if name is None:
            plain.sendall(request)
            return "", b"".join(iter(lambda: plain.recv(65536), b""))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(plain, server_hostname=name or None) as secure:
            secure.sendall(request)
            found = b"".join(iter(lambda: secure.recv(65536), b""))
            der = secure.getpeercert(binary_form=True)
    assert der is not None
    form = ["-inform", "der", "-noout", "-subject", "-nameopt", "multiline"]
    text = openssl("x509", *form, stdin=der)
    return text.rsplit(" = ", 1)[1].strip(), found


def get(host: str, target: str = "/") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


def ports(served: Served, *schemes: str) -> list[int]:
    """The ports of the listeners, which are listed in this order."""
    return [
        int(served.wait_for(rf"^listening on {scheme}://127\.0\.0\.1:([0-9]+)/$")[1])
        for scheme in schemes
    ]


def test_a_client_gets_the_certificate_of_the_name_that_it_asks_for(
    tmp_path: Path, start: Start
) -> None:
    first = flags_for(tmp_path, "first.example")
    second = flags_for(tmp_path, "second.example", "*.second.example")
    third = flags_for(tmp_path, "own.second.example")
    flags = [*first, *second, *third]
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", *flags)
    (port,) = ports(served, "https")
    for asked, expected in [
        ("first.example", "first.example"),
        ("second.example", "second.example"),
        ("SECOND.example", "second.example"),
        ("a.second.example", "second.example"),
        ("own.second.example", "own.second.example"),
        ("b.a.second.example", "first.example"),
        ("unknown.example", "first.example"),
        ("", "first.example"),
    ]:
        found, response = exchange(port, get(asked or "first.example"), asked)
        assert (found, response[9:12]) == (expected, b"200"), asked

    make_pair(tmp_path, "other.example")
    for end in ["crt", "key"]:
        shutil.copy(tmp_path / f"other.example.{end}", tmp_path / f"second.example.{end}")
    served.reload()
    assert exchange(port, get("other.example"), "other.example")[0] == "other.example"
    assert exchange(port, get("second.example"), "second.example")[0] == "first.example"


def test_a_host_of_another_certificate_is_misdirected(tmp_path: Path, start: Start) -> None:
    flags = [*flags_for(tmp_path, "a.example"), *flags_for(tmp_path, "b.example", "*.b.example")]
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", *flags)
    (port,) = ports(served, "https")
    for asked, host, status in [
        ("a.example", "a.example", 200),
        ("a.example", "A.EXAMPLE.:443", 200),
        ("a.example", "unknown.example", 200),
        ("unknown.example", "a.example", 200),
        ("b.example", "www.b.example:8443", 200),
        ("a.example", "b.example", 421),
        ("a.example", "B.example.", 421),
        ("unknown.example", "x.b.example", 421),
        ("b.example", "a.example", 421),
        ("b.example", "unknown.example", 421),
        ("b.example", "[::1]:443", 421),
        # A client without SNI, such as a health check, is answered for every host.
        ("", "b.example", 200),
    ]:
        response = exchange(port, get(host), asked)[1]
        assert response.split()[1] == str(status).encode(), (asked, host, response)
    absolute = get("a.example", "http://b.example/")
    assert exchange(port, absolute, "a.example")[1].split()[1] == b"421"
    # The next request of the connection is not served either.
    both = get("b.example").replace(b"Connection: close\r\n", b"") + get("a.example")
    response = exchange(port, both, "a.example")[1]
    assert response.count(b"HTTP/1.1 ") == 1
    assert response.split()[1] == b"421"


def test_certificates_that_do_not_fit_are_refused(tmp_path: Path, start: Start) -> None:
    first, second = flags_for(tmp_path, "a.example"), flags_for(tmp_path, "b.example")
    swapped = [*first[:3], second[3], *second[:3], first[3]]
    start("--fixed", "x", *swapped).wait_for("the key in .*b.example.key does not belong")
    start("--fixed", "x", *first, *second[:2]).wait_for("tls-key has 1 files and tls-cert 2")
    file = tmp_path / "serve.toml"
    file.write_text('fixed = "x"\ntls-cert = ["a", "b"]\ntls-key = ["a"]\n')
    start("--config", str(file)).wait_for("serve.toml, line 3: tls-key has 1 files")
    expired = flags_for(tmp_path, "old.example", end="20210203040506Z")
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", *first, *expired)
    served.wait_for("the certificate in .*old.example.crt expired on Wed, 03 Feb 2021 04:05:06 GMT")
    (port,) = ports(served, "https")
    shutil.copy(tmp_path / "a.example.key", tmp_path / "old.example.key")
    served.send_signal(signal.SIGHUP)
    served.wait_for("not reloaded: the key in .*old.example.key does not belong")
    assert exchange(port, get("old.example"), "old.example")[0] == "old.example"


def test_a_listener_without_tls_redirects(tmp_path: Path, start: Start) -> None:
    listeners = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0,redirect=8443"]
    log = ["--access-log", "-"]
    served = start("--fixed", "x", *listeners, *log, *flags_for(tmp_path, "a.example"))
    secure, plain = ports(served, "https", "http")
    assert exchange(secure, get("a.example"), "a.example")[1].endswith(b"x")
    for host, target, location in [
        ("a.example", "/x?y=1", "https://a.example:8443/x?y=1"),
        ("a.example:80", "//b.example/..", "https://a.example:8443//b.example/.."),
        ("[::1]:80", "/", "https://[::1]:8443/"),
        ("a.example", "http://c.example/p", "https://c.example:8443/p"),
    ]:
        response = exchange(plain, get(host, target))[1].decode()
        assert response.startswith("HTTP/1.1 308 Permanent Redirect\r\n"), response
        assert f"\r\nLocation: {location}\r\n" in response, response
        assert "\r\nConnection: close\r\n" in response
    for host, target in [
        ("a.example@b.example", "/"),
        ("a.example/b", "/"),
        ("", "/"),
        ("a.example\tb", "/"),
        ("a.example", "/\r"),
    ]:
        refused = exchange(plain, get(host, target))[1]
        assert refused.startswith(b"HTTP/1.1 400 "), (host, target, refused)
        assert b"Location" not in refused
    body = b"POST /p HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)
    assert exchange(plain, body)[1].startswith(b"HTTP/1.1 308 ")
    head = get("a.example").replace(b"GET", b"HEAD")
    assert exchange(plain, head)[1].endswith(b"\r\n\r\n")
    served.wait_for(r'"GET /x\?y=1 HTTP/1.1" 308 ')


def test_a_redirect_needs_a_certificate(start: Start) -> None:
    served = start("--fixed", "x", "--listen", "127.0.0.1:0,redirect")
    served.wait_for("--listen 127.0.0.1:0,redirect has nothing to redirect to")


@pytest.mark.parametrize("app", ["there:wsgi", "there:asgi"])
def test_an_application_sees_the_scheme_of_each_listener(
    tmp_path: Path, start: Start, app: str
) -> None:
    (tmp_path / "there.py").write_text(APP)
    file = tmp_path / "serve.toml"
    pair = flags_for(tmp_path, "localhost")
    file.write_text(
        f'app = "{app}"\napp-dir = "."\nlisten = ["127.0.0.1:0,plain", "127.0.0.1:0"]\n'
        f'tls-cert = ["{Path(pair[1]).name}"]\ntls-key = "{Path(pair[3]).name}"\n'
    )
    served = start("--config", str(file))
    plain, secure = ports(served, "http", "https")
    for port, name, expected in [(plain, None, ["http", None]), (secure, "a", ["https", "on"])]:
        response = exchange(port, get("localhost"), name)[1]
        assert json.loads(response[response.index(b"[") : response.index(b"]") + 1]) == expected


def test_a_server_gets_the_scheme_of_each_listener(tmp_path: Path, start: Start) -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        return 200, str(handler.headers["X-Forwarded-Proto"])

    listeners = ["--listen", "127.0.0.1:0,plain", "--listen", "127.0.0.1:0"]
    pair = flags_for(tmp_path, "localhost")
    with Origin("a", answer) as origin:
        served = start("--to", f"http://127.0.0.1:{origin.port}", *listeners, *pair)
        plain, secure = ports(served, "http", "https")
        for port, name, scheme in [(plain, None, b"http"), (secure, "localhost", b"https")]:
            response = exchange(port, get("localhost"), name)[1]
            assert response.rstrip().endswith(b"\r\n" + scheme), response
