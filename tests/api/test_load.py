"""`jissoku.load`: results, errors, and its end by a signal."""

import itertools
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jissoku
from jissoku.errors import InputError, JissokuError, TargetError
from tests.serving.server_process import PATIENCE_S

# Requests, so that no test lasts longer than what it needs.
FEW = 200

numbers = itertools.count()


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    is_wrong = {"/": False, "/none": True, "/some": next(numbers) % 2 == 0}
    status = "404 Not Found" if is_wrong[environ["PATH_INFO"]] else "200 OK"
    start_response(status, [("Content-Type", "text/plain")])
    return [b"hello"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with jissoku.serve_in_thread(app) as server:
        yield server.url


def test_a_result_has_what_the_command_prints(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = jissoku.load(f"{url}/", connections=2, requests=FEW, header=["X-A: 1", "X-B: 2"])
    assert (found.requests, found.statuses, found.errors) == (FEW, {200: FEW}, {})
    assert (found.url, found.exit_code, found.message) == (f"{url}/", 0, "")
    assert found.rate_rps == pytest.approx(FEW / found.duration_s)
    half = found.latency["p50"]
    assert half.high_s is not None
    assert 0 < half.low_s <= half.value_s <= half.high_s < found.duration_s
    assert (half.is_lower_bound, half.support) == (False, "plenty")
    assert found.latency["p99.99"].support == "none"
    assert 0 < found.first_byte_s["min"] <= found.first_byte_s["p99.9"]
    checks = {one.name: one.passed for one in found.checks}
    assert checks["accounting"] is True
    assert found.document["schema"] == "jissoku.load/2"
    assert found.document["connections"] == 2
    assert capfd.readouterr() == ("", "")


def test_rate_and_duration_are_numbers_or_text(url: str) -> None:
    for rate, duration in ((100, 0.1), ("100", "100ms")):
        found = jissoku.load(url, rate=rate, duration=duration, connections=1, warmup="0s")
        assert found.document["targets"][0]["rate_rps_offered"] == pytest.approx(100)
        assert found.duration_s > 0.09


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connectionss": 1}, r"unexpected argument '--connectionss' .* exists: '--connections'"),
        ({"rate": "fast"}, "invalid value 'fast' for '--rate .*: write a rate such as"),
        ({"repeat": 3}, "several measurements: the report of one"),
        ({"search": "p99<5ms"}, "--search: the report of one"),
        ({"format": "csv"}, "--format without a file: the report of one"),
        ({"hdr": "/nowhere/at/all"}, "cannot write /nowhere/at/all"),
    ],
)
def test_what_is_invalid_is_an_exception(
    url: str, options: dict[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JissokuError, match=message) as caught:
        jissoku.load(url, **options)
    assert isinstance(caught.value, InputError) == ("hdr" not in options)
    assert capfd.readouterr() == ("", "")


def test_no_correct_response_is_an_exception(url: str) -> None:
    with pytest.raises(TargetError, match=r"no correct response; .* the first: HTTP/1.1 404"):
        jissoku.load(f"{url}/none", requests=FEW)
    with jissoku.serve_in_thread(app) as other:
        pass
    with pytest.raises(JissokuError, match=r"cannot connect to .* refused"):
        jissoku.load(other.url, requests=FEW)


def test_wrong_responses_are_counted_with_an_example(url: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    found = jissoku.load(f"{url}/some", requests=FEW, timeseries=str(rows), strict=False)
    failed = found.errors["status"]
    assert list(found.errors) == ["status"]
    assert found.requests + failed.count == FEW
    assert found.statuses == {200: found.requests, 404: failed.count}
    assert failed.example.startswith("HTTP/1.1 404 Not Found")
    assert found.latency["p99"].is_lower_bound
    assert rows.read_text().count("\n") >= 2


def test_an_objective_is_judged(url: str) -> None:
    found = jissoku.load(url, requests=FEW, slo="p50<1us", connections=1)
    assert found.exit_code == 3
    assert "p50" in found.message


def test_other_threads_run_meanwhile(url: str) -> None:
    # The server is a thread of this process: without Python's lock it would not respond.
    counted = threading.Event()
    threading.Thread(target=counted.set).start()
    jissoku.load(url, requests=FEW)
    assert counted.is_set()


PROGRAM = """
import os, signal, sys, threading
import jissoku

def app(environ, start_response):
    # The load has begun.
    if not interrupted.is_set():
        interrupted.set()
        os.kill(os.getpid(), signal.SIGINT)
    start_response("200 OK", [])
    return [b"hello"]

interrupted = threading.Event()
with jissoku.serve_in_thread(app) as server:
    try:
        jissoku.load(server.url, duration="1h", connections=1)
    except KeyboardInterrupt:
        print("interrupted", threading.active_count())
"""


def test_ctrl_c_ends_it_with_an_exception() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    # This thread and the server's.
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted 2\n", "")


def test_it_works_without_the_laboratory() -> None:
    shown = textwrap.dedent("""
        import sys, jissoku
        jissoku.load
        print(*{"msgspec", "click", "numpy", "jissoku.cli"} & set(sys.modules))
    """)
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, check=True)
    assert done.stdout == b"\n"


def test_signals_are_left_as_they_are(url: str) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    jissoku.load(url, requests=FEW)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
