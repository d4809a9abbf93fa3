"""Active health checks of servers behind a gateway."""

from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.serving.origin import Answer, Origin
from tests.serving.server_process import Start
from tests.serving.test_edge import read_metrics
from tests.serving.test_routes import asked, serve
from tests.serving.test_upstreams import upstream

pytestmark = pytest.mark.slow

HEALTH = "health = { path = '/up', every = '20ms', time = '20s', rise = 1, fall = 1 }"


def test_a_server_that_fails_its_checks_gets_no_requests(tmp_path: Path, start: Start) -> None:
    is_up = False

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        if request.path == "/up":
            return (200, "up") if is_up else (503, "down")
        return 200, "b"

    with Origin("a") as one, Origin("b", answer) as other:
        text = f"""
        [upstream.app]
        servers = ["{one.address}", "{other.address}"]
        balance = "round-robin"
        {HEALTH}
        [[route]]
        path = "/**"
        to = "app"
        """
        port = serve(start, tmp_path, text)

        def names() -> set[str]:
            return {asked(port, "GET", "/")[1][0] for _ in range(8)}

        # A second check begins after the result of the first is known.
        while other.requests.count("/up") < 2:
            assert asked(port, "GET", "/")[0] == 200
        assert names() == {"a"}
        is_up = True
        while "b" not in names():
            assert other.thread.is_alive()


def test_a_server_that_is_not_used_any_more_is_reported_and_when_it_is_used_again(
    tmp_path: Path, start: Start
) -> None:
    is_up = False

    def answer(_: BaseHTTPRequestHandler) -> tuple[int, str]:
        return (200 if is_up else 503), "a"

    with Origin("a", answer) as one, Origin("b") as other:
        health = HEALTH.replace("fall = 1", "fall = 3")
        text = "listen = '127.0.0.1:0'\nworkers = 2\n" + upstream([one, other], health)
        (tmp_path / "serve.toml").write_text(text)
        served = start("--config", str(tmp_path / "serve.toml"))
        server = f'^jissoku serve: upstream "app": server {one.address}'
        served.wait_for(f"{server} is not used any more: 3 checks have failed: status 503$")
        is_up = True
        served.wait_for(f"{server} is used again$")
        other.server.shutdown()
        other.server.server_close()
        why = "is not used any more: 3 checks have failed: connection refused$"
        served.wait_for(f'^jissoku serve: upstream "app": server {other.address} {why}')


def test_an_ejected_server_is_reported_once_for_all_workers(tmp_path: Path, start: Start) -> None:
    with Origin("a") as one, Origin("b") as other:
        one.server.shutdown()
        one.server.server_close()
        balance = "balance = 'round-robin'\nfailures = 2"
        text = "listen = '127.0.0.1:0'\nworkers = 2\n" + upstream([one, other], balance)
        (tmp_path / "serve.toml").write_text(text)
        served = start("--config", str(tmp_path / "serve.toml"))
        port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        for _ in range(20):
            assert asked(port, "GET", "/")[0] == 200
        why = "its requests fail, the last one with connection_refused$"
        served.wait_for(f'upstream "app": server {one.address} is not used any more: {why}')
        assert not any("any more" in line for line in served.lines.queue)


@pytest.mark.parametrize(
    ("statuses", "passing"),
    [("", {200, 204, 302}), (", statuses = [204, '500-503']", {204, 500, 503})],
)
def test_the_statuses_that_pass_can_be_chosen(
    tmp_path: Path, start: Start, statuses: str, passing: set[int]
) -> None:
    def checked_with(status: int) -> Answer:
        return lambda request: (status if request.path == "/up" else 200, str(status))

    with ExitStack() as stack:
        origins = [
            stack.enter_context(Origin(str(status), checked_with(status)))
            for status in (200, 204, 302, 404, 500, 503)
        ]
        more = f"balance = 'round-robin'\n{HEALTH.replace(' }', statuses + ' }')}"
        port = serve(start, tmp_path, upstream(origins, more))
        # A second check begins after the result of the first is known.
        while not all(origin.requests.count("/up") >= 2 for origin in origins):
            assert asked(port, "GET", "/")[0] == 200
        # Weights may still grow.
        found = {asked(port, "GET", "/")[1] for _ in range(60)}
    assert found == {str(status) for status in passing}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("status", "retried", "statuses", "is_serving"),
    [
        (503, "[503]", "", 1),
        (503, "[503]", ", statuses = [200]", 0),
        (500, "[500]", ", statuses = [200]", 0),
        # Of an application, unless it asks to retry.
        (500, "[599]", ", statuses = [200]", 1),
        (502, "[599]", ", statuses = [200]", 0),
        (504, "[599]", ", statuses = [200]", 0),
    ],
)
def test_a_status_that_does_not_pass_ejects_if_it_is_that_of_an_outage(
    tmp_path: Path,
    start: Start,
    *,
    method: str,
    status: int,
    retried: str,
    statuses: str,
    is_serving: int,
) -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        return (200 if request.path == "/up" else status), "a"

    with Origin("a", answer) as bad, Origin("b") as good:
        (tmp_path / "serve.toml").write_text(
            "listen = '127.0.0.1:0'\nworkers = 1\nmetrics = '127.0.0.1:0'\n"
            + upstream(
                [bad, good],
                f"balance = 'round-robin'\nfailures = 2\nretry-statuses = {retried}\n"
                f"health = {{ path = '/up', every = '1h'{statuses} }}",
            )
        )
        served = start("--config", str(tmp_path / "serve.toml"))
        local = r"http://127\.0\.0\.1:([0-9]+)/"
        port, metrics = [int(served.wait_for(local)[1]) for _ in range(2)]
        while len([path for path in bad.requests if path != "/up"]) < 2:
            # What may be repeated is.
            is_repeated = method == "GET" and str(status) in retried
            assert asked(port, method, "/")[0] in ({200} if is_repeated else {200, status})
        _, samples = read_metrics(metrics)
    labels = f'{{upstream="app",server="{bad.address}"}}'
    assert samples[f"jissoku_upstream_server_serving{labels}"] == is_serving
