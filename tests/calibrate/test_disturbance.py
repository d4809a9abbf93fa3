from typing import Any

import pytest

from jissoku.calibrate.disturbance import blame

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


def account(late_us: int = 10, stalled: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"overflowed": 0, "lateness_ns": {"p99": late_us * 1000}, "stalls": stalled}


@pytest.mark.parametrize(
    ("late_us", "tolerance_ms", "is_blamed"),
    [(49, 0.15, False), (50, 0.15, True), (50, 0.3, False), (99, 0.5, False), (101, 0.5, True)],
)
def test_a_late_oracle_explains_what_is_five_times_its_lateness(
    late_us: int, tolerance_ms: float, *, is_blamed: bool
) -> None:
    sentence = blame(account(late_us), 0.0, "tool.p50_ns", tolerance_ms * MS)
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
    sentence = blame(account(stalled=stalled), 0.0, what, tolerance_ms * MS)
    assert bool(sentence) is is_blamed
    assert not sentence or ("stood still" in sentence and "7.0 ms" in sentence)


def test_others_and_a_full_log_explain_everything() -> None:
    assert "others used 4 %" in blame(account(), 0.04, "tool.requests", 0)
    assert "full" in blame(account() | {"overflowed": 1}, 0.0, "tool.requests", 0)
    assert blame({}, 0.0, "tool.requests", 0) == ""
