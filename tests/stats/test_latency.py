"""Percentiles are told where enough answers support them, and curves follow the histograms."""

import pytest

from jissoku.stats import latency
from tests.stats import made


@pytest.mark.parametrize(
    ("fraction", "requests", "expected"),
    [(0.99, 10_000, True), (0.99, 9_999, False), (0.999, 100_000, True), (0.5, 199, False)],
)
def test_a_hundred_answers_must_lie_above(
    *, fraction: float, requests: int, expected: bool
) -> None:
    assert latency.is_supported(fraction, requests) is expected


def test_each_trial_gives_one_percentile_and_their_logs_are_averaged() -> None:
    lanes = []
    for median in (100_000, 110_000, 130_000):
        said, blob = made.histogram(median, 1)
        lanes.append(made.lane(latency_ns=said, histogram=blob))
    found = {one.label: one for one in latency.percentiles(lanes)}
    assert set(found) == {"p50", "p90", "p99"}, "20,000 requests do not support p99.9"
    p50 = found["p50"]
    product = lanes[0].latency_ns.p50 * lanes[1].latency_ns.p50 * lanes[2].latency_ns.p50
    assert p50.median_ns == lanes[1].latency_ns.p50
    assert p50.estimate_ns is not None
    assert p50.estimate_ns.value == pytest.approx(product ** (1 / 3))
    assert p50.estimate_ns.blocks == 3


def test_one_trial_has_a_percentile_without_an_interval() -> None:
    (p50, *_) = latency.percentiles([made.lane()])
    assert p50.estimate_ns is None
    assert p50.median_ns == made.lane().latency_ns.p50


def test_the_curve_ascends_and_ends_where_support_does() -> None:
    points = latency.curve([made.lane()] * 3)
    assert points[0].fraction == 0
    assert points[-1].fraction == pytest.approx(0.995, abs=0.001)
    assert [p.latency_ns for p in points] == sorted(p.latency_ns for p in points)
    at_90 = min(points, key=lambda p: abs(p.fraction - 0.9))
    assert at_90.latency_ns == pytest.approx(made.lane().latency_ns.p90, rel=0.01)


def test_nothing_measured_nothing_drawn() -> None:
    assert latency.curve([]) == ()
    assert latency.percentiles([]) == ()
