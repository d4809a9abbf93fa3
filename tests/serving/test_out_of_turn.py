"""Bytes of servers that are malformed or out of turn: what the log and the metrics say."""

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serving.scripted_server import ScriptedServer
from tests.serving.server_process import PATIENCE_S, Served, Start
from tests.serving.test_edge import read_metrics
from tests.serving.test_gateway_log import LOCAL, lines_of
from tests.serving.test_routes import asked

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Gateway:
    """A gateway before one server, with log and metrics."""

    def __init__(self, folder: Path, start: Start, server: ScriptedServer) -> None:
        self.log = folder / "access.log"
        (folder / "serve.toml").write_text(f"""
            listen = "127.0.0.1:0"
            workers = 1
            access-log = "access.log"
            log-format = "json"
            metrics = "127.0.0.1:0"
            [upstream.app]
            servers = ["{server.address}"]
            idle-time = "60s"
            [[route]]
            path = "/nothing"
            to = "app"
            head-time = "100ms"
            [[route]]
            path = "/**"
            to = "app"
        """)
        self.served: Served = start("--config", str(folder / "serve.toml"))
        self.port = int(self.served.wait_for(LOCAL)[1])
        self.metrics = int(self.served.wait_for(rf"metrics on {LOCAL}")[1])

    def counts(self) -> dict[str, float]:
        """What was out of turn, by kind."""
        _, samples = read_metrics(self.metrics)
        name = "jissoku_upstream_out_of_turn_total"
        return {
            kind: samples[f'{name}{{upstream="app",kind="{kind}"}}']
            for kind in ("early", "excess", "unsolicited")
        }

    def forwarded(self) -> list[dict[str, Any]]:
        """The entries of the log, when the gateway has ended."""
        return [json.loads(line)["forwarded"][0] for line in lines_of(self.served, self.log)]


def sends(*parts: bytes) -> Callable[[socket.socket], None]:
    """Answers each request with these parts, one after the other."""

    def answer(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)

    return answer


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (b"HTTP/2 200 \x00\xff" + b"x" * 300 + b"\r\n\r\n", "http_protocol_error"),
        (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n", "http_upgrade_failed"),
    ],
)
def test_a_malformed_head_is_logged(
    tmp_path: Path, start: Start, response: bytes, error: str
) -> None:
    with ScriptedServer(sends(response)) as server:
        gateway = Gateway(tmp_path, start, server)
        assert asked(gateway.port, "GET", "/") == (502, "Bad Gateway\n")
        [entry] = gateway.forwarded()
    assert entry["error"] == error
    escaped = response[:200].decode("latin-1").replace("\xff", "\\xFF")
    assert entry["response"] == escaped
    assert "notes" not in entry


def test_an_error_in_a_body_has_no_head_in_the_log(tmp_path: Path, start: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with ScriptedServer(sends(head + b"zz\r\n")) as server:
        gateway = Gateway(tmp_path, start, server)
        with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE_S) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            while client.recv(65536):
                pass
        [entry] = gateway.forwarded()
    assert entry["error"] == "http_response_transfer_coding"
    assert "response" not in entry


def test_bytes_behind_a_response_are_noted_and_not_forwarded(tmp_path: Path, start: Start) -> None:
    with ScriptedServer(sends(OK + OK)) as server:
        gateway = Gateway(tmp_path, start, server)
        for _ in range(3):
            assert asked(gateway.port, "GET", "/") == (200, "ok")
        assert server.connections == 3
        assert gateway.counts() == {"early": 0, "excess": 3, "unsolicited": 0}
        entries = gateway.forwarded()
    assert [(entry["notes"], entry["is_reused"]) for entry in entries] == [(["excess"], False)] * 3


@pytest.mark.slow
def test_bytes_on_an_unused_connection_are_counted_and_no_response(
    tmp_path: Path, start: Start
) -> None:
    is_used, is_counted = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        is_first = not is_used.is_set()
        connection.sendall(OK)
        if is_first:
            assert is_used.wait(PATIENCE_S)
            connection.sendall(OK.replace(b"ok", b"no"))
            # Its end must not come with them.
            is_counted.wait(PATIENCE_S)

    with ScriptedServer(answer) as server:
        gateway = Gateway(tmp_path, start, server)
        assert asked(gateway.port, "GET", "/") == (200, "ok")
        is_used.set()
        while not gateway.counts()["unsolicited"]:
            time.sleep(0.01)
        is_counted.set()
        assert server.ended.acquire(timeout=PATIENCE_S)
        assert asked(gateway.port, "GET", "/") == (200, "ok")
        assert gateway.counts() == {"early": 0, "excess": 0, "unsolicited": 1}
        entries = gateway.forwarded()
    assert all("notes" not in entry and "error" not in entry for entry in entries)


@pytest.mark.parametrize("status", [200, 413])
def test_a_final_response_during_an_upload_is_noted(
    tmp_path: Path, start: Start, status: int
) -> None:
    has_begun = threading.Event()

    def answer(connection: socket.socket) -> None:
        if not has_begun.is_set():
            has_begun.set()
            connection.sendall(OK.replace(b"200", str(status).encode()))

    with ScriptedServer(answer) as server:
        gateway = Gateway(tmp_path, start, server)
        with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE_S) as client:
            head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
            client.sendall(head + b"x" * 70000)
            received = client.recv(65536)
            assert int(received.split()[1]) == status
            client.sendall(b"x" * 30000)
        # Another request, so that the first is over. The server may not answer it.
        assert asked(gateway.port, "GET", "/nothing")[0] in {200, 502, 504}
        assert gateway.counts() == {"early": 1, "excess": 0, "unsolicited": 0}
        early, _ = sorted(gateway.forwarded(), key=lambda entry: "notes" not in entry)
    assert (early["notes"], early["status"]) == (["early"], status)
