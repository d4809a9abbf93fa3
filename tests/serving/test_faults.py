"""A worker that panics is replaced at once; repeated panics stop the server."""

import signal
from http.client import HTTPException

import pytest

from tests.serving.server_process import PATIENCE_S, Start, ask, connect
from tests.serving.test_edge import read_metrics

FAILED = "^jissoku lab serve: worker 0 has failed with its connections and was replaced: "


def expect_no_response(port: int) -> None:
    """Makes a worker fail: the connection ends without an answer."""
    with pytest.raises((HTTPException, ConnectionError)):
        ask(port)


@pytest.mark.parametrize("driver", ["epoll", "uring"])
def test_a_worker_that_fails_is_replaced_and_its_clients_are_counted_out(
    driver: str, start_in_lab: Start
) -> None:
    warnings = [
        "--workers",
        "1",
        "--connections-max",
        "2",
        "--driver",
        driver,
        "--cause",
        "crash=3",
    ]
    where = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    served = start_in_lab("--fixed", "x", *where, *warnings)
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/metrics")[1])
    idle = connect(port)
    idle.request("GET", "/")
    assert idle.getresponse().read() == b"x"
    assert ask(port) == (200, b"x")
    expect_no_response(port)
    served.wait_for(FAILED)
    # Of the two connections that were there none is: there is room for two.
    others = [connect(port) for _ in range(2)]
    for other in others:
        other.request("GET", "/")
        assert other.getresponse().read() == b"x"
    _, samples = read_metrics(metrics)
    assert samples["jissoku_connections_open"] == 2
    assert samples["jissoku_workers"] == 1
    assert samples['jissoku_requests_total{status="2xx"}'] == 4
    for connection in (idle, *others):
        connection.close()
    served.process.terminate()
    assert served.process.wait(PATIENCE_S) == 0


def test_a_worker_that_fails_again_and_again_ends_the_server_with_1(start_in_lab: Start) -> None:
    warnings = ["--listen", "127.0.0.1:0", "--workers", "1", "--cause", "crash=1"]
    served = start_in_lab("--fixed", "x", *warnings)
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    for _ in range(5):
        expect_no_response(port)
        served.wait_for(FAILED)
    expect_no_response(port)
    served.wait_for("^jissoku lab serve: worker 0 has failed once too often: ")
    assert served.process.wait(PATIENCE_S) == 1


def test_the_worker_that_serves_the_metrics_is_replaced_too(start_in_lab: Start) -> None:
    where = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--workers", "1"]
    served = start_in_lab("--fixed", "x", *where, "--cause", "crash-metrics=2")
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/metrics")[1])
    for _ in range(5):
        read_metrics(metrics)
        expect_no_response(metrics)
        served.wait_for("^jissoku lab serve: the metrics worker has failed ")
    read_metrics(metrics)
    expect_no_response(metrics)
    served.wait_for("metrics are not served until the next reload: .*once too often")
    with pytest.raises(ConnectionError):
        read_metrics(metrics)
    # The site is still served, and a reload starts it again.
    assert ask(port) == (200, b"x")
    served.send_signal(signal.SIGHUP)
    metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/metrics")[1])
    served.wait_for("^reloaded$")
    _, samples = read_metrics(metrics)
    assert samples['jissoku_requests_total{status="2xx"}'] == 1
    served.process.terminate()
    assert served.process.wait(PATIENCE_S) == 0
