"""The access log and the metrics of requests to other servers."""

import json
import re
import socket
import struct
import threading
from pathlib import Path
from typing import Any

from tests.serving.origin import Origin
from tests.serving.server_process import PATIENCE_S, Served, Start
from tests.serving.test_edge import read_metrics
from tests.serving.test_routes import asked

LOCAL = r"http://127\.0\.0\.1:([0-9]+)/"


def configure(folder: Path, origin: Origin, dead: Origin, more: str) -> list[str]:
    """Routes to a server, to one that refuses connections, and to both; the arguments for them."""
    (folder / "serve.toml").write_text(f"""
        listen = "127.0.0.1:0"
        workers = 1
        {more}
        [upstream.app]
        servers = ["{origin.address}"]
        idle-time = "60s"
        [upstream.dead]
        servers = ["{dead.address}"]
        [[route]]
        path = "/app/**"
        to = "app"
        [[route]]
        path = "/dead"
        to = "dead"
        [[route]]
        path = "/both"
        gather = {{ one = "app:/of-both", other = "dead:/" }}
    """)
    return ["--config", str(folder / "serve.toml")]


def lines_of(served: Served, log: Path) -> list[str]:
    """The lines of a log, when its server has ended."""
    served.process.terminate()
    assert served.process.wait(PATIENCE_S) == 0
    return log.read_text().splitlines()


def without_times(forwarded: dict[str, Any]) -> dict[str, Any]:
    """The fields that are the same each time."""
    times = [forwarded.pop(f"{phase}_ns") for phase in ("wait", "connect", "head", "body")]
    assert all(time >= 0 for time in times)
    return forwarded


def test_the_log_has_what_became_of_each_forwarded_request(tmp_path: Path, start: Start) -> None:
    with Origin("a") as origin, Origin("dead") as dead:
        dead.kill()
        more = "access-log = 'access.log'\nlog-format = 'json'"
        served = start(*configure(tmp_path, origin, dead, more))
        port = int(served.wait_for(LOCAL)[1])
        for path, status in [("/app/1", 200), ("/app/2", 200), ("/dead", 502), ("/both", 200)]:
            assert asked(port, "GET", path)[0] == status
        assert asked(port, "GET", "/nowhere")[0] == 404
        lines = [json.loads(line) for line in lines_of(served, tmp_path / "access.log")]
    done = {"upstream": "app", "server": origin.address, "status": 200, "tries": 1}
    refused = {"upstream": "dead", "server": dead.address, "error": "connection_refused"}
    first, second, failed, both, nowhere = lines
    assert "forwarded" not in nowhere
    assert [without_times(one) for one in first["forwarded"]] == [done | {"is_reused": False}]
    assert [without_times(one) for one in second["forwarded"]] == [done | {"is_reused": True}]
    assert [without_times(one) for one in failed["forwarded"]] == [
        refused | {"tries": 1, "is_reused": False}
    ]
    # In the order in which they ended.
    parts = {one["part"]: without_times(one) for one in both["forwarded"]}
    assert parts == {
        "one": done | {"part": "one", "is_reused": True},
        "other": refused | {"part": "other", "tries": 1, "is_reused": False},
    }


def test_the_log_has_what_clients_have_ended(tmp_path: Path, start: Start) -> None:
    arrived, is_free = threading.Semaphore(0), threading.Event()

    def hold(_: object) -> tuple[int, str]:
        arrived.release()
        is_free.wait(PATIENCE_S)
        return 200, "held"

    with Origin("a", hold) as origin, Origin("dead") as dead:
        more = "access-log = 'access.log'\nlog-format = 'json'"
        served = start(*configure(tmp_path, origin, dead, more))
        port = int(served.wait_for(LOCAL)[1])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            client.sendall(b"GET /app/gone HTTP/1.1\r\nHost: a\r\n\r\n")
            assert arrived.acquire(timeout=PATIENCE_S)
            # Closed by a reset: after a FIN the client could still read.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            head = b"POST /app/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.sendall(head + b"10100\r\n" + bytes(0x10100) + b"\r\n")
            assert arrived.acquire(timeout=PATIENCE_S)
            client.sendall(b"no size\r\n")
            assert client.recv(1024).startswith(b"HTTP/1.1 400 ")
        lines = [json.loads(line) for line in lines_of(served, tmp_path / "access.log")]
        is_free.set()
    found = {line["target"]: line for line in lines}
    entry = {"upstream": "app", "server": origin.address, "tries": 1, "is_reused": False}
    for target, status, error in [
        ("/app/gone", 499, "client_gone"),
        ("/app/bad", 400, "http_request_error"),
    ]:
        line = found.pop(target)
        assert line["status"] == status
        assert [without_times(one) for one in line["forwarded"]] == [entry | {"error": error}]
    assert found == {}


def test_the_extended_log_has_it_behind_the_usual_fields(tmp_path: Path, start: Start) -> None:
    with Origin("a") as origin, Origin("dead") as dead:
        dead.kill()
        more = "access-log = 'access.log'\nlog-format = 'extended'"
        served = start(*configure(tmp_path, origin, dead, more))
        port = int(served.wait_for(LOCAL)[1])
        for path in ("/app/1", "/dead", "/nowhere"):
            asked(port, "GET", path)
        done, failed, nowhere = lines_of(served, tmp_path / "access.log")
    times = " ".join(f"{phase}_us=[0-9]+" for phase in ("wait", "connect", "head", "body"))
    address = re.escape(origin.address)
    expected = f'upstream="app" server="{address}" server_status=200 tries=1 connection=new {times}'
    assert re.search(f" {expected} error=-$", done)
    assert re.search(r' upstream="dead" .* server_status=0 .* error=connection_refused$', failed)
    assert "upstream" not in nowhere


def test_the_metrics_have_each_upstream_over_reloads(tmp_path: Path, start: Start) -> None:
    with Origin("a") as origin, Origin("dead") as dead:
        dead.kill()
        served = start(*configure(tmp_path, origin, dead, "metrics = '127.0.0.1:0'"))
        port = int(served.wait_for(LOCAL)[1])
        metrics = int(served.wait_for(rf"metrics on {LOCAL}")[1])
        for path in ("/app/1", "/app/2", "/dead", "/both"):
            asked(port, "GET", path)
        served.reload()
        asked(port, "GET", "/app/3")
        _, samples = read_metrics(metrics)
    app, dead_label = '{upstream="app"', '{upstream="dead"'
    assert samples[f"jissoku_upstream_requests_total{app}}}"] == 4
    assert samples[f"jissoku_upstream_requests_total{dead_label}}}"] == 2
    # The workers of the second configuration have connections of their own.
    assert samples[f'jissoku_upstream_tries_total{app},connection="new"}}'] == 2
    assert samples[f'jissoku_upstream_tries_total{app},connection="reused"}}'] == 2
    reason = 'reason="connection_refused"}'
    assert samples[f"jissoku_upstream_failures_total{app},{reason}"] == 0
    assert samples[f"jissoku_upstream_failures_total{dead_label},{reason}"] == 2
    server = f'server="{origin.address}"}}'
    assert samples[f"jissoku_upstream_server_requests{app},{server}"] == 0
    assert samples[f"jissoku_upstream_server_serving{app},{server}"] == 1
