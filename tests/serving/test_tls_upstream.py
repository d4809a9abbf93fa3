"""A gateway whose servers speak TLS."""

import http.client
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S, Served, Start, connect
from tests.serving.test_edge import needs_openssl, read_metrics
from tests.serving.tls_origin import TlsOrigin, make_pair, make_signed_pair

pytestmark = needs_openssl

BODY_SIZE = 8 * 1024 * 1024


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[TlsOrigin]:
    """A server whose certificate is by `authority.crt`, for `localhost` and its address."""
    with TlsOrigin(*make_signed_pair(tmp_path, "localhost", "127.0.0.1")) as running:
        yield running


def port_of(served: Served) -> int:
    return int(served.wait_for(r"^listening on http://127\.0\.0\.1:([0-9]+)/$")[1])


def serve(start: Start, origin: TlsOrigin, *flags: str) -> Served:
    """A gateway for a server."""
    own = ["--listen", "127.0.0.1:0", "--workers", "1", "--diagnostics-for", "127.0.0.1"]
    return start("--to", f"https://127.0.0.1:{origin.port}", *own, *flags)


def begin(start: Start, origin: TlsOrigin, *flags: str) -> int:
    """The port of such a gateway."""
    return port_of(serve(start, origin, *flags))


def ask(port: int, target: str = "/", body: bytes | None = None) -> tuple[int, bytes, str]:
    """Status, body and Proxy-Status of one response."""
    with closing(connect(port)) as connection:
        connection.request("GET" if body is None else "POST", target, body)
        response = connection.getresponse()
        return response.status, response.read(), response.getheader("Proxy-Status", "")


@pytest.fixture(params=["epoll", "uring"])
def driver(request: pytest.FixtureRequest) -> list[str]:
    return ["--driver", request.param]


def test_requests_share_a_connection_and_later_ones_a_session(
    tmp_path: Path, start: Start, origin: TlsOrigin, driver: list[str]
) -> None:
    ca = ["--upstream-tls-ca", str(tmp_path / "authority.crt")]
    port = begin(start, origin, *ca, *driver)
    for _ in range(20):
        assert ask(port)[:2] == (200, b"found")
    assert origin.accepted == 1
    assert ask(port, "/last")[:2] == (200, b"found")
    assert ask(port)[:2] == (200, b"found")
    assert (origin.accepted, origin.resumed) == (2, [False, True])


def test_a_name_is_asked_for_and_verified(tmp_path: Path, start: Start, origin: TlsOrigin) -> None:
    ca = ["--upstream-tls-ca", str(tmp_path / "authority.crt")]
    assert ask(begin(start, origin, *ca))[0] == 200
    named = begin(start, origin, *ca, "--upstream-tls-name", "localhost")
    assert ask(named)[0] == 200
    other = begin(start, origin, *ca, "--upstream-tls-name", "other.example")
    status, _, why = ask(other)
    assert (status, "error=tls_certificate_error" in why) == (502, True), why
    # An address is not asked for.
    assert origin.names == [None, "localhost", "other.example"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("unknown", "unknown issuer"),
        ("self-signed", "unknown issuer"),
        ("authority", r"it is an authority's own \(CA:TRUE\), not a server's"),
        ("expired", "expired"),
        ("future", "not valid yet"),
        ("other", "its name does not match"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_refused_and_reported(
    tmp_path: Path, start: Start, kind: str, reason: str
) -> None:
    ca = ["--upstream-tls-ca", str(tmp_path / "authority.crt")]
    match kind:
        case "unknown":
            pair, ca = make_signed_pair(tmp_path, "127.0.0.1"), []
        case "self-signed":
            make_signed_pair(tmp_path, "127.0.0.1")
            pair = make_pair(tmp_path, "127.0.0.1", end="20491231235959Z")
        case "authority":
            pair = make_pair(tmp_path, "127.0.0.1")
            ca = ["--upstream-tls-ca", str(pair[0])]
        case "expired":
            pair = make_signed_pair(tmp_path, "127.0.0.1", end="20210203040506Z")
        case "future":
            pair = make_signed_pair(tmp_path, "127.0.0.1", start="20490101000000Z")
        case _:
            pair = make_signed_pair(tmp_path, "127.0.0.2", "localhost")
    with TlsOrigin(*pair) as origin:
        served = serve(start, origin, *ca, "--metrics", "127.0.0.1:0")
        port = port_of(served)
        metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/")[1])
        for _ in range(3):
            status, _, why = ask(port)
            assert (status, "error=tls_certificate_error" in why) == (502, True), why
        assert origin.targets == []
        failures = 'upstream_failures_total{upstream="127.0.0.1:%d",reason="%s"}'
        counted = f"jissoku_{failures % (origin.port, 'tls_certificate_error')}"
        assert read_metrics(metrics)[1][counted] >= 3
        report = f"^jissoku serve: upstream .*: certificate of 127.0.0.1:{origin.port}"
        served.wait_for(f"{report} for 127.0.0.1: {reason}$")
        # Once a minute.
        served.send_signal(signal.SIGTERM)
        served.process.wait(PATIENCE_S)
        for reader in served.readers:
            reader.join(PATIENCE_S)
        assert "certificate of" not in " ".join(served.lines.queue)
        assert ask(begin(start, origin, "--upstream-tls-insecure"))[:2] == (200, b"found")


def test_checks_report_a_certificate_that_is_refused(
    tmp_path: Path, start: Start, origin: TlsOrigin
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(
        f'listen = "127.0.0.1:0"\n[upstream.app]\nservers = ["127.0.0.1:{origin.port}"]\n'
        'protocol = "https"\ntls-ca = "authority.crt"\ntls-name = "other.example"\n'
        'health = { path = "/health", every = "50ms" }\n[[route]]\npath = "/**"\nto = "app"\n'
    )
    served = start("--config", str(file))
    served.wait_for('upstream "app": certificate of .* for other.example: its name does not match')


def test_bodies_go_both_ways_at_once(start: Start, origin: TlsOrigin, driver: list[str]) -> None:
    port = begin(start, origin, "--upstream-tls-insecure", "--body-size-max", "64MiB", *driver)
    body = bytes(range(251)) * (BODY_SIZE // 251)
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            head = f"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode())
            sender = threading.Thread(target=client.sendall, args=[body])
            sender.start()
            response = http.client.HTTPResponse(client)
            response.begin()
            assert response.read() == body
            sender.join(PATIENCE_S)
    assert origin.accepted == 1


def test_an_end_without_close_notify_is_incomplete(
    start: Start, origin: TlsOrigin, driver: list[str]
) -> None:
    port = begin(start, origin, "--upstream-tls-insecure", *driver)
    assert ask(port, "/ended")[:2] == (200, b"begun")
    with pytest.raises(http.client.IncompleteRead):
        ask(port, "/truncated")


def test_a_connection_that_is_given_up_ends_with_close_notify(
    start: Start, origin: TlsOrigin, driver: list[str]
) -> None:
    late = ["--response-time-max", "100ms"]
    port = begin(start, origin, "--upstream-tls-insecure", *late, *driver)
    assert ask(port, "/late")[0] == 504
    assert origin.is_notified.wait(PATIENCE_S)


def test_a_tunnel_is_within_tls(start: Start, origin: TlsOrigin, driver: list[str]) -> None:
    port = begin(start, origin, "--upstream-tls-insecure", *driver)
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(
            b"GET /websocket HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
            b"Upgrade: websocket\r\n\r\n"
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        assert head.startswith(b"HTTP/1.1 101 "), head
        for part in [b"x", bytes(100_000)]:
            client.sendall(part)
            found = b""
            while len(found) < len(part):
                found += client.recv(65536)
            assert found == part
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_failures_of_tls_have_their_types(start: Start, origin: TlsOrigin) -> None:
    origin.context.maximum_version = ssl.TLSVersion.TLSv1_2
    origin.context.set_ciphers("AES128-SHA256")
    status, _, why = ask(begin(start, origin, "--upstream-tls-insecure"))
    assert (status, "error=tls_alert_received" in why) == (502, True), why

    plain = start("--fixed", "x", "--listen", "127.0.0.1:0")
    origin.port = port_of(plain)
    status, _, why = ask(begin(start, origin, "--upstream-tls-insecure"))
    assert (status, "error=tls_protocol_error" in why) == (502, True), why


def test_a_handshake_is_part_of_connecting(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        flags = ["--upstream-tls-insecure", "--connect-time-max", "100ms"]
        own = ["--listen", "127.0.0.1:0", "--diagnostics-for", "127.0.0.1"]
        gateway = port_of(start("--to", f"https://127.0.0.1:{port}", *own, *flags))
        status, _, why = ask(gateway)
        assert (status, "error=connection_timeout" in why) == (504, True), why


def test_an_upstream_of_a_file_is_checked_within_tls(
    tmp_path: Path, start: Start, origin: TlsOrigin
) -> None:
    file = tmp_path / "serve.toml"
    text = (
        f'listen = "127.0.0.1:0"\n[upstream.app]\nservers = ["127.0.0.1:{origin.port}"]\n'
        'protocol = "https"\ntls-ca = "authority.crt"\ntls-name = "localhost"\n'
        'health = { path = "/health", every = "50ms", fall = 1 }\n'
        '[[route]]\npath = "/**"\nto = "app"\n'
    )
    file.write_text(text)
    served = start("--config", str(file), "--metrics", "127.0.0.1:0")
    port = port_of(served)
    assert ask(port)[:2] == (200, b"found")
    while origin.targets.count("/health") < 3:
        assert ask(port)[:2] == (200, b"found")
    for wrong, line, why in [
        (text.replace('"https"', '"http"'), 5, "are for protocol = "),
        (text.replace("localhost", "a b"), 6, "tls-name is a name or an address"),
        (text.replace("authority.crt", "none.crt"), 2, "cannot read .*none.crt"),
        (text.replace("tls-ca", "tls-cas"), 5, 'did you mean "tls-ca"'),
    ]:
        file.write_text(wrong)
        start("--config", str(file)).wait_for(f"serve.toml, line {line}: .*{why}")


def test_flags_for_tls_need_an_https_server(start: Start) -> None:
    own = ["--listen", "127.0.0.1:0"]
    flags = ["--to", "http://127.0.0.1:1", "--upstream-tls-insecure"]
    start(*own, *flags).wait_for("--upstream-tls-insecure needs --to https://HOST:PORT")
    flags = ["--to", "https://127.0.0.1:1", "--upstream-tls-ca", "/nowhere"]
    start(*own, *flags).wait_for("cannot read /nowhere")


def test_connections_that_are_opened_in_advance_have_their_handshake(
    tmp_path: Path, start: Start, origin: TlsOrigin
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(
        'listen = "127.0.0.1:0"\nworkers = 1\n[upstream.app]\nprotocol = "https"\n'
        f'servers = ["127.0.0.1:{origin.port}"]\ntls-ca = "authority.crt"\nmin-idle = 2\n'
        '[[route]]\npath = "/**"\nto = "app"\n'
    )
    served = start("--config", str(file))
    port = port_of(served)
    origin.has_two_handshakes.wait(PATIENCE_S)
    assert ask(port)[:2] == (200, b"found")
    assert origin.accepted == 2

    # A reload reads the authorities again, and refuses a file without any.
    authority = tmp_path / "authority.crt"
    text = authority.read_bytes()
    authority.write_text("")
    served.send_signal(signal.SIGHUP)
    served.wait_for("not reloaded: .*serve.toml, line 3: .*authority.crt: it holds no certificate")
    assert ask(port)[:2] == (200, b"found")
    authority.write_bytes(text)
    served.reload()
    assert ask(port)[:2] == (200, b"found")
