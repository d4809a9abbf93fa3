from typing import Any

import pytest

from jissoku.calibrate.disturbance import blame
from jissoku.calibrate.run import Outcome, scrub

MS = 1_000_000


def stalls(*, short_ms: float = 0, long_ms: float = 0, squares_us2: int = 0) -> dict[str, Any]:
    """Ten seconds in which the core stood still so long, in short stalls and in long ones."""
    classes = [(100_000, short_ms + long_ms), (5 * MS, long_ms)]
    at_least = [{"length_ns": n, "count": 1, "total_ns": int(ms * MS)} for n, ms in classes]
    return {
        "watched_ns": 10_000 * MS,
        "longest_ns": 7 * MS,
        "squares_us2": squares_us2,
        "at_least": at_least,
    }


def run(late_us: int = 10, stalled: dict[str, Any] | None = None, **other: Any) -> Outcome:
    account = {"overflowed": 0, "lateness_ns": {"p99": late_us * 1000}, "stalls": stalled}
    served = {"served.p98_ns": 1 * MS, "served.p99_ns": 100 * MS, "served.p999_ns": 100 * MS}
    fields: dict[str, Any] = {"account": account, "foreign": 0.0, "names": served} | other
    return Outcome(setup="s", command="", report="", code=0, **fields)


@pytest.mark.parametrize(
    ("late_us", "tolerance_ms", "is_blamed"),
    [(49, 0.15, False), (50, 0.15, True), (50, 0.3, False), (99, 0.5, False), (101, 0.5, True)],
)
def test_a_late_oracle_explains_what_is_five_times_its_lateness(
    late_us: int, tolerance_ms: float, *, is_blamed: bool
) -> None:
    sentence = blame(run(late_us), "tool.p50_ns", 0.0, tolerance_ms * MS)
    assert bool(sentence) is is_blamed
    assert not sentence or f"{late_us} us late" in sentence


@pytest.mark.parametrize(
    ("what", "stalled", "tolerance_ms", "is_blamed"),
    [
        # A hundredth lies beyond p99, and a third of that may be stalls: 33 ms of these 10 s.
        ("tool.p99_ns", stalls(short_ms=40), 0.15, True),
        ("tool.p99_ns", stalls(short_ms=30), 0.15, False),
        ("tool.p90_ns", stalls(short_ms=300), 0.15, False),
        ("tool.p999_ns", stalls(short_ms=4), 0.15, True),
        # Short stalls move nothing by 5 ms.
        ("tool.p99_ns", stalls(short_ms=40), 5, False),
        ("tool.p99_ns", stalls(short_ms=10, long_ms=40), 5, True),
        # A mean moves by the squares: 400 stalls of 5 ms in 10 s are 0.5 ms.
        ("tool.mean_ns", stalls(long_ms=2000, squares_us2=400 * 5000**2), 0.9, True),
        ("tool.mean_ns", stalls(long_ms=2000, squares_us2=400 * 5000**2), 1.1, False),
        # Of other figures they say nothing.
        ("tool.max_ns", stalls(long_ms=500), 0.15, False),
        ("tool.requests", stalls(long_ms=500), 1, False),
        ("tool.p99_ns", None, 0.15, False),
    ],
)
def test_stalls_explain_what_they_can_move(
    what: str, stalled: dict[str, Any] | None, tolerance_ms: float, *, is_blamed: bool
) -> None:
    sentence = blame(run(stalled=stalled, names={}), what, 0.0, tolerance_ms * MS)
    assert bool(sentence) is is_blamed
    assert not sentence or ("stood still" in sentence and "7.0 ms" in sentence)


def test_others_and_a_full_log_explain_everything() -> None:
    assert "others used 4 %" in blame(run(foreign=0.04), "tool.requests", 0, 0)
    assert "full" in blame(run(account={"overflowed": 1}), "tool.requests", 0, 0)
    assert blame(run(account={}), "tool.requests", 0, 0) == ""


def test_what_was_served_late_anyway_leaves_less_room_for_stalls() -> None:
    # One answer in a hundred took 100 ms: of the two that lie beyond p98, only one can be a stall.
    few, more = stalls(short_ms=30), stalls(short_ms=40)
    limit, tolerance = 1.15 * MS, 0.15 * MS
    assert blame(run(stalled=few), "tool.p98_ns", limit, tolerance) == ""
    assert "stood still" in blame(run(stalled=more), "tool.p98_ns", limit, tolerance)
    assert blame(run(stalled=more, names={}), "tool.p98_ns", limit, tolerance) == ""


def test_a_port_that_is_a_part_of_a_number_stays() -> None:
    here = {"32070": "{port}", "/usr/bin/wrk": "wrk"}
    text = "/usr/bin/wrk http://127.0.0.1:32070/ 27273207012 32070"
    assert scrub(text, here) == "wrk http://127.0.0.1:{port}/ 27273207012 {port}"
