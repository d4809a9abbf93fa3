"""How long the load generator may take before it counts as hanging."""

from dataclasses import replace

from jissoku.model import Workload
from jissoku.observe.loadgen import GRACE_S, LoadSpec, seconds_at_most

SECOND = 1_000_000_000

PLAIN = LoadSpec(
    arms=("a", "b", "c", "d"),
    urls=("http://127.0.0.1:1/",) * 4,
    roots=(1, 2, 3, 4),
    body=None,
    status=200,
    workload=Workload(rate_rps=100),
    warmup_ns=SECOND,
    window_ns=2 * SECOND,
    seed=1,
)


def test_a_window_may_take_twice_its_time() -> None:
    assert seconds_at_most(PLAIN) == 2 * (1 + 2) + GRACE_S
    assert seconds_at_most(replace(PLAIN, idle_watch_ns=SECOND)) == 2 * (1 + 1 + 2) + GRACE_S


def test_a_window_of_slices_is_whole_cycles_after_half_a_one() -> None:
    sliced = replace(PLAIN, warmup_ns=0, slice_ns=2 * SECOND)
    # Each cycle is two slices for each of four targets.
    assert seconds_at_most(sliced) == 2 * (8 + 16) + GRACE_S
    assert seconds_at_most(replace(sliced, window_ns=17 * SECOND)) == 2 * (8 + 32) + GRACE_S
    short = replace(sliced, slice_ns=SECOND // 100)
    assert seconds_at_most(short) == 2 * (2 + 0.04) + GRACE_S
