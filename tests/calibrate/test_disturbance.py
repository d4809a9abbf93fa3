from typing import Any

import pytest

from jissoku.inference.grading import external_cause
from jissoku.measure.oracle import scrub
from jissoku.model.calibration import ScenarioRun

MS = 1_000_000


def stalls(*, short: int = 0, long: int = 0, waited_ms: float = 0) -> dict[str, Any]:
    """Ten thousand samples of a core, of which `late` came late and `very_late` very late."""
    at_least = [
        {"length_ns": 100_000, "samples": short + long},
        {"length_ns": 5 * MS, "samples": long},
    ]
    return {
        "samples": 10_000,
        "longest_ns": 7 * MS,
        "waited_ns": int(waited_ms * MS),
        "at_least": at_least,
    }


def run(late_us: int = 10, stalled: dict[str, Any] | None = None, **other: Any) -> ScenarioRun:
    account = {
        "overflowed": 0,
        "lateness_ns": {"p99": late_us * 1000},
        "stalls": [stalled] if stalled else [],
    }
    served = {"served.p98_ns": 1 * MS, "served.p99_ns": 100 * MS, "served.p999_ns": 100 * MS}
    fields: dict[str, Any] = {"account": account, "foreign": 0.0, "figures": served} | other
    return ScenarioRun(setup="s", oracle={}, command="", report="", exit_code=0, **fields)


@pytest.mark.parametrize(
    ("late_us", "off_ms", "is_blamed"),
    [(49, 0.2, False), (50, 0.2, True), (50, 0.3, False), (99, 0.5, False), (101, 0.5, True)],
)
def test_a_late_oracle_explains_what_is_off_by_five_times_its_lateness(
    late_us: int, off_ms: float, *, is_blamed: bool
) -> None:
    for off in (off_ms, -off_ms):
        sentence = external_cause(run(late_us), "tool.p50_ns", (10 + off) * MS, 10 * MS)
        assert bool(sentence) is is_blamed
        assert not sentence or f"{late_us} us late" in sentence


def test_what_is_no_time_is_off_by_a_share_of_one() -> None:
    # Little's law, over answers of 10 ms: five times 100 us are a twentieth.
    little = "tool.rate_rps * tool.mean_ns / 1e9"
    late = run(100, figures={"served.mean_ns": 10.0 * MS})
    assert "100 us late" in external_cause(late, little, 67, 64)
    assert external_cause(late, little, 75, 64) == ""
    # However late it was, it did not delete a third of all answers.
    assert (
        external_cause(run(9000, figures={"served.mean_ns": 1.0 * MS}), "tool.unanswered", 2, 3)
        == ""
    )


@pytest.mark.parametrize(
    ("what", "stalled", "off_ms", "is_blamed"),
    [
        # A hundredth lies beyond p99, and a third of that may be stalls: 33 looks of these 10,000.
        ("tool.p99_ns", stalls(short=40), 0.2, True),
        ("tool.p99_ns", stalls(short=30), 0.2, False),
        ("tool.p90_ns", stalls(short=300), 0.2, False),
        ("tool.p999_ns", stalls(short=4), 0.2, True),
        # Short stalls change no value by 5 ms, and no stall reduces a latency.
        ("tool.p99_ns", stalls(short=40), 5, False),
        ("tool.p99_ns", stalls(short=10, long=40), 5, True),
        ("tool.p99_ns", stalls(short=10, long=40), -0.2, False),
        # A mean moves by the mean: here it is 0.5 ms.
        ("tool.mean_ns", stalls(long=2000, waited_ms=5000), 1.4, True),
        ("tool.mean_ns", stalls(long=2000, waited_ms=5000), 1.6, False),
        # They do not explain other values.
        ("tool.max_ns", stalls(long=500), 0.2, False),
        ("tool.requests", stalls(long=500), 1, False),
        ("tool.p99_ns", None, 0.2, False),
    ],
)
def test_stalls_explain_what_they_can_move(
    what: str, stalled: dict[str, Any] | None, off_ms: float, *, is_blamed: bool
) -> None:
    sentence = external_cause(run(stalled=stalled, figures={}), what, (1 + off_ms) * MS, 1 * MS)
    assert bool(sentence) is is_blamed
    assert not sentence or ("stood still" in sentence and "7.0 ms" in sentence)


def test_others_and_a_full_log_explain_everything() -> None:
    assert "others used 4 %" in external_cause(run(foreign=0.04), "tool.requests", 1, 0)
    assert "full" in external_cause(run(account={"overflowed": 1}), "tool.requests", 1, 0)
    assert external_cause(run(account={}), "tool.requests", 1, 0) == ""


def test_what_was_served_late_anyway_leaves_less_room_for_stalls() -> None:
    # One answer in a hundred took 100 ms: of the two that lie beyond p98, only one can be a stall.
    few, more = stalls(short=30), stalls(short=40)
    two_cores = {"overflowed": 0, "stalls": [stalls(short=20), stalls(short=20)]}
    got, truth = 1.2 * MS, 1 * MS
    assert external_cause(run(stalled=few), "tool.p98_ns", got, truth) == ""
    assert "stood still" in external_cause(run(stalled=more), "tool.p98_ns", got, truth)
    assert "stood still" in external_cause(run(account=two_cores), "tool.p98_ns", got, truth)
    assert external_cause(run(stalled=more, figures={}), "tool.p98_ns", got, truth) == ""


def test_a_port_that_is_a_part_of_a_number_stays() -> None:
    here = {"32070": "{port}", "/usr/bin/wrk": "wrk"}
    text = "/usr/bin/wrk http://127.0.0.1:32070/ 27273207012 32070"
    assert scrub(text, here) == "wrk http://127.0.0.1:{port}/ 27273207012 {port}"
