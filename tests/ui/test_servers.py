"""Live figures of a server that runs: from its metrics, and none while load is measured."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.system.measurement_lock import PATH_VARIABLE, measurement_lock
from jissoku.ui import watched_servers
from jissoku.ui.watched_servers import PAUSED, WatchedServer, _now, parse
from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, ask
from tests.ui.measurement import Measured, Stream, measured
from tests.ui.watched_server import Running


@pytest.fixture
def live(running: Running, tmp_path: Path, index_cache: Path) -> Iterator[Measured]:
    with measured(tmp_path / "runs", index_cache, metrics=(running.where,)) as found:
        yield found


def test_rates_are_what_happened_between_two_readings(running: Running) -> None:
    server = WatchedServer(running.where)
    server.look()
    assert server.problem == ""
    assert server.rates() == ()
    for _ in range(10):
        ask(running.port)
    server.look()
    (found,) = server.rates()
    before, after = server._readings
    seconds = (after.at_ns - before.at_ns) / 1e9
    assert found.requests_rps * seconds == pytest.approx(10)
    assert found.accepted_rps * seconds == pytest.approx(10)
    assert found.failed_rps == 0
    assert found.sent_bytes > found.requests_rps
    assert found.cores is not None
    assert found.cores > 0


SLOW = """
import time
def app(environ, start_response):
    time.sleep(0.02)
    start_response("200 OK", [])
    return [b"ok"]
"""


def test_an_application_has_its_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_servers, "PERIOD_NS", 0)
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "lock"))
    (tmp_path / "there.py").write_text(SLOW)
    served = serve("there:app", "--metrics", "127.0.0.1:0", directory=tmp_path)
    try:
        port = port_of(served)
        metrics = served.wait_for(r"^metrics on http://(127\.0\.0\.1:[0-9]+)/metrics$")[1]
        server = WatchedServer(metrics)
        server.look()
        for _ in range(3):
            ask(port)
        # Counters of a worker process are up to 250 ms old.
        deadline = time.monotonic() + PATIENCE_S
        while not (known := [one for one in server.rates() if one.app_ns is not None]):
            assert time.monotonic() < deadline
            server.look()
    finally:
        served.end()
    one = known[0]
    assert one.app_ns is not None
    assert one.app_p99_ns is not None
    assert one.queue_ns is not None
    assert one.app_ns >= 20e6
    assert one.app_p99_ns >= 25e6
    rows = {row[0]: row[1] for row in _now(one).rows}
    assert rows["99 % of these times are at most"].endswith(" ms")


def test_a_new_process_begins_anew(running: Running) -> None:
    server = WatchedServer(running.where)
    server.look()
    server.look()
    assert len(server.rates()) == 1
    running.served.replace()
    running.served.process.wait()
    server.look()
    assert server.rates() == ()
    server.look()
    assert len(server.rates()) == 1


def test_nothing_is_read_while_load_is_measured(running: Running) -> None:
    server = WatchedServer(running.where)
    with measurement_lock("compare"):
        server.look()
        assert server.problem == PAUSED
        assert not server._readings
    server.look()
    assert server.problem == ""
    assert len(server._readings) == 1


def test_what_is_no_metrics_of_ours_is_one_sentence(running: Running) -> None:
    site = WatchedServer(f"127.0.0.1:{running.port}")
    site.look()
    assert "the text does not end as OpenMetrics does" in site.problem
    running.served.process.kill()
    running.served.process.wait()
    gone = WatchedServer(running.where)
    gone.look()
    assert gone.problem.startswith(f"{running.where} has no metrics: ")


def test_metrics_of_another_program_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no jissoku_requests_total"):
        parse("up 1\n# EOF\n")
    with pytest.raises(ValueError, match="could not convert"):
        parse("jissoku_requests_total many\n# EOF\n")


@pytest.mark.parametrize(
    "where", ["192.0.2.1:9100", "example.org:80", "9100", "unix:relative", "127.0.0.1:x", ""]
)
def test_servers_elsewhere_are_refused(where: str) -> None:
    with pytest.raises(InputError, match="write HOST:PORT of this machine or unix:/PATH"):
        WatchedServer(where)


def test_the_page_has_figures_from_its_second_reading(live: Measured, running: Running) -> None:
    first = live.client.get("/servers").text
    assert running.where in first
    assert "One reading was taken" in first
    ask(running.port)
    text = live.client.get("/servers").text
    assert text.count('class="jsk-chart line" role="img"') == 4
    assert "<style>" not in text
    names = re.findall(r'<h3 id="server0-(\w+)-title">', text)
    assert names == ["requests", "connections", "cpu", "sent"]
    assert "CPU per request" in text


def test_figures_arrive_as_events(live: Measured, running: Running) -> None:
    with Stream(live.client, "/servers/stream") as stream:
        _, position, _ = stream.next(lambda text: running.where in text)
        kind, later, text = stream.next(lambda text: "<svg" in text)
    assert kind == "progress"
    assert later != position
    assert "Requests per second" in text
