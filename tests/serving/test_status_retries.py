"""Responses with a status for which the request is sent to another server instead."""

import http.server
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.serving.origin import Origin
from tests.serving.scripted_server import ScriptedServer
from tests.serving.server_process import PATIENCE_S, Start, connect
from tests.serving.test_edge import read_metrics
from tests.serving.test_routes import asked, serve
from tests.serving.test_upstreams import upstream

LISTENING = r"http://127\.0\.0\.1:([0-9]+)/"
KEYS = "balance = 'round-robin'\nretry-statuses = [500, '502-504']\nidle-time = '60s'"
DOWN = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\ndown"


def down(_: object) -> tuple[int, str]:
    """What a server answers that asks to retry."""
    return 503, "down"


def tables(first: str, second: str) -> str:
    """An upstream of two servers that get requests in turn, and a route to it."""
    return (
        f"[upstream.app]\nservers = ['{first}', '{second}']\n{KEYS}\n"
        "[[route]]\npath = '/**'\nto = 'app'\n"
    )


def send_whole(connection: socket.socket) -> None:
    """The response at once."""
    connection.sendall(DOWN)


def send_bytes(connection: socket.socket) -> None:
    """The response one byte after the other."""
    for byte in DOWN:
        connection.sendall(bytes([byte]))


@pytest.mark.parametrize("send", [send_whole, send_bytes])
def test_a_response_that_asks_to_retry_is_not_noticed(
    tmp_path: Path, start: Start, send: Callable[[socket.socket], None]
) -> None:
    with ScriptedServer(send) as bad, Origin("a") as good:
        port = serve(start, tmp_path, tables(bad.address, good.address))
        for number in range(8):
            assert asked(port, "GET", f"/{number}") == (200, f"a /{number}")
        assert good.requests == [f"/{number}" for number in range(8)]
        if send is send_whole:
            # All of the response was there, so its connection was used again.
            assert bad.connections == 1


def test_a_response_that_does_not_come_is_not_waited_for(tmp_path: Path, start: Start) -> None:
    def stop_after_head(connection: socket.socket) -> None:
        connection.sendall(DOWN.removesuffix(b"down"))

    with ScriptedServer(stop_after_head) as bad, Origin("a") as good:
        port = serve(start, tmp_path, tables(bad.address, good.address))
        for _ in range(4):
            assert asked(port, "GET", "/") == (200, "a /")
        assert (bad.requests, bad.connections) == (2, 2)
        for _ in range(2):
            assert bad.ended.acquire(timeout=PATIENCE_S)


class Case(NamedTuple):
    """A request to servers that all answer with one status, and how often it is tried."""

    method: str = "GET"
    servers: int = 2
    status: int = 503
    keys: str = KEYS
    route: str = ""
    tries: int = 1


@pytest.mark.parametrize(
    "case",
    [
        Case(tries=2),
        Case(method="PUT", status=500, tries=2),
        Case(servers=4, status=504, route="retry = { tries = 3 }", tries=3),
        Case(servers=4, route="retry = { tries = 2, on = ['status'] }", tries=2),
        # What may have had an effect.
        Case(method="POST"),
        # Another status, none, and a route that does not retry for it.
        Case(status=501),
        Case(keys=""),
        Case(route="retry = { on = ['connect', 'reset'] }"),
        Case(route="retry = { tries = 1 }"),
        # There is no other server.
        Case(servers=1),
    ],
)
def test_the_last_response_is_passed_on(tmp_path: Path, start: Start, case: Case) -> None:
    status, tries = case.status, case.tries

    def answer(_: object) -> tuple[int, str]:
        return status, "of a server"

    with ExitStack() as stack:
        origins = [stack.enter_context(Origin(name, answer)) for name in "abcd"[: case.servers]]
        port = serve(start, tmp_path, f"{upstream(origins, case.keys)}{case.route}\n")
        assert asked(port, case.method, "/") == (status, "of a server")
        assert [len(origin.requests) for origin in origins].count(1) == tries
        assert sum(len(origin.requests) for origin in origins) == tries


@pytest.mark.slow
def test_retries_are_a_share_of_the_requests(tmp_path: Path, start: Start) -> None:
    with Origin("a", down) as one, Origin("b", down) as other:
        port = serve(start, tmp_path, upstream([one, other], KEYS))
        for _ in range(80):
            assert asked(port, "GET", "/") == (503, "down")
        # 30, which is more than a fifth.
        assert len(one.requests + other.requests) == 80 + 30


@pytest.mark.parametrize(
    ("version", "statuses"), [("1.1", ["200", "503"]), ("1.0", ["200", "200"])]
)
def test_nothing_is_repeated_of_which_a_part_was_passed_on(
    tmp_path: Path, start: Start, version: str, statuses: list[str]
) -> None:
    def hint(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        request.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n")
        return down(request)

    with Origin("a", hint) as bad, Origin("b") as good:
        port = serve(start, tmp_path, upstream([bad, good], KEYS))
        found = []
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
                head = f"GET / HTTP/{version}\r\nHost: h\r\nConnection: close\r\n\r\n"
                client.sendall(head.encode())
                text = client.makefile("rb").read().decode()
            heads = [line.split()[1] for line in text.splitlines() if line.startswith("HTTP/")]
            assert heads[:-1] == (["103"] if heads[-1] == "503" else [])
            found.append(heads[-1])
        assert sorted(found) == statuses
        # A client of HTTP/1.0 gets no interim response.
        assert bad.requests == ["/"]


def test_a_part_of_a_gathered_response_is_sent_again(tmp_path: Path, start: Start) -> None:
    with Origin("a", down) as bad, Origin("b") as good:
        text = upstream([bad, good], KEYS).replace("to = 'app'", "gather = { x = 'app:/x' }")
        port = serve(start, tmp_path, text)
        for _ in range(2):
            [part] = json.loads(asked(port, "GET", "/")[1])["parts"]
            assert part["status"] == 200
        assert (bad.requests, good.requests) == (["/x"], ["/x", "/x"])


def test_a_body_that_was_collected_is_sent_again(tmp_path: Path, start: Start) -> None:
    def echo(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        return 200, request.body.decode()  # type: ignore[attr-defined]

    with Origin("a", down) as bad, Origin("b", echo) as good:
        port = serve(start, tmp_path, upstream([bad, good], KEYS))
        connection = connect(port)
        for body in ["one", "two"]:
            connection.request("PUT", "/", body=body)
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, body.encode())
        connection.close()
        assert (len(bad.requests), len(good.requests)) == (1, 2)


def test_the_log_and_the_metrics_have_it(tmp_path: Path, start: Start) -> None:
    with Origin("a", down) as bad, Origin("b") as good:
        (tmp_path / "serve.toml").write_text(
            "listen = '127.0.0.1:0'\nworkers = 1\nmetrics = '127.0.0.1:0'\n"
            f"access-log = 'access.log'\nlog-format = 'json'\n{upstream([bad, good], KEYS)}"
        )
        served = start("--config", str(tmp_path / "serve.toml"))
        port, metrics = [int(served.wait_for(LISTENING)[1]) for _ in range(2)]
        for _ in range(2):
            assert asked(port, "GET", "/") == (200, "b /")
        _, samples = read_metrics(metrics)
        served.process.terminate()
        assert served.process.wait(PATIENCE_S) == 0
        lines = (tmp_path / "access.log").read_text().splitlines()
    forwarded = [json.loads(line)["forwarded"][0] for line in lines]
    assert sorted(one["tries"] for one in forwarded) == [1, 2]
    assert {(one["server"], one["status"], one.get("error")) for one in forwarded} == {
        (good.address, 200, None)
    }
    causes = {
        cause: samples[f'jissoku_upstream_retries_total{{upstream="app",cause="{cause}"}}']
        for cause in ("reuse", "failure", "status")
    }
    assert causes == {"reuse": 0, "failure": 0, "status": 1}
