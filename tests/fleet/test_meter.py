"""Counters at any instant: of made-up readings, and of a process that works and rests."""

import itertools
import subprocess
import sys
import time

import pytest

from jissoku.fleet.meter import INTERVAL_NS, Meter, Series

MS = 1_000_000

# Works for as long as it is asked to, and says when it is done.
WORKER = """
import sys, time
for line in sys.stdin:
    end = time.process_time_ns() + int(line)
    while time.process_time_ns() < end:
        pass
    print("done", flush=True)
"""


def test_counters_are_on_straight_lines_between_readings() -> None:
    series = Series()
    for at_ns, values in ((10, (0, 100)), (20, (10, 300)), (40, (10, 500))):
        series.add(at_ns, values)
    assert series.at([10, 15, 20, 30, 40]) == [[0, 5, 10, 10, 10], [100, 200, 300, 400, 500]]
    assert series.at([5, 99]) == [[0, 10], [100, 500]]
    assert series.gap_ns([12]) == 10
    assert series.gap_ns([12, 30]) == 20
    assert series.gap_ns([]) == 0
    assert series.covers([10, 40])
    assert not series.covers([9])
    assert not series.covers([41])
    assert not Series().covers([])


@pytest.mark.slow
def test_the_work_of_a_process_lies_where_it_was_done() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("1000\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        meter = Meter([process.pid], [0])
        meter.start()
        time.sleep(0.05)
        before_ns = time.monotonic_ns()
        process.stdin.write(f"{50 * MS}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        after_ns = time.monotonic_ns()
        time.sleep(0.05)
        meter.stop()
        process.stdin.close()
    (used,) = meter.cpu.at([before_ns - 40 * MS, before_ns, after_ns, after_ns + 40 * MS])
    idle, work, rest = (later - earlier for earlier, later in itertools.pairwise(used))
    # A reading may be a millisecond away, and on a busy machine more.
    assert work > 35 * MS
    assert idle < 10 * MS
    assert rest < 10 * MS
    assert meter.beyond_ns() == (None,) or meter.beyond_ns() == (0,)
    assert len(meter.cpu.at_ns) > 50
    assert meter.cpu.gap_ns([before_ns]) >= INTERVAL_NS // 2


def test_a_process_that_has_ended_leaves_no_cpu_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        meter = Meter([process.pid], [0])
        meter.start()
        process.kill()
        process.wait()
        time.sleep(0.02)
        meter.stop()
    assert meter.beyond_ns() == (None,)
