"""Second copies of late requests: when they are sent, and which response is used."""

import contextlib
import http.server
import json
import signal
import threading
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import PATIENCE_S, Start
from tests.serving.test_edge import read_metrics
from tests.serving.test_routes import asked, serve
from tests.serving.test_upstreams import upstream

LISTENING = r"http://127\.0\.0\.1:([0-9]+)/"
AT_ONCE = "hedge = { after = '1ms', budget = 1.0 }"


class Late:
    """Answers when the gateway has given up, which sets `ended`."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __call__(self, request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        request.connection.settimeout(PATIENCE_S)
        with contextlib.suppress(ConnectionResetError):
            assert request.connection.recv(1) == b"", "it is not used again"
        self.ended.set()
        return 200, "too late"


def hedges(port: int, upstream_name: str = "app") -> dict[str, float]:
    """What became of the copies, by result."""
    _, samples = read_metrics(port)
    name = "jissoku_upstream_hedges_total"
    return {
        result: samples[f'{name}{{upstream="{upstream_name}",result="{result}"}}']
        for result in ("won", "lost", "refused")
    }


def serve_with_metrics(start: Start, folder: Path, text: str) -> tuple[int, int]:
    """Starts a server with this configuration; its port, and that of its metrics."""
    file = folder / "serve.toml"
    file.write_text(f"listen = '127.0.0.1:0'\nworkers = 1\nmetrics = '127.0.0.1:0'\n{text}")
    served = start("--config", str(file))
    return int(served.wait_for(LISTENING)[1]), int(served.wait_for(LISTENING)[1])


def test_the_first_response_is_used_and_the_other_connection_closed(
    tmp_path: Path, start: Start
) -> None:
    late = Late()
    with Origin("slow", late) as slow, Origin("fast") as fast:
        (tmp_path / "serve.toml").write_text(
            "listen = '127.0.0.1:0'\nworkers = 1\nmetrics = '127.0.0.1:0'\n"
            f"access-log = 'access.log'\nlog-format = 'json'\n{upstream([slow, fast])}{AT_ONCE}\n"
        )
        served = start("--config", str(tmp_path / "serve.toml"))
        ports = [int(served.wait_for(LISTENING)[1]) for _ in range(2)]
        port, metrics = ports
        while hedges(metrics)["won"] == 0:
            assert asked(port, "GET", "/x") == (200, "fast /x")
        assert late.ended.wait(PATIENCE_S)
        served.process.terminate()
        assert served.process.wait(PATIENCE_S) == 0
        *_, last = [
            json.loads(line)["forwarded"]
            for line in (tmp_path / "access.log").read_text().splitlines()
        ]
    assert [(one["hedge"], one["server"], one["tries"]) for one in last] == [
        ("won", fast.address, 2)
    ]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("to = 'app'", "held"),
        # As base64, since it has no media type.
        ("gather = { x = 'app:/x' }\ndeadline = '60s'", "aGVsZA=="),
    ],
)
def test_both_copies_may_be_late(tmp_path: Path, start: Start, action: str, expected: str) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as one, Origin("b", held_until(is_free)) as other:
        text = upstream([one, other]).replace("to = 'app'", action)
        port = serve(start, tmp_path, f"{text}{AT_ONCE}\n")
        found: list[tuple[int, str]] = []
        client = threading.Thread(target=lambda: found.append(asked(port, "GET", "/x")))
        client.start()
        while not (one.requests and other.requests):
            client.join(0.001)
        is_free.set()
        client.join()
    [(status, body)] = found
    assert status == 200
    assert expected in body
    assert one.requests + other.requests == ["/x", "/x"]


@pytest.mark.slow
def test_a_connection_is_kept_if_the_response_that_is_not_used_follows_soon(
    tmp_path: Path, start: Start
) -> None:
    is_free = {"a": threading.Event(), "b": threading.Event()}
    with (
        Origin("a", held_until(is_free["a"])) as one,
        Origin("b", held_until(is_free["b"])) as other,
    ):
        text = upstream([one, other]) + "hedge = { after = '2s', budget = 1.0 }\n"
        port, metrics = serve_with_metrics(start, tmp_path, text)
        client = threading.Thread(target=asked, args=[port, "GET", "/"])
        client.start()
        while not (one.requests and other.requests):
            client.join(0.001)
        is_free["b"].set()
        client.join()
        is_free["a"].set()
        while len(one.requests) < 2 or len(other.requests) < 2:
            assert asked(port, "GET", "/") == (200, "held")
        _, samples = read_metrics(metrics)
    assert samples['jissoku_upstream_tries_total{upstream="app",connection="new"}'] == 2


@pytest.mark.slow
def test_a_worker_that_was_late_itself_sends_no_copies_at_once(
    tmp_path: Path, start: Start
) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as one, Origin("b", held_until(is_free)) as other:
        text = f"[[route]]\npath = '/ok'\nfixed = 'ok'\n{upstream([one, other])}"
        text += "hedge = { after = '1s', budget = 1.0 }\n"
        (tmp_path / "serve.toml").write_text(f"listen = '127.0.0.1:0'\nworkers = 1\n{text}")
        served = start("--config", str(tmp_path / "serve.toml"))
        port = int(served.wait_for(LISTENING)[1])
        client = threading.Thread(target=asked, args=[port, "GET", "/"])
        client.start()
        while not one.requests + other.requests:
            client.join(0.001)
        served.send_signal(signal.SIGSTOP)
        client.join(2.2)
        served.send_signal(signal.SIGCONT)
        assert asked(port, "GET", "/ok") == (200, "ok")
        is_free.set()
        client.join()
        assert one.requests + other.requests == ["/"]


def test_what_may_have_had_an_effect_is_not_copied(tmp_path: Path, start: Start) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as one, Origin("b", held_until(is_free)) as other:
        port = serve(start, tmp_path, f"{upstream([one, other])}{AT_ONCE}\n")
        clients = []
        for method, path, count in [("POST", "/post", 1), ("GET", "/get", 3)]:
            clients.append(threading.Thread(target=asked, args=[port, method, path]))
            clients[-1].start()
            # The copy of the second request is sent after the time at which one of the first would
            # have been.
            while len(one.requests + other.requests) < count:
                clients[-1].join(0.001)
        assert sorted(one.requests + other.requests) == ["/get", "/get", "/post"]
        is_free.set()
        for client in clients:
            client.join()


@pytest.mark.parametrize(
    ("hedge", "more"),
    [
        # 1 % of one request.
        ("hedge = { after = '1ms', budget = 0.01 }", ""),
        # One of two is more than 70 %.
        (AT_ONCE, "connections-max = 1"),
    ],
)
def test_a_copy_that_would_be_too_much_is_not_sent(
    tmp_path: Path, start: Start, hedge: str, more: str
) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as one, Origin("b", held_until(is_free)) as other:
        text = f"{upstream([one, other], more)}{hedge}\n"
        port, metrics = serve_with_metrics(start, tmp_path, text)
        client = threading.Thread(target=asked, args=[port, "GET", "/"])
        client.start()
        while hedges(metrics)["refused"] == 0:
            client.join(0.001)
        is_free.set()
        client.join()
        assert len(one.requests + other.requests) == 1


def test_a_copy_that_fails_is_not_noticed(tmp_path: Path, start: Start) -> None:
    is_free = threading.Event()
    broken = threading.Event()

    def break_off(request: object) -> tuple[int, str]:
        broken.set()
        raise ConnectionError(request)

    def held(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        assert broken.wait(PATIENCE_S)
        return held_until(is_free)(request)

    calls: list[str] = []
    with Origin("a") as one, Origin("b") as other:
        # The first server that gets the request holds it, and the other one fails.
        lock = threading.Lock()

        def first_holds(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
            with lock:
                answer = break_off if calls else held
                calls.append(request.path)
            return answer(request)

        one.answer = other.answer = first_holds
        port = serve(start, tmp_path, f"{upstream([one, other])}{AT_ONCE}\n")
        found: list[tuple[int, str]] = []
        client = threading.Thread(target=lambda: found.append(asked(port, "GET", "/")))
        client.start()
        assert broken.wait(PATIENCE_S)
        is_free.set()
        client.join()
    assert found == [(200, "held")]
