"""How long the load generator may take before it counts as hanging."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jissoku.measure import loadgen
from jissoku.measure.loadgen import GRACE_S, LoadSpec, TrialTiming, command, seconds_at_most
from jissoku.measure.observation import LocalObserver, ObservedTargets
from jissoku.model import CoreAssignment, Workload

SECOND = 1_000_000_000

PLAIN = LoadSpec(
    arms=("a", "b", "c", "d"),
    urls=("http://127.0.0.1:1/",) * 4,
    roots=(1, 2, 3, 4),
    body=None,
    status=200,
    workload=Workload(rate_rps=100),
    timing=TrialTiming(SECOND, 2 * SECOND),
    seed=1,
)


NOTHING_OBSERVED = LocalObserver(ObservedTargets(roots=(), ports=(), bystanders=(), cores=(0,)))


def timed(spec: LoadSpec, **changes: int) -> LoadSpec:
    return replace(spec, timing=replace(spec.timing, **changes))


def test_a_window_may_take_twice_its_time() -> None:
    assert seconds_at_most(PLAIN) == 2 * (1 + 2) + GRACE_S
    watched = timed(PLAIN, idle_watch_ns=SECOND)
    assert seconds_at_most(watched) == 2 * (1 + 1 + 2) + GRACE_S


def test_a_window_of_slices_is_whole_cycles_after_half_a_one() -> None:
    sliced = timed(PLAIN, warmup_ns=0, slice_ns=2 * SECOND)
    # Each cycle is two slices for each of four targets.
    assert seconds_at_most(sliced) == 2 * (8 + 16) + GRACE_S
    assert seconds_at_most(timed(sliced, window_ns=17 * SECOND)) == 2 * (8 + 32) + GRACE_S
    short = timed(sliced, slice_ns=SECOND // 100)
    assert seconds_at_most(short) == 2 * (2 + 0.04) + GRACE_S
    assert seconds_at_most(timed(short, warmup_ns=SECOND)) == 2 * (1 + 2 + 0.04) + GRACE_S


def test_time_before_a_window_of_slices_is_asked_for_in_requests(tmp_path: Path) -> None:
    cores = CoreAssignment(server=(0,), generator=(1,))
    words = command(timed(PLAIN, warmup_ns=8 * SECOND, slice_ns=SECOND), tmp_path, cores)
    asked = dict(itertools.pairwise(words))
    # A quarter of 100 requests/s for 8 s.
    assert (asked["--warmup"], asked["--warmup-requests"]) == ("0ns", "200")
    assert dict(itertools.pairwise(command(PLAIN, tmp_path, cores)))["--warmup"] == f"{SECOND}ns"


@pytest.mark.parametrize("first", ["stdout", "stderr"])
def test_a_report_longer_than_a_pipe_is_read_in_any_order(first: str) -> None:
    """The load generator writes its report before it closes its standard error, or after."""
    size = 1 << 20
    script = (
        "import json, sys\n"
        f"report = json.dumps(dict(word='x' * {size}))\n"
        f"parts = [(sys.stdout, report), (sys.stderr, 'y\\n' * {size})]\n"
        f"for file, text in parts if {first == 'stdout'} else parts[::-1]: file.write(text)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        found = loadgen.monitored(process, NOTHING_OBSERVED)
    assert found.report == {"word": "x" * size}


def test_a_target_that_is_gone_is_named(tmp_path: Path) -> None:
    """Nothing listens on port 1, and the socket's path has no file."""
    gone = f"unix:{tmp_path}/gone.sock:/"
    for urls in (("http://127.0.0.1:1/", gone), (gone, "http://127.0.0.1:1/")):
        spec = replace(PLAIN, arms=("a", "b"), urls=urls, roots=(None, None))
        with pytest.raises(loadgen.LoadgenError, match="cannot connect to ") as failed:
            loadgen.run_load(spec, CoreAssignment(server=(0,), generator=(1,)), id)
        named = failed.value.arm
        assert named, str(failed.value)
        assert urls[("a", "b").index(named)] in str(failed.value)


def test_events_have_the_time_of_the_edge() -> None:
    script = "import sys; sys.stderr.write('window open 12\\nwindow close 34\\n')"
    observer = LocalObserver(ObservedTargets(roots=(), ports=(), bystanders=(), cores=(0,)))
    observer.start()
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        found = loadgen.monitored(process, observer)
    assert (found.times.opened_ns, found.times.closed_ns) == (12, 34)
    assert found.stderr == ""
    assert loadgen._event_ns("window open\n") is None
