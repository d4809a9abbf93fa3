"""Each fault of a server: the response, the error type, what is repeated, and what counts."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from jissoku.conformance.case import ServerKind
from jissoku.conformance.upstream import Upstream
from jissoku.model import Transport
from tests.serving.origin import Origin
from tests.serving.scripted_server import ScriptedServer
from tests.serving.server_process import PATIENCE_S, Start, connect
from tests.serving.test_edge import read_metrics
from tests.serving.test_gateway_log import LOCAL, lines_of

Play = Callable[[socket.socket], None]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"


def sends(data: bytes, *, ends: bool = False) -> Play:
    """Answers each request with these bytes, and ends the connection."""

    def play(connection: socket.socket) -> None:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_RDWR)

    return play


def drip(connection: socket.socket) -> None:
    """Sends a head without an end, until the gateway closes the connection."""
    pause = threading.Event()
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not pause.wait(0.01):
        connection.sendall(b"x")


class Fault(NamedTuple):
    """What a server does with a request, or where there is none.

    Attributes:
        error: The error type of RFC 9209; empty if the response is the server's own.
        counts: Whether one such fault ejects a server of which that is the limit.
        repeated: The methods whose requests are sent to another server.
        keys: Further keys of the server.
        route: Further keys of the route whose requests may be repeated.
    """

    name: str
    server: Play | tuple[ServerKind, Transport]
    status: int
    error: str
    counts: bool
    repeated: str = ""
    is_cut: bool = False
    keys: str = ""
    route: str = ""


ANY = "GET POST"
REFUSED, FULL = ServerKind.REFUSED, ServerKind.FULL
SOON = "connect-time-max = '300ms'"
LATE = "response-time-max = '100ms'"
FIELDS = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(40))

FAULTS = [
    Fault(
        "refused", (REFUSED, Transport.TCP), 502, "connection_refused", counts=True, repeated=ANY
    ),
    Fault(
        "no socket", (REFUSED, Transport.UNIX), 502, "connection_refused", counts=True, repeated=ANY
    ),
    Fault(
        "full TCP",
        (FULL, Transport.TCP),
        504,
        "connection_timeout",
        counts=True,
        repeated=ANY,
        keys=SOON,
    ),
    Fault(
        "full Unix",
        (FULL, Transport.UNIX),
        503,
        "connection_limit_reached",
        counts=False,
        repeated=ANY,
        keys=SOON,
    ),
    Fault(
        "closed", sends(b"", ends=True), 502, "connection_terminated", counts=True, repeated="GET"
    ),
    Fault("cut in the head", sends(OK[:20], ends=True), 502, "connection_terminated", counts=True),
    Fault(
        "head late",
        sends(b""),
        504,
        "http_response_timeout",
        counts=True,
        repeated="GET",
        keys=LATE,
        route="head-time = '20s'\ntry-time = '500ms'",
    ),
    Fault("head dripped", drip, 504, "http_response_timeout", counts=True, keys=LATE),
    Fault(
        "head late after an interim response",
        sends(b"HTTP/1.1 100 Continue\r\n\r\n"),
        504,
        "http_response_timeout",
        counts=True,
        keys=LATE,
    ),
    Fault("malformed", sends(b"HTTP/2 200 OK\r\n\r\n"), 502, "http_protocol_error", counts=False),
    Fault(
        "double framing",
        sends(CHUNKED[:-2] + b"Content-Length: 2\r\n\r\nok"),
        502,
        "http_protocol_error",
        counts=False,
    ),
    Fault(
        "too many interim responses",
        sends(b"HTTP/1.1 102 Processing\r\n\r\n" * 17 + OK),
        502,
        "http_protocol_error",
        counts=False,
    ),
    Fault(
        "unexpected 101",
        sends(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n"),
        502,
        "http_upgrade_failed",
        counts=False,
    ),
    Fault(
        "head too large",
        sends(b"HTTP/1.1 200 OK\r\n" + FIELDS + b"\r\n"),
        502,
        "http_response_header_section_size",
        counts=False,
    ),
    Fault(
        "field too large",
        sends(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000 + b"\r\n\r\n"),
        502,
        "http_response_header_size",
        counts=False,
    ),
    Fault("cut", sends(HALF, ends=True), 200, "http_response_incomplete", counts=True, is_cut=True),
    Fault(
        "cut between chunks",
        sends(CHUNKED + b"2\r\nok\r\n", ends=True),
        200,
        "http_response_incomplete",
        counts=True,
        is_cut=True,
    ),
    Fault(
        "stalled",
        sends(HALF),
        200,
        "connection_read_timeout",
        counts=True,
        is_cut=True,
        keys="read-time-max = '100ms'",
    ),
    Fault(
        "bad chunk",
        sends(CHUNKED + b"2\r\nok\r\nzz\r\n"),
        200,
        "http_response_transfer_coding",
        counts=False,
        is_cut=True,
    ),
    Fault("own 503", sends(OK.replace(b"200", b"503")), 503, "", counts=False),
]


@contextmanager
def serving(server: Play | tuple[ServerKind, Transport]) -> Iterator[str]:
    """The address of this server, as in a configuration file."""
    if callable(server):
        with ScriptedServer(server) as scripted:
            yield scripted.address
    else:
        kind, transport = server
        with Upstream([kind], transport) as upstream:
            [address] = upstream.addresses
            yield f"unix:{address.socket}" if address.socket else address.authority


class Gateway:
    """A gateway with log and metrics, from tables of a configuration."""

    def __init__(self, folder: Path, start: Start, text: str) -> None:
        """Starts it."""
        self.log = folder / "access.log"
        (folder / "serve.toml").write_text(f"""
            listen = "127.0.0.1:0"
            workers = 1
            access-log = "access.log"
            log-format = "json"
            metrics = "127.0.0.1:0"
            {text}
        """)
        self.served = start("--config", str(folder / "serve.toml"))
        self.port = int(self.served.wait_for(LOCAL)[1])
        self.metrics_port = int(self.served.wait_for(rf"metrics on {LOCAL}")[1])

    def ask(self, path: str, method: str = "GET") -> tuple[int, bool, str | None]:
        """The status of a response, whether it is incomplete, and its Retry-After."""
        connection = connect(self.port)
        connection.request(method, path, body=b"x" if method == "POST" else None)
        response = connection.getresponse()
        is_cut = False
        try:
            response.read()
        except (http.client.IncompleteRead, ConnectionError):
            is_cut = True
        connection.close()
        return response.status, is_cut, response.getheader("Retry-After")

    def metric(self, name: str, **labels: str) -> float:
        """A figure of the metrics."""
        _, samples = read_metrics(self.metrics_port)
        listed = ",".join(f'{label}="{value}"' for label, value in labels.items())
        return samples[f"jissoku_upstream_{name}{{{listed}}}"]

    def errors(self) -> list[str | None]:
        """The error of each request, when the gateway has ended."""
        lines = [json.loads(line) for line in lines_of(self.served, self.log)]
        return [line["forwarded"][0].get("error") for line in lines]


def tables(bad: str, good: str, route: str) -> str:
    """Three upstreams of the same servers, of which `bad` is chosen first, and routes to them."""
    servers = f'[{{ at = "{bad}", weight = 1000 }}, "{good}"]'
    routes = {"once": "retry = { on = [] }", "again": route, "post": route}
    return "".join(
        f"[upstream.{name}]\nservers = {servers}\nfailures = 1\n"
        f"[[route]]\npath = '/{name}'\nto = '{name}'\n{keys}\n"
        for name, keys in routes.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_status_its_error_type_and_consequences(
    tmp_path: Path, start: Start, fault: Fault
) -> None:
    with serving(fault.server) as bad, Origin("good") as good:
        text = f"{fault.keys}\n{tables(bad, good.address, fault.route)}"
        gateway = Gateway(tmp_path, start, text)
        failed = (fault.status, fault.is_cut, "1" if fault.error and fault.status == 503 else None)
        assert gateway.ask("/once") == failed
        if fault.error:
            reason = fault.error
            assert gateway.metric("failures_total", upstream="once", reason=reason) == 1
        serves = gateway.metric("server_serving", upstream="once", server=bad)
        assert serves == (not fault.counts)
        for name, method in [("again", "GET"), ("post", "POST")]:
            is_repeated = method in fault.repeated.split()
            expected = (200, False, None) if is_repeated else failed
            assert gateway.ask(f"/{name}", method) == expected, name
            retries = gateway.metric("retries_total", upstream=name, cause="failure")
            assert retries == is_repeated, name
        assert len(good.requests) == len(fault.repeated.split())
        error = fault.error or None
        expected_errors = [
            error,
            *(None if method in fault.repeated.split() else error for method in ("GET", "POST")),
        ]
        assert gateway.errors() == expected_errors


def test_a_kept_connection_that_ends_counts_for_nothing(tmp_path: Path, start: Start) -> None:
    served: dict[socket.socket, int] = {}

    def play(connection: socket.socket) -> None:
        served[connection] = served.get(connection, 0) + 1
        sends(OK if served[connection] == 1 else b"", ends=served[connection] > 1)(connection)

    with ScriptedServer(play) as bad, Origin("good") as good:
        gateway = Gateway(tmp_path, start, tables(bad.address, good.address, ""))
        statuses = [gateway.ask("/again", method)[0] for method in ("GET", "POST", "GET", "GET")]
        assert statuses == [200, 502, 200, 200]
        assert good.requests == []
        again = {"upstream": "again"}
        assert gateway.metric("retries_total", **again, cause="reuse") == 1
        assert gateway.metric("failures_total", **again, reason="connection_terminated") == 1
        assert gateway.metric("server_serving", **again, server=bad.address) == 1
        assert gateway.errors() == [None, "connection_terminated", None, None]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_full_queue_of_a_socket_is_not_waited_for_if_another_server_serves(
    tmp_path: Path, start: Start, method: str
) -> None:
    with serving((FULL, Transport.UNIX)) as bad, Origin("good") as good:
        text = f"connect-time-max = '1h'\n{tables(bad, good.address, '')}"
        gateway = Gateway(tmp_path, start, text)
        assert gateway.ask("/again", method) == (200, False, None)


def test_the_time_of_a_route_includes_that_for_connecting(tmp_path: Path, start: Start) -> None:
    with serving((FULL, Transport.TCP)) as bad, Origin("good") as good:
        routes = tables(bad, good.address, "head-time = '100ms'")
        gateway = Gateway(tmp_path, start, f"connect-time-max = '1h'\n{routes}")
        assert gateway.ask("/again") == (504, False, None)
        assert gateway.errors() == ["http_response_timeout"]


@pytest.mark.parametrize("check", [sends(OK.replace(b"200", b"503")), sends(b""), None])
def test_without_a_server_that_passes_its_checks_the_response_is_503(
    tmp_path: Path, start: Start, check: Play | None
) -> None:
    with serving(check or (REFUSED, Transport.TCP)) as bad:
        text = f"""
            [upstream.app]
            servers = ["{bad}"]
            health = {{ path = "/up", every = "20ms", time = "50ms", fall = 1 }}
            [[route]]
            path = "/**"
            to = "app"
        """
        gateway = Gateway(tmp_path, start, text)
        while gateway.metric("server_serving", upstream="app", server=bad):
            assert gateway.served.process.poll() is None
        assert gateway.ask("/") == (503, False, "1")
        labels = {"upstream": "app", "reason": "destination_unavailable"}
        assert gateway.metric("failures_total", **labels) == 1
        assert gateway.errors() == ["destination_unavailable"]


def test_a_loop_is_refused_and_its_connection_kept(tmp_path: Path, start: Start) -> None:
    with Origin("good") as good:
        text = f"""
            via-name = "edge-1"
            [upstream.app]
            servers = ["{good.address}"]
            [[route]]
            path = "/**"
            to = "app"
        """
        gateway = Gateway(tmp_path, start, text)
        connection = connect(gateway.port)
        for fields, status in [({"Via": "1.0 a, 1.1 Edge-1 (b)"}, 502), ({}, 200)]:
            connection.request("GET", "/", headers=fields)
            response = connection.getresponse()
            response.read()
            assert (response.status, response.will_close) == (status, False)
        connection.close()
        labels = {"upstream": "app", "reason": "proxy_loop_detected"}
        assert gateway.metric("failures_total", **labels) == 1
        assert len(good.requests) == 1
        assert gateway.errors() == ["proxy_loop_detected", None]


@pytest.mark.slow
def test_a_client_that_does_not_read_occupies_no_server(tmp_path: Path, start: Start) -> None:
    def play(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            # Until the gateway closes the connection.
            connection.sendall(bytes(65536))

    with ScriptedServer(play) as server:
        text = f"""
            pace-min = 240
            pace-grace = "1s"
            [upstream.app]
            servers = ["{server.address}"]
            [[route]]
            path = "/**"
            to = "app"
        """
        gateway = Gateway(tmp_path, start, text)
        with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE_S) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert server.ended.acquire(timeout=PATIENCE_S)
        assert gateway.errors() == ["client_gone"]
